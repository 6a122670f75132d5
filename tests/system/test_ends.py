"""Where consume begins and where it stops."""

import os
import datetime
import subprocess
import threading
import time

import harness


class RunningProducer(harness.Test):
    def test_ends_where_the_log_ended_at_the_start(self):
        """The consumer is held back by a full pipe while the log goes on growing: what came later must not be printed."""
        self.create("t", "-p", "2")
        producers = [self.start("produce", "t", "-p", str(p), "--sync", "none") for p in (0, 1)]
        feeders = [harness.Feeder(p, lambda n: b"%012d" % n + b"." * 500 + b"\n") for p in producers]
        for f in feeders:
            f.start()
        size = lambda: min(sum(os.path.getsize(os.path.join(self.partition("t", p), n))
                               for n in harness.segments.segment_names(self.partition("t", p))) for p in (0, 1))
        harness.wait_until(lambda: size() > 8 << 20, "the log to grow")
        before = [self.end_offset("t", p) for p in (0, 1)]
        consumer = self.start("consume", "t", "-f", "%p %o %s\\n")
        lines = harness.Lines(consumer.stdout)
        first = lines.next()
        after = [self.end_offset("t", p) for p in (0, 1)]
        grown = size() + (8 << 20)
        harness.wait_until(lambda: size() > grown, "the log to grow on")
        got = [[], []]
        for line in [first] + lines.rest():
            partition, offset, value = line.split(b" ")
            got[int(partition)].append(int(offset))
            self.assertEqual(int(value[:12]), int(offset))
        result = harness.finish(consumer)
        self.assertEqual((result.status, result.err), (0, b""))
        for f in feeders:
            f.stopped.set()
            f.join()
        for p in producers:
            self.assertEqual(harness.finish(p).status, 0)
        for p in (0, 1):
            self.assertEqual(got[p], list(range(len(got[p]))))
            self.assertGreaterEqual(len(got[p]), before[p])
            self.assertLessEqual(len(got[p]), after[p])

    def test_follow_sees_all_from_the_beginning(self):
        """A follower that runs beside writers that roll prints every record once, in order, and ends with --idle-timeout."""
        self.create("t", segment_bytes=4096)
        consumer = self.start("consume", "t", "-F", "--idle-timeout", "3s")
        seen = []
        reader = threading.Thread(target=lambda: seen.extend(harness.Lines(consumer.stdout).rest()))
        reader.start()
        for n in range(20):
            self.produce(b"".join(b"%d\n" % i for i in range(n * 100, n * 100 + 100)), "--batch-size", "300", "--sync", "none")
        reader.join(harness.DEADLINE)
        self.assertEqual(seen, [b"%d" % n for n in range(2000)])
        consumer.wait()
        self.assertEqual(consumer.returncode, 0)

    def test_tail_nothing_and_follow(self):
        self.create()
        self.produce(b"old\n")
        consumer = self.start("consume", "t", "--tail", "0", "-F", "-v")
        lines = harness.Lines(consumer.stdout)
        # Only new ones come; which are new is settled once the first of them has come.
        n = 0
        while not (got := lines.ready(0.05)):
            self.produce(b"new %d\n" % n, "--sync", "none")
            n += 1
        self.assertTrue(all(line.startswith(b"new") for line in got), got)
        consumer.terminate()
        self.assertEqual(harness.finish(consumer).status, 143)

    def test_follower_whose_listings_are_slow(self):
        """A directory that is listed while segments are made may show a later one and miss an earlier; strace delays the
        listings, so that several are made meanwhile. (The pauses between bursts let the follower reach the end each time.)"""
        self.need("strace")
        self.need_plain_build()
        if subprocess.run(["strace", "-f", "-o", os.devnull, "-e", "trace=getdents64", "-e", "inject=getdents64:delay_exit=6000",
                           "true"], stderr=subprocess.DEVNULL).returncode:
            self.left_out("strace may not delay system calls here")
        self.create("t", segment_bytes=300)
        self.produce(b"".join(b"old %d\n" % n for n in range(2000)), "--batch-size", "1", "--sync", "none")
        self.assertGreater(len(harness.segments.segment_names(self.partition("t"))), 450)
        path = os.path.join(self.directory, "followed")
        bursts, size = 40, 16
        line = lambda n: b"%08d " % n + b"." * 61 + b"\n"
        due = [b"old 1999"] + [line(n)[:-1] for n in range(bursts * size)]
        with open(path, "wb") as out:
            follower = self.start("-f", "-o", os.devnull, "-e", "trace=getdents64", "-e", "inject=getdents64:delay_exit=6000",
                                  harness.PROGRAM, "consume", "t", "-o", "-1", "-F", program=["strace"], stdout=out)

        def followed():
            with open(path, "rb") as f:
                return f.read().splitlines()

        harness.wait_until(lambda: followed() == due[:1], "the follower to begin")
        producer = self.start("produce", "t", "--linger", "0", "--sync", "none")
        for burst in range(bursts):
            for n in range(size):
                os.write(producer.stdin.fileno(), line(burst * size + n))
                time.sleep(0.0015)
            time.sleep(0.1)
        self.assertEqual(harness.finish(producer).status, 0)
        harness.wait_until(lambda: due[-1] in followed() or follower.poll() is not None, "the follower to reach the end")
        self.assertEqual(followed(), due)

    def test_follow_with_a_count(self):
        self.create()
        self.produce(b"1\n2\n")
        consumer = self.start("consume", "t", "-F", "-c", "3")
        lines = harness.Lines(consumer.stdout)
        self.assertEqual([lines.next(), lines.next()], [b"1", b"2"])
        self.produce(b"3\n4\n")
        self.assertEqual(lines.rest(), [b"3"])
        self.assertEqual(harness.finish(consumer).status, 0)


