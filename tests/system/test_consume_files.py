"""`consume` of files that no store knows of, of transactions, and past damage. What must be printed comes from a writer of batches that
shares nothing with the program."""

import glob
import itertools
import os
import re
import resource
import shutil
import stat
import struct
import sys
import unittest
import zlib

import harness
import segments

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import known_files  # noqa: E402

from test_segments import varint  # noqa: E402

TRANSACTIONAL, CONTROL = 16, 32
ABORT, COMMIT = 0, 1


def batch(base, values, attributes=0, producer=-1, last_delta=None, pack=None, key=None, time=1000):
    """A batch of format v2, as Kafka describes it."""
    body = b""
    for n, value in enumerate(values):
        field = varint(-1) if key is None else varint(len(key)) + key
        record = b"\0" + varint(0) + varint(n) + field + varint(len(value)) + value + varint(0)
        body += varint(len(record)) + record
    if pack:
        body = pack(body)
        attributes |= 1
    delta = len(values) - 1 if last_delta is None else last_delta
    epoch = -1 if producer < 0 else 0
    rest = struct.pack(">hiqqqhii", attributes, delta, time, time, producer, epoch, epoch, len(values)) + body
    return struct.pack(">qiibI", base, len(rest) + 9, 0, 2, segments.crc32c(rest)) + rest


def marker(base, kind, producer):
    return batch(base, [struct.pack(">hi", 0, 0)], TRANSACTIONAL | CONTROL, producer, key=struct.pack(">hh", 0, kind))


