"""Who may move a position, positions that the log has left behind or never reached, topics made anew, and damaged files."""

import os
import re
import shutil
import signal
import time

import groups
import harness

NOBODY = 65534


class Fencing(groups.GroupTest):
    def setUp(self):
        super().setUp()
        self.create()
        self.fill(10)

    def member_to_file(self, *args, name="out", **how):
        with open(self.path(name), "wb") as out:
            return self.member("-F", "-f", "%p %o\\n", *args, stdout=out, **how)

    def wait_for_position(self, position, member, partition=0):
        self.wait_beside(member, lambda: self.position(partition) == position, "position %d" % position)

    def test_a_member_that_lost_its_partition_cannot_commit(self):
        """Another member's id in the offset file stands for a successor that took the partition while this one was cut off."""
        member = self.member_to_file("--commit-interval", "10ms")
        self.wait_for_position(10, member)
        self.edit_offset(member="somebody-else")
        self.fill(5, start=10)
        result = harness.finish(member)
        self.assertEqual(result.status, 7, result.text)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual((self.position(), self.offset_fields()["member"]), (10, "somebody-else"))
        self.assertEqual(self.offsets("t"), {0: list(range(10, 15))})

    def test_also_at_its_end(self):
        """Nor does the commit at the end, or that of a child's batch, slip through."""
        member = self.member_to_file("--commit-interval", "1h")
        harness.wait_until(lambda: self.content("out").count(b"\n") == 10, "the records")
        self.edit_offset(member="somebody-else")
        member.terminate()
        result = harness.finish(member)
        self.assertIn(result.status, (7, 143), result.text)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertFalse(self.position())

    def test_with_exec(self):
        member = self.member("-f", "%o\\n", "--exec", "cat > got; touch started; " + groups.WAIT_FOR_GO, cwd=self.directory)
        self.wait_for_file("started", member)
        self.edit_offset(member="somebody-else")
        open(self.path("go"), "w").close()
        result = harness.finish(member)
        self.assertEqual(result.status, 7, result.text)
        self.assertFalse(self.position())

    def test_while_its_pipe_is_full(self):
        """It finds out in the midst of handing records on."""
        self.create("wide")
        self.fill(14_000, topic="wide", width=100)
        member = self.member("--commit-interval", "10ms", topics=["wide"])
        self.wait_for_full_pipe(member)
        self.edit_offset(topic="wide", member="somebody-else")
        groups.read_exactly(member.stdout.fileno(), 1000)  # something to commit, but no room to write
        message = harness.Lines(member.stderr).next()
        self.assertIn(b"wide:0", message)
        result = harness.finish(member)
        self.assertEqual((result.status, result.err), (7, b""))
        self.assertFalse(self.position(topic="wide"))

    def test_commit_before_hands_out_nothing_that_it_could_not_commit(self):
        member = self.member_to_file("--commit", "before")
        self.wait_for_position(10, member)
        harness.wait_until(lambda: self.content("out").count(b"\n") == 10, "the records")
        self.edit_offset(member="somebody-else")
        self.fill(5, start=10)
        self.assertEqual(harness.finish(member).status, 7)
        self.assertEqual(self.content("out").count(b"\n"), 10)

    def test_hand_over_still_commits(self):
        self.create("two", "-p", "2")
        for p in range(2):
            self.fill(10, p, "two")
        one = self.member_to_file("--commit-interval", "1h", name="one", topics=["two"])
        harness.wait_until(lambda: self.content("one").count(b"\n") == 20, "the records")
        two = self.member_to_file("--commit-interval", "1h", name="two", topics=["two"])
        harness.wait_until(lambda: sorted(self.holders(2, "two")) == sorted([one.pid, two.pid]), "each to have one", 30)
        moved = self.holders(2, "two").index(two.pid)
        self.assertEqual(self.position(moved, "two"), 10)
        self.assertFalse(self.position(1 - moved, "two"))
        self.stop(one)
        self.stop(two)
        self.assertEqual(self.content("two"), b"")
        self.assertEqual([self.position(p, "two") for p in range(2)], [10, 10])


