"""Many writers of one partition: killed, stopped and continued at random, while segments roll all the time."""

import os
import signal
import threading
import time

import harness

WRITERS = 8
RECORDS = 5000


class Writer:
    """A producer fed from a thread; its report is the outside record of what was acknowledged."""

    def __init__(self, test, name, topic, options, count=RECORDS, data=None):
        self.name = name
        self.process = test.start("produce", topic, "--report", *options)
        self.feeder = harness.Feeder(self.process, data or (lambda n: b"%s:%d\n" % (name.encode(), n)), count)
        self.acknowledged = 0
        self.longest = 0.0  # between two lines of the report
        self.marks = {}     # acknowledged count -> what to do then
        self.done = threading.Event()
        self.reader = threading.Thread(target=self._read, daemon=True)

    def start(self):
        self.feeder.start()
        self.reader.start()

    def _read(self):
        lines = harness.Lines(self.process.stdout)
        last = time.monotonic()
        while (line := lines.next(harness.DEADLINE)) is not None:
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now
            fields = line.split(b"\t")
            assert len(fields) == 6, line
            self.acknowledged = int(fields[4])
            for mark in [m for m in self.marks if m <= self.acknowledged]:
                self.marks.pop(mark)(self)
        self.done.set()

    def kill(self, _=None):
        self.process.kill()

    def wait(self):
        assert self.done.wait(harness.DEADLINE), "writer %s does not end" % self.name
        self.feeder.join(harness.DEADLINE)
        return harness.result_of(self.process.wait(harness.DEADLINE), b"", self.process.stderr.read())


