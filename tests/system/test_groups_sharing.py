"""Sharing partitions out: at every moment at most one live member per partition, takeover within a second, nothing skipped, and
nothing twice but what a killed member had not committed.

All members append to one file (O_APPEND), each record as one line of 32 bytes with the member's name: the order of its lines is
the order in which records were delivered, whoever delivered them, with no clock in it. Two members that had a partition at the
same time would both have read it from where it stood, and the file would show it."""

import concurrent.futures
import fcntl
import os
import random
import re
import signal
import subprocess
import threading
import time

import groups
import harness

WIDTH = 32  # divides a page: a write that is cut short by a kill ends between two lines
TAKEOVER = 1.0 if not harness.IS_SANITIZED else 3.0


class Violation(Exception):
    pass


def check_deliveries(lines, ends, killed, initial=None):
    """The outside checker. `lines`: (member, partition, offset) in the order of delivery. `killed`: member -> partition -> where
    the group stood at the latest before the member was killed. `ends`: how many records each partition has.

    A member begins where the one before it ended; only behind a killed one it may begin earlier, but not before the last commit.
    Returns the number of records that came twice."""
    last = {}     # partition -> member, next offset
    repeated = 0
    for number, (member, partition, offset) in enumerate(lines):
        before, expected = last.get(partition, (None, (initial or {}).get(partition, 0)))
        where = "line %d: %s delivers %d:%d" % (number, member, partition, offset)
        if offset > expected:
            raise Violation("%s, but %d is next: records were skipped" % (where, expected))
        if offset < expected:
            if before == member:
                raise Violation("%s, and had delivered up to %d itself" % (where, expected - 1))
            if before not in killed:
                raise Violation("%s, but %s, which was not killed, had delivered up to %d" % (where, before, expected - 1))
            if offset < killed[before].get(partition, 0):
                raise Violation("%s, but %d was committed before %s was killed" % (where, killed[before][partition], before))
            repeated += expected - offset
        last[partition] = (member, offset + 1)
    highest = {}
    for _, partition, offset in lines:
        highest[partition] = max(highest.get(partition, 0), offset + 1)
    for partition, end in ends.items():
        if highest.get(partition, 0) != end:
            raise Violation("partition %d was delivered up to %d of %d" % (partition, highest.get(partition, 0), end))
    return repeated


