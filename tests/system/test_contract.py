"""The contract of the command line: statuses, streams, tables and their fields, dry runs, notices, times, help."""

import datetime
import os
import pty
import select
import shutil
import subprocess

import harness

COMMANDS = ("create-topic", "alter-topic", "delete-topic", "list-topics", "describe-topic", "get-offsets", "produce", "consume",
            "commit", "reset-offset", "list-groups", "describe-group", "delete-group", "delete-offsets", "check-lag", "locks", "help")
LISTINGS = {
    ("list-topics",): ["topic", "partitions"],
    ("describe-topic", "t"): ["topic", "partition", "start_offset", "end_offset", "size_bytes", "segments", "leader", "in_sync"],
    ("get-offsets", "t"): ["topic", "partition", "offset", "timestamp"],
    ("get-offsets", "t", "--time", "max-timestamp"): ["topic", "partition", "offset", "timestamp"],
    ("describe-topic", "t", "--configs"): None,
    ("describe-topic", "t", "--segments"): None,
    ("list-groups",): ["group", "members", "partitions"],
    ("describe-group", "g"): ["group", "topic", "partition", "committed", "start_offset", "end_offset", "lag", "state", "member", "host",
                              "pid"],
    ("describe-group", "g", "--members"): ["group", "member", "host", "pid", "since", "generation", "assignor", "commits", "topics",
                                           "partitions"],
    ("reset-offset", "-g", "g", "t", "--to-datetime", "2038-01-01", "-n"): ["group", "topic", "partition", "old", "new", "time", "note"],
    ("locks", "--all"): ["kind", "topic", "partition", "group", "member", "host", "pid", "since", "held"],
}


