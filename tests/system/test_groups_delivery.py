"""Delivery to a group: the position never says more than was delivered, whoever dies; what a crash repeats; children of --exec."""

import concurrent.futures
import itertools
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time

import groups
import harness


class CrashStory(groups.GroupTest):
    """Twenty records, ten of them committed."""

    def setUp(self):
        super().setUp()
        self.create()
        self.fill(20)
        self.run_program("commit", "-g", "g", "t:0:10")
        self.assertEqual(self.position(), 10)
        self.second_half = b"".join(b"%d\n" % n for n in range(10, 20))

    def exec(self, script, *args, **how):
        return self.run_program("consume", "t", "-g", "g", "-f", "%o\\n", "--exec", script, *args, cwd=self.directory, **how)

    def start_exec(self, script, *args, **how):
        return self.member("-f", "%o\\n", "--exec", script, *args, cwd=self.directory, **how)

    def check_again(self):
        self.assertEqual(self.position(), 10)
        self.assertEqual(self.described()["t", 0]["committed"], 10)
        self.assertEqual(self.offsets("t"), {0: list(range(10, 20))})
        self.assertEqual(self.position(), 20)
        self.assertEqual(self.offsets("t"), {})

    def test_the_child_fails(self):
        result = self.exec("cat >> got; exit 3", "--retries", "0", status=1)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual(self.content("got"), self.second_half)
        self.check_again()

    def test_the_child_is_killed(self):
        self.exec("cat >> got; kill -9 $$", "--retries", "0", status=1)
        self.assertEqual(self.content("got"), self.second_half)
        self.check_again()

    def test_the_child_cannot_be_run(self):
        self.exec("./no-such-program 2>/dev/null", "--retries", "0", status=1)
        self.check_again()

    def test_the_consumer_is_killed(self):
        member = self.start_exec("cat > got; echo $$ > pid; touch started; " + groups.WAIT_FOR_GO)
        self.wait_for_file("started", member)
        self.assertEqual(self.position(), 10)
        member.kill()
        self.assertEqual(harness.finish(member).signal, signal.SIGKILL)
        child = int(self.content("pid"))
        harness.wait_until(lambda: groups.is_gone(child), "the child to die with its member", 10)
        self.assertEqual(self.content("got"), self.second_half)
        self.check_again()

    def test_what_the_child_started_dies_with_the_member_too(self):
        member = self.start_exec("cat > got; sh -c 'echo $$ > grandchild; touch started; %s; touch late' | cat" % groups.WAIT_FOR_GO)
        self.wait_for_file("started", member)
        member.kill()
        member.wait()
        grandchild = int(self.content("grandchild"))
        harness.wait_until(lambda: groups.is_gone(grandchild), "the child's children to die with its member", 10)
        self.assertFalse(os.path.exists(self.path("late")))
        self.check_again()

    def test_killed_by_its_own_child(self):
        self.exec("cat > got; kill -9 $PPID", status=137)
        self.assertEqual(self.content("got"), self.second_half)
        self.check_again()

    def test_commit_before_skips(self):
        """At most once: whichever dies, nothing comes again."""
        self.exec("cat >> got; exit 1", "--commit", "before", "--retries", "0", status=1)
        self.assertEqual(self.content("got"), self.second_half)
        self.assertEqual(self.position(), 20)
        self.assertEqual(self.offsets("t"), {})

    def test_commit_before_and_the_consumer_is_killed(self):
        self.exec("cat > got; kill -9 $PPID", "--commit", "before", "--exec-batch", "4", status=137)
        self.assertEqual(self.content("got").split(), [b"10", b"11", b"12", b"13"])
        self.assertGreaterEqual(self.position(), 14)
        first = self.position()
        self.assertEqual(self.offsets("t"), {0: list(range(first, 20))} if first < 20 else {})

    def test_commit_before_to_a_pipe(self):
        self.fill(5000, start=20, width=100)
        member = self.member("--commit", "before", "-f", "%o\\n")
        lines = harness.Lines(member.stdout)
        taken = [lines.next()]
        self.assertEqual(taken, [b"10"])
        member.kill()
        member.wait()
        taken = [int(line) for line in lines.rest(taken)]
        self.assertGreaterEqual(self.position(), taken[-1] + 1, "something was delivered before it was committed")

    def test_the_script_commits(self):
        commit = '"$PROGRAM" commit -q -g g "$PARTLOG_TOPIC:$PARTLOG_PARTITION:%s"'
        self.exec("cat >> got", "--commit", "none")
        self.assertEqual(self.position(), 10, "--commit none committed something")
        self.exec("cat > again; " + commit % "15" + "; exit 1", "--commit", "none", "--retries", "0", status=1)
        self.assertEqual(self.content("again"), self.second_half)
        self.assertEqual(self.position(), 15)
        self.exec("cat > rest; " + commit % "$((PARTLOG_LAST_OFFSET + 1))", "--commit", "none")
        self.assertEqual(self.content("rest").split(), [b"15", b"16", b"17", b"18", b"19"])
        self.assertEqual(self.position(), 20)

    def test_the_script_commits_what_it_processed(self):
        pipe = '"$PROGRAM" consume t -g g --commit none -f "%t:%p:%o\\n" | while read -r r; do ' \
               'echo "$r" >> got; "$PROGRAM" commit -q -g g --processed "$r" || exit; [ "$r" != t:0:13 ] || exit 0; done'
        self.run_program("-c", pipe, program=["sh"], cwd=self.directory)
        self.assertEqual(self.content("got").split(), [b"t:0:%d" % n for n in range(10, 14)])
        self.assertEqual(self.position(), 14)

    def test_commit_none_without_exec(self):
        self.assertEqual(self.offsets("t", "--commit", "none"), {0: list(range(10, 20))})
        self.assertEqual(self.offsets("t", "--commit", "none"), {0: list(range(10, 20))})
        self.assertEqual(self.position(), 10)