class Scripts(groups.GroupTest):
    def setUp(self):
        super().setUp()
        self.create("t", "-p", "2")
        for p in range(2):
            self.fill(20, p)

    def test_only_forward(self):
        self.run_program("commit", "-g", "g", "t:0:10")
        self.assertEqual(self.position(), 10)
        self.run_program("commit", "-g", "g", "t:0:10")
        self.refused("commit", "-g", "g", "t:0:9", status=1, names=["10"])
        self.refused("commit", "-g", "g", "t:0:0", status=1, names=["10"])
        self.refused("commit", "-g", "g", "t:0:21", status=4, names=["10"])
        self.refused("commit", "-g", "g", "--processed", "t:0:20", status=4)
        self.run_program("commit", "-g", "g", "t:0:20")
        self.run_program("commit", "-g", "g", "--processed", "t:0:19")
        self.assertEqual((self.position(0), self.position(1)), (20, None))

    def test_the_others_are_done(self):
        self.run_program("commit", "-g", "g", "t:0:10")
        result = self.run_program("commit", "-g", "g", "t:0:5", "t:1:7", status=1)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual((self.position(0), self.position(1)), (10, 7))
        self.run_program("commit", "-g", "g", "t:0:30", "t:1:3", status=4)
        self.assertEqual((self.position(0), self.position(1)), (10, 7))

    def test_what_does_not_exist(self):
        self.run_program("commit", "-g", "g", "absent:0:1", status=1)
        self.run_program("commit", "-g", "g", "t:2:1", status=2)
        for address in ("t", "t:0", "t:0:x", "t:0:-1", "t:0-1:5", "t:a:5"):
            with self.subTest(address=address):
                self.refused("commit", "-g", "g", address, status=2)
        self.refused("commit", "t:0:1", status=2)
        self.refused("commit", "-g", "g", status=2)
        self.assertFalse(os.path.exists(self.group_path("offsets", "absent")))
        self.assertFalse(os.path.exists(self.group_path("offsets", "t", "2")))

    def test_busy_beside_a_member_that_commits(self):
        with open(os.devnull, "wb") as null:
            member = self.member("-F", "--commit-interval", "10ms", stdout=null)
        self.wait_beside(member, lambda: self.moved(2) == 40, "the commits")
        self.fill(5, start=20)
        self.wait_beside(member, lambda: self.moved(2) == 45, "the commits")
        self.refused("commit", "-g", "g", "t:0:25", status=6, names=[str(member.pid), os.uname().nodename])
        # Another group and another topic are nobody's.
        self.create("u")
        self.fill(3, topic="u")
        self.run_program("commit", "-g", "g", "u:0:2")
        self.run_program("commit", "-g", "h", "t:0:2")
        self.stop(member)
        self.run_program("commit", "-g", "g", "t:0:25")

    def test_beside_a_stopped_member_too(self):
        with open(os.devnull, "wb") as null:
            member = self.member("-F", "--commit-interval", "10ms", stdout=null)
        self.wait_beside(member, lambda: self.moved(2) == 40, "the commits")
        member.send_signal(signal.SIGSTOP)
        self.refused("commit", "-g", "g", "t:0:20", status=6, names=[str(member.pid)])
        member.kill()
        member.wait()
        self.run_program("commit", "-g", "g", "t:0:20")

    def test_allowed_beside_a_member_that_does_not(self):
        with open(self.path("out"), "wb") as out:
            member = self.member("-F", "--commit", "none", stdout=out)
        self.wait_beside(member, lambda: self.content("out").count(b"\n") == 40, "the records")
        self.run_program("commit", "-g", "g", "t:0:12", "t:1:20")
        self.assertEqual((self.position(0), self.position(1)), (12, 20))
        self.refused("commit", "-g", "g", "t:0:11", status=1, names=["12"])
        self.stop(member)
        self.assertEqual((self.position(0), self.position(1)), (12, 20))

    def test_what_moves_positions_at_will_needs_the_members_gone(self):
        with open(os.devnull, "wb") as null:
            member = self.member("-F", "--commit-interval", "10ms", stdout=null)
        self.wait_beside(member, lambda: self.moved(2) == 40, "the commits")
        names = [str(member.pid), os.uname().nodename]
        before = [self.offset_fields(p) for p in range(2)]
        self.refused("reset-offset", "-g", "g", "t", "--to-earliest", "--execute", status=6, names=names, rows=True)
        self.refused("delete-group", "g", "--yes", status=6, names=names)
        result = self.run_program("delete-offsets", "-g", "g", "t", "--yes", status=6)
        self.assertIn(names[0], result.text)
        self.assertEqual([self.offset_fields(p) for p in range(2)], before)
        self.assertIsNone(member.poll())
        # A topic that nobody reads may be reset.
        self.create("u")
        self.fill(3, topic="u")
        self.run_program("reset-offset", "-g", "g", "u", "--to-latest", "--execute")
        self.stop(member)
        self.run_program("reset-offset", "-g", "g", "t", "--to-earliest", "--execute")
        self.assertEqual(self.offsets("t", "-c", "40"), {p: list(range(20)) for p in range(2)})

    def test_reset_beside_a_member_that_does_not_commit(self):
        with open(self.path("out"), "wb") as out:
            member = self.member("-F", "--commit", "none", stdout=out)
        self.wait_beside(member, lambda: self.content("out").count(b"\n") == 40, "the records")
        self.refused("reset-offset", "-g", "g", "t", "--to-latest", "--execute", status=6, names=[str(member.pid)], rows=True)
        self.stop(member)

    def test_many_scripts_at_once(self):
        """Whatever their order, the position ends at the highest, and each got a true answer."""
        processes = [(n, self.start("commit", "-q", "-g", "g", "t:0:%d" % n)) for n in range(1, 21)]
        for n, process in processes:
            result = harness.finish(process)
            self.assertIn(result.status, (0, 1), result.text)
            if n == 20:
                self.assertEqual(result.status, 0, result.text)
        self.assertEqual(self.position(), 20)

    def test_the_file_is_text(self):
        """One key and value a line, as the manual says; what scripts read must be there."""
        self.run_program("commit", "-g", "g", "t:0:10")
        fields = self.offset_fields()
        self.assertLessEqual({"offset", "topic_id", "leader_epoch", "cuts", "committed_at", "member", "metadata"}, set(fields))
        self.assertEqual((fields["offset"], fields["cuts"]), ("10", "0"))
        with open(os.path.join(self.store, "topics", "t", "topic.properties")) as f:
            self.assertIn("topic.id=" + fields["topic_id"], f.read())