class Tables(harness.Test):
    def setUp(self):
        super().setUp()
        self.create("t", "-p", "2", segment_bytes=8192)
        self.produce(b'{"value":"a","timestamp":1700000000123}\n{"value":"b","timestamp":1700000000122}\n', "-J", "-p", "0")
        self.run_program("commit", "-g", "g", "t:0:1")

    def test_forms_agree(self):
        for command, fields in LISTINGS.items():
            with self.subTest(command=command):
                rows = self.run_program(*command, "--json").json()
                tsv = [line.decode().split("\t") for line in self.run_program(*command, "--tsv").lines]
                bare = [line.decode().split("\t") for line in self.run_program(*command, "--tsv", "--no-header").lines]
                table = [line.decode().split() for line in self.run_program(*command).lines]
                self.assertIsInstance(rows, list)
                self.assertEqual(tsv[1:], bare)
                if fields:
                    self.assertEqual(tsv[0][:len(fields)], fields)
                self.assertEqual(len(table), len(tsv))
                self.assertEqual(len(rows), len(bare))
                for row, cells, words in zip(rows, bare, table[1:]):
                    self.assertEqual(list(row), tsv[0])
                    for value, cell in zip(row.values(), cells):
                        self.assertNotIsInstance(value, (list, dict), "a flat object")
                        self.assertEqual(cell, "-" if value is None else {True: "true", False: "false"}.get(value, str(value))
                                         if not isinstance(value, int) or isinstance(value, bool) else str(value))
                    if all(cells) and not any(" " in c for c in cells):
                        self.assertEqual(words, cells)

    def test_values_and_types(self):
        rows = self.run_program("describe-topic", "t", "--json").json()
        self.assertEqual([(r["topic"], r["partition"], r["start_offset"], r["end_offset"], r["segments"]) for r in rows],
                         [("t", 0, 0, 2, 1), ("t", 1, 0, 0, rows[1]["segments"])])
        self.assertEqual(rows[0]["size_bytes"], os.path.getsize(self.log_path()))
        rows = self.run_program("get-offsets", "t", "--json").json()
        self.assertEqual([(r["partition"], r["offset"]) for r in rows], [(0, 2), (1, 0)])
        rows = self.run_program("get-offsets", "t", "--time", "max-timestamp", "--json").json()
        self.assertEqual([(r["offset"], r["timestamp"]) for r in rows], [(0, "2023-11-14T22:13:20.123Z"), (None, None)])
        for form in ("earliest", "-2"):
            rows = self.run_program("get-offsets", "t", "--time", form, "--json").json()
            self.assertEqual([r["offset"] for r in rows], [0, 0])
        for form in ("latest", "-1"):
            rows = self.run_program("get-offsets", "t:0", "--time", form, "--json").json()
            self.assertEqual([r["offset"] for r in rows], [2])
        rows = self.run_program("get-offsets", "t", "--time", "-3", "--json").json()
        self.assertEqual([r["offset"] for r in rows], [0, None])
        for form, expected in (("1700000000122", 0), ("1700000000123", 0), ("1700000000124", None), ("2023-11-14T22:13:20.123Z", 0)):
            rows = self.run_program("get-offsets", "t:0", "--time", form, "--json").json()
            self.assertEqual([r["offset"] for r in rows], [expected], form)
        cells = self.run_program("get-offsets", "t:1", "--time", "2030-01-01", "--tsv", "--no-header").out
        self.assertEqual(cells, b"t\t1\t-\t-\n")

    def test_empty_listings(self):
        self.run_program("delete-topic", "t", "--yes")
        for command in (["list-topics"], ["describe-topic"]):
            self.assertEqual(self.run_program(*command, "--json").out, b"[]\n")
            self.assertEqual(len(self.run_program(*command, "--tsv").lines), 1)
            self.assertEqual(self.run_program(*command, "--tsv", "--no-header").out, b"")
            self.assertEqual(self.run_program(*command, "--fail-if-empty", status=None).status in (2, 3), True)

    def test_configs(self):
        rows = self.run_program("describe-topic", "t", "--configs", "--json").json()
        text = [str(r) for r in rows if "segment.bytes" in r.values()]
        self.assertEqual(len(text), 1)
        self.assertIn("8192", text[0])
        for name in ("cleanup.policy", "retention.ms", "retention.bytes", "segment.bytes", "segment.ms", "index.interval.bytes",
                     "max.message.bytes", "compression.type", "message.timestamp.type", "message.timestamp.after.max.ms",
                     "delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms", "min.cleanable.dirty.ratio",
                     "min.insync.replicas", "flush.messages"):
            self.assertEqual(sum(name in r.values() for r in rows), 1, name)
        self.run_program("alter-topic", "t", "-x", "segment.bytes", "-c", "retention.ms=-1", "-c", "max.message.bytes=5000")
        rows = self.run_program("describe-topic", "t", "--configs", "--json").json()
        defaults = {next(v for v in r.values() if isinstance(v, str) and "." in v): r for r in rows}
        self.assertIn("1073741824", str(defaults["segment.bytes"]))
        self.assertIn("-1", str(defaults["retention.ms"]))
        self.assertIn("5000", str(defaults["max.message.bytes"]))