class Bounds(harness.Test):
    """Ten records in each of three partitions, one a minute, partition after partition; values `partition.offset`."""

    T0 = 1_700_000_000_000  # 2023-11-14T22:13:20Z
    MINUTE = 60_000

    def setUp(self):
        super().setUp()
        self.create("t", "-p", "3", index_interval_bytes=0)
        for p in range(3):
            self.produce(b"".join(b'{"value":"%d.%d","timestamp":%d}\n' % (p, o, self.T0 + (3 * o + p) * self.MINUTE)
                                  for o in range(10)), "-J", "-p", str(p), "--batch-size", "1")

    def got(self, *args, operand="t", **how):
        return [line.decode() for line in self.run_program("consume", operand, *args, **how).lines]

    def all_of(self, *partitions, start=0, end=10):
        return ["%d.%d" % (p, o) for p in partitions for o in range(start, end)]

    def test_order(self):
        self.assertEqual(self.got(), self.all_of(0, 1, 2))
        self.assertEqual(self.got(operand="t:2,0"), self.all_of(2, 0))
        self.assertEqual(self.got(operand="t:1-2"), self.all_of(1, 2))
        self.assertEqual(self.got("-p", "1"), self.all_of(1))
        self.assertEqual(self.got("t:0", operand="t:1"), self.all_of(1, 0))
        self.assertEqual(self.got("--merge", "time"), ["%d.%d" % (n % 3, n // 3) for n in range(30)])

    def test_counts(self):
        self.assertEqual(self.got("-c", "3"), self.all_of(0, end=3))
        self.assertEqual(self.got("-c", "12"), self.all_of(0) + self.all_of(1, end=2))
        self.assertEqual(self.got("-c", "1000"), self.all_of(0, 1, 2))
        self.assertEqual(self.got("-c", "0"), [])
        self.assertEqual(self.got("-c", "2", "--grep", "[13]$"), ["0.1", "0.3"])
        self.assertEqual(self.got("-c", "2", "-o", "end"), [])

    def test_offsets(self):
        self.assertEqual(self.got("-o", "7"), self.all_of(0, 1, 2, start=7))
        self.assertEqual(self.got("-o", "beginning", operand="t:0"), self.all_of(0))
        self.assertEqual(self.got("-o", "end"), [])
        self.assertEqual(self.got("-o", "-2"), self.all_of(0, 1, 2, start=8))
        self.assertEqual(self.got("-o", "-1000", operand="t:1"), self.all_of(1))
        self.assertEqual(self.got("-o", "10"), [])
        result = self.run_program("consume", "t", "-o", "11", status=4)
        self.assertEqual(result.out, b"")
        self.assertIn("11", result.text)

    def test_address_with_offset(self):
        """consume takes T[:PARTITIONS]; where to begin is said with -o, which the message names."""
        self.refused("consume", "t:1:4", status=2, names=["-o 4"])

    def test_tail(self):
        self.assertEqual(self.got("--tail", "4"), ["2.8", "0.9", "1.9", "2.9"])
        self.assertEqual(self.got("--tail", "1"), ["2.9"])
        self.assertEqual(self.got("--tail", "0"), [])
        self.assertEqual(self.got("--tail", "100"), ["%d.%d" % (n % 3, n // 3) for n in range(30)])
        self.assertEqual(self.got("--tail", "3", operand="t:1"), ["1.7", "1.8", "1.9"])
        self.assertEqual(self.got("--tail", "2", "--grep", "^0"), ["0.8", "0.9"])
        self.assertEqual(self.got("--tail", "2", "--grep", "^0", "--not"), ["1.9", "2.9"])

    def iso(self, ms, zone="Z"):
        return datetime.datetime.fromtimestamp(ms / 1000, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + zone

    def test_times_in_every_form(self):
        at = self.T0 + 3 * 5 * self.MINUTE  # the timestamp of 0.5
        expected = self.all_of(0, 1, 2, start=5)
        for form in (self.iso(at), self.iso(at, ""), self.iso(at).replace("T", " "), self.iso(at, ".000Z"), self.iso(at + 7200_000, "+02:00"),
                     self.iso(at - 5400_000, "-01:30"), str(at // 1000), str(at), "@%d" % (at // 1000),
                     "@%d.000" % (at // 1000), "@%d.5" % (at // 1000 - 1)):
            with self.subTest(form=form):
                self.assertEqual(self.got("--since", form), expected)
        for option in ("s@%d" % at, "s@" + self.iso(at)):
            with self.subTest(form=option):
                self.assertEqual(self.got("-o", option), expected)
        self.assertEqual(self.got("--since", "2023-11-15"), [])
        self.assertEqual(len(self.got("--since", "2023-11-14")), 30)
        self.assertEqual(self.got("--since", self.iso(at + 3600_000, ""), "--local", env={"TZ": "Etc/GMT-1"}), expected)
        for bad in ("17000000000", "170000000000", "1", "12345678901234", "yesterday-ish", "2023-13-01", "2023-02-30", "", "@", "-",
                    "-1x"):
            with self.subTest(form=bad):
                self.refused("consume", "t", "--since=" + bad, status=2)

    def test_times_back_from_now(self):
        self.create("now")
        now = int(time.time() * 1000)
        for hours in (30, 3, 1):
            self.produce(b"%dh\n" % hours, "--timestamp", str(now - hours * 3600_000), topic="now")
        for form, expected in (("-1h30m", ["1h"]), ("-90m", ["1h"]), ("-2d", ["30h", "3h", "1h"]), ("PT4H", ["3h", "1h"]),
                               ("P1DT8H", ["30h", "3h", "1h"]), ("P1D", ["3h", "1h"]), ("-5400s", ["1h"]), ("-10m", [])):
            with self.subTest(form=form):
                self.assertEqual(self.got("--since", form, operand="now"), expected)
                self.assertEqual(self.got("--since=" + form, operand="now"), expected)

    def test_from_and_until(self):
        a, b = self.T0 + 9 * self.MINUTE, self.T0 + 15 * self.MINUTE  # of 0.3 and 0.5
        expected = self.all_of(0, 1, 2, start=3, end=5)
        self.assertEqual(self.got("--since", str(a), "--until", str(b)), expected)
        self.assertEqual(self.got("-o", "s@%d" % a, "-o", "e@%d" % b), expected)
        self.assertEqual(self.got("-o", "s@%d" % a, "--until", str(b)), expected)
        self.assertEqual(self.got("--until", str(self.T0)), [])
        self.assertEqual(self.got("--until", str(self.T0 + 1)), ["0.0"])
        self.assertEqual(self.got("--since", str(b), "--until", str(a)), [])
        self.assertEqual(self.got("--since", str(self.T0 + 29 * self.MINUTE)), ["2.9"])
        self.assertEqual(self.got("--since", str(self.T0 + 29 * self.MINUTE + 1)), [])
        self.assertEqual(self.got("--since", "@99999999999"), [])

    def test_equal_and_falling_timestamps(self):
        self.create("equal", segment_bytes=400)
        stamps = [10, 20, 20, 20, 15, 30, 20, 40, 40, 5]
        for n, stamp in enumerate(stamps):
            self.produce(b'{"value":"%d","timestamp":%d}\n' % (n, self.T0 + stamp), "-J", topic="equal")
        self.assertGreater(len(harness.segments.segment_names(self.partition("equal"))), 1)
        for since in (0, 5, 10, 11, 15, 20, 21, 30, 35, 40, 41):
            start = next((i for i, s in enumerate(stamps) if s >= since), len(stamps))
            for until in (5, 10, 15, 20, 25, 30, 40, 41):
                # --until stops before the first record behind the start whose timestamp is at or after T.
                end = next((i for i in range(start, len(stamps)) if stamps[i] >= until), len(stamps))
                with self.subTest(since=since, until=until):
                    got = self.got("--since", str(self.T0 + since), "--until", str(self.T0 + until), operand="equal")
                    self.assertEqual(got, [str(n) for n in range(start, end)])
        rows = self.run_program("get-offsets", "equal", "--time", "max-timestamp", "--json").json()
        self.assertEqual(rows[0]["offset"], 7)
        rows = self.run_program("get-offsets", "equal", "--time", str(self.T0 + 20), "--json").json()
        self.assertEqual(rows[0]["offset"], 1)

    def test_filters(self):
        self.produce(b"k:one\nk2:two\nk:three\n", "-K:", "-p", "0", "-H", "h=1", "-H", "h=2")
        self.assertEqual(self.got("--key", "k"), ["one", "three"])
        self.assertEqual(self.got("--header", "h=2", "--grep", "^t"), ["two", "three"])
        self.assertEqual(self.got("--header", "h=3"), [])
        self.assertEqual(self.got("--grep", "o(ne|)$", operand="t:0"), ["one", "two"])

    def test_fail_if_empty(self):
        self.assertEqual(self.got("--key", "nobody", "--fail-if-empty", status=3), [])
        self.assertEqual(self.got("-o", "end", "--fail-if-empty", status=3), [])
        self.assertEqual(self.got("-c", "1", "--fail-if-empty"), ["0.0"])
        self.assertEqual(self.got("-o", "end"), [])


if __name__ == "__main__":
    harness.main()