class Shared:
    """A topic, the members of a group that read it, and the file with what they delivered."""

    def __init__(self, test, topic, partitions, options=("--commit-interval", "50ms"), env=None):
        self.test, self.topic, self.partitions, self.options, self.env = test, topic, partitions, options, env
        self.group = "group-of-" + topic
        self.file = test.path("delivered-" + topic)
        self.members = {}
        self.killed = {}
        self.made = 0
        self.produced = [0] * partitions
        test.create(topic, "-p", str(partitions))
        self.producer = test.start("produce", topic, "-J", "--keep-partition", "--linger", "0", "--sync", "none", "-q")
        self.out = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def produce(self, counts):
        """So many more records for each partition; stored when they are read."""
        text = b""
        for p, count in enumerate(counts):
            for n in range(self.produced[p], self.produced[p] + count):
                text += b'{"value":"%s","partition":%d}\n' % (b"%02d %08d" % (p, n) + b"." * (WIDTH - 17), p)
            self.produced[p] += count
        while text:
            text = text[os.write(self.producer.stdin.fileno(), text):]

    def join(self, *args):
        name = "m%03d" % self.made
        self.made += 1
        self.members[name] = self.test.start("consume", self.topic, "-g", self.group, "-F", "-f", name + " %s\\n", *self.options, *args,
                                             stdout=self.out, env=self.env)
        return name

    def positions(self):
        found = [self.test.position(p, self.topic, self.group) for p in range(self.partitions)]
        return {p: n for p, n in enumerate(found) if n is not None}

    def kill(self, name):
        self.killed[name] = self.positions()
        self.members[name].kill()
        when = time.monotonic()
        self.members.pop(name).wait()
        return when

    def leave(self, name, number=signal.SIGTERM):
        process = self.members.pop(name)
        process.send_signal(number)
        result = harness.finish(process)
        # One that was still waiting to join may say that it was interrupted.
        if result.status != 128 + number or (result.err and not result.text.endswith(": interrupted\n")):
            raise Violation("%s left with status %d: %s" % (name, result.status, result.text))

    def owners(self):
        """Member's name of each partition; None where nobody holds the claim."""
        names = {process.pid: name for name, process in self.members.items()}
        return [names.get(self.test.holder(p, self.topic, self.group)) for p in range(self.partitions)]

    def counts(self):
        owners = self.owners()
        return sorted(owners.count(name) for name in self.members) if None not in owners else None

    def wait_for(self, condition, what, deadline=None):
        def done():
            for name, process in self.members.items():
                if process.poll() is not None:
                    raise Violation("%s ended: %s" % (name, process.stderr.read().decode()))
            return condition()

        harness.wait_until(done, what, deadline)

    def wait_for_counts(self, *counts, deadline=None):
        self.wait_for(lambda: self.counts() == sorted(counts), "partitions to be shared %s" % (counts,), deadline)

    def delivered(self):
        with open(self.file, "rb") as f:
            data = f.read()
        lines = []
        for at in range(0, len(data) - WIDTH + 1, WIDTH):
            member, partition, rest = data[at:at + WIDTH].split(b" ")
            assert data[at + WIDTH - 1:at + WIDTH] == b"\n", data[at:at + WIDTH]
            lines.append((member.decode(), int(partition), int(rest[:8])))
        return lines

    def reached(self):
        reached = [0] * self.partitions
        for _, partition, offset in self.delivered():
            reached[partition] = max(reached[partition], offset + 1)
        return reached

    def wait_for_delivery(self, partitions=None, deadline=None):
        """Until all that was produced (in these partitions) was delivered."""
        wanted = range(self.partitions) if partitions is None else partitions
        size = [0]

        def all_there():
            now = os.path.getsize(self.file)
            if now == size[0]:
                return False
            size[0] = now
            reached = self.reached()
            return all(reached[p] >= self.produced[p] for p in wanted)

        reached = self.reached()
        if not all(reached[p] >= self.produced[p] for p in wanted):
            self.wait_for(all_there, "delivery of %s" % self.produced, deadline)

    def finish(self):
        """Everybody leaves; returns how many records came twice."""
        self.wait_for_delivery()
        for name in list(self.members):
            self.leave(name)
        self.producer.stdin.close()
        if harness.finish(self.producer).status != 0:
            raise Violation("the producer failed")
        self.producer = None
        os.close(self.out)
        repeated = check_deliveries(self.delivered(), dict(enumerate(self.produced)), self.killed)
        positions = self.positions()
        for p, end in enumerate(self.produced):
            if positions.get(p, 0) != end:
                raise Violation("partition %d: %d were delivered and all left in order, but the position is %s" % (p, end, positions.get(p)))
        if any(self.test.holders(self.partitions, self.topic, self.group)):
            raise Violation("a claim is held though nobody is there")
        return repeated


class Checker(harness.Test):
    """The outside checker itself can fail."""

    def violates(self, lines, words, killed=None, ends=None):
        with self.assertRaisesRegex(Violation, words):
            check_deliveries(lines, ends or {0: 1 + max(line[2] for line in lines)}, killed or {})

    def test_the_checker(self):
        a = [("a", 0, n) for n in range(3)]
        self.assertEqual(check_deliveries(a, {0: 3}, {}), 0)
        self.assertEqual(check_deliveries(a + [("b", 0, 3)], {0: 4}, {}), 0)
        self.assertEqual(check_deliveries(a + [("b", 0, 1), ("b", 0, 2)], {0: 3}, {"a": {0: 1}}), 2)
        self.violates(a + [("b", 0, 4)], "skipped")
        self.violates(a + [("b", 0, 2)], "not killed")
        self.violates(a + [("b", 0, 0)], "was committed", {"a": {0: 1}})
        self.violates(a + [("a", 0, 1)], "itself", {"a": {0: 1}})
        self.violates([("a", 0, 0), ("b", 0, 0), ("a", 0, 1), ("b", 0, 1)], "not killed")
        self.violates(a, "of 4", ends={0: 4})
        self.violates(a, "partition 1", ends={0: 3, 1: 1})


