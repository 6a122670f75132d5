"""`diff`: what it calls the same and what not, and where it says the difference is."""

import json
import os
import shutil
import struct
import threading

import harness


class DiffTest(harness.Test):
    def setUp(self):
        super().setUp()
        self.copy = os.path.join(self.directory, "copy")

    def copy_store(self):
        shutil.copytree(self.store, self.copy)

    def diff(self, *args, status=8):
        result = self.run_program("diff", self.store, self.copy, "--json", *args, status=status)
        self.text = result.text
        return [(r["partition"], r["first_offset"], r["last_offset"], r["field"], r["left"], r["right"]) for r in result.json()]

    def copy_log(self, number=0):
        return os.path.join(self.copy, "topics", "t", str(number), "0" * 20 + ".log")

    def change(self, path, at, change):
        with open(path, "r+b") as f:
            data = bytearray(f.read())
            change(data, at)
            f.seek(0)
            f.write(data)

    def test_other_batches_and_codecs_are_the_same(self):
        rows = b"".join(b'{"key":"k%d","value":"v%d","timestamp":%d,"headers":[{"name":"h","value":null}]}\n' % (n, n, 1000 + n)
                        for n in range(5000))
        self.create("t")
        self.produce(rows, "-J")
        self.run_program("create-topic", "t", "-d", self.copy, "-c", "segment.bytes=20000")
        self.run_program("produce", "t", "-d", self.copy, "-J", "-z", "zstd", "--batch-size", "3000", input=rows)
        self.assertEqual(self.diff(status=0), [])
        self.assertIn("5000 records compared, no difference", self.text)

    def test_rows_of_records_that_differ(self):
        def record(n, **change):
            row = dict({"key": "k", "value": "v%d" % n, "timestamp": 1000, "headers": []}, **change)
            return json.dumps(row) + "\n"

        changed = {3: {"key": None}, 4: {"key": None}, 5: {"key": ""}, 7: {"value": "x"}, 8: {"value": None, "key": "x"},
                   9: {"headers": [{"name": "h", "value": ""}]}, 11: {"timestamp": 2000}}
        self.create("t")
        self.run_program("create-topic", "t", "-d", self.copy)
        self.produce("".join(record(n) for n in range(20)).encode(), "-J")
        self.run_program("produce", "t", "-d", self.copy, "-J", input="".join(record(n, **changed.get(n, {})) for n in range(20)).encode())
        self.assertEqual(self.diff(), [
            (0, 3, 5, "key", None, None), (0, 7, 8, "value", None, None), (0, 8, 8, "key", None, None), (0, 9, 9, "headers", None, None),
            (0, 11, 11, "timestamp", "1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.000Z")])

    def test_records_that_one_store_has_not(self):
        """As compaction leaves them: the base offset, outside of the checksum, of the last batch is raised, and no recovery point
        says otherwise."""
        self.create("t", cleanup_policy="compact")
        for n in range(4):
            self.produce(b"k:a\nk:b\n", "-K:")
        self.copy_store()
        sizes = os.path.getsize(self.copy_log()) // 4

        def raise_offset(data, at):
            data[at:at + 8] = struct.pack(">q", struct.unpack(">q", data[at:at + 8])[0] + 3)

        self.change(self.copy_log(), 3 * sizes, raise_offset)
        os.unlink(os.path.join(os.path.dirname(self.copy_log()), "recovery-point"))
        self.assertEqual(self.diff(), [(0, None, None, "end_offset", "8", "11"), (0, 6, 7, "record", "present", None)])
        self.assertEqual(self.diff("--common"), [(0, 6, 7, "record", "present", None)])
        self.expect_sound = False

    def test_damage_wins_and_the_others_are_compared(self):
        self.create("t", "-p", "3")
        for p in range(3):
            for n in range(3):
                self.produce(b"a\nb\n", "-p", str(p))
        self.copy_store()
        size = os.path.getsize(self.copy_log(1)) // 3

        def flip(data, at):
            data[at] ^= 1

        self.change(self.copy_log(1), size + 70, flip)
        self.run_program("produce", "t", "-d", self.copy, "-p", "2", input=b"c\n")
        self.assertEqual(self.diff(status=5), [(2, None, None, "end_offset", "6", "7")])
        self.assertIn("%s position %d " % (self.copy_log(1), size), self.text)
        self.assertEqual(self.diff("t:0", status=0), [])

    def test_a_store_is_like_itself_beside_writers_that_roll(self):
        lines = os.path.join(self.directory, "lines")
        with open(lines, "wb") as f:
            f.write(b"".join(b"%09d\n" % n for n in range(20_000)))
        os.symlink(self.store, self.copy)
        runs = 0
        while runs < harness.scaled(100):
            self.create("t", "-p", "2", segment_bytes=2000)
            writers = [self.start("produce", "t", lines, "-q", "--batch-size", "300", "--sync", "none", "-p", p) for p in "001"]
            while any(w.poll() is None for w in writers) and runs < harness.scaled(100):
                self.assertEqual(self.diff("--configs", "--epochs", "--limit", "5", status=0), [])
                runs += 1
            for writer in writers:
                writer.kill()
                writer.wait()
            self.run_program("delete-topic", "t", "--yes")

    def test_a_store_is_like_itself_while_topics_change(self):
        self.create("t")
        os.symlink(self.store, self.copy)
        stopped = threading.Event()

        def change():
            while not stopped.is_set():
                self.run_program("create-topic", "u")
                self.run_program("alter-topic", "t", "-c", "segment.bytes=1000")
                self.run_program("delete-topic", "u", "--yes")
                self.run_program("alter-topic", "t", "-x", "segment.bytes")

        changing = threading.Thread(target=change)
        changing.start()
        try:
            for _ in range(harness.scaled(100)):
                result = self.run_program("diff", self.store, self.copy, "--configs", "--json", status=None)
                self.assertEqual(result.json(), [])
                self.assertIn(result.status, (0, 1), result.text)  # u was removed before its records were looked at
        finally:
            stopped.set()
            changing.join()

    def test_a_store_that_lags_behind_a_live_writer(self):
        self.create("t")
        self.produce(b"".join(b"%d\n" % n for n in range(1000)))
        self.copy_store()
        writer = self.start("produce", "t", "--report", "--linger", "0")
        feeder = harness.Feeder(writer, lambda n: b"more %d\n" % n)
        feeder.start()
        lines = harness.Lines(writer.stdout)
        lines.next()
        for _ in range(5):
            self.assertEqual(self.diff("--common", status=0), [])
        feeder.stopped.set()
        lines.rest()
        feeder.join()
        self.assertEqual(writer.wait(harness.DEADLINE), 0)


if __name__ == "__main__":
    harness.main()