class FilesTest(harness.Test):
    def write(self, path, *batches):
        path = os.path.join(self.directory, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(b"".join(batches))
        return path

    def files(self, *args, **how):
        return self.run_program("consume", "--files", *args, **how)

    def lines(self, *args, **how):
        return self.files(*args, **how).lines

    def lost(self, result):
        """The offsets that stderr lists."""
        found = set()
        for line in result.notices:
            for first, last in re.findall(r"\boffsets? (\d+)(?: to (\d+))? left out", line):
                found.update(range(int(first), int(last or first) + 1))
        return found


class Operands(FilesTest):
    def test_every_form_that_kafka_writes(self):
        for form in known_files.FORMS:
            with self.subTest(form):
                expected = []
                for record in known_files.expected_records(form + "expected.jsonl"):
                    expected.append((record["offset"], record["timestamp"], record["tstype"], record["key"], record["value"]))
                logs = sorted(glob.glob(form + "*.log"))
                for operands in ([form], logs):
                    got = []
                    for line in self.lines(*operands, "-J"):
                        parsed = known_files.parse_json_line(line.decode())
                        got.append((parsed["offset"], parsed["timestamp"], parsed["tstype"], parsed["key"], parsed["value"]))
                    self.assertEqual(got, expected)

    def test_segments_of_real_brokers(self):
        where, facts = known_files.of_brokers(self)
        for log, fact in facts.items():
            with self.subTest(log):
                result = self.files(os.path.join(where, log), "--isolation", "uncommitted", "-J", status=5 if fact["errors"] else 0)
                if fact["errors"]:
                    self.assertIn("position", result.text)
                    continue
                shown = result.json_lines()
                self.assertEqual(len(shown), fact["records"] - fact["control_batches"])
                committed = self.files(os.path.join(where, log), "-J").json_lines()
                self.assertTrue(committed == shown or fact["txn_batches"])
        self.assertGreater(len(facts), 60)

    def test_topic_and_partition_come_from_the_directory(self):
        data = batch(0, [b"x"])
        for directory, topic, partition in (("a-b-7", "a-b", 7), ("orders/3", "orders", 3), ("a-07", None, None), ("x/03", None, None), ("-1", None, None),
                                            ("t-1.5f5f5f5f-delete", None, None), ("__cluster_metadata-0", "__cluster_metadata", 0)):
            path = self.write(directory + "/00000000000000000000.log", data)
            for operand, cwd in ((path, None), (os.path.dirname(path), None), (os.path.dirname(path) + "/", None), (".", os.path.dirname(path)),
                                 ("./00000000000000000000.log", os.path.dirname(path)), ("00000000000000000000.log", os.path.dirname(path))):
                with self.subTest(directory=directory, operand=operand):
                    row = self.files(operand, "-J", cwd=cwd).json_lines()[0]
                    self.assertEqual((row["topic"], row["partition"]), (topic, partition))
                    text = self.files(operand, "-f", "%t|%p", "-Z", cwd=cwd).out
                    self.assertEqual(text, b"NULL|NULL" if topic is None else b"%s|%d" % (topic.encode(), partition))
                    self.assertEqual(self.files(operand, "-f", "%t|%p", cwd=cwd).out, b"|" if topic is None else text)

    def test_no_store_is_needed_and_nothing_is_written(self):
        path = self.write("t-0/00000000000000000005.log", batch(5, [b"a", b"b"]), batch(7, [b"c"]))
        self.write("t-0/00000000000000000005.index", b"\0" * 80)
        self.write("t-0/leader-epoch-checkpoint", b"0\n1\n0 5\n")
        directory = os.path.dirname(path)
        os.chmod(directory, 0o555)
        before = harness.tree(self.directory)
        how = {"env": {"PARTLOG_DIR": self.directory + "/none"}}
        self.assertEqual(self.lines(directory, **how), [b"a", b"b", b"c"])
        for args, want in ((("-o", "6"), [b"b", b"c"]), (("-o", "-1"), [b"c"]), (("--tail", "2"), [b"b", b"c"]), (("-c", "1"), [b"a"]),
                           (("-o", "end"), []), (("--merge", "time"), [b"a", b"b", b"c"]), (("--grep", "b|c", "-D", ","), [b"b,c,"]),
                           (("--since", "1970-01-01T00:00:02Z"), []), (("--until", "1970-01-01T00:00:02Z"), [b"a", b"b", b"c"]),
                           (("--exec", "cat; echo $PARTLOG_TOPIC:$PARTLOG_PARTITION:$PARTLOG_LAST_OFFSET"), [b"a", b"b", b"c", b"t:0:7"])):
            with self.subTest(args):
                self.assertEqual(self.lines(directory, *args, **how), want)
                self.assertEqual(self.lines(path, *args, **how), want)
        self.files(directory, "-o", "4", status=4, **how)
        self.files(directory, "-o", "9", status=4, **how)
        self.assertEqual(harness.tree(self.directory), before)

    def test_many_segments_and_operands(self):
        first = self.write("t-0/00000000000000000000.log", batch(0, [b"a"]), batch(1, [b"b"]))
        second = self.write("t-0/00000000000000000002.log", batch(2, [b"c"]))
        other = self.write("u-1/00000000000000000000.log", batch(0, [b"d"]))
        directory = os.path.dirname(first)
        self.assertEqual(self.lines(directory, other, directory), [b"a", b"b", b"c", b"d"])
        self.assertEqual(self.lines(second, first), [b"c", b"a", b"b"])
        self.assertEqual(self.lines(second, "-o", "2"), [b"c"])
        self.assertEqual(self.lines(first), [b"a", b"b"])

    def test_checkpoints_copies_and_metadata(self):
        snapshot = self.write("__cluster_metadata-0/00000000000000000040-0000000003.checkpoint", batch(0, [b"h"], CONTROL), batch(1, [b"r1", b"r2"]),
                              batch(3, [b"f"], CONTROL))
        self.write("__cluster_metadata-0/00000000000000000040.log", batch(40, [b"l"], CONTROL), batch(41, [b"m"]))
        self.assertEqual(self.lines(snapshot), [b"r1", b"r2"])
        self.assertEqual(self.lines(os.path.dirname(snapshot)), [b"m"])
        copy = self.write("copy of it", batch(1 << 40, [b"far"]))
        self.assertEqual(self.files(copy, "-f", "%o %s").out, b"%d far" % (1 << 40))

    def test_what_is_refused(self):
        path = self.write("t-0/00000000000000000000.log", batch(0, [b"a"]))
        index = self.write("t-0/00000000000000000000.index", b"")
        empty = os.path.join(self.directory, "empty")
        os.mkdir(empty)
        for args in (("-g", "g"), ("--positions", "f"), ("-p", "0"), ("--exec", "true", "--dead-letter", "t")):
            self.refused("consume", "--files", path, *args, status=2, names=["--files"])
        self.refused("consume", path, "--isolation", "none", status=2, names=["committed"])
        self.refused("consume", "--files", index, status=1, names=[index])
        self.refused("consume", "--files", empty, status=1, names=[empty])
        self.refused("consume", "--files", self.directory + "/none", status=1, names=["none"])
        result = self.files(self.directory + "/none", path, status=1)
        self.assertEqual(result.lines, [b"a"])
        self.assertEqual(self.files(self.write("t-1/00000000000000000000.log")).out, b"")

    def test_tails_and_holes(self):
        whole = batch(0, [b"a"]) + batch(1, [b"b"], last_delta=8) + batch(10, [], last_delta=3) + batch(20, [b"c"])
        for tail in (b"", b"x", bytes(5000), batch(21, [b"d"] * 100)[:-9], batch(21, [b"d"])[:30]):
            with self.subTest(len(tail)):
                path = self.write("t-0/00000000000000000000.log", whole, tail)
                for operand in (path, os.path.dirname(path)):
                    result = self.files(operand)
                    self.assertEqual((result.lines, len(result.notices)), ([b"a", b"b", b"c"], 1))
                    self.assertIn("offsets 14 to 19 are not there", result.text)
        self.write("t-0/00000000000000000030.log", batch(30, [b"e"]))
        for operand in (path, os.path.dirname(path)):  # a segment that is written no more has no torn tail
            result = self.files(operand, status=5)
            self.assertEqual(result.lines, [b"a", b"b", b"c"])
            self.assertIn("%s position %d " % (path, len(whole)), result.text)

    def test_what_is_appended_meanwhile_is_not_read(self):
        """Up to where the files ended when it started, whether the log goes on in the same segment or in another one."""
        value = b"x" * 100_000
        count = 160  # far more than a pipe and what is read at once
        batches = [batch(n, [value]) for n in range(count + 20)]
        for behind in ("same", "other"):
            with self.subTest(behind):
                path = self.write("grows-%s/%020d.log" % (behind, 0), *batches[:count])
                process = self.start("consume", "--files", os.path.dirname(path))
                begin = process.stdout.read(1)
                target = path if behind == "same" else self.write("grows-%s/%020d.log" % (behind, count))
                with open(target, "ab") as f:
                    f.write(b"".join(batches[count:]))
                rest, notices = process.communicate(timeout=harness.DEADLINE)
                self.assertEqual((process.returncode, notices), (0, b""))
                self.assertEqual(begin + rest, (value + b"\n") * count)

    def test_follow(self):
        path = self.write("t-0/00000000000000000000.log", batch(0, [b"a"]))
        process = self.start("consume", "--files", os.path.dirname(path), "-F", stdin=None)
        one = self.start("consume", "--files", path, "-F", "-c", "2", stdin=None)
        out, single = harness.Lines(process.stdout), harness.Lines(one.stdout)
        self.assertEqual((out.next(), single.next()), (b"a", b"a"))
        with open(path, "ab") as f:
            f.write(batch(1, [b"b"]))
        self.assertEqual((out.next(), single.next()), (b"b", b"b"))
        self.write("t-0/00000000000000000002.log", batch(2, [b"c"]))
        self.assertEqual(out.next(), b"c")
        process.terminate()
        self.assertEqual((process.wait(), one.wait()), (-15, 0) if process.returncode < 0 else (143, 0))


class Transactions(FilesTest):
    def log(self, random, steps):
        """Interleaved transactions and plain batches, the values that are committed, all values (each is its offset), the offset where
        the first transaction that is open begins, and the end."""
        offset, batches, shown, open_now, kinds = 0, [], [], {}, {}
        for _ in range(steps):
            producer = random.randrange(5)
            values = [b"%d" % (offset + n) for n in range(random.randrange(1, 4))]
            step = random.random()
            if step < 0.2:
                batches.append(batch(offset, values))
                shown.append((offset, values, None))
                offset += len(values)
            elif step < 0.7 or producer not in open_now:
                batches.append(batch(offset, values, TRANSACTIONAL, producer))
                open_now.setdefault(producer, (len(kinds), offset))
                shown.append((offset, values, open_now[producer][0]))
                kinds.setdefault(open_now[producer][0], None)
                offset += len(values)
            else:
                kind = random.choice((ABORT, COMMIT))
                batches.append(marker(offset, kind, producer))
                kinds[open_now.pop(producer)[0]] = kind
                offset += 1
        stable = min((first for _, first in open_now.values()), default=offset)
        committed = [v for at, values, number in shown for v in values if number is None or kinds[number] == COMMIT]
        return batches, committed, [v for _, values, _ in shown for v in values], stable, offset

    def test_random_transactions(self):
        random = harness.new_random("transactions")
        for _ in range(harness.scaled(25)):
            batches, committed, everything, stable, end = self.log(random, 60)
            committed = [v for v in committed if int(v) < stable]
            directory = os.path.join(self.directory, "t-0")
            shutil.rmtree(directory, ignore_errors=True)
            cuts = [0, *sorted(random.sample(range(1, len(batches)), 2)), len(batches)]
            for low, high in zip(cuts, cuts[1:]):
                base = struct.unpack(">q", batches[low][:8])[0]
                path = self.write("t-0/%020d.log" % base, *batches[low:high])
                self.write("t-0/%020d.txnindex" % base, random.randbytes(68))  # a broker's, which has no checksum: no matter
            result = self.files(directory)
            self.assertEqual(result.lines, committed)
            self.assertEqual("not read from offset %d " % stable in result.text, stable < end, result.text)
            self.assertEqual(self.lines(directory, "--isolation", "uncommitted"), everything)
            parts = [self.files(p, "-q").lines for p in sorted(glob.glob(directory + "/*.log"))]
            if stable == end:
                self.assertEqual(list(itertools.chain(*parts)), committed)
            tail = self.lines(directory, "--tail", "3", "-q")
            if stable == end:
                self.assertEqual(tail, committed[-3:])
            elif len(committed) > 3:  # of an open transaction counts what follows where the reading begins
                self.assertEqual(len(tail), 3)
            if committed:
                self.assertEqual(self.lines(directory, "-q", "--grep", "^%s$" % committed[-1].decode()), committed[-1:])

    def test_a_store_holds_back_too_and_goes_on_once_the_marker_is_there(self):
        self.expect_sound = False
        self.create()
        log = self.log_path()
        with open(log, "ab") as f:
            f.write(batch(0, [b"a"]) + batch(1, [b"b"], TRANSACTIONAL, 4) + batch(2, [b"c"]) + batch(3, [b"x"], TRANSACTIONAL, 5))
        result = self.consume()
        self.assertEqual(result.lines, [b"a"])
        self.assertIn("not read from offset 1 ", result.text)
        self.assertEqual(self.consume("--isolation", "uncommitted").lines, [b"a", b"b", b"c", b"x"])
        self.assertEqual(self.consume("-g", "g").lines, [b"a"])
        process = self.start("consume", "t", "-F", "-c", "3", stdin=None)
        out = harness.Lines(process.stdout)
        self.assertEqual(out.next(), b"a")
        with open(log, "ab") as f:
            f.write(marker(4, COMMIT, 4) + batch(5, [b"d"]))
        self.assertEqual((out.next(), out.next()), (b"b", b"c"))
        self.assertEqual(self.consume("-g", "g").lines, [b"b", b"c"])
        with open(log, "ab") as f:
            f.write(marker(6, ABORT, 5))
        self.assertEqual(self.consume("-g", "g").lines, [b"d"])
        self.assertEqual(self.consume().err, b"")

    def test_damage_ahead_is_told_where_it_is(self):
        bad = bytearray(batch(3, [b"x"]))
        bad[-1] ^= 1
        path = self.write("t-0/00000000000000000000.log", batch(0, [b"a"]), batch(1, [b"b"], TRANSACTIONAL, 4), batch(2, [b"c"]), bad,
                          marker(4, COMMIT, 4), batch(5, [b"d"]))
        result = self.files(path, status=5)
        self.assertEqual(result.lines, [b"a"])
        self.assertIn("offset 3", result.text)
        result = self.files(path, "--skip-corrupt", status=5)
        self.assertEqual(result.lines, [b"a", b"b", b"c", b"d"])

    def test_damage_where_any_marker_was(self):
        random = harness.new_random("markers")
        for _ in range(harness.scaled(40)):
            batches, committed, _, _, end = self.log(random, 40)
            # Not the very last batch: with a header that makes no sense that is a torn tail.
            hit = random.choice([n for n, b in enumerate(batches[:-1]) if b[22] & CONTROL])
            offset = struct.unpack(">q", batches[hit][:8])[0]
            bad = bytearray(batches[hit])
            bad[random.randrange(27, len(bad))] ^= 1
            directory = os.path.join(self.directory, "t-0")
            shutil.rmtree(directory, ignore_errors=True)
            cut = random.choice([n for n in range(1, len(batches))])
            batches[hit] = bytes(bad)
            self.write("t-0/%020d.log" % 0, *batches[:cut])
            self.write("t-0/%020d.log" % struct.unpack(">q", batches[cut][:8])[0], *batches[cut:])
            plain = self.files(directory, status=5)
            self.assertEqual(plain.lines, committed[:len(plain.lines)])
            self.assertIn("offset %d)" % offset, plain.text)
            skipping = self.files(directory, "--skip-corrupt", status=5)
            shown, lost = set(map(int, skipping.lines)), self.lost(skipping)
            held = re.search("not read from offset ([0-9]+) ", skipping.text)
            before = {int(v) for v in committed if int(v) < (int(held.group(1)) if held else end)}
            self.assertIn(offset, lost)
            self.assertLessEqual(shown, before, "nothing that was aborted")
            self.assertLessEqual(before - shown, lost)
            self.assertFalse(shown & lost)

    def test_a_damaged_marker(self):
        for tail, shown in (([], []), ([batch(2, [b"c"]), batch(3, [b"d"])], [b"c", b"d"])):
            for damage in (21, 40, 70):
                bad = bytearray(marker(1, COMMIT, 4))
                bad[damage] ^= 1
                path = self.write("t-0/00000000000000000000.log", batch(0, [b"a"], TRANSACTIONAL, 4), bad, *tail)
                for args in ((), ("--tail", "9"), ("--merge", "time"), ("-o", "0")):
                    result = self.files(path, *args, status=5)
                    self.assertEqual(result.lines, [])
                    self.assertIn("offset 1", result.text)
                    result = self.files(path, "--skip-corrupt", *args, status=5)
                    self.assertEqual((result.lines, self.lost(result)), (shown, {0, 1}), (args, result.text))

    def test_damage_that_holds_no_marker_is_told_though_a_transaction_is_open(self):
        bad = bytearray(batch(1, [b"x"]))
        bad[-1] ^= 1
        path = self.write("t-0/00000000000000000000.log", batch(0, [b"a"], TRANSACTIONAL, 4), bad, batch(2, [b"c"]))
        self.files(path, status=5)
        result = self.files(path, "--skip-corrupt", status=5)
        self.assertEqual((result.lines, self.lost(result)), ([], {1}))
        self.assertIn("not read from offset 0 ", result.text)


class Damage(FilesTest):
    def setUp(self):
        super().setUp()
        self.expect_sound = False
        self.create(segment_bytes=1500, index_interval_bytes=200)
        random = harness.new_random("records")
        for n in range(0, 500, 5):
            self.produce(b"".join(b"%03d %s\n" % (i, b"x" * random.randrange(9)) for i in range(n, n + 5)), "--timestamp", "2024-05-01")
        self.logs = sorted(glob.glob(os.path.join(self.partition(), "*.log")))
        self.assertGreater(len(self.logs), 4)
        self.whole = self.consume("-f", "%o %s\n").lines
        self.batches = []  # path, position, size, first, next
        for log in self.logs:
            for b in segments.read_file(log):
                self.batches.append((log, b.position, b.size, b.base_offset, b.last_offset + 1))

    def read(self, *args, **how):
        return self.consume("-f", "%o %s\n", *args, **how)

    def test_flips(self):
        random = harness.new_random("flips")
        files = self.logs * 3 + glob.glob(os.path.join(self.partition(), "*index"))
        for n in range(harness.scaled(120)):
            path = random.choice(files)
            with open(path, "rb") as f:
                good = f.read()
            if not good:
                continue
            at = random.randrange(len(good))
            bad = bytearray(good)
            bad[at] ^= 1 << random.randrange(8)
            with open(path, "wb") as f:
                f.write(bad)
            with self.subTest(path=path, at=at):
                self.check_flip(path, at, random)
            with open(path, "wb") as f:
                f.write(good)

    def test_a_flipped_count_does_not_reach_into_the_next_segment(self):
        for path, position, size, first, end in self.batches:
            if position + size != os.path.getsize(path) or path == self.logs[-1]:
                continue
            for byte in (0, 3, 7, 23, 24, 25, 26):  # of the offset, and of the difference of the last one's
                claimed = first ^ 0x40 if byte == 7 else first
                if claimed < len(self.whole) < claimed + end - first:  # it says that something lay behind the end, which is told, too
                    continue
                with open(path, "r+b") as f:
                    good = f.read()
                    f.seek(position + byte)
                    f.write(bytes([good[position + byte] ^ 0x40]))
                with self.subTest(path=path, byte=byte):
                    told = self.read("--skip-corrupt", status=5)
                    self.assertEqual(told.lines, self.whole[:first] + self.whole[end:])
                    self.assertIn("offsets %d to %d left out" % (first, end - 1), told.text)
                    self.assertEqual(len(told.notices), 1, told.text)
                with open(path, "wb") as f:
                    f.write(good)

    def check_flip(self, path, at, random):
        plain, skipping = self.read(status=None), self.read("--skip-corrupt", status=None)
        if path.endswith("index"):
            self.assertEqual((plain.lines, skipping.lines, plain.err, skipping.err), (self.whole, self.whole, b"", b""))
            return
        mine = next(b for b in self.batches if b[0] == path and b[1] <= at < b[1] + b[2])
        if at - mine[1] in range(12, 16):  # the leader epoch stands outside the checksum, and any will do
            self.assertEqual((plain.lines, plain.status, skipping.status), (self.whole, 0, 0))
            return
        if mine[4] == len(self.whole):  # behind the last batch nothing says what it was
            self.assertEqual(plain.lines[:mine[3]], self.whole[:mine[3]])
            return
        self.assertEqual((plain.lines, plain.status), (self.whole[:mine[3]], 5))
        self.assertIn("%s position %d (offset %d)" % (path, mine[1], mine[3]), plain.text)
        self.assertEqual((skipping.lines, skipping.status), (self.whole[:mine[3]] + self.whole[mine[4]:], 5))
        self.assertEqual(self.lost(skipping), set(range(mine[3], mine[4])))
        self.assertIn("%s position %d to %d, " % (path, mine[1], mine[1] + mine[2]), skipping.text)
        start = random.randrange(len(self.whole))
        result = self.read("--skip-corrupt", "-o", str(start), status=None)
        self.assertEqual(result.lines, [line for line in skipping.lines if int(line.split()[0]) >= start])
        self.assertEqual(self.lost(result), set() if mine[4] <= start else set(range(mine[3], mine[4])))
        result = self.read("-o", str(start), status=None)  # what lies before that does not matter
        self.assertEqual(result.lines, [line for line in (skipping if mine[4] <= start else plain).lines if int(line.split()[0]) >= start])
        self.assertEqual(result.status, 0 if mine[4] <= start else 5)
        if random.random() < 0.2:
            self.assertEqual(self.read("--skip-corrupt", "--tail", "400", status=None).lines, skipping.lines[-400:])
            group = "g%d" % random.randrange(1 << 40)
            self.assertEqual(self.read("-g", group, status=5).lines, plain.lines)
            self.assertEqual(self.read("-g", group, "--skip-corrupt", status=5).lines, skipping.lines[len(plain.lines):])
            self.assertEqual(self.read("-g", group).lines, [])
            result = self.run_program("consume", "--files", self.partition(), "-f", "%o %s\n", "--skip-corrupt", status=5)
            self.assertEqual((result.lines, self.lost(result)), (skipping.lines, set(range(mine[3], mine[4]))))

    def check(self, shown, lost, last=None):
        """Plain: those before offset `shown`, then status 5. Skipping: all but `lost`."""
        plain, skipping = self.read(status=5), self.read("--skip-corrupt", status=5)
        self.assertEqual(plain.lines, self.whole[:shown])
        self.assertEqual(skipping.lines, [line for n, line in enumerate(self.whole) if n not in lost])
        self.assertEqual(self.lost(skipping), lost)

    def test_header_zeroed_batch_repeated_and_cut(self):
        log, position, size, first, following = self.batches[30]
        with open(log, "rb") as f:
            good = f.read()
        inside = set(range(first, following))
        for what, data, shown, lost in (
                ("zeroed", good[:position] + bytes(61) + good[position + 61:], first, inside),
                ("repeated", good[:position + size] + good[position:position + size] + good[position + size:], following, set()),
                ("garbage", good[:position] + b"garbage" * 50 + good[position:], first, set()),
                ("cut", good[:position] + good[position + 10:], first, inside)):
            with self.subTest(what):
                with open(log, "wb") as f:
                    f.write(data)
                self.check(shown, lost)
        with open(log, "wb") as f:
            f.write(good)

    def test_segments_swapped(self):
        for one, other in ((1, 3), (0, 2), (1, -1), (0, -1), (-2, -1)):
            one, other = self.logs[one], self.logs[other]
            with self.subTest(one=one, other=other):
                def swap():
                    shutil.move(one, one + ".x")
                    shutil.move(other, one)
                    shutil.move(one + ".x", other)
                swap()
                first = int(os.path.basename(one)[:20])
                plain = self.read(status=5)
                self.assertEqual(plain.lines, self.whole[:first])
                skipping = self.read("--skip-corrupt", status=5)
                rows = [int(line.split()[0]) for line in skipping.lines]
                self.assertTrue(all(a < b for a, b in zip(rows, rows[1:])), rows)
                self.assertEqual(set(rows) | self.lost(skipping), set(range(len(self.whole))))
                self.assertFalse(set(rows) & self.lost(skipping))
                swap()

    def test_batch_cut_out(self):
        inside = [n for n in range(1, len(self.batches) - 1) if self.batches[n - 1][0] == self.batches[n][0] == self.batches[n + 1][0]]
        for number in (inside[0], inside[len(inside) // 2], inside[-1]):
            log, position, size, first, following = self.batches[number]
            with open(log, "rb") as f:
                good = f.read()
            with open(log, "wb") as f:
                f.write(good[:position] + good[position + size:])
            # As compaction leaves it, and a broker's own segments may have been put here.
            result = self.read()
            self.assertEqual(result.lines, self.whole[:first] + self.whole[following:])
            self.assertIn("offsets %d to %d are not there" % (first, following - 1), result.text)
            self.assertEqual(len(result.notices), 1)
            for start in (first, first + 1, following - 1, following):
                self.assertEqual(self.read("-o", str(start)).lines, self.whole[following:])
            self.assertEqual(self.run_program("consume", "--files", self.partition()).err, result.err)
            told = os.path.join(self.partition(), "lost-offsets")
            with open(told, "w", encoding="utf-8") as f:
                f.write("%d %d 1000\n" % (first, following - 1))
            result = self.read()
            self.assertEqual(result.lines, self.whole[:first] + self.whole[following:])
            self.assertIn("offsets %d to %d are lost" % (first, following - 1), result.text)
            os.remove(told)
            with open(log, "wb") as f:
                f.write(good)

    def put_empty(self, offset):
        path = os.path.join(self.partition(), "%020d.log" % offset)
        with open(path, "xb"):
            pass
        return path

    def check_unharmed(self):
        """Nothing is missing, and nobody says so."""
        for options in ([], ["--skip-corrupt"], ["-o", "-9999"], ["-o", "s@2024-05-01"]):
            result = self.read(*options)
            self.assertEqual(result.lines, self.whole)
            self.assertEqual(result.err, b"")
        for start in range(0, len(self.whole), 7):
            self.assertEqual(self.read("-o", str(start)).lines, self.whole[start:])
        result = self.run_program("consume", "--files", self.partition(), "-f", "%o %s\n")
        self.assertEqual(result.lines, self.whole)
        self.assertEqual(result.err, b"")
        self.assertEqual(self.end_offset(), len(self.whole))
        self.run_program("dump", "t")
        rows = self.run_program("verify", "--json").json_lines()
        self.assertLessEqual([row["verdict"] for row in rows if row["type"] == "finding"], ["note"])

    def test_an_empty_file_behind_the_end(self):
        last = int(os.path.basename(self.logs[-1])[:20])
        for offsets in ([len(self.whole) + 106], [last + 2], [len(self.whole) + 3, len(self.whole) + 300], [last + 1, last + 7]):
            paths = [self.put_empty(offset) for offset in offsets]
            self.check_unharmed()
            self.read("-o", str(max(offsets[-1], len(self.whole) + 1)), status=4)
            result = self.produce(b"more\n", "--timestamp", "2024-05-01")
            self.assertEqual(len(result.notices), 2, result.err)
            self.assertIn(paths[0], result.text)
            for path in paths:
                self.assertFalse(os.path.exists(path))
                self.assertEqual(os.path.getsize(path.replace(".log", ".0.cut")), 0)
            self.whole.append(b"%d more" % len(self.whole))
            self.check_unharmed()
            for path in paths:
                os.remove(path.replace(".log", ".0.cut"))

    def test_an_empty_file_that_hides_what_was_stored(self):
        os.remove(self.logs[-1])
        first = int(os.path.basename(self.logs[-1])[:20])
        self.put_empty(len(self.whole))
        self.check(first, set(range(first, len(self.whole))))

    def test_an_empty_file_inside_a_segment(self):
        first, behind = (int(os.path.basename(log)[:20]) for log in self.logs[1:3])
        for offset in (first + 1, (first + behind) // 10 * 5, behind - 5, behind - 1):
            path = self.put_empty(offset)
            self.check_unharmed()
            for log in self.logs:
                rows = self.run_program("consume", "--files", log, "-f", "%o %s\n")
                self.assertEqual(rows.err, b"")
                self.assertEqual(rows.lines, [line for line in self.whole if line in rows.lines])
            self.produce(b"more\n", "--timestamp", "2024-05-01")
            self.whole.append(b"%d more" % len(self.whole))
            self.check_unharmed()
            os.remove(path)

    def test_last_segment_deleted(self):
        first = int(os.path.basename(self.logs[-1])[:20])
        os.rename(self.logs[-1], self.logs[-1] + ".gone")
        with open(self.logs[-1], "wb"):  # shorter, but there
            pass
        self.assertEqual(self.read().lines, self.whole[:first])
        os.remove(self.logs[-1])
        point = os.path.join(self.partition(), "recovery-point")
        with open(point, encoding="utf-8") as f:
            text = f.read()
        for boot in (text, re.sub("boot_id=.*", "boot_id=other", text)):
            with open(point, "w", encoding="utf-8") as f:
                f.write(boot)
            self.check(first, set(range(first, len(self.whole))))
            for options, status in (([], 5), (["--skip-corrupt"], 5)):
                result = self.run_program("consume", "--files", self.partition(), "-f", "%o %s\n", *options, status=status)
                self.assertEqual(result.lines, self.whole[:first])
                self.assertIn(self.logs[-1], result.text)
        self.assertIn("offsets %d to %d" % (first, len(self.whole) - 1), self.read(status=5).text)
        self.assertEqual(self.read(env={"PARTLOG_FILESYSTEM": "network"}).lines, self.whole[:first])
        with open(os.path.join(self.partition(), "lost-offsets"), "w", encoding="utf-8") as f:
            f.write("%d %d 1000\n" % (first, len(self.whole) - 1))
        self.assertEqual(self.read().lines, self.whole[:first])
        os.remove(os.path.join(self.partition(), "lost-offsets"))
        self.produce(b"again\n")  # which says so, and takes the end for it
        self.assertEqual(self.read().lines, self.whole[:first] + [b"%d again" % first])

    def test_last_batch_zeroed(self):
        log, position, size, first, following = self.batches[-1]
        with open(log, "r+b") as f:
            f.seek(position)
            f.write(bytes(size))
        self.check(first, set(range(first, following)))
        result = self.run_program("consume", "--files", self.partition(), "--skip-corrupt", "-f", "%o %s\n", status=5)
        self.assertEqual(result.lines, self.whole[:first])
        self.assertEqual(self.lost(result), set(range(first, following)))

    def test_files_that_end_below_their_recovery_point(self):
        """As of a topic: it is told, beside what is left. Nothing is where the recovery point is that of another segment."""
        log, position, _, first, following = self.batches[-1]
        for path in (self.partition(), log, os.path.join(self.directory, "copied")):
            with self.subTest(path):
                for size in (position, position + 9):
                    os.truncate(log, size)
                    if path.endswith("copied"):
                        shutil.rmtree(path, ignore_errors=True)
                        shutil.copytree(self.partition(), path)
                    result = self.run_program("consume", "--files", path, "-f", "%o %s\n")
                    self.assertEqual(result.lines[-1], self.whole[first - 1])
                    self.assertEqual(result.err.decode(), "partlog: %s: the log ends at %d, below its recovery point %d: offsets %d to %d are "
                                     "gone; partlog verify %s tells more\n" % (path, first, following, first, following - 1, path))
                    self.run_program("verify", path, status=5)
        self.run_program("verify", path, "--repair", "--yes", status=5)
        self.run_program("verify", path)
        self.assertEqual(self.run_program("consume", "--files", path, "-f", "%o %s\n").lines, self.whole[:first])
        self.assertEqual(self.run_program("consume", "--files", self.logs[0]).err, b"")

    def test_segment_deleted(self):
        for log, behind in zip(self.logs[1:3], self.logs[2:4]):
            os.rename(log, log + ".gone")
            first, following = int(os.path.basename(log)[:20]), int(os.path.basename(behind)[:20])
            self.check(first, set(range(first, following)))
            result = self.run_program("consume", "--files", self.partition(), "-f", "%o %s\n", status=5)
            self.assertEqual(result.lines, self.whole[:first])
            self.assertIn("offsets %d to %d" % (first, following - 1), result.text)
            os.rename(log + ".gone", log)

    def test_first_segment_deleted(self):
        os.remove(self.logs[0])
        first = int(os.path.basename(self.logs[1])[:20])
        self.check(0, set(range(first)))
        os.remove(self.logs[0].replace(".log", ".index"))
        self.check(0, set(range(first)))
        with open(self.logs[0], "wb"):
            pass
        self.check(0, set(range(first)))
        os.remove(self.logs[0])
        os.remove(self.logs[0].replace(".log", ".timeindex"))
        os.remove(os.path.join(self.partition(), "recovery-point"))  # nothing tells now
        result = self.read()
        self.assertEqual(result.lines, self.whole[first:])
        self.assertIn("offsets 0 to %d are not there" % (first - 1), result.text)
        self.assertIn("the first segment is missing", result.text)
        self.assertNotIn("compact", result.text)
        with open(self.logs[0], "wb"):
            pass
        result = self.read()
        self.assertEqual(result.lines, self.whole[first:])
        self.assertIn("the first segment is missing", result.text)
        self.assertNotIn("compact", result.text)
        with open(os.path.join(self.partition(), "log-start-offset"), "w", encoding="utf-8") as f:
            f.write("%d\n" % first)
        self.assertEqual(self.read().err, b"")

    def test_following_past_damage(self):
        # Not in the active segment, where a writer would refuse to go on.
        log, position, size, first, following = [b for b in self.batches if b[0] != self.logs[-1]][-1]
        with open(log, "r+b") as f:
            f.seek(position + size - 1)
            f.write(b"\xff")
        process = self.start("consume", "t", "-F", "--skip-corrupt", "-c", str(len(self.whole) - (following - first) + 1), stdin=None)
        self.produce(b"new\n")
        result = harness.finish(process)
        self.assertEqual((result.lines[-1], result.status), (b"new", 5))
        self.assertEqual(self.lost(result), set(range(first, following)))

    def test_sound_batches_at_the_end_whose_offsets_fall(self):
        first = batch(0, [b"a"], last_delta=5)
        for tail in (batch(1, [b"b"]), batch(1, [b"b"]) + batch(2, [b"c"]), batch(2, [b"c"]) + b"xyz"):
            path = self.write("t-0/00000000000000000000.log", first, tail)
            for operand in (path, os.path.dirname(path)):
                result = self.files(operand, status=5)
                self.assertEqual(result.lines, [b"a"])
                self.assertIn("%s position %d " % (path, len(first)), result.text)
                result = self.files(operand, "--skip-corrupt", status=5)
                self.assertEqual((result.lines, self.lost(result)), ([b"a"], set()))
                self.assertIn("no offsets", result.text)

    def test_a_hole_inside_is_told(self):
        path = self.write("t-0/00000000000000000000.log", batch(0, [b"a"]), batch(2, [b"c"]), batch(4, [b"e"]))
        for operand in (path, os.path.dirname(path)):
            result = self.files(operand)
            self.assertEqual(result.lines, [b"a", b"c", b"e"])
            self.assertEqual(len(result.notices), 1)
            self.assertIn("offset 1 is not there", result.text)

    def test_sound_batches_in_each_others_place(self):
        """What was passed over belongs behind what follows it, and is not there: its offsets are told."""
        b = [batch(2 * n, [b"a%d" % n, b"b%d" % n]) for n in range(7)]
        for order, lost in (((0, 2, 1, 3), {4, 5}), ((0, 3, 2, 1, 4), {4, 5, 6, 7}), ((0, 1, 3, 2), {6, 7}), ((0, 2, 1, 2), set())):
            for behind in (False, True):
                with self.subTest(order=order, behind=behind):
                    path = self.write("t-0/00000000000000000000.log", *(b[n] for n in order))
                    if behind:
                        self.write("t-0/%020d.log" % (2 * max(order) + 2), b[max(order) + 1])
                    for operand in (path, os.path.dirname(path)):
                        result = self.files(operand, "--skip-corrupt", "-f", "%o\n", status=5)
                        there = {int(line) for line in result.lines}
                        last = max(order) + (2 if behind and operand != path else 1)
                        self.assertEqual(self.lost(result), lost, result.text)
                        self.assertEqual(there, set(range(2 * last)) - lost)
                        self.assertEqual("no offsets" in result.text, not lost, result.text)
                    shutil.rmtree(os.path.dirname(path))

    def test_records_inside_that_cannot_be_decoded(self):
        path = self.write("t-0/00000000000000000000.log", batch(0, [b"a"]), batch(1, [b"b", b"c"], 1), batch(3, [b"d"]))
        result = self.files(path, status=5)
        self.assertEqual(result.lines, [b"a"])
        result = self.files(path, "--skip-corrupt", status=5)
        self.assertEqual((result.lines, self.lost(result)), ([b"a", b"d"], {1, 2}))


class Hostile(FilesTest):
    def limited(self, *args, status=5):
        """What it printed on stderr, and that it took no more than 256 MiB."""
        self.need_plain_build()
        with open(os.devnull, "wb") as nowhere:
            process = self.start(*args, stdin=None, stdout=nowhere)
            err = process.stderr.read()
            _, code, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(code)
        self.assertEqual(process.returncode, status, err)
        self.assertLess(usage.ru_maxrss, 256 << 10)
        return err

    def test_bombs(self):
        def gzip(size):
            def pack(_):
                packer = zlib.compressobj(9, zlib.DEFLATED, 31)
                return b"".join(packer.compress(bytes(1 << 20)) for _ in range(size)) + packer.flush()
            return pack
        for size in (63, 65, 1000):
            path = self.write("t-0/00000000000000000000.log", batch(0, [b"a"]), batch(1, [b""], pack=gzip(size)), batch(2, [b"b"]))
            self.assertIn(b"offset 1", self.limited("consume", "--files", path))
            self.assertIn(b"offset", self.limited("consume", "--files", path, "--skip-corrupt"))
            self.limited("dump", "--records", path)
        if shutil.which("zstd"):
            import subprocess
            pack = lambda _: subprocess.run(["zstd", "-q", "--ultra", "-22", "--long=27", "-c"], input=bytes(300 << 20), stdout=subprocess.PIPE, check=True).stdout
            data = bytearray(batch(1, [b""], pack=pack))
            data[22] = data[22] & ~7 | 4
            data[17:21] = struct.pack(">I", segments.crc32c(bytes(data[21:])))
            path = self.write("t-0/00000000000000000000.log", batch(0, [b"a"]), bytes(data), batch(2, [b"b"]))
            self.assertIn(b"limit", self.limited("consume", "--files", path))
            self.limited("dump", "--records", path)

    def test_lengths(self):
        for length in (0x7fffffff, 0x7ffffff0, 300 << 20, -1, 0, 48):
            data = bytearray(batch(0, [b"a"]))
            data[8:12] = struct.pack(">i", length)
            path = self.write("t-0/00000000000000000000.log", data)
            os.truncate(path, 1 << 31)
            self.write("t-0/00000000000000000001.log", batch(1, [b"b"]))
            self.assertIn(b"position 0", self.limited("consume", "--files", path))
            self.limited("consume", "--files", path, "--skip-corrupt")

    def test_garbage(self):
        random = harness.new_random("garbage")
        for _ in range(harness.scaled(30)):
            path = self.write("t-0/00000000000000000000.log", random.randbytes(random.randrange(1, 3000)))
            for args in ((), ("--skip-corrupt",)):
                self.assertIn(self.files(path, *args, status=None).status, (0, 5))


if __name__ == "__main__":
    harness.main()