class MadeAnew(groups.GroupTest):
    def setUp(self):
        super().setUp()
        self.create()
        self.fill(20)
        self.run_program("commit", "-g", "g", "t:0:10")
        self.run_program("delete-topic", "t", "--yes")
        self.create()

    def test_begins_without_a_position(self):
        self.fill(15)
        self.assertIsNone(self.described()["t", 0]["committed"])
        result = self.run_program("consume", "t", "-g", "g", "-f", "%o\\n")
        self.assertEqual([int(n) for n in result.lines], list(range(15)))
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertIn("t", result.text)
        self.fill(2, start=15)
        result = self.run_program("consume", "t", "-g", "g", "-f", "%o\\n")
        self.assertEqual((result.lines, result.err), ([b"15", b"16"], b""))

    def test_shorter_than_the_old_position(self):
        self.fill(5)
        self.assertEqual(self.offsets("t"), {0: list(range(5))})
        self.assertEqual(self.position(), 5)

    def test_reset_decides(self):
        self.fill(15)
        result = self.run_program("consume", "t", "-g", "g", "--reset", "fail", status=4)
        self.assertEqual(result.out, b"")
        result = self.run_program("consume", "t", "-g", "g", "--reset", "latest")
        self.assertEqual(result.out, b"")

    def test_a_script_may_commit_lower(self):
        self.fill(15)
        self.run_program("commit", "-g", "g", "t:0:3")
        self.assertEqual(self.described()["t", 0]["committed"], 3)
        self.assertEqual(self.offsets("t"), {0: list(range(3, 15))})

    def test_under_a_member(self):
        """A topic deleted under a member that follows it: no position of the old one gets into the new."""
        self.fill(10)
        with open(self.path("out"), "wb") as out:
            member = self.member("-F", "--commit-interval", "10ms", stdout=out)
        self.wait_beside(member, lambda: self.content("out").count(b"\n") == 10, "the records")
        self.run_program("delete-topic", "t", "--yes")
        self.create()
        self.fill(7)
        member.terminate()
        harness.finish(member)
        self.assertEqual(self.offsets("t"), {0: list(range(7))})