class ManyWriters(harness.Test):
    def setUp(self):
        super().setUp()
        self.expect_indexes = False

    def round(self, chance, number, env):
        topic = "round-%d" % number
        self.environment.update(env)
        self.create(topic, segment_bytes=1500, index_interval_bytes=300)
        writers = []
        for n in range(WRITERS):
            options = ["--sync", chance.choice(["none", "none", "end", "batch"]), "--batch-size", str(chance.randrange(300, 1200))]
            if chance.random() < 0.2:
                options += ["-z", chance.choice(["gzip"])]
            writers.append(Writer(self, "%d.%d" % (number, n), topic, options))
        victims = chance.sample(writers, 5)
        stopped = victims.pop()
        for w in victims:
            w.marks[chance.randrange(1, RECORDS * 3 // 4)] = Writer.kill
        halted = threading.Event()

        def stop(writer):
            writer.process.send_signal(signal.SIGSTOP)
            halted.set()

        stopped.marks[chance.randrange(1, RECORDS * 3 // 4)] = stop
        for w in writers:
            w.start()
        # It may have been stopped with the lock in its hand; the others go on when it goes on. If they can, they go on without it.
        halted.wait(harness.DEADLINE)
        others = [w for w in writers if w is not stopped]
        until = time.monotonic() + 0.3
        before = sum(w.acknowledged for w in others)
        while time.monotonic() < until and not all(w.done.is_set() for w in others):
            others[0].done.wait(0.02)
        progress = sum(w.acknowledged for w in others) - before
        stopped.process.send_signal(signal.SIGCONT)
        results = {w.name: w.wait() for w in writers}

        killed = 0
        for w in writers:
            result = results[w.name]
            if w in victims:
                self.assertIn(result.status, (0, 137), result.text)
                killed += result.status == 137
            else:
                self.assertEqual(result.status, 0, result.text)
                self.assertEqual(w.acknowledged, RECORDS)
                self.assertEqual(self.stored_count(result), RECORDS)
        self.run_program("produce", topic, input=b"end:0\n")  # cuts what a killed writer left half written
        per_writer = {w.name: 0 for w in writers}
        records = self.records(topic, indexes=False)
        for r in records[:-1]:
            name, sequence = r.value.decode("ascii").split(":")
            self.assertEqual(int(sequence), per_writer[name], "records of %s out of order or missing" % name)
            per_writer[name] += 1
        self.assertEqual(records[-1].value, b"end:0")
        for w in writers:
            self.assertGreaterEqual(per_writer[w.name], w.acknowledged, "acknowledged records of %s are missing" % w.name)
        rolled = len(harness.segments.segment_names(self.partition(topic)))
        self.assertGreater(rolled, 200)
        self.assertEqual(self.consume(topic=topic).out, b"".join(r.value + b"\n" for r in records))
        longest = max((w.longest for w in others), default=0)
        harness.say("round %d: %d records, %d segments, %d killed, %d acknowledged beside the stopped one; longest gap between two "
                    "acknowledgements, syncs and the stop included: %.0f ms" % (number, len(records), rolled, killed, progress, longest * 1000))
        return killed

    def test_killed_and_stopped(self):
        chance = harness.new_random("writers")
        rounds = harness.scaled(3)
        killed = sum(self.round(chance, n, {"PARTLOG_FILESYSTEM": "network" if n % 3 == 2 else "local"}) for n in range(rounds))
        self.assertGreaterEqual(killed, rounds, "too few writers were killed in the middle to show anything")

    def test_a_planted_bug_is_noticed(self):
        """With locks that are granted to everybody at once the same checks fail."""
        module = os.environ.get("PARTLOG_TEST_NO_LOCKS", "")
        if not os.path.exists(module):
            self.left_out("PARTLOG_TEST_NO_LOCKS does not name the module that plants the bug")
        self.need_plain_build()
        self.expect_sound = False
        self.environment.update(LD_PRELOAD=module, PARTLOG_FILESYSTEM="local")
        for n in range(20):
            topic = "attempt-%d" % n
            self.create(topic)
            writers = [Writer(self, "w%d" % i, topic, ["--batch-size", "200", "--sync", "none"], 2000) for i in range(4)]
            for w in writers:
                w.start()
            statuses = [w.wait().status for w in writers]
            try:
                values = set(self.values(topic, indexes=False))
            except harness.segments.Damage as damage:
                harness.say("noticed at attempt %d: %s" % (n + 1, damage))
                return
            missing = sum(b"%s:%d" % (w.name.encode(), i) not in values for w in writers for i in range(w.acknowledged))
            if missing or any(statuses):
                harness.say("noticed at attempt %d: %d acknowledged records missing, statuses %s" % (n + 1, missing, statuses))
                return
        self.fail("nobody noticed that there are no locks")

    def test_resume_from_the_report(self):
        """After each kill, --skip with the last line's count goes on: all there, in order but for what is repeated."""
        chance = harness.new_random("resume")
        self.create("t", "-p", "3", segment_bytes=8192)
        total = 20000
        data = lambda n: b"k%d:%d\n" % (n % 7, n)
        done = runs = 0
        while done < total:
            runs += 1
            skipped = done
            w = Writer(self, "resume", "t", ["-K:", "--skip", str(done), "--batch-size", "500", "--sync", "none"], total, data)
            w.marks[skipped + chance.randrange(1000, 6000)] = Writer.kill
            w.start()
            status = w.wait().status
            self.assertIn(status, (0, 137))
            self.assertGreater(w.acknowledged, skipped)
            done = w.acknowledged
            if status == 0:
                self.assertEqual(done, total)
        self.produce(b"end:end\n", "-K:")
        seen = set()
        for p in range(3):
            for r in self.records("t", p, indexes=False):
                if r.value != b"end":
                    self.assertEqual(r.key, b"k%d" % (int(r.value) % 7))
                    seen.add(int(r.value))
        self.assertEqual(seen, set(range(total)))
        harness.say("%d runs" % runs)
        self.assertGreater(runs, 2)

    def test_waiting_time(self):
        """One record at a time beside seven writers at full speed: how long it takes until it is acknowledged."""
        self.create("t", segment_bytes=64 << 10)
        others = [self.start("produce", "t", "--sync", "none", "--batch-size", "4096") for _ in range(7)]
        feeders = [harness.Feeder(p, lambda n: b"%08d" % n + b"." * 91 + b"\n") for p in others]
        for f in feeders:
            f.start()
        one = self.start("produce", "t", "--sync", "none", "--linger", "0", "--report")
        report = harness.Lines(one.stdout)
        took = []
        for n in range(harness.scaled(100)):
            began = time.monotonic()
            os.write(one.stdin.fileno(), b"one %d\n" % n)
            report.next()
            took.append(time.monotonic() - began)
        for f in feeders:
            f.stopped.set()
        for f in feeders:
            f.join()
        self.assertEqual(harness.finish(one).status, 0)
        for p in others:
            self.assertEqual(harness.finish(p).status, 0)
        mine = [v for v in self.consume("--grep", "^one ").lines]
        self.assertEqual(mine, [b"one %d" % n for n in range(len(took))])
        took.sort()
        harness.say("waited beside seven others: median %.1f ms, longest %.1f ms" % (took[len(took) // 2] * 1000, took[-1] * 1000))
        self.assertLess(took[-1], 1.0)

    def test_two_partitions_two_processes(self):
        """Each process appends to both partitions in turn: no false deadlock."""
        self.create("t", "-p", "2", segment_bytes=4096)
        writers = [Writer(self, "w%d" % n, "t", ["-K:", "--batch-size", "200", "--sync", "none"], 10000,
                          lambda i, n=n: b"%d:%d.%d\n" % (i, n, i)) for n in range(2)]
        for w in writers:
            w.start()
        for w in writers:
            self.assertEqual(w.wait().status, 0)
        got = [self.values("t", p) for p in (0, 1)]
        self.assertGreater(min(map(len, got)), 5000)
        for values in got:
            for n in (0, 1):
                mine = [int(v.split(b".")[1]) for v in values if v.startswith(b"%d." % n)]
                self.assertEqual(mine, sorted(mine))
        self.assertEqual(sorted(got[0] + got[1]), sorted(b"%d.%d" % (n, i) for n in (0, 1) for i in range(10000)))

    def test_readers_beside_writers_see_only_whole_records_in_order(self):
        """Consumers with and without -F while four processes write and one is killed over and over."""
        chance = harness.new_random("readers")
        self.create("t", segment_bytes=8192)
        follower = self.start("consume", "t", "-F", "-f", "%o %s\\n")
        followed = []
        reading = threading.Thread(target=harness.Lines(follower.stdout).rest, args=(followed,), daemon=True)
        reading.start()
        writers = [Writer(self, "w%d" % n, "t", ["--batch-size", "400", "--sync", "none"], 8000) for n in range(3)]
        for w in writers:
            w.start()
        kills = snapshots = 0
        while not all(w.done.is_set() for w in writers):
            victim = Writer(self, "victim%d" % kills, "t", ["--batch-size", "300", "--sync", "none"], 4000)
            victim.marks[chance.randrange(1, 3000)] = Writer.kill
            victim.start()
            result = self.consume("-f", "%o %s\\n")
            snapshots += 1
            self.assertEqual(result.err, b"")
            self.assertEqual([int(line.split()[0]) for line in result.lines], list(range(len(result.lines))))
            victim.wait()
            kills += 1
        self.produce(b"the end\n")
        end = self.end_offset()
        harness.wait_until(lambda: len(followed) >= end, "the follower to catch up")
        follower.terminate()
        reading.join(harness.DEADLINE)
        self.assertEqual(harness.finish(follower).status, 143)
        self.assertEqual(followed, [b"%d %s" % (r.offset, r.value) for r in self.records(indexes=False)])
        harness.say("%d kills, %d snapshots, %d records" % (kills, snapshots, end))


if __name__ == "__main__":
    harness.main()