class FourPartitions(groups.GroupTest):
    def setUp(self):
        super().setUp()
        self.shared = Shared(self, "t", 4)

    def finish(self, most_repeated=0):
        repeated = self.shared.finish()
        self.assertLessEqual(repeated, most_repeated)

    def stayed(self, before, after):
        return sum(a == b for a, b in zip(before, after))

    def test_one_joins_after_the_other(self):
        shared = self.shared
        shared.join()
        shared.wait_for_counts(4)
        shared.produce([50] * 4)
        shared.wait_for_delivery()
        shared.join()
        shared.wait_for_counts(2, 2)
        shared.produce([50] * 4)
        shared.wait_for_delivery()
        before = shared.owners()
        shared.join()
        shared.wait_for_counts(2, 1, 1)
        self.assertEqual(self.stayed(before, shared.owners()), 3, "more partitions moved than had to")
        shared.produce([50] * 4)
        shared.wait_for_delivery()
        before = shared.owners()
        shared.join()
        shared.wait_for_counts(1, 1, 1, 1)
        self.assertEqual(self.stayed(before, shared.owners()), 3, "more partitions moved than had to")
        shared.join()  # in reserve
        shared.produce([50] * 4)
        shared.wait_for_delivery()
        shared.wait_for_counts(1, 1, 1, 1, 0)
        self.finish()

    def test_two_at_once(self):
        shared = self.shared
        shared.produce([500] * 4)
        shared.join()
        shared.join()
        shared.wait_for_counts(2, 2)
        shared.produce([50] * 4)
        self.finish()

    def three_join(self):
        """Three members on four partitions, of which the first 50 records were delivered."""
        for _ in range(3):
            self.shared.join()
        self.shared.wait_for_counts(2, 1, 1)
        self.shared.produce([50] * 4)
        self.shared.wait_for_delivery()

    def test_one_leaves(self):
        """What it had goes to the others at once, and what they had stays with them."""
        shared = self.shared
        self.three_join()
        before = shared.owners()
        leaver = max(shared.members, key=before.count)
        shared.produce([50] * 4)
        shared.leave(leaver)
        shared.wait_for_counts(2, 2, deadline=TAKEOVER)
        after = shared.owners()
        for p in range(4):
            if before[p] != leaver:
                self.assertEqual(after[p], before[p], "a partition moved that had no need to")
        shared.produce([50] * 4)
        self.finish()

    def test_one_is_killed(self):
        """Its partitions are taken over within a second of its death, and read on from the last commit."""
        shared = self.shared
        self.three_join()
        longest = 0.0
        for _ in range(harness.scaled(4)):
            before = shared.owners()
            victim = max(shared.members, key=before.count)
            rest = shared.produced[:]
            when = shared.kill(victim)
            shared.produce([20] * 4)
            shared.wait_for(lambda: None not in shared.owners(), "its partitions to be taken over")
            took = time.monotonic() - when
            longest = max(longest, took)
            for p in range(4):
                if before[p] != victim:
                    self.assertEqual(shared.owners()[p], before[p], "a partition moved that had no need to")
            shared.wait_for_delivery()
            self.assertEqual(rest, [n - 20 for n in shared.produced])
            shared.join()
            shared.wait_for_counts(2, 1, 1)
        harness.say("longest takeover %.0f ms" % (longest * 1000))
        self.assertLess(longest, TAKEOVER)
        self.finish(most_repeated=1 << 30)

    def test_all_are_killed_at_once(self):
        shared = self.shared
        shared.produce([2000] * 4)
        for _ in range(3):
            shared.join()
        shared.wait_for(lambda: os.path.getsize(shared.file) > 1000 * WIDTH, "deliveries")
        for name in list(shared.members):
            shared.kill(name)
        shared.join()
        shared.wait_for_counts(4, deadline=TAKEOVER)
        # Everything may have been delivered by those who died, and committed by nobody.
        ends = dict(enumerate(shared.produced))
        shared.wait_for(lambda: shared.positions() == ends, "the next member to deliver the rest again and commit")
        self.finish(most_repeated=1 << 30)

    def test_one_is_stopped(self):
        """It is not dead: its partitions wait for it and go to nobody, while the others go on, also through a rebalance."""
        shared = self.shared
        names = [shared.join(), shared.join()]
        shared.wait_for_counts(2, 2)
        shared.produce([50] * 4)
        shared.wait_for_delivery()
        owners = shared.owners()
        its = [p for p in range(4) if owners[p] == names[0]]
        others = [p for p in range(4) if owners[p] == names[1]]
        shared.members[names[0]].send_signal(signal.SIGSTOP)
        reached = shared.reached()
        third = shared.join()
        for _ in range(6):
            shared.produce([10] * 4)
            shared.wait_for_delivery(others)
            time.sleep(0.3)  # longer than the members take to look for dead ones
        for p in its:
            self.assertEqual(shared.owners()[p], names[0])
            self.assertEqual(shared.reached()[p], reached[p], "somebody reads a partition of a member that lives")
        shared.members[names[0]].send_signal(signal.SIGCONT)
        shared.wait_for_delivery()
        shared.wait_for_counts(2, 1, 1)
        self.assertIn(third, shared.owners())
        self.finish()

    def stop_with_lock(self):
        """One that joins, stopped while it has group.lock: stopped as soon as its member file is there, again and again."""
        shared = self.shared
        members, lock = (self.group_path(name, group=shared.group) for name in ("members", "group.lock"))
        for attempt in range(1000):
            name = shared.join()
            process = shared.members[name]
            part = "-%d-" % process.pid
            shared.wait_for(lambda: any(part in file for file in os.listdir(members)), "it to join")
            process.send_signal(signal.SIGSTOP)
            harness.wait_until(lambda: groups.state_of(process.pid) == "T", "it to stop")
            if groups.claim_holder(lock) == process.pid:
                return name, attempt + 1
            process.send_signal(signal.SIGCONT)
            shared.leave(name)
        self.fail("no member was stopped while it had group.lock")

    def test_one_is_stopped_with_the_lock_of_the_group(self):
        """Others join beside it, and take a killed one's partitions over, as if it were not there; then it finds its place."""
        shared = self.shared
        self.three_join()
        longest, attempts = 0.0, 0
        for _ in range(harness.scaled(3)):
            stopped, tried = self.stop_with_lock()
            attempts += tried
            owners = shared.owners()
            victim = max((name for name in shared.members if name != stopped), key=owners.count)
            when = shared.kill(victim)
            shared.wait_for(lambda: None not in shared.owners(), "its partitions to be taken over")
            longest = max(longest, time.monotonic() - when)
            self.assertNotIn(stopped, shared.owners())
            fourth = shared.join()
            shared.wait_for(lambda: fourth in shared.owners(), "another one to join", TAKEOVER)
            shared.produce([20] * 4)
            shared.wait_for_delivery()
            shared.members[stopped].send_signal(signal.SIGCONT)
            shared.wait_for_counts(1, 1, 1, 1)
            shared.leave(stopped)
            shared.wait_for_counts(2, 1, 1)
        harness.say("longest takeover %.0f ms; %d attempts" % (longest * 1000, attempts))
        self.assertLess(longest, TAKEOVER)
        self.finish(most_repeated=1 << 30)
        self.assertEqual([name for name in os.listdir(self.group_path(group=shared.group)) if name.endswith(".tmp")], [])
        self.assertEqual(os.listdir(self.group_path("members", group=shared.group)), [])

    def test_a_stopped_member_is_killed(self):
        shared = self.shared
        names = [shared.join(), shared.join()]
        shared.wait_for_counts(2, 2)
        shared.members[names[0]].send_signal(signal.SIGSTOP)
        shared.produce([50] * 4)
        shared.kill(names[0])
        shared.wait_for_counts(4, deadline=TAKEOVER)
        self.finish(most_repeated=1 << 30)

    def kill_beside_a_stopped_one(self):
        """Three members, one is stopped, and of the others the one with most partitions is killed, so that the stopped one gets some
        of them. Returns the stopped one, its partition, and the other that is left."""
        shared = self.shared
        self.three_join()
        owners = shared.owners()
        victim = max(shared.members, key=owners.count)
        stopped, left = [name for name in sorted(shared.members) if name != victim]
        shared.members[stopped].send_signal(signal.SIGSTOP)
        when = shared.kill(victim)
        shared.produce([20] * 4)
        shared.wait_for(lambda: shared.owners().count(left) == 3, "the dead one's partitions to be taken over", 30)
        took = time.monotonic() - when
        harness.say("takeover beside a stopped member %.0f ms" % (took * 1000))
        self.assertLess(took, TAKEOVER)
        return stopped, owners.index(stopped), left

    def test_one_is_killed_while_another_is_stopped(self):
        """Who is stopped claims nothing, so its share of what the dead one had goes to who does. It keeps what it has, and gets its
        share again when it goes on."""
        shared = self.shared
        stopped, its, left = self.kill_beside_a_stopped_one()
        shared.wait_for_delivery([p for p in range(4) if p != its])
        self.assertEqual(shared.owners()[its], stopped)
        self.assertEqual(shared.reached()[its], 50)
        third = shared.join()  # nothing new for the one that is stopped
        shared.wait_for_counts(2, 1, 1, deadline=TAKEOVER)
        self.assertEqual(shared.owners()[its], stopped)
        shared.leave(third)
        shared.wait_for_counts(3, 1, deadline=0.3 if not harness.IS_SANITIZED else None)
        shared.members[stopped].send_signal(signal.SIGCONT)
        shared.wait_for_counts(2, 2)
        self.assertEqual(shared.owners()[its], stopped, "a partition moved that had no need to")
        self.finish(most_repeated=100)

    def test_who_was_stopped_leaves_what_others_took(self):
        """Asked to end when it goes on, before it has looked at anything."""
        shared = self.shared
        stopped, its, left = self.kill_beside_a_stopped_one()
        shared.members[stopped].send_signal(signal.SIGTERM)
        shared.members[stopped].send_signal(signal.SIGCONT)
        self.assertEqual(harness.finish(shared.members.pop(stopped)).status, 143)
        shared.wait_for_counts(4, deadline=TAKEOVER)
        self.finish(most_repeated=100)

    def test_the_one_that_took_it_dies_too(self):
        shared = self.shared
        stopped, its, left = self.kill_beside_a_stopped_one()
        third = shared.join()
        shared.wait_for_counts(2, 1, 1)
        when = shared.kill(left)
        shared.wait_for(lambda: shared.owners().count(third) == 3, "the dead one's partitions to be taken over", 30)
        self.assertLess(time.monotonic() - when, TAKEOVER)
        shared.members[stopped].send_signal(signal.SIGCONT)
        shared.wait_for_counts(2, 2)
        self.finish(most_repeated=200)

    def test_hand_over_commits_what_was_delivered(self):
        """Also when the interval is far from over."""
        shared = self.shared
        shared.options = ("--commit-interval", "1h")
        shared.join()
        shared.produce([100] * 4)
        shared.wait_for_delivery()
        self.assertEqual(sum(shared.positions().values()), 0)
        shared.join()
        shared.wait_for_counts(2, 2)
        moved = [p for p in range(4) if shared.owners()[p] != "m000"]
        self.assertEqual({p: n for p, n in shared.positions().items() if n}, {p: 100 for p in moved})
        shared.produce([100] * 4)
        self.finish()

    def test_describe_group_tells_who_has_what(self):
        shared = self.shared
        shared.join()
        shared.join()
        shared.wait_for_counts(2, 2)
        shared.produce([10] * 4)
        shared.wait_for_delivery()
        shared.wait_for(lambda: sum(shared.positions().values()) == 40, "commits")
        rows = self.described(shared.group)
        pids = [self.holder(p, "t", shared.group) for p in range(4)]
        self.assertEqual([rows["t", p]["pid"] for p in range(4)], pids)
        self.assertEqual({rows["t", p]["host"] for p in range(4)}, {os.uname().nodename})
        self.assertEqual([(rows["t", p]["committed"], rows["t", p]["lag"]) for p in range(4)], [(10, 0)] * 4)
        self.assertEqual(len({rows["t", p]["member"] for p in range(4)}), 2)
        self.finish()
        rows = self.described(shared.group)
        self.assertEqual([rows["t", p]["pid"] for p in range(4)], [None] * 4)

    def test_assignors(self):
        for assignor in ("range", "roundrobin", "sticky"):
            with self.subTest(assignor=assignor):
                shared = Shared(self, assignor, 4, ("--commit-interval", "50ms", "--assignor", assignor))
                shared.join()
                shared.join()
                shared.wait_for_counts(2, 2)
                shared.produce([10] * 4)
                shared.join()
                shared.wait_for_counts(2, 1, 1)
                shared.produce([10] * 4)
                self.assertEqual(shared.finish(), 0)
        self.finish()