class Pipes(groups.GroupTest):
    """Many records of 100 bytes, so that bytes tell how many records were taken; more than the largest pipe holds."""

    COUNT = 14_000
    SIZE = 100

    def setUp(self):
        super().setUp()
        self.create()
        self.fill(self.COUNT, width=self.SIZE)
        self.numbers = itertools.count(1)

    def new_group(self):
        return "g%d" % next(self.numbers)

    def of(self, group):
        return self.position(group=group) or 0

    def bounds(self, taken, ends):
        """Between which positions a group may stand when so many bytes were taken; `ends` has offset and end of each record."""
        done = [offset + 1 for offset, end in ends if end <= taken]
        open_ = [offset for offset, end in ends if end > taken]
        return (done[-1] if done else 0, open_[0] if open_ else self.COUNT)

    def take_and_end(self, taken, end, args=(), ends=None):
        """The reader takes exactly so many bytes; then the consumer, held up by the full pipe, is ended."""
        group = self.new_group()
        member = self.member(*args, group=group)
        groups.read_exactly(member.stdout.fileno(), taken)
        self.wait_for_full_pipe(member)
        if end == "close":
            member.stdout.close()
            member.stdout = None
            harness.wait_until(lambda: member.poll() is not None, "the consumer to notice that its reader left")
            expected = 128 + signal.SIGPIPE
        else:
            member.send_signal(end)
            harness.wait_until(lambda: member.poll() is not None, "the consumer to end though nobody reads its pipe")
            expected = 128 + end
        self.check_end(member, expected)
        ends = ends or [(n, (n + 1) * self.SIZE) for n in range(self.COUNT)]
        least, most = self.bounds(taken, ends)
        position = self.of(group)
        self.assertLessEqual(position, most, "the position is past what the reader took (%d bytes)" % taken)
        if end != signal.SIGKILL:
            self.assertGreaterEqual(position, least, "what the reader took (%d bytes) was not committed" % taken)
        follow_up = self.run_program("consume", "t", "-g", group, "-c", "1", "-f", "%o\\n").lines
        self.assertEqual(follow_up, [b"%d" % position])

    def check_end(self, member, expected):
        """Where it waited in vain for its reader after a signal it may say so."""
        result = harness.result_of(member.returncode, b"", member.stderr.read())
        self.assertEqual(result.status, expected, result.text)
        if expected == 128 + signal.SIGPIPE:
            self.assertEqual(result.err, b"")
        for notice in result.notices:
            self.assertRegex(notice, "^partlog: interrupted")

    def all_of(self, cases):
        """take_and_end() for each case, some at a time: a consumer waits a while for its reader before it gives it up."""
        def run(case):
            try:
                self.take_and_end(*case)
                return None
            except (AssertionError, OSError) as e:
                return "%s: %s" % (case[:3], e)

        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            failures = [failure for failure in pool.map(run, cases) if failure]
        self.assertEqual(failures[:5], [], "%d of %d cases" % (len(failures), len(cases)))

    def test_never_past_what_the_reader_took(self):
        self.all_of([(taken, end) for end in ("close", signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
                     for taken in (0, 1, 99, 100, 101, 199, 4096, 65536, 65600, 250_050)])

    def test_never_past_what_the_reader_took_in_other_forms(self):
        forms = (["-u"], ["-F"], ["-J"], ["-K", ":"], ["--grep", r"[05]\.x", "--not"], ["--grep", r"[05]\.x", "--not", "-u"],
                 ["--commit-interval", "10ms"], ["-0", "-F", "--commit-interval", "1h"])
        cases = []
        for args in forms:
            # Each record's bytes as the same options print them without a group, and its offset.
            plain = [a for a in args if a not in ("-F", "--commit-interval", "10ms", "1h")]
            out = self.run_program("consume", "t", *plain).out
            found = self.run_program("consume", "t", *[a for a in plain if a not in ("-J", "-K", ":", "-0", "-u")], "-f", "%o\\n").lines
            delimiter = b"\0" if "-0" in args else b"\n"
            ends, at = [], 0
            for offset in found:
                at = out.index(delimiter, at) + 1
                ends.append((int(offset), at))
            self.assertEqual(at, len(out))
            cases += [(ends[record][1] + 5, end, args, ends) for end in ("close", signal.SIGTERM, signal.SIGKILL) for record in (0, 7, 250)]
        self.all_of(cases)

    def test_a_planted_bug_is_noticed(self):
        """With pipes that look empty at once the same checks fail."""
        module = os.environ.get("PARTLOG_TEST_EMPTY_PIPES", "")
        if not os.path.exists(module):
            self.left_out("PARTLOG_TEST_EMPTY_PIPES does not name the module that plants the bug")
        self.need_plain_build()
        self.environment["LD_PRELOAD"] = module
        with self.assertRaisesRegex(AssertionError, "past what the reader took"):
            self.take_and_end(250_050, signal.SIGTERM)

    def test_a_signal_ends_it_though_nobody_reads(self):
        """Also without a group: a reader that hangs must not make the consumer unkillable by what a user sends first."""
        for args, number in (([], signal.SIGINT), (["-F"], signal.SIGTERM), (["-u"], signal.SIGTERM)):
            with self.subTest(args=args, number=number):
                member = self.start("consume", "t", *args)
                self.wait_for_full_pipe(member)
                member.send_signal(number)
                harness.wait_until(lambda: member.poll() is not None, "the consumer to end though nobody reads its pipe", 10)
                self.check_end(member, 128 + number)

    def test_commits_while_the_pipe_is_full(self):
        """A slow reader's progress is committed although the consumer never gets all its bytes rid."""
        member = self.member("--commit-interval", "20ms")
        for records in (10, 20, 700):
            groups.read_exactly(member.stdout.fileno(), records * self.SIZE - self.moved() * self.SIZE)
            self.wait_beside(member, lambda: self.moved() == records, "position %d" % records)
            self.wait_for_full_pipe(member)
            self.assertEqual(self.moved(), records)
        member.kill()
        member.wait()
        self.assertEqual(self.moved(), 700)

    def test_head(self):
        """head takes a block, of which it uses a line; nothing behind the block may be committed."""
        for options in ("", "-F", "-u", "-J"):
            with self.subTest(options=options):
                group = self.new_group()
                shell = '"$PROGRAM" consume t -g %s %s | head -1' % (group, options)
                result = self.run_program("-c", shell, program=["sh"])
                self.assertEqual(len(result.lines), 1)
                self.assertLessEqual(self.of(group), 8192 // self.SIZE)
                position = self.of(group)
                rest = self.run_program("consume", "t", "-g", group, "-f", "%o\\n").lines
                self.assertEqual([int(n) for n in rest], list(range(position, self.COUNT)))

    def test_read_takes_one_line_at_a_time(self):
        for options in ("", "-F", "-u"):
            with self.subTest(options=options):
                group = self.new_group()
                shell = '"$PROGRAM" consume t -g %s %s | { read -r a; read -r b; read -r c; }' % (group, options)
                self.run_program("-c", shell, program=["sh"])
                self.assertEqual(self.of(group), 3)

    def test_a_reader_that_dies_when_everything_is_in_the_pipe(self):
        """All was written; what is left in the pipe comes again all the same."""
        self.create("small")
        self.fill(50, topic="small", width=self.SIZE)
        for taken in (0, 1, 100, 2550, 4999):
            for end in ("close", signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
                with self.subTest(taken=taken, end=end):
                    group = self.new_group()
                    member = self.member(topics=["small"], group=group)
                    groups.read_exactly(member.stdout.fileno(), taken)
                    harness.wait_until(lambda: groups.pending(member.stdout.fileno()) == 5000 - taken, "all to be in the pipe")
                    # It waits for its reader; ended before, it could not know what was taken.
                    if end == "close":
                        member.stdout.close()
                        member.stdout = None
                        expected = 128 + signal.SIGPIPE
                    else:
                        member.send_signal(end)
                        expected = 128 + end
                    harness.wait_until(lambda: member.poll() is not None, "the consumer to end")
                    self.assertEqual(harness.result_of(member.returncode, b"", b"").status, expected)
                    position = self.position(topic="small", group=group) or 0
                    self.assertLessEqual(position, taken // self.SIZE)
                    if end != signal.SIGKILL:
                        self.assertEqual(position, taken // self.SIZE)

    def test_waits_at_its_end_for_a_slow_reader(self):
        self.create("small")
        self.fill(50, topic="small", width=self.SIZE)
        member = self.member(topics=["small"])
        self.wait_beside(member, lambda: groups.pending(member.stdout.fileno()) == 5000, "all to be in the pipe")
        for n in range(50):
            self.assertIsNone(member.poll(), "it left before its reader had taken all")
            self.assertLessEqual(self.position(topic="small") or 0, n)
            groups.read_exactly(member.stdout.fileno(), self.SIZE)
        result = harness.finish(member)
        self.assertEqual((result.status, result.out, result.err), (0, b"", b""))
        self.assertEqual(self.position(topic="small"), 50)

    def test_commits_when_idle(self):
        member = self.member("-F", "--commit-interval", "20ms")
        groups.read_exactly(member.stdout.fileno(), self.COUNT * self.SIZE)
        self.wait_beside(member, lambda: self.of("g") == self.COUNT, "the position to reach the end")
        self.fill(1, start=self.COUNT)
        groups.read_exactly(member.stdout.fileno(), 16)
        self.wait_beside(member, lambda: self.of("g") == self.COUNT + 1, "the position to follow")
        self.stop(member)

    def test_a_pipe_with_several_partitions(self):
        self.create("many", "-p", "3")
        for p in range(3):
            self.fill(self.COUNT, p, "many", width=self.SIZE)
        for end, places in (("close", (50, 30_000, 1_400_000, 1_400_100, 1_500_050)), (signal.SIGTERM, (30_000, 1_400_100))):
            for taken in places:
                with self.subTest(end=end, taken=taken):
                    group = self.new_group()
                    member = self.member(topics=["many"], group=group)
                    data = groups.read_exactly(member.stdout.fileno(), taken)
                    self.wait_for_full_pipe(member)
                    if end == "close":
                        member.stdout.close()
                        member.stdout = None
                    else:
                        member.send_signal(end)
                    harness.wait_until(lambda: member.poll() is not None, "the consumer to end")
                    self.check_end(member, 128 + (signal.SIGPIPE if end == "close" else end))
                    whole = data.splitlines()[:taken // self.SIZE]
                    for p in range(3):
                        expected = sum(line.startswith(b"%d." % p) for line in whole)
                        self.assertEqual(self.position(p, "many", group) or 0, expected)

    def test_full_device(self):
        for args in ([], ["-u"], ["-F"], ["-J", "-c", "1"], ["--commit", "after", "--commit-interval", "0ms"]):
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                group = self.new_group()
                result = self.run_program("consume", "t", "-g", group, *args, stdout=full, status=1)
                self.assertEqual(len(result.notices), 1, result.text)
                self.assertIn("No space left on device", result.text)
                self.assertEqual(self.of(group), 0)

    def test_closed_stdout(self):
        result = self.run_program(harness.PROGRAM, "consume", "t", "-g", "g", program=["sh", "-c", '"$@" >&-', "sh"], status=1)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual(self.of("g"), 0)

    def test_a_file(self):
        with open(self.path("out"), "wb") as out:
            self.run_program("consume", "t", "-g", "g", stdout=out)
        self.assertEqual(len(self.content("out")), self.COUNT * self.SIZE)
        self.assertEqual(self.of("g"), self.COUNT)

    def test_a_file_and_death(self):
        """What is in the file when the consumer is killed is at least what was committed."""
        chance = harness.new_random("death")
        for n in range(harness.scaled(10)):
            group = self.new_group()
            size = chance.randrange(1, self.COUNT * self.SIZE)
            with open(self.path("out"), "wb") as out:
                member = self.member("-u", "--commit-interval", "1ms", group=group, stdout=out)
            self.wait_beside(member, lambda: os.path.getsize(self.path("out")) >= size, "the file to grow")
            member.kill()
            member.wait()
            whole = os.path.getsize(self.path("out")) // self.SIZE
            self.assertLessEqual(self.of(group), whole)

    def test_a_file_system_that_fills_up(self):
        """A limit on the size of the file stands for a full disk: what is in it whole, at most, is committed."""
        for size in (12_345, 200_000):  # well above the files of the group
            with self.subTest(size=size):
                group = self.new_group()
                limit = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
                with open(self.path("out"), "wb") as out:
                    result = self.run_program("consume", "t", "-g", group, stdout=out, status=1, preexec_fn=limit)
                self.assertEqual(len(result.notices), 1, result.text)
                self.assertEqual(self.of(group), len(self.content("out")) // self.SIZE)

    def test_a_socket(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            member = self.member(stdout=theirs)
            theirs.close()
            got = b""
            while piece := ours.recv(1 << 16):
                got += piece
        result = harness.finish(member)
        self.assertEqual((result.status, result.err), (0, b""))
        self.assertEqual(len(got), self.COUNT * self.SIZE)
        self.assertEqual(self.of("g"), self.COUNT)

    def test_a_socket_whose_reader_leaves(self):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            member = self.member(stdout=theirs)
            theirs.close()
            self.assertTrue(ours.recv(100))
            ours.close()
        result = harness.finish(member)
        self.assertEqual((result.signal, result.err), (signal.SIGPIPE, b""))
        self.assertLess(self.of("g"), self.COUNT)

    def test_a_fifo(self):
        os.mkfifo(self.path("fifo"))
        reader = os.open(self.path("fifo"), os.O_RDONLY | os.O_NONBLOCK)
        with open(self.path("fifo"), "wb") as out:
            member = self.member(stdout=out)
        os.set_blocking(reader, True)
        select.select([reader], [], [], harness.DEADLINE)
        groups.read_exactly(reader, 1250)
        os.close(reader)
        self.assertEqual(harness.finish(member).signal, signal.SIGPIPE)
        self.assertEqual(self.of("g"), 12)


class Counts(groups.GroupTest):
    """-c N moves the position by exactly N."""

    def setUp(self):
        super().setUp()
        self.create("t", "-p", "3")
        for p in range(3):
            self.fill(10, p)

    def test_by_exactly_so_many(self):
        total = 0
        seen = {p: [] for p in range(3)}
        for count in (1, 0, 7, 5, 10, 1, 3, 2, 1):
            got = self.offsets("t", "-c", str(count))
            self.assertEqual(sum(map(len, got.values())), count)
            for partition, offsets in got.items():
                seen[partition] += offsets
            total += count
            self.assertEqual(self.moved(3), total)
            for p in range(3):
                self.assertEqual(self.position(p) or 0, len(seen[p]))
        self.assertEqual(seen, {p: list(range(10)) for p in range(3)})
        self.assertEqual(self.offsets("t", "-c", "5"), {})

    def test_more_than_there_are(self):
        self.assertEqual(sum(map(len, self.offsets("t", "-c", "31").values())), 30)
        self.assertEqual(self.moved(3), 30)

    def test_in_every_kind_of_output(self):
        for args in (["-u"], ["-J"], ["-F"], ["--commit-interval", "1ms"], ["--commit-interval", "1h"], ["--commit", "before"]):
            for n, to_file in ((0, False), (1, True)):
                with self.subTest(args=args, to_file=to_file):
                    group = "g-%s-%d" % ("".join(c for c in "".join(args) if c.isalnum()), n)
                    if to_file:
                        with open(self.path("out"), "wb") as out:
                            self.run_program("consume", "t", "-g", group, "-c", "13", *args, stdout=out)
                        self.assertEqual(self.content("out").count(b"\n"), 13)
                    else:
                        self.assertEqual(len(self.run_program("consume", "t", "-g", group, "-c", "13", *args).lines), 13)
                    self.assertEqual(self.moved(3, group=group), 13)

    def test_with_filters(self):
        """-c counts what passes; what was left out before it counts as handled, and what comes behind it does not."""
        self.create("one")
        self.fill(20, topic="one")
        got = self.run_program("consume", "one", "-g", "g", "--grep", r"[37]\.x", "-c", "2", "-f", "%o\\n").lines
        self.assertEqual(got, [b"3", b"7"])
        self.assertEqual(self.position(topic="one"), 8)
        got = self.run_program("consume", "one", "-g", "g", "--grep", r"[37]\.x", "-f", "%o\\n").lines
        self.assertEqual(got, [b"13", b"17"])
        self.assertEqual(self.position(topic="one"), 20, "records left out count as handled")

    def test_nothing_passes(self):
        self.assertEqual(self.offsets("t", "--grep", "nothing"), {})
        self.assertEqual(self.moved(3), 30)
        self.assertEqual(self.offsets("t", "--fail-if-empty", status=3), {})

    def test_nothing_passes_while_following(self):
        member = self.member("-F", "--grep", "nothing", "--commit-interval", "10ms")
        self.wait_beside(member, lambda: self.moved(3) == 30, "the position to pass what is left out")
        self.fill(5, 1, start=10)
        self.wait_beside(member, lambda: self.moved(3) == 35, "the position to pass what is left out")
        self.stop(member)

    def test_with_exec(self):
        for count, batch in ((7, 3), (13, 1000), (1, 1)):
            with self.subTest(count=count, batch=batch):
                group = "g%d" % count
                self.run_program("consume", "t", "-g", group, "-c", str(count), "--exec", "cat >> out-%d" % count, "--exec-batch", str(batch),
                                 cwd=self.directory)
                self.assertEqual(self.content("out-%d" % count).count(b"\n"), count)
                self.assertEqual(self.moved(3, group=group), count)

    def test_a_reader_that_takes_fewer(self):
        shell = '"$PROGRAM" consume t -g g -c 10 | { read -r a; read -r b; }'
        self.run_program("-c", shell, program=["sh"])
        self.assertEqual(self.moved(3), 2)


class Beginnings(groups.GroupTest):
    def of(self, group):
        return self.position(group=group)

    def test_killed_before_the_first_commit_of_a_group_that_began_at_the_end(self):
        """Where it began counts from the moment it did, not from the first commit on."""
        self.create()
        self.fill(5)
        for n, options in enumerate(([], ["--commit", "none"], ["--commit", "before"])):
            with self.subTest(options=options):
                group = "g%d" % n
                end = self.end_offset("t")
                member = self.member("-F", "--reset", "latest", "--commit-interval", "1h", *options, group=group)
                self.wait_beside(member, lambda: self.of(group) == end, "the position where it begins")
                member.send_signal(signal.SIGSTOP)
                self.fill(5, start=end)
                member.kill()
                member.wait()
                result = self.run_program("consume", "t", "-g", group, "--reset", "latest", "-f", "%o\\n")
                self.assertEqual([int(n) for n in result.lines], list(range(end, end + 5)))

    def test_a_commit_that_fails_is_tried_again(self):
        self.create()
        member = self.member("-F", "--commit-interval", "20ms", stdout=subprocess.DEVNULL)
        self.wait_beside(member, lambda: os.path.exists(self.offset_path()), "the member to take the partition")
        obstacle = os.path.join(self.store, "groups", "g", "offsets", "t", "0.tmp")
        os.mkdir(obstacle)
        self.fill(5)
        message = harness.Lines(member.stderr).next()
        self.assertIn(b"0.tmp", message)
        os.rmdir(obstacle)
        self.fill(5, start=5)
        self.wait_beside(member, lambda: self.position() == 10, "the position behind all of them")
        member.send_signal(signal.SIGTERM)
        member.wait()

    def test_who_waits_for_a_stopped_member_says_so(self):
        """And for no longer than the time for locks."""
        self.create("t", "-p", "2")
        holder = self.member("-F", stdout=subprocess.DEVNULL)
        self.wait_beside(holder, lambda: 0 not in self.holders(2), "the first member to have both")
        holder.send_signal(signal.SIGSTOP)
        result = self.run_program("consume", "t", "-g", "g", "--lock-timeout", "100ms", status=6)
        self.assertIn("process %d" % holder.pid, result.text)
        member = self.member()
        self.assertIn(b"process %d" % holder.pid, harness.Lines(member.stderr).next())
        holder.send_signal(signal.SIGCONT)
        self.assertEqual(harness.finish(member).status, 0)
        self.stop(holder)

    def test_more_partitions_than_files_may_be_open(self):
        """The limit that the user may raise is raised."""
        self.create("many", "-p", "300")
        self.produce(b"".join(b"%d:%d\n" % (n, n) for n in range(1000)), "-K:", topic="many")
        limit = (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        if limit[1] < 2048:
            self.skipTest("the hard limit of open files is too low")
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        result = self.run_program("consume", "many", "-g", "g", preexec_fn=few)
        self.assertEqual(sorted(map(int, result.lines)), list(range(1000)))
        self.assertEqual(self.run_program("consume", "many", "-g", "g", preexec_fn=few).out, b"")
        result = self.run_program("consume", "many", "-g", "h", "--exec", "ulimit -n", "-c", "1", preexec_fn=few)
        self.assertEqual(result.out, b"256\n")


class Exec(groups.GroupTest):
    LOG = 'echo "$PARTLOG_TOPIC $PARTLOG_PARTITION $PARTLOG_FIRST_OFFSET $PARTLOG_LAST_OFFSET" $(cat) >> log'

    def exec(self, script, *args, topics=("t",), **how):
        return self.run_program("consume", *topics, "-g", "g", "--exec", script, *args, cwd=self.directory, **how)

    def start_exec(self, script, *args, **how):
        return self.member("--exec", script, *args, cwd=self.directory, **how)

    def test_a_guard_that_dies(self):
        """Then the command is started again beside a new one: it did not fail, it did not even begin."""
        self.create()
        self.create("dead")
        self.fill(120)
        kill_guard = 'for p in $(pgrep -P $PPID); do [ $p = $$ ] || kill -9 $p; done; cat >> got'
        self.exec(kill_guard, "-f", "%o\\n", "--exec-batch", "50", "--retries", "0", "--dead-letter", "dead")
        self.assertEqual([int(n) for n in self.content("got").split()], list(range(120)))
        self.assertEqual(self.values("dead"), [])

    def test_a_status_above_128_is_no_signal(self):
        self.create()
        self.fill(5)
        result = self.exec("exit 255", "--retries", "0", status=1)
        self.assertIn("ended with status 255", result.text)

    def test_no_dead_letters_into_a_topic_that_is_read(self):
        self.create()
        result = self.exec("false", "--dead-letter", "t", status=2)
        self.assertIn("--dead-letter t", result.text)

    def test_what_a_thread_of_the_command_started_dies_too(self):
        script = ("import os, subprocess, threading\n"
                  "def work():\n"
                  "    child = subprocess.Popen(['sleep', '1000'])\n"
                  "    print(child.pid, file=open('pid.tmp', 'w'), flush=True)\n"
                  "    os.rename('pid.tmp', 'pid')\n"
                  "    child.wait()\n"
                  "threading.Thread(target=work).start()\n")
        with open(os.path.join(self.directory, "threads.py"), "w") as f:
            f.write(script)
        self.create()
        self.fill(5)
        member = self.start_exec("exec %s threads.py" % sys.executable)
        pid_file = os.path.join(self.directory, "pid")
        harness.wait_until(lambda: os.path.exists(pid_file), "the command to start a child")
        with open(pid_file) as f:
            child = int(f.read())
        member.kill()
        member.wait()
        harness.wait_until(lambda: groups.is_gone(child), "the child to be killed")

    def batches(self, name="log"):
        """Of a log that self.LOG wrote: topic, partition, first, last and the offsets that came."""
        rows = [line.split() for line in self.content(name).decode().splitlines()]
        return [(row[0], int(row[1]), int(row[2]), int(row[3]), [int(n) for n in row[4:]]) for row in rows]

    def test_environment_and_batches(self):
        self.create("t", "-p", "2")
        self.create("other")
        self.fill(25, 0)
        self.fill(12, 1)
        self.fill(5, topic="other")
        self.exec(self.LOG, "--exec-batch", "10", "-f", "%o\\n", topics=("t", "other"))
        seen = {}
        for topic, partition, first, last, offsets in self.batches():
            self.assertEqual(offsets, list(range(first, last + 1)))
            self.assertLessEqual(len(offsets), 10)
            seen.setdefault((topic, partition), []).extend(offsets)
        self.assertEqual(seen, {("t", 0): list(range(25)), ("t", 1): list(range(12)), ("other", 0): list(range(5))})
        self.assertEqual((self.position(0), self.position(1), self.position(topic="other")), (25, 12, 5))

    def test_a_batch_is_of_one_partition(self):
        self.create("t", "-p", "2")
        self.fill(25, 0)
        self.fill(12, 1)
        self.exec('cat > "batch-$PARTLOG_PARTITION-$PARTLOG_FIRST_OFFSET"', "-f", "%p\\n", "--exec-batch", "7")
        names = [name for name in os.listdir(self.directory) if name.startswith("batch-")]
        self.assertGreaterEqual(len(names), 6)
        for name in names:
            self.assertEqual(set(self.content(name).split()), {name.split("-")[1].encode()})

    def test_the_batch_is_at_most_a_thousand(self):
        self.create()
        self.fill(2500)
        self.exec("wc -l >> log")
        sizes = [int(n) for n in self.content("log").split()]
        self.assertEqual((sum(sizes), max(sizes)), (2500, 1000))

    def test_stdin_is_what_consume_would_print(self):
        self.create()
        self.produce(b"k1:one\nk2:two\n", "-K:", "-H", "h=1")
        for form in ([], ["-K", "="], ["-J"], ["-0"], ["-f", "%o %k %h\\n"], ["--key", "k2"]):
            with self.subTest(form=form):
                expected = self.run_program("consume", "t", *form).out
                group = "g%s" % "".join(c for c in "".join(form) if c.isalnum())
                result = self.run_program("consume", "t", "-g", group, "--exec", "cat", *form)
                self.assertEqual((result.out, result.err), (expected, b""))
                self.assertEqual(self.position(group=group), 2)

    def test_stdout_and_stderr_are_ours(self):
        self.create()
        self.fill(1)
        result = self.exec("echo out; echo 'partlog: err' >&2; cat >/dev/null")
        self.assertEqual((result.out, result.err), (b"out\n", b"partlog: err\n"))

    def test_no_records_no_child(self):
        self.create()
        self.exec("touch ran")
        self.fill(3)
        self.exec("touch ran", "--grep", "nothing")
        self.assertFalse(os.path.exists(self.path("ran")))
        self.assertEqual(self.position(), 3)

    def test_success_though_not_all_was_read(self):
        """Nor does a child that closed its stdin end the consumer by SIGPIPE."""
        self.create()
        self.fill(3000, width=500)
        result = self.exec("head -1 >> log; exec 0<&-; exit 0")
        self.assertEqual(result.err, b"")
        self.assertEqual(self.content("log").count(b"\n"), 3)
        self.assertEqual(self.position(), 3000)
        result = self.run_program("consume", "t", "-g", "h", "--exec", "true")
        self.assertEqual(result.err, b"")
        self.assertEqual(self.position(group="h"), 3000)

    def test_the_child_inherits_no_signal_that_is_ignored_or_blocked(self):
        """`yes | head` in a child would never end if SIGPIPE were ignored there."""
        self.create()
        self.fill(1)
        self.exec("grep -E '^Sig(Ign|Blk)' /proc/self/status > signals")
        masks = [int(line.split()[1], 16) for line in self.content("signals").splitlines()]
        self.assertEqual(masks, [0, 0])

    def test_one_child_at_a_time(self):
        self.create("t", "-p", "4")
        for p in range(4):
            self.fill(20, p)
        self.exec("mkdir running || touch overlap; cat > /dev/null; rmdir running", "--exec-batch", "5")
        self.assertFalse(os.path.exists(self.path("overlap")))
        self.assertEqual(self.moved(4), 80)

    def test_a_failure_keeps_what_went_before(self):
        self.create()
        self.fill(30)
        script = self.LOG + '; [ "$PARTLOG_FIRST_OFFSET" != 20 ]'
        self.exec(script, "-f", "%o\\n", "--exec-batch", "10", "--retries", "0", status=1)
        self.assertEqual([b[2] for b in self.batches()], [0, 10, 20])
        self.assertEqual(self.position(), 20)

    def test_retries(self):
        """The same batch again, after one second, after two; then it succeeds."""
        self.create()
        self.fill(10)
        script = self.LOG + '; date +%s.%N >> times; [ "$(wc -l < log)" -ge 3 ]'
        result = self.exec(script, "-f", "%o\\n", "--exec-batch", "10")
        self.assertEqual(self.batches(), [("t", 0, 0, 9, list(range(10)))] * 3)
        self.assertEqual(self.position(), 10)
        times = [float(t) for t in self.content("times").split()]
        self.assertGreaterEqual(times[1] - times[0], 0.99)
        self.assertGreaterEqual(times[2] - times[1], 1.99)
        self.assertEqual(result.out, b"")

    def test_retries_end(self):
        self.create()
        self.fill(10)
        result = self.exec(self.LOG + "; exit 7", "-f", "%o\\n", "--retries", "1", status=1)
        self.assertEqual(len(self.batches()), 2)
        self.assertFalse(self.position())
        self.assertIn("7", result.notices[-1])

    def test_a_signal_ends_the_pause_between_retries(self):
        self.create()
        self.fill(10)
        member = self.start_exec("cat > /dev/null; echo x >> tries; exit 1", "--retries", "30")
        self.wait_beside(member, lambda: self.content("tries").count(b"x") == 3, "three tries")
        began = time.monotonic()
        member.terminate()
        self.assertEqual(harness.finish(member).status, 143)
        self.assertLess(time.monotonic() - began, 2)
        self.assertFalse(self.position())

    def test_dead_letter(self):
        self.create()
        self.create("dead", "-p", "2")
        lines = [
            {"key": "k", "value": "v", "headers": [{"name": "a", "value": "1"}, {"name": "a", "value": None}], "timestamp": 1_600_000_000_123},
            {"key": None, "value": None, "headers": [], "timestamp": 5},
            {"key_b64": "AP8A", "value_b64": "/wD+Cg==", "headers": [{"name": "partlog.origin", "value": "older"}], "timestamp": 1_700_000_000_000},
            {"key": "", "value": "", "headers": [], "timestamp": 1_700_000_000_001},
        ]
        self.produce(b"".join(json.dumps(line).encode() + b"\n" for line in lines), "-J")
        result = self.exec("cat > /dev/null; exit 1", "--retries", "0", "--dead-letter", "dead")
        self.assertEqual(result.out, b"")
        self.assertEqual(self.position(), 4)
        before = self.records()
        after = sorted(self.records("dead", 0) + self.records("dead", 1), key=lambda r: r.headers[-1][1])
        self.assertEqual(len(after), 4)
        for n, (old, new) in enumerate(zip(before, after)):
            self.assertEqual((new.key, new.value, new.timestamp), (old.key, old.value, old.timestamp))
            self.assertEqual(list(map(tuple, new.headers)), list(map(tuple, old.headers)) + [(b"partlog.origin", b"t:0:%d" % n)])

    def test_only_the_batch_that_failed_is_dead_lettered(self):
        self.create("t", "-p", "2")
        self.create("dead")
        self.fill(30, 0)
        self.fill(10, 1)
        script = 'cat >> got; [ "$PARTLOG_PARTITION:$PARTLOG_FIRST_OFFSET" != 0:10 ]'
        self.exec(script, "--exec-batch", "10", "--retries", "0", "--dead-letter", "dead")
        self.assertEqual((self.position(0), self.position(1)), (30, 10))
        self.assertEqual(self.content("got").count(b"\n"), 40)
        origins = [dict(r.headers)[b"partlog.origin"] for r in self.records("dead")]
        self.assertEqual(origins, [b"t:0:%d" % n for n in range(10, 20)])
        self.assertEqual(self.values("dead"), self.values("t", 0)[10:20])

    def test_dead_letter_with_a_filter(self):
        """What the filter left out was not given to the child, so it did not fail."""
        self.create()
        self.create("dead")
        self.fill(10)
        self.exec("exit 1", "--grep", r"[37]\.x", "--retries", "0", "--dead-letter", "dead")
        self.assertEqual([dict(r.headers)[b"partlog.origin"] for r in self.records("dead")], [b"t:0:3", b"t:0:7"])
        self.assertEqual(self.position(), 10)

    def test_dead_letter_topic_must_exist(self):
        self.create()
        self.fill(10)
        result = self.exec("touch ran; exit 1", "--retries", "0", "--dead-letter", "dead", status=1)
        self.assertIn("dead", result.text)
        self.assertFalse(os.path.exists(self.path("ran")))
        self.assertFalse(self.position())

    def test_dead_letter_that_cannot_be_stored(self):
        self.create()
        self.create("dead", max_message_bytes=200)
        self.produce(b"x" * 500 + b"\n")
        self.exec("exit 1", "--retries", "0", "--dead-letter", "dead", status=1)
        self.assertFalse(self.position(), "what is in neither topic was committed")
        self.assertEqual(self.values("dead"), [])

    def check_waits_for_the_child(self, number):
        self.create()
        self.fill(20)
        member = self.start_exec("cat > /dev/null; touch started; %s; echo done >> log" % groups.WAIT_FOR_GO, "--exec-batch", "10")
        self.wait_for_file("started", member)
        member.send_signal(number)
        # A consumer that does not wait is gone, and its child killed, long before this.
        for _ in range(20):
            self.run_program("describe-group", "g", "--json")
            self.assertIsNone(member.poll(), "it did not wait for its child")
        open(self.path("go"), "w").close()
        result = harness.finish(member)
        self.assertEqual((result.status, result.err), (128 + number, b""))
        self.assertEqual(self.content("log"), b"done\n")
        self.assertEqual(self.position(), 10)

    def test_sigterm_waits_for_the_child(self):
        self.check_waits_for_the_child(signal.SIGTERM)

    def test_sigint_waits_for_the_child(self):
        self.check_waits_for_the_child(signal.SIGINT)

    def check_child_ended_by_that_signal(self, number, send):
        self.create()
        self.create("dead")
        self.fill(20)
        script = "cat > /dev/null; echo $$ > pid; echo >> runs; touch started; exec sleep 1000"
        member = self.start_exec(script, "--dead-letter", "dead", "--retries", "2", start_new_session=True)
        self.wait_for_file("started", member)
        send(member, int(self.content("pid")))
        began = time.monotonic()
        result = harness.finish(member)
        self.assertEqual(result.status, 128 + number, result.text)
        self.assertLess(time.monotonic() - began, 0.9, "it was tried again")
        self.assertEqual(self.content("runs").count(b"\n"), 1)
        self.assertFalse(self.position())
        self.assertEqual(self.values("dead"), [])
        self.assertTrue(groups.is_gone(int(self.content("pid"))))

    def test_control_c(self):
        """The terminal sends SIGINT to all of the foreground: the child that it ends is neither retried nor dead-lettered."""
        self.check_child_ended_by_that_signal(signal.SIGINT, lambda member, child: os.killpg(member.pid, signal.SIGINT))

    def test_sigterm_to_both(self):
        def send(member, child):
            member.send_signal(signal.SIGTERM)
            os.kill(child, signal.SIGTERM)

        self.check_child_ended_by_that_signal(signal.SIGTERM, send)

    def test_closed_pipe_of_the_child_is_the_childs(self):
        """The child's output is ours: a reader of it that leaves ends the child, which is a failure like any other."""
        self.create()
        self.fill(5000, width=100)
        shell = '"$PROGRAM" consume t -g g --exec "cat; cat /dev/zero" --retries 0 | head -1'
        self.run_program("-c", shell, program=["sh"])
        self.assertFalse(self.position())

    def test_follow(self):
        self.create()
        self.fill(3)
        member = self.start_exec(self.LOG, "-F", "-f", "%o\\n", "--commit-interval", "10ms")
        self.wait_beside(member, lambda: self.position() == 3, "the first batch")
        self.fill(2, start=3)
        self.wait_beside(member, lambda: self.position() == 5, "the second batch")
        self.stop(member)
        self.assertEqual([n for b in self.batches() for n in b[4]], list(range(5)))

    def test_options_that_need_exec(self):
        self.create()
        for args in (["--exec-batch", "5"], ["--retries", "2"], ["--dead-letter", "t"]):
            with self.subTest(args=args):
                self.refused("consume", "t", "-g", "g", *args, status=2)


class Commits(groups.GroupTest):
    def test_interval(self):
        """Nothing is committed before the interval is over, and all at the end."""
        self.create()
        self.fill(100)
        with open(self.path("out"), "wb") as out:
            member = self.member("-F", "--commit-interval", "1h", stdout=out)
        self.wait_beside(member, lambda: self.content("out").count(b"\n") == 100, "the records")
        self.assertFalse(self.position())
        self.fill(1, start=100)
        self.wait_beside(member, lambda: self.content("out").count(b"\n") == 101, "one more record")
        self.assertFalse(self.position())
        self.stop(member)
        self.assertEqual(self.position(), 101)

    def test_at_most_once_in_the_interval(self):
        self.create()
        with open(self.path("out"), "wb") as out:
            member = self.member("-F", "-u", "--commit-interval", "200ms", stdout=out)
        producer = self.start("produce", "t", "--linger", "0", "--sync", "none", "-q")
        began = time.monotonic()
        seen = set()
        for n in range(300):
            harness.feed(producer, [b"%d\n" % n], pace=0.002)
            seen.add(self.position())
        self.wait_beside(member, lambda: self.position() == 300, "the last commit")
        took = time.monotonic() - began
        self.assertLessEqual(len(seen - {None}), took / 0.2 + 2)
        self.assertEqual(harness.finish(producer).status, 0)
        self.stop(member)

    def test_the_default_is_a_second(self):
        self.create()
        self.fill(10)
        with open(self.path("out"), "wb") as out:
            member = self.member("-F", stdout=out)
        self.wait_beside(member, lambda: self.position() == 10, "the commit", 3)
        self.stop(member)

    def test_positions_feed_commit(self):
        self.create("t", "-p", "3")
        for p in range(3):
            self.fill(10, p)
        plain = self.run_program("consume", "t", "-c", "13", "--positions", self.path("positions"), "-f", "%p %o\\n").lines
        content = self.content("positions").decode()
        for line in content.splitlines():
            self.assertRegex(line, r"^t,[012],\d+$")
        self.run_program("commit", "-g", "g", "--from-file", self.path("positions"))
        self.assertEqual(self.moved(3), 13)
        rest = self.run_program("consume", "t", "-g", "g", "-f", "%p %o\\n").lines
        self.assertEqual(sorted(plain + rest), sorted(b"%d %d" % (p, o) for p in range(3) for o in range(10)))

    def test_positions_of_a_reader_who_left(self):
        """The file says no more than the position of a group would."""
        self.create()
        self.fill(12_000, width=100)
        for group in (["-g", "g"], []):
            with self.subTest(group=group):
                member = self.start("consume", "t", "--positions", self.path("positions"), *group)
                groups.read_exactly(member.stdout.fileno(), 1250)
                member.stdout.close()
                member.stdout = None
                self.assertEqual(harness.finish(member).signal, signal.SIGPIPE)
                for line in self.content("positions").decode().splitlines():
                    self.assertLessEqual(int(line.rsplit(",", 1)[1]), 12)
                if os.path.exists(self.path("positions")):
                    os.unlink(self.path("positions"))

    def test_positions_on_stdin(self):
        self.create()
        self.fill(10)
        self.run_program("commit", "-g", "g", "--from-file", "-", input=b"\nt,0,7\n\n")
        self.assertEqual(self.position(), 7)

    def test_positions_with_a_group(self):
        self.create("t", "-p", "2")
        self.fill(10, 0)
        self.fill(10, 1)
        self.run_program("consume", "t", "-g", "g", "-c", "4", "--positions", self.path("positions"))
        self.run_program("commit", "-g", "h", "--from-file", self.path("positions"))
        self.assertEqual([self.position(p, group="h") or 0 for p in (0, 1)], [self.position(p) or 0 for p in (0, 1)])
        self.assertEqual(self.moved(2, group="h"), 4)

    def test_where_a_new_group_begins(self):
        self.create()
        self.fill(10)
        self.assertEqual(self.offsets("t", "--reset", "latest"), {})
        result = self.run_program("consume", "t", "-g", "h", "--reset", "fail", status=4)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual(result.out, b"")
        got = self.run_program("consume", "t", "-g", "i", "--reset", "earliest", "-f", "%o\\n").lines
        self.assertEqual(got, [b"%d" % n for n in range(10)])

    def test_a_group_goes_on_without_loss_from_latest(self):
        """What came between two runs of a group that began at the end is not lost."""
        self.create()
        self.fill(10)
        with open(self.path("out"), "wb") as out:
            member = self.member("-F", "--reset", "latest", "-f", "%o\\n", stdout=out)
        n = 10
        while not self.content("out"):
            self.fill(1, start=n)
            n += 1
            self.assertIsNone(member.poll())
        self.stop(member)
        self.fill(3, start=n)
        rest = self.run_program("consume", "t", "-g", "g", "--reset", "latest", "-f", "%o\\n").lines
        got = [int(line) for line in self.content("out").split() + rest]
        self.assertEqual(got, list(range(got[0], n + 3)))
        self.assertGreaterEqual(got[0], 10)

    def test_stored_is_where_the_group_stands(self):
        self.create()
        self.fill(10)
        self.run_program("commit", "-g", "g", "t:0:4")
        self.assertEqual(self.offsets("t", "-o", "stored"), {0: list(range(4, 10))})

    def test_what_groups_do_not_allow(self):
        self.create()
        self.fill(3)
        for args in (["t:0"], ["t", "-p", "0"], ["t", "-o", "2"], ["t", "-o", "beginning"], ["t", "-o", "end"], ["t", "--since", "-1h"],
                     ["t", "--until", "2030-01-01"], ["t", "--tail", "1"], ["t", "--merge", "time"], ["t", "--commit", "later"],
                     ["t", "--commit-interval", "soon"]):
            with self.subTest(args=args):
                self.refused("consume", "-g", "g", *args, status=2)
        for name in ("..", "a/b", "", "x" * 250, "a b"):
            with self.subTest(name=name):
                self.refused("consume", "t", "-g" + name if name else "--group=", status=2)
        self.refused("consume", "absent", "-g", "g", status=1, names=["absent"])
        for args in (["--commit", "none"], ["--commit-interval", "1s"]):
            with self.subTest(args=args):
                self.refused("consume", "t", *args, status=2)


if __name__ == "__main__":
    harness.main()