class LostPositions(groups.GroupTest):
    """Two partitions of twenty records; the group stands at 10 in both."""

    def setUp(self):
        super().setUp()
        self.create("t", "-p", "2")
        for p in range(2):
            self.fill(20, p)
        self.run_program("commit", "-g", "g", "t:0:10", "t:1:10")

    def test_retention_passed_it_by(self):
        healthy = self.described()["t", 0]["state"]
        self.set_log_start(15, 1)
        rows = self.described()
        self.assertEqual(rows["t", 0]["state"], healthy)
        self.assertNotEqual(rows["t", 1]["state"], healthy)
        self.assertEqual((rows["t", 1]["committed"], rows["t", 1]["start_offset"], rows["t", 1]["end_offset"]), (10, 15, 20))
        result = self.run_program("consume", "t", "-g", "g", "-f", "%p %o\\n")
        self.assertEqual(sorted(result.lines), sorted([b"0 %d" % n for n in range(10, 20)] + [b"1 %d" % n for n in range(15, 20)]))
        self.assertEqual(len(result.notices), 1, result.text)
        for number in ("5", "10", "14", "t:1"):
            self.assertRegex(result.text, r"\b%s\b" % number)
        self.assertEqual((self.position(0), self.position(1)), (20, 20))
        self.assertEqual(self.described()["t", 1]["state"], healthy)

    def test_reset_fail(self):
        """The other partition is read; of this one nothing, and its position stays for whoever looks into it."""
        self.set_log_start(15, 1)
        result = self.run_program("consume", "t", "-g", "g", "--reset", "fail", "-f", "%p %o\\n", status=4)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertIn("t:1: 5 records lost, offsets 10 to 14: the log now starts at 15", result.text)
        self.assertIn('group "g"', result.text)
        self.assertEqual(result.lines, [b"0 %d" % n for n in range(10, 20)])
        self.assertEqual((self.position(0), self.position(1)), (20, 10))
        self.run_the_command_that_mends(result.text)
        self.assertEqual(self.position(1), 15)

    def test_reset_latest(self):
        self.set_log_start(15, 1)
        result = self.run_program("consume", "t", "-g", "g", "--reset", "latest", "-f", "%p %o\\n")
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual(result.lines, [b"0 %d" % n for n in range(10, 20)])
        self.fill(3, 1, start=20)
        self.assertEqual(self.offsets("t"), {1: [20, 21, 22]})

    def test_at_the_start_nothing_is_lost(self):
        self.set_log_start(10, 1)
        result = self.run_program("consume", "t", "-g", "g", "-f", "%p %o\\n")
        self.assertEqual((len(result.lines), result.err), (20, b""))

    def test_all_of_it_is_gone(self):
        self.set_log_start(20, 1)
        result = self.run_program("consume", "t", "-g", "g", "-f", "%p %o\\n")
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual(result.lines, [b"0 %d" % n for n in range(10, 20)])
        self.assertEqual((self.position(0), self.position(1)), (20, 20))

    def test_with_exec(self):
        self.set_log_start(15, 1)
        result = self.run_program("consume", "t", "-g", "g", "-f", "%p %o\\n", "--exec", "cat >> got", cwd=self.directory)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual(self.content("got").count(b"\n"), 15)

    def test_past_the_end(self):
        healthy = self.described()["t", 0]["state"]
        self.edit_offset(1, offset=100)
        row = self.described()["t", 1]
        self.assertEqual(row["committed"], 100)
        self.assertNotEqual(row["state"], healthy)
        for reset in ([], ["--reset", "latest"], ["--reset", "earliest"], ["--reset", "fail"]):
            with self.subTest(reset=reset):
                result = self.run_program("consume", "t", "-g", "g", "-f", "%p %o\\n", *reset, status=4)
                self.assertEqual(result.lines, [] if reset else [b"0 %d" % n for n in range(10, 20)])
                self.assertEqual(len(result.notices), 1, result.text)
                self.assertIn("100", result.text)
                self.assertIn("20", result.text)
                self.assertEqual((self.position(0), self.position(1)), (20, 100))
        self.run_the_command_that_mends(result.text)
        self.assertLessEqual(self.position(1), 20)
        self.fill(2, 1, start=20)
        got = self.offsets("t")[1]
        self.assertEqual(got[-2:], [20, 21])

    def run_the_command_that_mends(self, text):
        command = re.search(r"(partlog reset-offset .* --execute)", text)
        self.assertTrue(command, "no command that mends it: " + text)
        self.run_program("-c", command.group(1).replace("partlog", '"$PROGRAM"', 1), program=["sh"])

    def follow(self, *args):
        with open(self.path("out"), "wb") as out:
            return self.member("-F", "-f", "%p %o\\n", "--commit-interval", "10ms", *args, stdout=out)

    def test_past_the_end_while_following(self):
        """Never a silent wait. It is said once, with what is to be done: the members first, then the command."""
        self.edit_offset(1, offset=100)
        member = self.follow()
        messages = harness.Lines(member.stderr)
        message = messages.next()
        self.assertRegex(message, rb"\(once the members of the group have ended, partlog .*reset-offset .* --execute mends it\)$")
        self.wait_beside(member, lambda: self.position(0) == 20, "the other partition")
        self.run_program("reset-offset", "-g", "g", "t:1", "--to-latest", "--execute", status=6)
        time.sleep(0.6)  # two looks
        member.terminate()
        self.assertEqual((messages.rest([]), member.wait()), ([], 143))
        self.assertEqual(self.position(1), 100)
        self.run_the_command_that_mends(message.decode())
        self.assertEqual(self.position(1), 20)

    def test_past_the_end_until_the_log_has_grown(self):
        """Read from there on; whether it could be read in the end is what the status says."""
        for more, status in ((0, 4), (2, 4), (5, 0)):
            with self.subTest(more=more):
                end = self.described()["t", 1]["end_offset"]
                self.edit_offset(1, offset=end + 3)
                member = self.follow("--idle-timeout", "2s")
                self.assertIn(b"past the end", harness.Lines(member.stderr).next())
                self.fill(more, 1, start=end)
                result = harness.finish(member)
                self.assertEqual((result.status, result.err), (status, b""))
                got = [line for line in self.content("out").splitlines() if line.startswith(b"1 ")]
                self.assertEqual(got, [b"1 %d" % n for n in range(end + 3, end + more)])

    def test_past_the_end_until_somebody_moves_it(self):
        self.edit_offset(1, offset=100)
        member = self.follow()
        self.assertIn(b"past the end", harness.Lines(member.stderr).next())
        self.edit_offset(1, offset=17)
        self.wait_beside(member, lambda: self.position(1) == 20, "the partition to be read", 2)
        self.stop(member)

    def test_past_the_end_is_all_there_is(self):
        self.run_program("reset-offset", "-g", "g", "t:0", "--to-latest", "--execute")
        for p in range(2):
            self.edit_offset(p, offset=100)
        result = self.run_program("consume", "t", "-g", "g", "-F", status=4)
        self.assertEqual(len(result.notices), 2, result.text)

    def test_a_script_beyond_the_end_says_so(self):
        self.edit_offset(1, offset=100)
        self.run_program("commit", "-g", "g", "t:1:20", status=1)
        self.assertEqual(self.position(1), 100)