class OtherWays(groups.GroupTest):
    def test_topics_differ(self):
        """A member gets partitions only of what it asked for, and those that only one asked for are its."""
        self.create("t", "-p", "2")
        self.create("u", "-p", "4")
        one = self.member("-F", topics=["t", "u"], stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: self.holders(2) + self.holders(4, "u") == [one.pid] * 6, "the first to have all", 30)
        two = self.member("-F", topics=["u"], stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: self.holders(4, "u").count(two.pid) == 3, "each to have three", 30)
        self.assertEqual(self.holders(2), [one.pid] * 2)
        self.stop(one)
        harness.wait_until(lambda: self.holders(4, "u") == [two.pid] * 4, "the other to have all it asked for", TAKEOVER)
        self.assertEqual(self.holders(2), [0, 0])
        self.stop(two)

    def test_to_the_end_together(self):
        """Without -F members share the work and end; each record once, none left."""
        self.create("t", "-p", "4")
        for p in range(4):
            self.fill(3000, p)
        for round in range(harness.scaled(3)):
            files = []
            members = []
            for n in range(3):
                files.append("out-%d-%d" % (round, n))
                with open(self.path(files[-1]), "wb") as out:
                    members.append(self.member("-f", "%p %o\\n", group="g%d" % round, stdout=out))
            for member in members:
                self.assertEqual(harness.finish(member).status, 0)
            lines = [line for name in files for line in self.content(name).splitlines()]
            self.assertEqual(len(lines), 12000)
            self.assertEqual(len(set(lines)), 12000)
            self.assertEqual([self.position(p, group="g%d" % round) for p in range(4)], [3000] * 4)

    def test_one_too_many_is_told_who_has_what(self):
        """Without -F it ends at once, and says why; with it, and for one that got a partition, there is nothing to say."""
        self.create("one", "-p", "1")
        self.create("two", "-p", "2")
        self.produce(b"x\n", topic="one")
        first = self.start("consume", "one", "-g", "g", "-F")
        self.assertEqual(harness.Lines(first.stdout).next(), b"x")
        late = self.run_program("consume", "one", "-g", "g")
        member, pid = [(row["member"], row["pid"]) for row in self.run_program("describe-group", "g", "--json").json()][0]
        self.assertEqual(pid, first.pid)
        self.assertEqual(len(late.notices), 1, late.text)
        self.assertRegex(late.text, r'^partlog: group "g": no partition is left for this member; process %d on host \S+ \(member %s\) '
                                    r'has one:0\n$' % (pid, re.escape(member)))
        self.assertEqual(self.run_program("consume", "one", "-g", "g", "--fail-if-empty", "-q", status=3).err, b"")
        self.assertEqual(self.run_program("consume", "two", "-g", "g").err, b"")
        self.assertEqual(self.run_program("consume", "one", "-g", "g", "-F", "--idle-timeout", "300ms").err, b"")
        first.terminate()
        harness.finish(first)
        self.assertEqual(self.run_program("consume", "one", "-g", "g").err, b"")

    def test_a_full_pipe_holds_its_partitions_back(self):
        """A partition is handed over when the reader has taken what was written: not before, or records would come twice."""
        self.create("t", "-p", "2")
        for p in range(2):
            self.fill(7000, p, width=100)
        one = self.member("-F", "-f", "%p %o %s\\n")
        self.wait_for_full_pipe(one)
        with open(self.path("two"), "wb") as out:
            two = self.member("-F", "-f", "%p %o %s\\n", stdout=out)
        got = []
        reader = threading.Thread(target=lambda: harness.Lines(one.stdout).rest(got))
        reader.start()
        harness.wait_until(lambda: self.moved(2) == 14_000 or None not in (one.poll(), two.poll()), "all to be delivered")
        one.terminate()
        reader.join(harness.DEADLINE)
        one.wait()
        self.stop(two)
        places = [tuple(map(int, line.split()[:2])) for line in got + self.content("two").splitlines()]
        self.assertEqual(sorted(places), [(p, o) for p in range(2) for o in range(7000)])

    def test_exec_members_share(self):
        """The same with children that append to one file; a rebalance waits for the child that has the batch."""
        self.create("t", "-p", "4")
        for p in range(4):
            self.fill(400, p)
        script = "exec cat >> all"
        members = [self.member("-F", "-f", "%p %o\\n", "--exec", script, "--exec-batch", "7", cwd=self.directory) for _ in range(2)]
        harness.wait_until(lambda: self.content("all").count(b"\n") > 100, "deliveries")
        members.append(self.member("-F", "-f", "%p %o\\n", "--exec", script, "--exec-batch", "7", cwd=self.directory))
        harness.wait_until(lambda: self.content("all").count(b"\n") > 400, "more deliveries")
        self.stop(members[0])
        harness.wait_until(lambda: self.moved(4) == 1600, "all to be committed")
        for member in members[1:]:
            self.stop(member)
        last = [0] * 4
        for line in self.content("all").splitlines():
            p, o = map(int, line.split())
            self.assertEqual(o, last[p])
            last[p] += 1
        self.assertEqual(last, [400] * 4)

    def test_all_leave_at_the_same_time(self):
        """Each finds group.lock in the hands of another, and waits for its turn to go."""
        self.create("t", "-p", "4")
        for number in (signal.SIGTERM, signal.SIGINT):
            for _ in range(harness.scaled(3)):
                members = [self.member("-F", stdout=subprocess.DEVNULL) for _ in range(4)]
                harness.wait_until(lambda: sorted(self.holders(4)) == sorted(m.pid for m in members), "each to have one", 30)
                for member in members:
                    member.send_signal(number)
                for member in members:
                    self.assertEqual(harness.finish(member).status, 128 + number)
                self.assertEqual(os.listdir(self.group_path("members")), [])
                with open(self.group_path("group.properties")) as f:
                    self.assertNotIn("member.", f.read())

    def test_who_joins_says_for_whom_it_waits(self):
        """A command that changes the group has it locked for long."""
        self.create("t")
        self.fill(1)
        self.run_program("reset-offset", "-g", "g", "t", "--to-earliest", "--execute")
        path = self.group_path("group.lock")
        with open(path, "r+") as f:
            fcntl.lockf(f, fcntl.LOCK_EX)
            member = self.member("-f", "%o\\n")
            notice = "partlog: group \"g\": %s: lock held by process %d; waiting for it\n" % (path, os.getpid())
            self.assertEqual(member.stderr.readline().decode(), notice)
        result = harness.finish(member)
        self.assertEqual((result.status, result.out, result.err), (0, b"0\n", b""))

    def test_a_commit_at_the_end_waits_for_its_turn(self):
        """Somebody has the position locked when the member is asked to end, and lets go soon."""
        self.create("t")
        self.fill(10)
        member = self.member("-F", "--commit-interval", "1h", "-f", "%o\\n")
        lines = harness.Lines(member.stdout)
        self.assertEqual([lines.next() for _ in range(10)][-1], b"9")
        with open(self.offset_path() + ".lock", "r+") as f:
            fcntl.lockf(f, fcntl.LOCK_EX)
            member.terminate()
            time.sleep(0.2)
        result = harness.finish(member)
        self.assertEqual((result.status, result.err, self.position()), (143, b"", 10))

    def test_who_is_at_work_claims_what_becomes_its_own(self):
        """A member whose command takes long, or whose reader does, is none that does not respond: it gets its share."""
        ways = {"command": ["--exec", "touch begun; " + groups.WAIT_FOR_GO], "reader": []}
        for way, args in ways.items():
            with self.subTest(way=way):
                self.create(way, "-p", "3")
                holders = lambda: self.holders(3, way)
                busy = self.member("-F", *args, topics=[way], cwd=self.directory)
                others = [self.member("-F", topics=[way], stdout=subprocess.DEVNULL) for _ in range(2)]
                pids = sorted(member.pid for member in [busy, *others])
                harness.wait_until(lambda: sorted(holders()) == pids, "each to have one", 30)
                self.fill(14_000, holders().index(busy.pid), way, width=100)
                if args:
                    self.wait_for_file("begun", busy)
                else:
                    self.wait_for_full_pipe(busy)
                for other in others:
                    other.kill()
                    other.wait()
                harness.wait_until(lambda: holders() == [busy.pid] * 3, "the busy one to have all", TAKEOVER + 0.5)
                busy.kill()
                busy.wait()

    def test_groups_do_not_share(self):
        self.create("t", "-p", "2")
        self.fill(10)
        first = self.member("-F", group="g", stdout=subprocess.DEVNULL)
        second = self.member("-F", group="h", stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: self.holders(2, group="g") == [first.pid] * 2 and self.holders(2, group="h") == [second.pid] * 2, "both", 30)
        self.stop(first)
        self.stop(second)

    def test_nothing_is_left_of_members(self):
        self.create("t", "-p", "2")
        self.fill(10)
        for _ in range(3):
            self.offsets("t")
        killed = self.member("-F", stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: self.holders(2) == [killed.pid] * 2, "the member to have all", 30)
        killed.kill()
        killed.wait()
        self.offsets("t")
        self.assertEqual(os.listdir(self.group_path("members")), [])


