"""What the program costs does not grow with the log or with the input."""

import os
import re
import resource
import shutil
import subprocess
import sys

import harness

# Memory is not the log's; the listing of the directory is the one thing that may grow.
NOT_COUNTED = {"getdents64", "mmap", "munmap", "brk", "mprotect", "madvise", "mremap", "futex"}


class SystemCalls(harness.Test):
    OF_A_ROLL = ("openat", "getdents64", "pread64", "pwrite64", "newfstatat", "fstat", "stat", "rename", "fsync", "fdatasync", "ftruncate",
                 "close")

    def trace(self, *args, input=b""):
        """System calls by name, and the bytes that were read from files, of one run."""
        log = os.path.join(self.directory, "trace")
        self.run_program(harness.PROGRAM, *args, program=["strace", "-f", "-qq", "-o", log], input=input)
        calls, bytes_read = {}, 0
        with open(log, encoding="utf-8", errors="replace") as f:
            for line in f:
                found = re.match(r"\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed>)", line)
                if not found or "<unfinished" in line:
                    continue
                name = found.group(1)
                result = re.search(r"\) += (-?\d+)", line)
                if name in ("read", "pread64", "readv", "preadv") and result and int(result.group(1)) > 0:
                    bytes_read += int(result.group(1))
                calls[name] = calls.get(name, 0) + 1
        return {n: c for n, c in calls.items() if n not in NOT_COUNTED}, bytes_read, calls

    def fill(self, topic, count):
        """One record a segment. The program makes ten; more are copies, whose base offset stands outside the checksum."""
        self.create(topic, segment_bytes=100)
        self.produce(b"".join(b"%05d\n" % n for n in range(10)), "--batch-size", "1", topic=topic)
        directory = self.partition(topic)
        names = harness.segments.segment_names(directory)
        self.assertEqual(len(names), 10)
        contents = {}
        for suffix in ("log", "index", "timeindex"):
            with open(os.path.join(directory, "%020d.%s" % (9, suffix)), "rb") as f:
                contents[suffix] = f.read()
        for base in range(10, count):
            for suffix, content in contents.items():
                with open(os.path.join(directory, "%020d.%s" % (base, suffix)), "wb") as f:
                    f.write(base.to_bytes(8, "big") + content[8:] if suffix == "log" else content)
        point = os.path.join(directory, "recovery-point")
        with open(point) as f:
            fields = dict(line.rstrip("\n").split("=") for line in f)
        fields["offset"] = fields["segment"] = str(count - 1)
        fields["position"] = "0"
        with open(point, "w") as f:
            f.writelines("%s=%s\n" % field for field in fields.items())
        self.run_program("produce", topic, input=b"00000\n")  # both have rolled once more, and know what is durable

    def test_ten_and_ten_thousand_segments(self):
        self.need("strace")
        self.need_plain_build()
        if subprocess.run(["strace", "-qq", "-o", os.path.join(self.directory, "trace"), "true"], stderr=subprocess.DEVNULL).returncode:
            self.left_out("strace may not trace here")
        sizes = {"few0": 10, "many": 10000}
        for topic, count in sizes.items():
            self.fill(topic, count)

        def both(what, make, input=b"", same=True):
            few, many = (self.trace(*make(topic, count), input=input) for topic, count in sizes.items())
            growth = {n: (few[0].get(n, 0), many[0].get(n, 0)) for n in {*few[0], *many[0]} if few[0].get(n) != many[0].get(n)}
            harness.say("%s: 10 segments %d calls, %d bytes read; 10,000 segments %d calls, %d bytes read, besides %d and %d of "
                        "getdents64" % (what, sum(few[0].values()), few[1], sum(many[0].values()), many[1],
                                        few[2].get("getdents64", 0), many[2].get("getdents64", 0)))
            if same:
                # A search in an index of one entry more or less may take a step more.
                grown = {n: counts for n, counts in growth.items() if counts[1] > counts[0] + (2 if n == "pread64" else 0)}
                self.assertEqual(grown, {}, "%s: system calls that grow with the log" % what)
                # Numbers in the text files have more digits in the longer log.
                self.assertLessEqual(many[1] - few[1], 64, "%s: bytes read grow with the log" % what)

        def rolls(count, *options):
            """What `count` rolls of one writer cost, the listing included, beside what a roll and an end cost in any case."""
            text = b"".join(b"%05d\n" % n for n in range(count))
            return [sum(self.trace("produce", t, "--batch-size", "1", *options, input=text)[2].get(name, 0) for name in self.OF_A_ROLL)
                    for t in sizes]

        for options in (["--sync", "none"], ["--sync", "end"], ["--sync", "batch"]):
            one, many = rolls(1, *options), rolls(21, *options)
            cost = [(b - a) / 20 for a, b in zip(one, many)]
            harness.say("a roll with %s: %.1f calls with 10 segments, %.1f with 10,000" % (" ".join(options), *cost))
            self.assertLess(abs(cost[0] - cost[1]), 0.5, options)
        both("append", lambda t, c: ["produce", t], b"x\n")
        both("append without sync", lambda t, c: ["produce", t, "--sync", "none"], b"x\n")
        both("seek to an offset", lambda t, c: ["consume", t, "-o", str(c // 2), "-c", "1"])
        both("last record", lambda t, c: ["consume", t, "-o", "-1"])
        both("first record", lambda t, c: ["consume", t, "-c", "1"])
        both("end offset", lambda t, c: ["get-offsets", t])
        both("offset at a time", lambda t, c: ["get-offsets", t, "--time", "-1h"], same=False)

    def test_readers_list_the_directory_once(self):
        """And once more where they end, if it has just changed."""
        self.need("strace")
        self.need_plain_build()
        self.create(segment_bytes=100)
        self.produce(b"".join(b"%05d\n" % n for n in range(20)), "--batch-size", "1")
        of_one = 2  # calls of getdents64: the entries, and that there are no more
        for args in (["-o", "-1"], ["-c", "1"], [], ["--tail", "3"], ["--since", "-1h"], ["--since", "-1h", "--until", "-1m"],
                     ["--merge", "time"]):
            for settled in (False, True):
                os.utime(self.partition(), (0, 0) if settled else None)
                listings = self.trace("consume", "t", *args)[2]["getdents64"] / of_one
                harness.say("consume %s of a directory that %s: %d listings" %
                            (" ".join(args), "is as it was" if settled else "has just changed", listings))
                self.assertLessEqual(listings, 1 if settled else 2, args)

    def test_a_time_costs_three_files_a_segment(self):
        """Of each that is passed by: its indexes, and of its log the end."""
        self.need("strace")
        self.need_plain_build()
        opened = {}
        for topic, count in (("few", 10), ("many", 60)):
            self.create(topic, segment_bytes=20000, index_interval_bytes=1000)
            for n in range(count):
                self.produce(b"x" * 900 + b"\n" + (b"y" * 900 + b"\n") * 19, "--batch-size", "900", "--sync", "none", "--timestamp",
                             "@%d" % (1700000000 + n), topic=topic)
            segments = len([n for n in os.listdir(self.partition(topic)) if n.endswith(".log")])
            self.assertGreater(segments, count * 0.8)
            for time in ("@%d" % (1700000000 + count - 1), "max-timestamp"):
                opened.setdefault(time[:1], []).append((segments, self.trace("get-offsets", topic, "--time", time)[0]["openat"]))
        for (few, calls), (many, more) in opened.values():
            harness.say("time: %d opens of %d segments, %d of %d" % (calls, few, more, many))
            self.assertLessEqual(more - calls, 3 * (many - few))

    def test_a_long_segment_is_not_read(self):
        """One record out of the middle of a large segment: the index leads there."""
        self.need("strace")
        self.need_plain_build()
        read = {}
        for topic, count in (("short", 10_000), ("long0", 1_000_000)):
            self.create(topic)
            self.produce(b"".join(b"%092d\n" % n for n in range(count)), "--sync", "none", topic=topic)
            for what, args, data in (("append", ["produce", topic], b"x\n"), ("seek", ["consume", topic, "-o", str(count // 2), "-c", "1"], b"")):
                calls, bytes_read, _ = self.trace(*args, input=data)
                # What is mapped is not read by a call; few calls are what matters then.
                read.setdefault(what, []).append((sum(calls.values()), bytes_read))
            alone = os.path.join(self.directory, "alone-" + topic)
            shutil.copy(os.path.join(self.partition(topic), "%020d.log" % 0), alone)
            calls, bytes_read, _ = self.trace("consume", "--files", alone, "-c", "1")
            read.setdefault("first record without an index", []).append((sum(calls.values()), bytes_read))
        harness.say("short and 100 times longer segment: %s (calls, bytes read)" % read)
        # A binary search takes a few more steps in the longer index.
        for what, ((few_calls, few_bytes), (many_calls, many_bytes)) in read.items():
            self.assertLessEqual(many_calls, few_calls + 60, what)
            self.assertLessEqual(many_bytes, few_bytes + (1 << 20), what)


class Memory(harness.Test):
    LIMIT = 64 << 20
    SIZE = harness.scaled(256) << 20

    def setUp(self):
        super().setUp()
        self.need_plain_build()

    def measure(self, args, source=None, sink=None):
        """Largest resident memory of one run, whose stdin is the output of `source` and whose stdout goes to `sink`."""
        process = self.start(*args, stdin=source.stdout if source else subprocess.DEVNULL, stdout=sink or subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        result = harness.result_of(process.returncode, b"", process.stderr.read())
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        self.assertLess(own, self.LIMIT, "the test itself is too large to measure a child")
        return usage.ru_maxrss << 10, result

    def source(self, script):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def check(self, what, args, limit=None, status=0, **how):
        peak, result = self.measure(args, **how)
        # What the test's own process has is inherited, and thus the least that can be seen.
        harness.say("%s: at most %.1f MiB resident" % (what, peak / (1 << 20)))
        self.assertEqual(result.status, status, result.text)
        self.assertLessEqual(peak, limit or self.LIMIT, what)
        return result

    def test_lines_of_100_bytes(self):
        self.create()
        self.create("keyed", "-p", "4")
        text = "import sys\nblock=b''.join(b'%%04d:'%%n+b'x'*94+b'\\n' for n in range(1000))\nfor _ in range(%d): sys.stdout.buffer.write(block)"
        self.check("produce", ["produce", "t", "--sync", "none"], source=self.source(text % (self.SIZE // 100_000)))
        self.check("consume", ["consume", "t"])
        self.check("consume -J", ["consume", "t", "-J"])
        self.check("consume --tail", ["consume", "t", "--tail", "1000"])
        self.check("consume --grep", ["consume", "t", "--grep", "nothing"])
        self.check("get-offsets", ["get-offsets", "t"])
        self.check("produce to 4 partitions by key", ["produce", "keyed", "-K:", "--sync", "none"],
                   source=self.source(text % (self.SIZE // 400_000)))
        self.check("consume --merge time", ["consume", "keyed", "--merge", "time"])

    def test_compressed(self):
        self.create("t", compression_type="zstd")
        text = "import sys\nblock=b''.join(b'%%04d:'%%n+b'x'*94+b'\\n' for n in range(1000))\nfor _ in range(%d): sys.stdout.buffer.write(block)"
        self.check("produce zstd", ["produce", "t"], source=self.source(text % (self.SIZE // 400_000)))
        self.check("consume zstd", ["consume", "t"])

    def test_input_without_any_delimiter(self):
        """Endless zeros: refused once they can no longer fit a batch, not gathered."""
        self.create()
        text = "import sys\nfor _ in range(%d): sys.stdout.buffer.write(bytes(1<<20))" % (self.SIZE >> 20)
        for args in (["produce", "t"], ["produce", "t", "-J"], ["produce", "t", "-K:"], ["produce", "t", "-D", "xyz"]):
            result = self.check(" ".join(args), args, status=1, source=self.source(text))
            self.assertLessEqual(len(result.notices), 2)
        self.assertEqual(self.values(), [])

    def test_batches_of_many_partitions(self):
        self.create("t", "-p", "200")
        text = "import sys\nfor n in range(300): sys.stdout.buffer.write(b'%d:'%n+b'y'*1000000+b'\\n')"
        path = os.path.join(self.directory, "lines")
        with open(path, "wb") as file:
            subprocess.run([sys.executable, "-c", text], stdout=file, check=True)
        self.check("produce to 200 partitions", ["produce", "t", "--sync", "none", "-K:", path])
        for args in self.READ_IN_TURN:
            self.check("consume 200 partitions " + " ".join(args), ["consume", "t", *args, "-c", "300"])

    # Ways in which `consume` reads partitions in turn.
    READ_IN_TURN = (["--merge", "time"], ["--tail", "300"], ["-F"], ["-g", "once", "--commit-interval", "1ms"], ["-g", "follows", "-F"])

    def test_batches_of_small_records_of_many_partitions(self):
        """A batch of each of them unpacks to several MiB."""
        self.create("t", "-p", "60", compression_type="zstd", segment_bytes=1 << 20)
        line = "'%d:'%(n%60)+str(n)*40+'\\n'"
        source = self.source("import sys\nfor n in range(1000000): sys.stdout.write(%s)" % line)
        self.check("produce large batches to many partitions", ["produce", "t", "-K:", "--batch-size", "4000000", "--linger", "60s", "--sync", "none"],
                   limit=self.LIMIT + 60 * 4_000_000, source=source)
        for args in self.READ_IN_TURN:
            self.check("consume small records of large batches " + " ".join(args), ["consume", "t", *args, "-c", "1000000"])

    def test_large_records_in_each_others_place(self):
        size = 80 << 20
        self.create("t", max_message_bytes=3 * size)
        self.check("produce 80 MiB records", ["produce", "t", "--sync", "none"], limit=self.LIMIT + size,
                   source=self.source("import sys\nfor _ in range(5): sys.stdout.buffer.write(b'y'*%d+b'\\n')" % (size - 1000)))
        log = os.path.join(self.partition(), "%020d.log" % 0)
        length = os.path.getsize(log) // 5
        with open(log, "r+b") as file:
            for n, offset in (1, 3), (3, 1):
                file.seek(n * length)
                file.write(offset.to_bytes(8, "big"))
        for args in (), ("--skip-corrupt",), ("--skip-corrupt", "--tail", "9"):
            self.check("consume swapped 80 MiB records " + " ".join(args), ["consume", "t", *args], limit=self.LIMIT + size, status=5)
        self.run_program("delete-topic", "t", "--yes")  # as below

    def test_large_records(self):
        """64 MiB plus the largest batch."""
        size = 80 << 20
        self.create("t", max_message_bytes=size)
        text = "import sys\nfor _ in range(3): sys.stdout.buffer.write(%s)"
        inputs = {(): "b'y'*%d+b'\\n'" % (size - 1000),
                  ("-K:",): "b'k'*%d+b':'+b'y'*%d+b'\\n'" % (size // 2, size // 2 - 1000),
                  ("-J",): "b'{\"value\":\"'+b'y'*%d+b'\"}\\n'" % (size - 1000)}
        for args, line in inputs.items():
            self.check("produce 80 MiB records " + " ".join(args), ["produce", "t", "--sync", "none", *args], limit=self.LIMIT + size,
                       source=self.source(text % line))
        path = os.path.join(self.directory, "lines")
        with open(path, "wb") as file:
            for _ in range(3):
                for _ in range(79):
                    file.write(b"y" * (1 << 20))
                file.write(b"\n")
        self.check("produce a file of 79 MiB lines", ["produce", "t", "--sync", "none", path], limit=self.LIMIT + size)
        os.remove(path)
        for args in ((), ("-J",), ("-f", "%s{hex}"), ("-f", "%k%s{json}")):
            self.check("consume 80 MiB records " + " ".join(args), ["consume", "t", *args], limit=self.LIMIT + size)
        self.create("four", "-p", "4", max_message_bytes=size)
        self.check("produce to 4 partitions", ["produce", "four", "--sync", "none", "-K:"], limit=self.LIMIT + size,
                   source=self.source("import sys\nfor n in range(3): sys.stdout.buffer.write(b'%%d:'%%n+b'y'*%d+b'\\n')" % (size - 1000)))
        self.check("produce to 4 partitions, batches of more than a record", ["produce", "four", "--sync", "none", "-K:", "--batch-size", str(size)],
                   limit=self.LIMIT + size,
                   source=self.source("import sys\nfor n in range(3): sys.stdout.buffer.write(b'%%d:'%%n+b'y'*%d+b'\\n')" % (size - 2000)))
        for args in self.READ_IN_TURN:
            self.check("consume 4 partitions " + " ".join(args), ["consume", "four", *args, "-c", "6"], limit=self.LIMIT + size)
        broken = "import sys\nsys.stdout.buffer.write(b'{\"value\":\"'+b'y'*%d)" % (4 * size)
        self.check("produce -J, a line that does not end", ["produce", "t", "-J"], limit=self.LIMIT + 4 * size, status=1,
                   source=self.source(broken))
        self.run_program("delete-topic", "t", "four", "--yes")  # the test's own reader would hold several records
        unpacked = 60 << 20
        for codec in ("gzip", "snappy", "lz4", "zstd"):
            self.create(codec, compression_type=codec, max_message_bytes=size)
            self.check("produce 60 MiB records with " + codec, ["produce", codec, "--sync", "none"], limit=self.LIMIT + unpacked // 2,
                       source=self.source(text % ("b'y'*%d+b'\\n'" % unpacked)))
            self.check("consume 60 MiB records with " + codec, ["consume", codec], limit=self.LIMIT + unpacked)
            self.run_program("delete-topic", codec, "--yes")


if __name__ == "__main__":
    harness.main()