class Streams(harness.Test):
    def setUp(self):
        super().setUp()
        self.create("t", segment_ms=3600000)

    def test_stdout_is_for_data(self):
        self.assertEqual(self.create("u").out, b"")
        self.assertEqual(self.produce(b"x\n").out, b"")
        self.assertEqual(self.run_program("alter-topic", "u", "-c", "segment.bytes=9000").out, b"")
        self.assertEqual(self.run_program("delete-topic", "u", "--yes").out, b"")
        self.assertEqual(self.consume().err, b"")

    def test_summary_quiet_verbose(self):
        result = self.produce(b"a\nbb\n")
        self.assertEqual(len(result.notices), 1)
        self.assertEqual(self.stored_count(result), 2)
        self.assertRegex(result.text, r"\b5\b")
        self.assertEqual(self.produce(b"c\n", "-q").err, b"")
        self.assertEqual(self.run_program("-q", "produce", "t", input=b"d\n").err, b"")
        self.assertGreaterEqual(len(self.produce(b"e\n", "-v").notices), 1)
        self.assertNotEqual(self.run_program("consume", "absent", "-q", status=1).err, b"")  # errors are no notices

    def test_report(self):
        result = self.produce(b"a\nbb\nccc", "--report", "--batch-size", "1")
        rows = [line.split(b"\t") for line in result.lines]
        self.assertEqual(rows, [[b"t", b"0", b"0", b"0", b"1", b"2"], [b"t", b"0", b"1", b"1", b"2", b"5"], [b"t", b"0", b"2", b"2", b"3", b"8"]])

    def test_help_and_version(self):
        for args in (["--version"], ["-V"]):
            self.assertRegex(self.run_program(*args).out, rb"^partlog \d+\.\d+\.\d+")
        for args in (["--help"], ["-h"], ["help"]):
            text = self.run_program(*args)
            self.assertEqual(text.err, b"")
            for command in COMMANDS:
                self.assertIn(command.encode(), text.out)
        for command in COMMANDS:
            if command != "help":
                texts = {self.run_program(*args).out for args in ([command, "--help"], [command, "-h"], ["help", command])}
                self.assertEqual(len(texts), 1, command)
                self.assertIn(b"partlog " + command.encode(), texts.pop())
        self.run_program("help", "nothing", status=2)
        self.assertEqual(self.run_program(status=2).out, b"")

    def test_usage_errors_are_one_line(self):
        for args in (["--nothing"], ["consume", "--nothing"], ["consume", "t", "-c"], ["consume", "t", "--count=x"], ["produce", "t", "-p", "x"]):
            self.refused(*args, status=2)

    def test_dry_runs(self):
        self.run_program("commit", "-g", "g", "t:0:0")
        for args, word in ((["create-topic", "new", "-p", "3", "-c", "segment.bytes=5000"], "new"), (["delete-topic", "t"], "t"),
                           (["alter-topic", "t", "-c", "segment.bytes=5000"], "5000"), (["alter-topic", "t", "-x", "segment.ms"], "segment.ms"),
                           (["commit", "-g", "new", "t:0:0"], "t:0"), (["reset-offset", "-g", "g", "t", "--to-earliest"], "t"),
                           (["delete-offsets", "-g", "g", "t"], "t:0"), (["delete-group", "g"], "g")):
            for option in ("-n", "--dry-run"):
                with self.subTest(args=args, option=option):
                    before = harness.tree(self.store)
                    result = self.run_program(*args, option)
                    self.assertIn(word, result.out.decode() + result.text)
                    self.assertEqual(harness.tree(self.store), before)
        self.refused("create-topic", "t", "-n", status=1)
        self.refused("delete-topic", "absent", "-n", status=1)
        self.refused("create-topic", "new", "-c", "segment.bites=5", "-n", status=2)
        self.refused("produce", "t", "-n", status=2, names=["-c"])
        self.refused("consume", "t", "-n", status=2, names=["--tail"])
        absent = os.path.join(self.directory, "absent")
        self.run_program("-d", absent, "create-topic", "t", "-n")
        self.assertFalse(os.path.exists(absent))

    def test_several_named_and_one_failed(self):
        for topic in ("a", "b"):
            self.create(topic)
        result = self.run_program("delete-topic", "a", "absent", "b", "--yes", status=1)
        self.assertEqual(len(result.notices), 1)
        self.assertEqual(self.run_program("list-topics", "--tsv", "--no-header").lines, [b"t\t1"])
        result = self.run_program("describe-topic", "absent", "t", "--json", status=1)
        self.assertIn("t", [r["topic"] for r in result.json() if "error" not in r or not r["error"]])