class Cuts(groups.GroupTest):
    """`cuts` says where the log ended when the host restarted; what a group had committed above that was never stored for good."""

    def setUp(self):
        super().setUp()
        self.create()
        self.fill(25)
        self.run_program("commit", "-g", "g", "t:0:20")

    def cuts(self, *offsets):
        with open(os.path.join(self.partition(), "cuts"), "w") as f:
            for n, offset in enumerate(offsets):
                f.write("%d 0000000%d-1111-2222-3333-444444444444 2026-01-0%dT00:00:00.000Z\n" % (offset, n, n + 1))

    def check(self, start, notices):
        result = self.run_program("consume", "t", "-g", "g", "-f", "%o\\n")
        self.assertEqual([int(n) for n in result.lines], list(range(start, 25)))
        self.assertEqual(len(result.notices), notices, result.text)
        self.assertEqual(self.position(), 25)
        return result

    def test_above_a_cut(self):
        self.cuts(15)
        result = self.check(15, 1)
        self.assertIn("15", result.text)
        self.assertIn("20", result.text)
        self.assertEqual(self.offset_fields()["cuts"], "1")
        self.assertEqual(self.run_program("consume", "t", "-g", "g").err, b"")

    def test_below_or_at_a_cut(self):
        for cut in (20, 21, 25):
            with self.subTest(cut=cut):
                self.run_program("reset-offset", "-g", "g", "t", "--to-offset", "20", "--execute")
                self.edit_offset(cuts=0)
                self.cuts(cut)
                self.check(20, 0)

    def test_several(self):
        for cuts, start in (((15, 12), 12), ((12, 15), 12), ((18, 22), 18), ((22, 24), 20)):
            with self.subTest(cuts=cuts):
                self.cuts()
                self.run_program("reset-offset", "-g", "g", "t", "--to-offset", "20", "--execute")
                self.cuts(*cuts)
                self.check(start, 1 if start < 20 else 0)

    def test_seen_before(self):
        """A position committed after the restart knows of the cut."""
        self.cuts(15)
        self.edit_offset(cuts=1)
        self.check(20, 0)
        self.cuts(15, 21)
        self.check(21, 1)

    def test_the_log_has_grown_to_the_old_position_again(self):
        """Then what was delivered since ends where the old position was; it is committed all the same."""
        self.run_program("reset-offset", "-g", "g", "t", "--to-latest", "--execute")
        self.cuts(21)
        self.check(21, 1)
        self.assertEqual(self.offsets("t"), {})

    def test_positions_file_after_a_cut(self):
        """It does not speak of records that were lost as if they had been read."""
        self.run_program("reset-offset", "-g", "g", "t", "--to-latest", "--execute")
        self.cuts(21)
        got = self.run_program("consume", "t", "-g", "g", "-c", "1", "-f", "%o\\n", "--positions", self.path("positions"))
        self.assertEqual(got.lines, [b"21"])
        self.assertEqual((self.position(), self.content("positions")), (22, b"t,0,22\n"))

    def test_below_the_log_start_as_well(self):
        self.cuts(12)
        self.set_log_start(16)
        result = self.run_program("consume", "t", "-g", "g", "-f", "%o\\n")
        self.assertEqual([int(n) for n in result.lines], list(range(16, 25)))

    def test_a_script_may_commit_from_the_cut_on(self):
        """The position is at the cut, so forward begins there."""
        self.cuts(15)
        self.run_program("commit", "-g", "g", "t:0:17")
        self.assertEqual((self.position(), self.offset_fields()["cuts"]), (17, "1"))
        self.check(17, 0)

    def test_describe_group_shows_it(self):
        before = self.described()["t", 0]["state"]
        self.cuts(15)
        row = self.described()["t", 0]
        self.assertNotEqual(row["state"], before)
        self.assertEqual(row["lag"], 10)

    def power_cut(self):
        """The last ten of thirty-five records were never synced: after a restart they are gone."""
        log = self.log_path()
        kept = os.path.getsize(log)
        self.fill(10, start=25)
        self.run_program("commit", "-g", "g", "t:0:35")
        with open(log, "r+b") as f:
            f.truncate(kept)
        self.expect_indexes = False
        self.environment["PARTLOG_BOOT_ID"] = "after-the-power-cut"

    def test_records_that_a_power_cut_took(self):
        """The group is above the end now; that is no error, since the host has restarted."""
        self.power_cut()
        self.assertEqual(self.end_offset(), 25)
        result = self.run_program("consume", "t", "-g", "g", "-f", "%o\\n")
        self.assertEqual((result.out, len(result.notices)), (b"", 1), result.text)
        self.fill(12, start=25)
        self.assertEqual(self.offsets("t"), {0: list(range(25, 37))})

    def test_and_new_ones_filled_their_place(self):
        self.power_cut()
        self.fill(12, start=25)
        result = self.run_program("consume", "t", "-g", "g", "-f", "%o\\n")
        self.assertEqual([int(n) for n in result.lines], list(range(25, 37)))
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual(self.run_program("consume", "t", "-g", "g").err, b"")

    def test_without_a_restart_it_is_an_error(self):
        self.power_cut()
        del self.environment["PARTLOG_BOOT_ID"]
        self.run_program("consume", "t", "-g", "g", status=4)