class RandomSchedules(groups.GroupTest):
    PARTITIONS = 8
    SCHEDULES = 50

    def setUp(self):
        super().setUp()
        self.takeovers = []  # how long each took

    def take_over(self, shared, victim):
        """Whoever else is stopped, in the midst of whatever: what it had is in other hands soon."""
        its = [p for p, owner in enumerate(shared.owners()) if owner == victim]
        when = shared.kill(victim)
        shared.wait_for(lambda: all(self.holder(p, shared.topic, shared.group) for p in its), "takeover of %s" % its, 30)
        self.takeovers.append(time.monotonic() - when)

    def schedule(self, number, seed, env=None):
        """Joins, leaves, kills, stops at random while records come in; at the end somebody is left who gets the rest."""
        chance = random.Random(seed)
        shared = Shared(self, "s%03d" % number, self.PARTITIONS, ("--commit-interval", "%dms" % chance.choice([0, 5, 20, 100, 1000])), env)
        least, most = 4, 8
        stopped = set()
        feed = lambda: shared.produce([chance.choice([0, 0, 1, 5, 30, 200]) for _ in range(self.PARTITIONS)])
        feed()
        for _ in range(chance.randint(least, most)):
            shared.join(*chance.choice([[], ["-u"]]))
        for _ in range(chance.randint(6, 12)):
            feed()
            running = [name for name in shared.members if name not in stopped]
            actions = ["pause"]
            if len(shared.members) < most:
                actions += ["join"] * 2
            if len(running) > 1 and len(shared.members) > least:
                actions += ["leave"]
            if len(running) > 1:
                actions += ["kill"] * 2 + ["stop"] * 2
            if stopped:
                actions += ["continue"] * 2 + ["kill stopped"]
            action = chance.choice(actions)
            if action == "join":
                shared.join(*chance.choice([[], ["-u"]]))
            elif action == "leave":
                shared.leave(chance.choice(running), chance.choice([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
            elif action == "kill":
                self.take_over(shared, chance.choice(running))
            elif action == "stop":
                name = chance.choice(running)
                stopped.add(name)
                shared.members[name].send_signal(signal.SIGSTOP)
            elif action == "continue":
                name = chance.choice(sorted(stopped))
                stopped.remove(name)
                shared.members[name].send_signal(signal.SIGCONT)
            elif action == "kill stopped":
                name = chance.choice(sorted(stopped))
                stopped.remove(name)
                shared.kill(name)
            while len(shared.members) < least:
                shared.join()
            time.sleep(chance.choice([0, 0.002, 0.01, 0.03, 0.08]))  # varies the schedule
        for name in stopped:
            shared.members[name].send_signal(signal.SIGCONT)
        feed()
        return shared.finish(), len(shared.killed), sum(shared.produced), shared.made

    def test_a_planted_bug_is_noticed(self):
        """With locks that are granted to everybody at once the same checks fail."""
        module = os.environ.get("PARTLOG_TEST_NO_LOCKS", "")
        if not os.path.exists(module):
            self.left_out("PARTLOG_TEST_NO_LOCKS does not name the module that plants the bug")
        self.need_plain_build()
        self.expect_sound = False
        chance = harness.new_random("planted")
        self.environment["PARTLOG_FILESYSTEM"] = "local"
        for n in range(20):
            try:
                self.schedule(n, chance.randrange(1 << 32), {"LD_PRELOAD": module})
            except (Violation, AssertionError) as e:
                harness.say("noticed at attempt %d: %s" % (n + 1, str(e)[:300]))
                return
        self.fail("nobody noticed that there are no locks")

    def test_random_schedules(self):
        chance = harness.new_random("schedules")
        seeds = [chance.randrange(1 << 32) for _ in range(harness.scaled(self.SCHEDULES))]
        failures = []
        totals = [0] * 4

        def run(number):
            try:
                return self.schedule(number, seeds[number])
            except (Violation, AssertionError, OSError) as e:
                failures.append("schedule %d (seed %d): %r" % (number, seeds[number], e))
                return 0, 0, 0, 0

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for result in pool.map(run, range(len(seeds))):
                totals = [a + b for a, b in zip(totals, result)]
        harness.say("%d schedules: %d members, %d killed, %d records, %d of them delivered twice" %
                    (len(seeds), totals[3], totals[1], totals[2], totals[0]))
        self.assertEqual(failures, [])
        harness.say("takeovers: the longest of %d took %.0f ms" % (len(self.takeovers), max(self.takeovers) * 1000))
        self.assertLess(max(self.takeovers), TAKEOVER)
        self.assertGreaterEqual(totals[1], len(seeds), "too few members were killed to show anything")
        self.assertGreater(totals[0], 0, "nothing came twice: no kill hit a member at work, so the schedules show little")


if __name__ == "__main__":
    harness.main()