class Arguments(harness.Test):
    def setUp(self):
        super().setUp()
        self.create("t", "-p", "3")
        for p in range(3):
            self.produce(b"p%d\n" % p, "-p", str(p))

    def test_options_anywhere(self):
        for args in (["consume", "-p", "1", "t"], ["consume", "t", "-p", "1"], ["consume", "t", "-p1"], ["consume", "t", "--partition=1"],
                     ["consume", "--partition", "1", "--", "t"], ["-q", "consume", "t", "-p", "01"], ["consume", "-q", "t:1"],
                     ["consume", "t", "-vp1"], ["-d", self.store, "consume", "t:1"], ["consume", "-d", self.store, "t:1"],
                     ["consume", "t:1", "--dir=" + self.store], ["--dir", self.store, "-v", "--lock-timeout", "5s", "consume", "t:1"]):
            with self.subTest(args=args):
                self.assertEqual(self.run_program(*args).out, b"p1\n")

    def test_numbers_are_decimal(self):
        self.create("many", "-p", "010")
        rows = self.run_program("describe-topic", "many", "--json").json()
        self.assertEqual(len(rows), 10)
        for bad in ("0x1", "1e3", "+1", " 1", "1 ", "", "9223372036854775808", "1.0"):
            self.refused("consume", "t", "--count=" + bad, status=2)

    def test_empty_option_values(self):
        self.produce(b"v\n", "-p", "0", "--key=", topic="t")
        self.assertEqual(self.records("t", 0)[-1].key, b"")
        self.produce(b"v\n", "-p", "0", "--key", "", topic="t")
        self.assertEqual(self.records("t", 0)[-1].key, b"")

    def test_where_the_store_is(self):
        other = os.path.join(self.directory, "other")
        self.run_program("-d", other, "create-topic", "there")
        self.assertEqual(self.run_program("-d", other, "list-topics", "--tsv", "--no-header").lines, [b"there\t1"])
        home = os.path.join(self.directory, ".local/share/partlog")
        env = {"PARTLOG_DIR": None}
        self.run_program("create-topic", "at-home", env=env)
        self.assertTrue(os.path.isdir(os.path.join(home, "topics/at-home")))
        env["XDG_DATA_HOME"] = os.path.join(self.directory, "xdg")
        self.run_program("list-topics", env=env, status=1)
        self.run_program("create-topic", "in-xdg", env=env)
        self.assertTrue(os.path.isdir(os.path.join(self.directory, "xdg/partlog/topics/in-xdg")))
        env["XDG_DATA_HOME"] = "xdg"  # relative: to be ignored, says the XDG specification
        self.assertEqual(self.run_program("list-topics", "--tsv", "--no-header", env=env, cwd=self.directory).out, b"at-home\t1\n")

    def test_relative_store_and_odd_directory_names(self):
        name = "a b\u00fc'\"$x"
        self.run_program("-d", name, "create-topic", "t", cwd=self.directory)
        self.run_program("-d", name, "produce", "t", cwd=self.directory, input=b"x\n")
        self.assertEqual(self.run_program("-d", "./" + name + "/", "consume", "t", cwd=self.directory).out, b"x\n")

    def test_produce_create(self):
        self.refused("produce", "new", status=1, names=["new"], input=b"x\n")
        self.produce(b"x\n", "--create", topic="new")
        self.produce(b"y\n", "--create", topic="new")
        self.assertEqual(self.values("new"), [b"x", b"y"])
        # It is made although there was nothing to store, as `> file` makes a file.
        self.produce(b"", "--create", topic="empty")
        self.assertIn(b"empty\t1", self.run_program("list-topics", "--tsv").lines)

    def test_counting_and_skipping(self):
        self.create("c")
        data = b"".join(b"%d\n" % n for n in range(10))
        self.produce(data, "-c", "3", topic="c")
        self.produce(data, "--skip", "3", "-c", "2", topic="c")
        self.produce(data, "--skip", "8", topic="c")
        self.produce(data, "--skip", "100", topic="c")
        self.assertEqual(self.values("c"), [b"0", b"1", b"2", b"3", b"4", b"8", b"9"])

    def test_produce_stops_at_the_count_with_the_pipe_open(self):
        self.create("c")
        process = self.start("produce", "c", "-c", "2")
        os.write(process.stdin.fileno(), b"1\n2\n3\n")
        process.wait(harness.DEADLINE)
        self.assertEqual(harness.finish(process).status, 0)
        self.assertEqual(self.values("c"), [b"1", b"2"])

    def test_timestamps(self):
        self.create("c")
        before = int(datetime.datetime.now().timestamp() * 1000)
        self.produce(b"now\n", topic="c")
        after = int(datetime.datetime.now().timestamp() * 1000)
        for text in ("1700000000", "1700000000123", "2023-11-14T22:13:20Z", "@5", "2023-11-14"):
            self.produce(b"x\n", "--timestamp=" + text, topic="c")
        stamps = [r.timestamp for r in self.records("c")]
        self.assertTrue(before <= stamps[0] <= after, stamps)
        self.assertEqual(stamps[1:4], [1700000000000, 1700000000123, 1700000000000])
        self.assertEqual(stamps[4:], [5000, 1699920000000])
        self.refused("produce", "c", "--timestamp=@-5", status=2)  # Kafka has no timestamps before 1970

    def test_log_append_time(self):
        self.create("c", message_timestamp_type="LogAppendTime")
        self.produce(b'{"value":"x","timestamp":5}\n', "-J", topic="c")
        line = self.consume_json(topic="c")[0]
        self.assertEqual(line["tstype"], "logappend")
        self.assertGreater(line["timestamp"], 1_600_000_000_000)

    def test_format_tokens(self):
        self.create("c")
        self.produce(b'{"key":"k","value":"v\\"\xc3\xbc","timestamp":1700000000123,"headers":[{"name":"a","value":"1"},{"name":"b","value":null}]}\n'
                     b'{"value_b64":"AP8=","timestamp":1700000000123}\n', "-J", topic="c")
        formats = {
            "%t %p %o|": b"c 0 0|c 0 1|", "%s\\n": b'v"\xc3\xbc\n\0\xff\n', "%S %K,": b"4 1,2 -1,", "%R;": b"\0\0\0\4;\0\0\0\2;", "%k%%|": b"k%|%|",
            "%T ": b"1700000000123 1700000000123 ", "%T{iso} ": b"2023-11-14T22:13:20.123Z " * 2, "%s{hex} ": b"7622c3bc 00ff ",
            "%s{base64} ": b"diLDvA== AP8= ", "%k{json} ": b'"k" null ', "%h|": b"a=1,b=NULL||", "{x}%o{": b"{x}0{{x}1{", "\\x41\\t%o\\0": b"A\t0\0A\t1\0",
            "%s{}": b'v"\xc3\xbc{}\0\xff{}', "": b"",
        }
        for text, expected in formats.items():
            with self.subTest(format=text):
                self.assertEqual(self.consume("-f", text, "-K", "ignored", "-D", "ignored", topic="c").out, expected)

    def test_lock_timeout_is_accepted_everywhere(self):
        self.run_program("list-topics", "--lock-timeout", "1s")
        self.run_program("--lock-timeout=1m30s", "produce", "t", input=b"x\n")


