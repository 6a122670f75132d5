"""`produce` of regular files so large that several threads read them: what is stored and said is what one thread alone, reading on
from the start, would have stored and said (as it does where it has one processor only, as ALONE)."""

import base64
import json
import os
import signal

import harness

SIZE = 20 << 20  # several blocks for each thread


ALONE = ["taskset", "-c", str(min(os.sched_getaffinity(0))), harness.PROGRAM]


def is_part(some, every):
    """In the same order, perhaps with others between."""
    rest = iter(every)
    return all(one in rest for one in some)


class LargeFiles(harness.Test):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.directory, "input")
        if len(os.sched_getaffinity(0)) < 2:
            self.left_out("there is one processor only")

    def write(self, data):
        with open(self.path, "wb") as f:
            f.write(data)
        return data

    def random_lines(self, name, longest=3000, size=SIZE, newline=b"\n"):
        rng = harness.new_random(name)
        noise = rng.randbytes(size).replace(newline, b"")
        lines, at = [], 0
        while at < len(noise):
            length = rng.choice((0, 1, 20, 100, longest)) if rng.random() < 0.01 else rng.randrange(longest)
            lines.append(noise[at:at + length])
            at += length + 1
        return rng, lines

    def test_bytes_of_any_kind(self):
        _, lines = self.random_lines("bytes")
        for newline, options, last in ((b"\n", (), b""), (b"\0", ("-0",), b"no end"), (b"\xff", ("-D", "\\xff"), b"x" * 700000)):
            with self.subTest(newline):
                wanted = [line.replace(newline, b"") for line in lines] + ([last] if last else [])
                self.write(newline.join(wanted) + (b"" if last else newline))
                topic = "t%d" % newline[0]
                self.create(topic)
                result = self.run_program("produce", topic, self.path, *options)
                self.assertIn("%d records, %d bytes stored" % (len(wanted), os.path.getsize(self.path)), result.text)
                self.assertEqual(self.values(topic, checksum=False), wanted)
                offsets = [r.timestamp for r in self.records(topic, checksum=False)]
                self.assertEqual(offsets, sorted(offsets))

    def test_from_where_standard_input_stands_to_its_end(self):
        _, lines = self.random_lines("standard input")
        data = self.write(b"\n".join(lines) + b"\n")
        start = 1_234_567
        self.create()
        with open(self.path, "rb") as f:
            os.lseek(f.fileno(), start, os.SEEK_SET)
            self.run_program("produce", "t", stdin=f)
            self.assertEqual(os.lseek(f.fileno(), 0, os.SEEK_CUR), len(data))
        self.assertEqual(self.values(checksum=False), data[start:].split(b"\n")[:-1])

    def test_lines_longer_than_blocks(self):
        rng, lines = self.random_lines("long lines")
        for n, size in enumerate((900_000, 1_500_000, 3_000_000)):
            lines.insert(rng.randrange(len(lines)), bytes([65 + n]) * size)
        self.write(b"\n".join(lines) + b"\n")
        self.create("t", max_message_bytes=5_000_000)
        self.run_program("produce", "t", self.path)
        self.assertEqual(self.values(checksum=False), lines)
        self.create("u", max_message_bytes=2_000_000)
        result = self.run_program("produce", "u", self.path, status=1)
        at = lines.index(b"C" * 3_000_000)
        self.assertIn("%s: line %d has 3000000 bytes" % (self.path, at + 1), result.text)
        self.assertEqual(self.values("u", checksum=False), lines[:at])

    def test_options_that_change_records(self):
        _, lines = self.random_lines("options", longest=300, size=12 << 20)
        self.write(b"\r\n".join(line.replace(b"\r", b"").replace(b"|", b"") + b"|" + line for line in lines) + b"\r\n")
        for n, options in enumerate((("-K", "|", "--crlf"), ("-K", "|", "-Z"), ("--skip-empty", "--crlf"), ("--skip", "1000"),
                                     ("-c", "20000"), ("-k", "key", "-H", "a=b", "-z", "lz4"), ("-K", "|", "-z", "zstd"),
                                     ("--batch-size", "2000"), ("--batch-size", "900000"), ("-D", "\\r\\n"))):
            with self.subTest(options=options):
                partitions = "3" if "-K" in options and "-Z" not in options else "1"  # records without key go to any
                shown = []
                for program, topic in (([harness.PROGRAM], "f%d" % n), (ALONE, "g%d" % n)):
                    self.create(topic, "-p", partitions)
                    self.run_program("produce", topic, self.path, *options, "--timestamp", "2024-05-01", program=program)
                    named = b'"topic":"%s"' % topic.encode()
                    shown.append([self.consume("-J", "-p", str(p), topic=topic).out.replace(named, b"") for p in range(int(partitions))])
                self.assertTrue(shown[0] == shown[1])
                self.assertGreater(sum(map(len, shown[0])), 1 << 20)

    def test_json_and_partitions_that_it_names(self):
        rng, lines = self.random_lines("JSON", longest=500, size=8 << 20)
        rows = [{"partition": rng.choice((0, 1, 2, 3, -1)), "key": "k%d" % rng.randrange(50), "value_b64": base64.b64encode(v).decode()}
                for v in lines]
        self.write("".join(json.dumps(row) + "\n" for row in rows).encode())
        self.create("t", "-p", "4")
        self.run_program("produce", "t", self.path, "-J", "--keep-partition")
        for n in range(4):
            got = self.values("t", n, checksum=False)
            named = [v for v, row in zip(lines, rows) if row["partition"] == n]
            it = iter(got)
            self.assertTrue(all(v in it for v in named), "the records of partition %d came in another order" % n)
        by_key = {}
        for n in range(4):
            for r in self.records("t", n, checksum=False):
                by_key.setdefault((n, r.key), []).append(r.value)
        self.assertEqual(sum(map(len, by_key.values())), len(lines))
        for n, key in by_key:
            mine = [v for v, row in zip(lines, rows) if row["key"].encode() == key and row["partition"] in (n, -1)]
            self.assertTrue(is_part(by_key[n, key], mine))

    def test_a_fault_in_the_midst(self):
        rng, lines = self.random_lines("faults", longest=300)
        for what in range(4):
            at = rng.randrange(len(lines))
            with self.subTest(at=at):
                self.write(b"\n".join(b"no delimiter" if n == at else b"k|" + line for n, line in enumerate(lines)) + b"\n")
                topic = "t%d" % what
                self.create(topic)
                first = os.path.join(self.directory, "first")
                with open(first, "wb") as f:
                    f.write(b"a|1\nb|2\n")
                result = self.run_program("produce", topic, first, self.path, "-K", "|", "--report", status=1)
                self.assertIn("%s: line %d has no key delimiter" % (self.path, at + 1), result.text)
                self.assertIn("input record %d is the first that was not" % (at + 3), result.text)
                self.assertEqual(self.values(topic, checksum=False), [b"1", b"2"] + lines[:at])
                self.assertEqual(int(result.lines[-1].split(b"\t")[4]), at + 2)

    def test_reported_progress_is_where_another_run_goes_on(self):
        _, lines = self.random_lines("progress", longest=200)
        data = self.write(b"\n".join(b"%d|%s" % (n % 5, line) for n, line in enumerate(lines)) + b"\n")
        self.create("t", "-p", "3")
        result = self.run_program("produce", "t", self.path, "-K", "|", "--report", "--batch-size", "20000")
        rows = [[int(cell) for cell in row.split(b"\t")[1:]] for row in result.lines]
        stored = {0: 0, 1: 0, 2: 0}
        before = 0
        for partition, first, last, records, size in rows:
            self.assertEqual(first, stored[partition])
            stored[partition] = last + 1
            self.assertGreaterEqual(records, before)
            self.assertLessEqual(records, sum(stored.values()))
            before = records
        self.assertEqual((records, size), (len(lines), len(data)))
        self.assertEqual(sum(stored.values()), len(lines))
        # Every prefix that was reported is in the records that stand in front of that batch's end.
        some = rows[len(rows) // 2]
        self.assertEqual(data[:some[4]].count(b"\n"), some[3])

    def test_killed_and_stopped(self):
        rng, lines = self.random_lines("ends", longest=150, size=40 << 20)
        self.write(b"\n".join(lines) + b"\n")
        for n, number in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGKILL)):
            topic = "t%d" % n
            with self.subTest(signal=number):
                self.create(topic, segment_bytes=4 << 20)
                process = self.start("produce", topic, self.path, "--report", "--sync", "none")
                report = harness.Lines(process.stdout)
                seen = [report.next() for _ in range(rng.randrange(1, 30))]
                process.send_signal(number)
                rest = report.rest()
                seen += [row for row in rest if row.count(b"\t") == 5]
                result = harness.finish(process)
                self.assertIn(result.status, (0, 128 + number))
                self.expect_indexes = False  # an entry may be half written
                stored = self.consume(topic=topic).out.split(b"\n")[:-1]  # a killed writer may leave a torn tail
                self.assertEqual(stored, lines[:len(stored)])
                self.produce(b"next\n", topic=topic)
                self.assertEqual(self.values(topic, checksum=False), stored + [b"next"])
                self.assertGreaterEqual(len(stored), int(seen[-1].split(b"\t")[4]))
                if number != signal.SIGKILL:
                    self.assertIn("%d records" % len(stored), result.text)

    def test_waiting_for_the_lock(self):
        _, lines = self.random_lines("lock")
        self.write(b"\n".join(lines) + b"\n")
        self.create()
        holder = self.hold_lock()
        result = self.run_program("produce", "t", self.path, "--lock-timeout", "100ms", status=6)
        self.assertIn("0 records", result.text)
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("produce", "t", self.path)
            harness.wait_until(lambda: self.waits_for_lock(process), "the writer to wait for the lock")
            process.send_signal(number)
            self.assertEqual(harness.finish(process).status, 128 + number)
        holder.communicate(b"\n")
        self.assertEqual(self.values(), [])
        self.run_program("produce", "t", self.path)
        self.assertEqual(self.values(checksum=False), lines)

    def test_beside_other_writers_of_large_files(self):
        _, lines = self.random_lines("writers", longest=200, size=10 << 20)
        self.create("t", segment_bytes=1 << 20)
        processes = []
        for w in range(3):
            path = os.path.join(self.directory, "input%d" % w)
            with open(path, "wb") as f:
                f.write(b"".join(b"%d:%s\n" % (w, line) for line in lines))
            processes.append(self.start("produce", "t", path, "--sync", "none"))
        for process in processes:
            self.assertEqual(harness.finish(process).status, 0)
        got = self.values(checksum=False)
        for w in range(3):
            prefix = b"%d:" % w
            self.assertEqual([v[2:] for v in got if v.startswith(prefix)], lines)


if __name__ == "__main__":
    harness.main()