class Damage(groups.GroupTest):
    """Three partitions of ten records, and a second group; the group stands at 4 everywhere."""

    OTHERS = [b"%d %d" % (p, n) for p in (0, 2) for n in range(4, 10)]

    def setUp(self):
        super().setUp()
        self.create("t", "-p", "3")
        for p in range(3):
            self.fill(10, p)
        for group in ("g", "h"):
            self.run_program("commit", "-g", group, *["t:%d:4" % p for p in range(3)])
        with open(self.offset_path(1), "rb") as f:
            self.good = f.read()

    def put(self, path, content):
        """content: bytes, or a word for what else may be in the way."""
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        if content == "directory":
            os.mkdir(path)
            open(os.path.join(path, "file"), "w").close()
        elif content == "fifo":
            os.mkfifo(path)
        elif content == "dangling link":
            os.symlink("/nonexistent/file", path)
        else:
            with open(path, "wb") as f:
                f.write(content)

    KINDS = {
        "empty": b"", "cut": b"offs", "garbage": bytes(range(256)) * 3, "zeros": bytes(200), "text": b"hello world\n", "number": b"7\n",
        "negative": b"offset=-5\n", "no number": b"offset=x\n", "overflow": b"offset=99999999999999999999\n", "large": b"x" * (3 << 20),
        "directory": "directory", "fifo": "fifo", "dangling link": "dangling link",
    }

    def check_damaged(self, kind, path, statuses, **how):
        """The partition's file is unusable: one message naming it; the others are read and committed as before."""
        result = self.run_program("consume", "t", "-g", "g", "-f", "%p %o\\n", status=None, timeout=30, **how)
        self.assertIn(result.status, statuses, result.text)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertIn(path, result.text)
        self.assertEqual(sorted(result.lines), self.OTHERS)
        self.assertEqual((self.position(0), self.position(2)), (10, 10))

    def test_offset_files(self):
        path = self.offset_path(1)
        for kind, content in self.KINDS.items():
            with self.subTest(kind=kind):
                self.put(path, content)
                for p in (0, 2):
                    self.edit_offset(p, offset=4)
                statuses = (1, 5) if kind in ("directory", "fifo") else (5,)
                row = self.run_program("describe-group", "g", "--json", status=None, timeout=30)
                self.assertIn(row.status, statuses, row.text)
                rows = {r["partition"]: r for r in row.json()}
                self.assertEqual((rows[0]["committed"], rows[2]["committed"]), (4, 4))
                self.assertIn("error", rows[1])
                self.assertIn(path, row.text)
                result = self.run_program("commit", "-g", "g", "t:0:5", "t:1:5", "t:2:5", status=None, timeout=30)
                self.assertIn(result.status, statuses, result.text)
                self.assertEqual(len(result.notices), 1, result.text)
                self.assertIn(path, result.text)
                self.assertEqual((self.position(0), self.position(2)), (5, 5))
                for p in (0, 2):
                    self.edit_offset(p, offset=4)
                self.check_damaged(kind, path, statuses)
        self.assertEqual(self.run_program("consume", "t", "-g", "h", "-f", "%p %o\\n").err, b"")

    def test_a_damaged_offset_file_is_mended_by_a_reset(self):
        """What is lost with it is said before it is done, and when it is done."""
        for content in (b"", b"garbage\n", self.good[:20], "dangling link"):
            with self.subTest(content=content):
                self.put(self.offset_path(1), content)
                reset = ["reset-offset", "-g", "g", "t:1", "--to-offset", "6"]
                told = self.run_program(*reset, "--dry-run")
                self.assertEqual(len(told.notices), 1, told.text)
                self.assertIn(self.offset_path(1), told.text)
                self.assertEqual(self.run_program(*reset, "--execute").err, told.err)
                self.assertEqual(self.position(1), 6)

    def test_a_dangling_link_can_be_deleted(self):
        self.put(self.offset_path(1), "dangling link")
        self.run_program("delete-offsets", "-g", "g", "t:1", "--yes")
        self.assertFalse(os.path.lexists(self.offset_path(1)))

    def test_a_cut_offset_file_never_gives_another_position(self):
        """A number that lost its last digits is a number, too."""
        self.create("long")
        self.fill(1234, topic="long")
        self.run_program("commit", "-g", "g", "long:0:1234")
        path = self.offset_path(0, "long")
        with open(path, "rb") as f:
            good = f.read()
        for length in range(len(good)):
            with self.subTest(length=length):
                self.put(path, good[:length])
                result = self.run_program("describe-group", "g", "--json", status=None)
                row = [r for r in result.json() if r["topic"] == "long"][0]
                if result.status == 0:
                    self.assertEqual(row["committed"], 1234)
                else:
                    self.assertEqual(result.status, 5)
                    self.assertIn(path, result.text)

    def test_a_member_meets_a_damaged_file_while_it_commits(self):
        with open(self.path("out"), "wb") as out:
            member = self.member("-F", "--commit-interval", "10ms", stdout=out)
        self.wait_beside(member, lambda: self.moved(3) == 30, "the commits")
        self.put(self.offset_path(1), b"garbage\n")
        self.fill(5, 1, start=10)
        message = harness.Lines(member.stderr).next()
        self.assertIn(self.offset_path(1).encode(), message)
        member.terminate()
        self.assertIn(harness.finish(member).status, (5, 143))
        with open(self.offset_path(1), "rb") as f:
            self.assertEqual(f.read(), b"garbage\n")

    def follow(self, *args):
        with open(self.path("out"), "ab") as out:
            return self.member("-F", "-f", "%p %o\\n", "--commit-interval", "10ms", *args, stdout=out)

    def test_a_member_that_follows_says_it_once_and_takes_it_when_mended(self):
        """Several looks go by while the others are read; then the cause is another one."""
        lock = self.offset_path(1) + ".lock"
        for path, kinds in ((self.offset_path(1), ("empty", "directory")), (lock, ("directory",)),
                            (self.group_path("claims", "t", "1.lock"), ("directory",))):
            with self.subTest(path=os.path.relpath(path, self.store)):
                for p in range(3):
                    self.edit_offset(p, offset=4)
                for kind in kinds:
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    self.put(path, self.KINDS[kind])
                    if kind == kinds[0]:
                        member = self.follow()
                        messages = harness.Lines(member.stderr)
                    message = messages.next()
                    self.assertIn(path.encode(), message)
                    self.wait_beside(member, lambda: (self.position(0), self.position(2)) == (10, 10), "the others")
                    time.sleep(0.8)  # three looks
                self.put(path, self.good if path == self.offset_path(1) else b"")
                self.wait_beside(member, lambda: self.position(1) == 10, "the partition that was mended", 2)
                member.terminate()
                rest = messages.rest([])
                self.assertEqual(rest, [], rest)
                self.assertEqual(member.wait(), 143)

    def test_what_is_in_the_way_of_several_partitions_is_said_once(self):
        shutil.rmtree(self.group_path("offsets", "t"))
        self.put(self.group_path("offsets", "t"), b"")
        member = self.follow("--idle-timeout", "1s")
        result = harness.finish(member)
        self.assertEqual((result.status, len(result.notices)), (1, 1), result.text)

    def test_group_properties(self):
        self.offsets("t", "-c", "1")  # it exists once somebody has joined
        path = self.group_path("group.properties")
        self.assertTrue(os.path.exists(path))
        for kind, content in self.KINDS.items():
            if kind == "dangling link":
                continue
            with self.subTest(kind=kind):
                self.put(path, content)
                for args in (["consume", "t", "-g", "g", "-c", "1"], ["describe-group", "g"]):
                    result = self.run_program(*args, status=None, timeout=30)
                    if result.status == 0:
                        # Made anew from the members, who are known by their locks: then only a notice, or nothing at all.
                        self.assertLessEqual(len(result.notices), 1, result.text)
                        continue
                    self.assertIn(result.status, (1, 5), result.text)
                    self.assertEqual(len(result.notices), 1, result.text)
                    self.assertIn(path, result.text)
                # A script and the other group are not concerned.
                self.run_program("commit", "-q", "-g", "h", "t:0:10", status=None)
                self.assertEqual(self.position(0, group="h"), 10)

    def in_the_way(self, path, commands, kinds=("directory",), statuses=(1, 5)):
        for kind in kinds:
            for args in commands:
                with self.subTest(path=os.path.relpath(path, self.store), kind=kind, args=args):
                    shutil.rmtree(path, ignore_errors=True)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    self.put(path, self.KINDS[kind])
                    result = self.run_program(*args, status=None, timeout=30)
                    self.assertIn(result.status, statuses, result.text)
                    self.assertEqual(len(result.notices), 1, result.text)
                    self.assertIn(path, result.text)
                    self.assertNotIn(path + "/", result.text)

    def test_something_in_the_way(self):
        consume = ["consume", "t", "-g", "g", "-c", "1"]
        commit = ["commit", "-g", "g", "t:1:5"]
        self.in_the_way(self.group_path("group.lock"), [consume, ["reset-offset", "-g", "g", "t", "--to-earliest", "--execute"]])
        self.put(self.group_path("group.lock"), b"")
        self.in_the_way(self.offset_path(1) + ".lock", [commit])
        self.put(self.offset_path(1) + ".lock", b"")
        self.in_the_way(self.group_path("members"), [consume], kinds=("text",))
        self.put(self.group_path("members"), "directory")
        self.in_the_way(self.group_path("offsets", "t"), [commit], kinds=("text",))
        self.in_the_way(self.group_path("offsets"), [commit, consume], kinds=("text",))
        self.assertEqual(self.run_program("commit", "-g", "h", "t:1:5").err, b"")
        self.assertEqual(self.run_program("consume", "t", "-g", "h", "-c", "1").err, b"")

    def test_what_is_in_the_way_is_named_once_and_foreseen(self):
        """It is what stands there, not what should have stood below it, and once for all that fails of it; in a dry run, too."""
        commit = ["commit", "-g", "g", "t:0:5", "t:1:5", "t:2:5"]
        reset = ["reset-offset", "-g", "g", "t", "--to-earliest"]
        group_lock = [["delete-group", "g"], reset + ["--execute"], ["delete-offsets", "-g", "g", "t"]]
        places = ((self.group_path("offsets", "t"), "text", [commit, reset + ["--execute"]]),
                  (self.group_path("offsets"), "text", [commit, reset + ["--execute"]]),
                  (self.group_path("group.lock"), "directory", group_lock),
                  (self.offset_path(1) + ".lock", "directory", [commit]),
                  (self.group_path(), "text", [commit, reset + ["--execute"], ["delete-group", "g"], ["consume", "t", "-g", "g"],
                                               ["describe-group", "g"], ["delete-offsets", "-g", "g", "t"]]),
                  (os.path.join(self.store, "groups"), "text", [commit, ["consume", "t", "-g", "g"]]))
        whole = self.path("groups")
        os.rename(os.path.join(self.store, "groups"), whole)
        for path, kind, commands in places:
            groups_path = os.path.join(self.store, "groups")
            shutil.rmtree(groups_path, ignore_errors=True)
            shutil.copytree(whole, groups_path)
            self.put(path, self.KINDS[kind])
            for args in commands:
                runs = [args + ["--yes"] if args[0].startswith("delete") else args]
                if args[0] in ("commit", "reset-offset") or args[0].startswith("delete"):
                    runs.append([a for a in args if a != "--execute"] + ["--dry-run"])
                for run in runs:
                    with self.subTest(path=os.path.relpath(path, self.store), run=run):
                        result = self.run_program(*run, status=1, timeout=30)
                        self.assertEqual(len(result.notices), 1, result.text)
                        self.assertIn(path, result.text)
                        self.assertNotIn(path + "/", result.text)

    def test_a_claim_in_the_way_of_scripts(self):
        """Of the partitions of a topic only that one is refused."""
        self.offsets("t", "-c", "0")
        path = self.group_path("claims", "t", "1.lock")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.put(path, "directory")
        reset = ["reset-offset", "-g", "g", "t", "--to-offset", "2"]
        delete = ["delete-offsets", "-g", "g", "t"]
        for args, after in ((reset + ["--dry-run"], (4, 4, 4)), (reset + ["--execute"], (2, 4, 2)), (delete + ["--dry-run"], (2, 4, 2)),
                            (delete + ["--yes"], (None, 4, None))):
            with self.subTest(args=args):
                result = self.run_program(*args, status=1)
                self.assertEqual(len(result.notices), 1, result.text)
                self.assertIn(path, result.text)
                self.assertEqual(tuple(self.position(p) for p in range(3)), after)

    def test_a_claim_in_the_way(self):
        """That partition cannot be had; the others are read."""
        self.offsets("t", "-c", "0")
        path = self.group_path("claims", "t", "1.lock")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self.put(path, "directory")
        result = self.run_program("consume", "t", "-g", "g", "-f", "%p %o\\n", status=None, timeout=30)
        self.assertIn(result.status, (1, 5), result.text)
        self.assertEqual(len(result.notices), 1, result.text)
        self.assertIn(path, result.text)
        self.assertEqual(sorted(result.lines), self.OTHERS)

    def test_foreign_files(self):
        """What is no group, topic or partition among the files concerns nobody."""
        self.offsets("t", "-c", "1")
        for path in (self.group_path("notes"), self.group_path("offsets", "README"), self.group_path("offsets", "t", "notes"),
                     self.group_path("offsets", "t", "1.lock.bak"), self.group_path("offsets", "t", "01"), self.group_path("members", "x"),
                     self.group_path("members", ".hidden"), os.path.join(self.store, "groups", "README"),
                     os.path.join(self.store, "groups", ".hidden")):
            with open(path, "w") as f:
                f.write("a note\n")
        for path in (self.group_path("offsets", "a b"), self.group_path("claims", "t", "x.lock"), self.group_path("members", "d"),
                     os.path.join(self.store, "groups", "a b")):
            os.makedirs(path)
        rows = self.run_program("list-groups", "--json").json()
        self.assertEqual([row["group"] for row in rows], ["g", "h"])
        self.assertEqual(sorted(self.described()), [("t", 0), ("t", 1), ("t", 2)])
        result = self.run_program("consume", "t", "-g", "g", "-f", "%p %o\\n")
        self.assertEqual((len(result.lines), result.err), (17, b""))
        self.run_program("consume", "t", "-g", "h")

    def test_positions_in_topics_that_are_gone(self):
        self.create("gone")
        self.fill(3, topic="gone")
        self.run_program("commit", "-g", "g", "gone:0:2")
        self.run_program("delete-topic", "gone", "--yes")
        result = self.run_program("describe-group", "g", "--json", status=None)
        rows = {(r["topic"], r["partition"]): r for r in result.json()}
        self.assertEqual([rows["t", p]["committed"] for p in range(3)], [4] * 3)
        result = self.run_program("consume", "t", "-g", "g")
        self.assertEqual((len(result.lines), result.err), (18, b""))

    def as_nobody(self):
        self.need_root("becoming another user")
        os.chmod(self.directory, 0o755)
        program = self.path("partlog")
        shutil.copy(harness.PROGRAM, program)
        os.chmod(program, 0o755)
        for path, directories, files in os.walk(self.store):
            os.chown(path, NOBODY, NOBODY)
            for name in files:
                os.chown(os.path.join(path, name), NOBODY, NOBODY)
        return {"program": [program], "user": NOBODY, "group": NOBODY, "extra_groups": []}

    def test_an_offset_file_of_another_user(self):
        how = self.as_nobody()
        path = self.offset_path(1)
        os.chown(path, 0, 0)
        os.chmod(path, 0o600)
        self.check_damaged("permissions", path, (1, 5), **how)
        result = self.run_program("commit", "-g", "g", "t:1:5", status=None, **how)
        self.assertIn(result.status, (1, 5))
        self.assertIn(path, result.text)

    def test_directories_of_another_user(self):
        how = self.as_nobody()
        for path, args in ((self.group_path("offsets", "t"), ["commit", "-g", "g", "t:1:5"]), (self.group_path(), ["consume", "t", "-g", "g"]),
                           (os.path.join(self.store, "groups"), ["commit", "-g", "new", "t:1:5"])):
            with self.subTest(args=args, path=os.path.relpath(path, self.store)):
                os.chown(path, 0, 0)
                os.chmod(path, 0o755)
                before = harness.tree(self.store)
                result = self.run_program(*args, status=1, **how)
                self.assertEqual(len(result.notices), 1, result.text)
                self.assertIn(path, result.text)
                self.assertIn("Permission denied", result.text)
                self.assertEqual(result.out, b"")
                # Nor is there a file left of the member that could not join.
                self.assertEqual({k: v[6] for k, v in harness.tree(self.store).items()}, {k: v[6] for k, v in before.items()})
                os.chown(path, NOBODY, NOBODY)
        self.run_program("consume", "t", "-g", "g", **how)

    def test_looking_needs_no_permission_to_write(self):
        how = self.as_nobody()
        for path, directories, files in os.walk(self.store):
            for name in directories + files:
                os.chown(os.path.join(path, name), 0, 0)
        before = harness.tree(self.store)
        for args in (["describe-group", "g"], ["list-groups"], ["describe-group", "g", "--members"]):
            with self.subTest(args=args):
                self.assertEqual(self.run_program(*args, **how).err, b"")
        self.assertEqual(harness.tree(self.store), before)

    def test_unknown_group(self):
        for args in (["describe-group", "gg"], ["delete-group", "gg", "--yes"]):
            with self.subTest(args=args):
                self.refused(*args, status=1, names=["gg"], rows=True)


if __name__ == "__main__":
    harness.main()