class Terminals(harness.Test):
    def on_terminal(self, *args, keys=b""):
        """Runs with a terminal as stdin and stderr; returns what came on it, and the status."""
        ours, theirs = pty.openpty()
        process = self.start(*args, stdin=theirs, stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            if keys:
                while b"?" not in shown and b"]" not in shown and b"partlog:" not in shown:
                    if not select.select([ours], [], [], harness.DEADLINE)[0]:
                        self.fail("no question came: %r" % shown)
                    shown += os.read(ours, 4096)
                os.write(ours, keys)
            while True:
                try:
                    data = os.read(ours, 4096)
                except OSError:
                    break
                if not data:
                    break
                shown += data
        finally:
            os.close(ours)
        return shown, harness.result_of(process.wait(harness.DEADLINE), process.stdout.read(), b"")

    def test_a_question_on_a_terminal(self):
        self.create("a")
        shown, result = self.on_terminal("delete-topic", "a", keys=b"n\n")
        self.assertNotEqual(result.status, 0, shown)
        self.assertTrue(os.path.isdir(self.partition("a")))
        self.assertIn(b"delete topic a with all its records?", shown)
        self.create("b")
        shown, result = self.on_terminal("delete-topic", "a", "b", keys=b"n\n")
        self.assertIn(b"delete the topics a, b with all their records?", shown)
        shown, result = self.on_terminal("delete-topic", "a", keys=b"y\n")
        self.assertEqual(result.status, 0, shown)
        self.assertFalse(os.path.isdir(self.partition("a")))

    def test_produce_from_a_terminal_says_so_once(self):
        self.create("a")
        shown, result = self.on_terminal("produce", "a", "-v", keys=b"typed\n\x04")
        self.assertEqual(result.status, 0, shown)
        self.assertEqual(self.values("a"), [b"typed"])
        self.assertGreaterEqual(shown.count(b"partlog: "), 2)


class Partitioning(harness.Test):
    # Computed with Kafka's own Utils.murmur2 and toPositive, for 7 partitions.
    def murmur2(self, data):
        m, mask = 0x5bd1e995, 0xFFFFFFFF
        h = (0x9747b28c ^ len(data)) & mask
        whole = len(data) & ~3
        for i in range(0, whole, 4):
            k = int.from_bytes(data[i:i + 4], "little") * m & mask
            k = (k ^ k >> 24) * m & mask
            h = (h * m & mask) ^ k
        rest = data[whole:]
        if rest:
            h = (h ^ int.from_bytes(rest, "little")) * m & mask
        h = (h ^ h >> 13) * m & mask
        return h ^ h >> 15

    def test_keys_go_where_kafka_puts_them(self):
        self.assertEqual(self.murmur2(b"foobar"), -790332482 & 0xFFFFFFFF)  # from Kafka's UtilsTest
        self.create("t", "-p", "7")
        keys = [b"key %d" % n * (n % 4) for n in range(200)] + [b"\xff\x80", b"21", b"a-little-bit-long-string"]
        self.produce(b"".join(k + b"\tv\n" for k in keys), "-K", "\\t")
        got = {r.key: p for p in range(7) for r in self.records("t", p)}
        self.assertEqual(got, {k: (self.murmur2(k) & 0x7FFFFFFF) % 7 for k in keys})

    def test_without_keys_a_batch_stays_together(self):
        self.create("t", "-p", "4")
        for n in range(8):
            self.produce(b"".join(b"%d.%d\n" % (n, i) for i in range(5)))
        self.produce(b"".join(b"x%d\n" % i for i in range(2000)), "--batch-size", "1000")
        got = [len(self.values("t", p)) for p in range(4)]
        self.assertEqual(sum(got), 2040)
        self.assertGreater(min(got), 0)
        for p in range(4):
            mine = [int(v[1:]) for v in self.values("t", p) if v.startswith(b"x")]
            self.assertEqual(mine, sorted(mine))

    def test_codecs_say_so_in_the_batches(self):
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            self.create(codec)
            self.produce(b"x" * 1000 + b"\ny\n", "-z", codec, topic=codec)
            self.assertEqual({b.codec for b in harness.segments.read_partition(self.partition(codec))}, {codec})
            self.assertEqual(self.consume(topic=codec).out, b"x" * 1000 + b"\ny\n")
        self.create("forced", compression_type="gzip")
        self.produce(b"x\n", "-z", "none", topic="forced")
        self.assertEqual({b.codec for b in harness.segments.read_partition(self.partition("forced"))}, {"gzip"})

    def test_other_tools_read_what_we_compress(self):
        """The standard library knows gzip only; the command line tools know the others."""
        for codec, tool in (("zstd", ["zstd", "-dc"]), ("lz4", ["lz4", "-dc"])):
            if not shutil.which(tool[0]):
                harness.say("%s: NOT RUN: %s is not installed" % (self.id(), tool[0]))
                continue
            self.create(codec)
            self.produce(b"x" * 1000 + b"\n", "-z", codec, topic=codec)
            with open(self.log_path(codec), "rb") as f:
                block = f.read()[61:]
            plain = subprocess.run(tool, input=block, stdout=subprocess.PIPE, check=True).stdout
            self.assertIn(b"x" * 1000, plain)


if __name__ == "__main__":
    harness.main()
