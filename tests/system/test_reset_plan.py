"""reset-offset: the plan of every target, what --dry-run and --export leave alone, what --execute does, and the files of positions."""

import datetime
import os
import re

import harness

FIELDS = ["group", "topic", "partition", "old", "new", "time", "note"]
TIMES = (1000, 2000, 2000, 2000, 3000)  # of the records of topic t, at the offsets 0 to 4
END = len(TIMES)


def iso(ms):
    return "1970-01-01T00:00:%02d.%03dZ" % divmod(ms, 1000)


class ResetTest(harness.Test):
    def setUp(self):
        super().setUp()
        self.create("t")
        self.fill("t", TIMES)

    def fill(self, topic, times, partition=0):
        lines = "".join('{"value":"%d","timestamp":%d}\n' % (n, t) for n, t in enumerate(times))
        self.produce(lines.encode(), "-q", "-J", "-p", str(partition), topic=topic)

    def start_log_at(self, topic, offset):
        """As delete-records or retention would."""
        with open(os.path.join(self.partition(topic), "log-start-offset"), "w", encoding="ascii") as f:
            f.write("%d\n" % offset)

    def commit(self, *positions, group="g"):
        self.run_program("commit", "-g", group, *positions)

    def reset(self, *args, group="g", status=0, **how):
        return self.run_program("reset-offset", "-g", group, *args, status=status, **how)

    def plan(self, *args, **how):
        """The rows of a dry run, which changes no byte under the store."""
        before = harness.tree(self.store)
        result = self.reset(*args, "--dry-run", "--json", **how)
        self.assertEqual(harness.tree(self.store), before, args)
        rows = result.json()
        for row in rows:
            self.assertEqual(list(row)[:len(FIELDS)], FIELDS, args)
        return rows

    def planned(self, *args, **how):
        rows = self.plan(*args, **how)
        self.assertEqual(len(rows), 1, rows)
        return rows[0]

    def expect_plan(self, *args, new, old=2, time=None, clamped=False, topic="t", **how):
        """One row: `time` is what the target's time is resolved to, `clamped` whether a note must say that it was moved."""
        target = args if topic is None else (topic, *args)
        with self.subTest(target=args):
            row = self.planned(*target, **how)
            self.assertEqual((row["old"], row["new"], row["time"]), (old, new, time))
            self.assertEqual(bool(row["note"]), clamped, row)
            return row

    def positions(self, group="g"):
        """Committed offsets as describe-group tells them."""
        rows = self.run_program("describe-group", group, "--json").json()
        return {(r["topic"], r["partition"]): r["committed"] for r in rows if r["committed"] is not None}

    def offset_files(self, group="g"):
        """Committed offsets as they stand in the files."""
        found, base = {}, os.path.join(self.store, "groups", group, "offsets")
        for topic in os.listdir(base) if os.path.isdir(base) else []:
            for name in os.listdir(os.path.join(base, topic)):
                if name.isdigit():
                    with open(os.path.join(base, topic, name), encoding="utf-8") as f:
                        offset = re.search(r"^offset=(\d+)$", f.read(), re.M)
                    found[(topic, int(name))] = int(offset.group(1))
        return found

    def expect_positions(self, expected, group="g"):
        self.assertEqual(self.positions(group), expected)
        self.assertEqual(self.offset_files(group), expected)

    def file(self, text, name="positions"):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path


class Targets(ResetTest):
    def setUp(self):
        super().setUp()
        self.commit("t:0:2")

    def test_ends_and_where_it_stands(self):
        self.expect_plan("--to-earliest", new=0)
        self.expect_plan("--to-latest", new=END)
        self.expect_plan("--to-current", new=2)

    def test_offsets(self):
        for offset in range(END + 1):
            self.expect_plan("--to-offset", str(offset), new=offset)
        self.expect_plan("--to-offset", str(END + 1), new=END, clamped=True)
        self.expect_plan("--to-offset", "9223372036854775807", new=END, clamped=True)

    def test_shifts(self):
        for shift in range(-2, 4):
            self.expect_plan("--shift-by", str(shift), new=2 + shift)
        self.expect_plan("--shift-by", "4", new=END, clamped=True)
        self.expect_plan("--shift-by", "+1", new=3)
        self.expect_plan("--shift-by=-3", new=0, clamped=True)
        for far in ("9223372036854775807", "-9223372036854775808"):
            self.expect_plan("--shift-by", far, new=0 if far[0] == "-" else END, clamped=True)

    def test_below_the_start_of_the_log(self):
        self.start_log_at("t", 3)
        self.expect_plan("--to-earliest", new=3)
        self.expect_plan("--to-offset", "3", new=3)
        self.expect_plan("--to-offset", "1", new=3, clamped=True)
        self.expect_plan("--to-offset", "0", new=3, clamped=True)
        self.expect_plan("--shift-by", "-1", new=3, clamped=True)
        self.expect_plan("--shift-by", "0", new=3, clamped=True)
        self.expect_plan("--shift-by", "2", new=4)
        self.expect_plan("--to-current", new=3, clamped=True)
        row = self.planned("t", "--to-datetime", "1970-01-01T00:00:01Z")
        self.assertEqual((row["new"], row["time"]), (3, iso(1000)))

    def test_date_times(self):
        for ms, offset in ((0, 0), (1, 0), (1000, 0), (1001, 1), (1999, 1), (2000, 1), (2001, 4), (3000, 4)):
            self.expect_plan("--to-datetime", iso(ms), new=offset, time=iso(ms))
        for text in ("1970-01-01T00:00:02", "1970-01-01 00:00:02", "1970-01-01T00:00:02.000Z", "1970-01-01T02:00:02+02:00",
                     "1970-01-01T05:45:02+05:45", "1969-12-31T14:30:02-09:30", "0000000002000",
                     "0000000002", "@2", "@2.000"):
            self.expect_plan("--to-datetime", text, new=1, time=iso(2000))
        self.expect_plan("--to-datetime", "1970-01-01", new=0, time=iso(0))

    def test_date_times_without_a_zone(self):
        """They are UTC, wherever the program runs; --local makes them local."""
        zone = {"TZ": "EST5"}
        self.expect_plan("--to-datetime", "1970-01-01T00:00:02", new=1, time=iso(2000), env=zone)
        self.expect_plan("--to-datetime", "1970-01-01T00:00:02", "--local", new=END, time="1970-01-01T05:00:02.000Z", clamped=True,
                         env=zone)
        self.expect_plan("--to-datetime", "1969-12-31T19:00:02", "--local", new=1, time=iso(2000), env=zone)
        self.expect_plan("--to-datetime", "1970-01-01T00:00:02Z", "--local", new=1, time=iso(2000), env=zone)

    def test_a_time_after_the_last_record(self):
        self.expect_plan("--to-datetime", iso(3001), new=END, time=iso(3001), clamped=True)
        self.expect_plan("--to-datetime", "2038-01-19T03:14:08Z", new=END, time="2038-01-19T03:14:08.000Z", clamped=True)

    def test_times_that_do_not_rise(self):
        """The first record at or after the time, as Kafka has it, though an earlier time stands behind it."""
        self.create("mixed")
        self.fill("mixed", (3000, 1000, 2000))
        for ms, offset in ((1000, 0), (2000, 0), (3000, 0)):
            self.expect_plan("--to-datetime", iso(ms), new=offset, old=None, time=iso(ms), topic="mixed")
        self.create("falling")
        self.fill("falling", (1000, 3000, 2000))
        self.expect_plan("--to-datetime", iso(2000), new=1, old=None, time=iso(2000), topic="falling")

    def test_durations(self):
        now = datetime.datetime.now(datetime.timezone.utc)
        hour = datetime.timedelta(hours=1)
        self.create("recent")
        self.fill("recent", [int((now - n * hour).timestamp() * 1000) for n in (3, 2, 2, 1)])
        for text, hours, offset in (("2h30m", 2.5, 1), ("PT2H30M", 2.5, 1), ("90m", 1.5, 3), ("PT90M", 1.5, 3), ("P1D", 24, 0), ("1d", 24, 0),
                                    ("P1DT2H", 26, 0)):
            with self.subTest(duration=text):
                earliest = datetime.datetime.now(datetime.timezone.utc) - hours * hour
                row = self.planned("recent", "--by-duration", text)
                latest = datetime.datetime.now(datetime.timezone.utc) - hours * hour
                self.assertEqual((row["old"], row["new"]), (None, offset))
                self.assertFalse(row["note"], row)
                time = datetime.datetime.fromisoformat(row["time"].replace("Z", "+00:00"))
                self.assertTrue(earliest - datetime.timedelta(milliseconds=1) <= time <= latest, row)
        row = self.planned("recent", "--by-duration", "30m")
        self.assertEqual(row["new"], 4)
        self.assertTrue(row["note"], "no record is so new")
        self.assertEqual(self.planned("t", "--by-duration", "P1D")["new"], END)

    def test_another_group(self):
        self.commit("t:0:4", group="ahead")
        self.expect_plan("--to-group", "ahead", new=4)
        self.commit("t:0:5", group="at-end")
        self.expect_plan("--to-group", "at-end", new=5)
        self.refused("reset-offset", "-g", "g", "t", "--to-group", "absent", "--dry-run", status=1, names=["absent"])
        self.refused("reset-offset", "-g", "g", "t", "--to-group", "absent", "--execute", status=1, names=["absent"])

    def test_a_file(self):
        self.expect_plan("--from-file", self.file("t,0,4\n"), new=4, topic=None)
        self.expect_plan("--from-file", self.file("\nt,0,1\n\n"), new=1, topic=None)
        self.expect_plan("--from-file", self.file("t,0,100\n"), new=END, clamped=True, topic=None)
        self.expect_plan("--from-file", "-", new=3, topic=None, input=b"t,0,3\n")

    def test_an_empty_partition(self):
        self.create("empty")
        for target in (["--to-earliest"], ["--to-latest"], ["--to-offset", "0"]):
            self.expect_plan(*target, new=0, old=None, topic="empty")
        self.expect_plan("--to-offset", "3", new=0, old=None, clamped=True, topic="empty")
        self.assertEqual(self.planned("empty", "--to-datetime", iso(0))["new"], 0)

    def test_executing_does_what_was_planned(self):
        for n, target in enumerate((["--to-earliest"], ["--to-latest"], ["--to-offset", "3"], ["--to-offset", "77"], ["--shift-by", "-1"],
                                    ["--shift-by", "-77"], ["--to-datetime", "1970-01-01T01:00:02+01:00"], ["--to-datetime", iso(9000)],
                                    ["--to-current"])):
            with self.subTest(target=target):
                self.commit("t:0:%d" % (1 + n % 4), group="g%d" % n)
                planned = self.plan("t", *target, group="g%d" % n)
                done = self.reset("t", *target, "--execute", "--json", group="g%d" % n).json()
                self.assertEqual(done, planned)
                self.expect_positions({("t", 0): planned[0]["new"]}, "g%d" % n)


class What(ResetTest):
    """Which partitions, which group."""

    def setUp(self):
        super().setUp()
        self.create("u", "-p", "3")
        for partition in range(3):
            self.fill("u", TIMES, partition)

    def test_partitions_of_several_topics(self):
        rows = self.plan("u:0,2", "t", "--to-latest")
        self.assertEqual(sorted((r["topic"], r["partition"], r["old"], r["new"]) for r in rows), [("t", 0, None, 5), ("u", 0, None, 5), ("u", 2, None, 5)])
        rows = self.plan("u", "--to-offset", "4")
        self.assertEqual([(r["partition"], r["new"]) for r in rows], [(0, 4), (1, 4), (2, 4)])
        self.assertEqual({r["group"] for r in rows}, {"g"})
        self.commit("u:1:1")
        rows = self.plan("u:1-2", "--to-earliest")
        self.assertEqual([(r["partition"], r["old"], r["new"]) for r in rows], [(1, 1, 0), (2, None, 0)])

    def test_all_topics_of_the_group(self):
        self.create("elsewhere")
        self.commit("t:0:1", "u:0:2", "u:1:3", "u:2:4")
        rows = self.plan("--all-topics", "--to-latest")
        self.assertEqual([(r["topic"], r["partition"], r["old"], r["new"]) for r in rows if r["topic"] != "elsewhere"],
                         [("t", 0, 1, 5), ("u", 0, 2, 5), ("u", 1, 3, 5), ("u", 2, 4, 5)])
        self.assertNotIn("elsewhere", {r["topic"] for r in rows}, "the group never read it")

    def test_an_unknown_group_is_created(self):
        self.expect_plan("--to-offset", "3", new=3, old=None)
        self.assertFalse(os.path.exists(os.path.join(self.store, "groups", "g")))
        self.reset("t", "--to-offset", "3", "--execute")
        self.expect_positions({("t", 0): 3})
        self.assertIn("g", self.run_program("list-groups", "--tsv").out.decode().split())

    def test_an_unknown_topic_leaves_no_file(self):
        for mode in ("--dry-run", "--execute", "--export"):
            result = self.reset("tt", "--to-earliest", mode, status=1)
            self.assertIn("tt", result.text)
            self.assertFalse(os.path.exists(os.path.join(self.store, "groups", "g")), mode)
        self.commit("t:0:1")
        before = harness.tree(self.store)
        for target in (["absent", "--to-earliest"], ["--from-file", self.file("absent,0,1\n")]):
            result = self.reset(*target, "--execute", status=1)
            self.assertIn("absent", result.text)
            self.assertEqual(harness.tree(self.store), before, target)

    def test_the_others_are_done_if_one_is_not_there(self):
        result = self.reset("absent", "t", "--to-offset", "4", "--execute", "--json", status=1)
        self.assertEqual([(r["topic"], r["new"]) for r in result.json() if not r.get("error")], [("t", 4)])
        self.expect_positions({("t", 0): 4})

    def test_an_unknown_partition(self):
        self.assertIn("7", self.reset("t:7", "--to-earliest", "--execute", status=2).text)
        self.assertFalse(os.path.exists(os.path.join(self.store, "groups", "g")))

    def test_a_partition_that_is_named_twice(self):
        """As in a file. Several times in one operand it is a set, as everywhere."""
        self.create("w", "-p", "2")
        for operands in (["t:0", "w", "t:0"], ["t", "t:0"], ["w:0-1", "w:1"]):
            with self.subTest(operands=operands):
                result = self.reset(*operands, "--to-earliest", "--execute", status=2)
                self.assertEqual(len(result.notices), 1, result.text)
                self.assertIn("twice", result.text)
                self.assertFalse(os.path.exists(os.path.join(self.store, "groups", "g")))
        self.reset("w:0,0-1", "--to-earliest", "--execute")

    def test_a_shift_needs_a_position(self):
        result = self.reset("t", "--shift-by", "1", "--execute", status=1)
        self.assertRegex(result.text, r"t\b.*0|position")
        self.assertEqual(self.offset_files(), {})

    def test_to_current_without_a_position_is_the_end(self):
        """As Kafka's tool does it."""
        self.assertEqual(self.planned("t", "--to-current")["new"], END)

    def test_usage(self):
        self.commit("t:0:1")
        positions = self.file("t,0,1\n")
        for args in (["t", "--to-earliest"], ["t", "--to-latest", "--dry-run", "--execute"], ["t", "--to-latest", "--export", "--execute"],
                     ["t", "--to-latest", "--export", "-n"], ["t", "--execute"], ["t", "--dry-run"], ["--to-earliest", "--execute"],
                     ["t", "--to-earliest", "--to-latest", "--execute"], ["t", "--to-offset", "1", "--shift-by", "1", "-n"],
                     ["t", "--to-datetime", "1970-01-01", "--by-duration", "1h", "-n"], ["t", "--to-group", "g", "--to-current", "-n"],
                     ["--from-file", positions, "--to-earliest", "--execute"], ["t", "--all-topics", "--to-earliest", "--execute"],
                     ["t", "--to-offset", "x", "-n"], ["t", "--to-offset", "9223372036854775808", "-n"], ["t", "--shift-by", "+-1", "-n"], ["t", "--shift-by", "+", "-n"],
                     ["t", "--to-datetime", "yesterday", "-n"], ["t", "--to-datetime", "12345", "-n"], ["t", "--by-duration", "1x", "-n"],
                     ["t", "--to-datetime", "", "-n"], ["t:0:3", "--to-earliest", "-n"], ["t", "--to-group", "a/b", "-n"]):
            with self.subTest(args=args):
                self.refused("reset-offset", "-g", "g", *args, status=2)
        self.refused("reset-offset", "t", "--to-earliest", "--execute", status=2)
        for name in ("a/b", "..", ""):
            self.refused("reset-offset", "-g", name, "t", "--to-earliest", "--execute", status=2)


class Files(ResetTest):
    """The one file form: Kafka's CSV."""

    LONG = "a-name-that-is-longer-than-24-characters"  # Kafka's tool writes such names in quotes

    def setUp(self):
        super().setUp()
        self.create("u", "-p", "3")
        for partition in range(3):
            self.fill("u", TIMES, partition)
        self.before = {("t", 0): 2, ("u", 0): 0, ("u", 1): 3, ("u", 2): 5}
        self.commit(*("%s:%d:%d" % (*key, offset) for key, offset in self.before.items() if offset))
        self.reset("u:0", "--to-earliest", "--execute")
        self.expect_positions(self.before)

    def export(self, *args):
        before = harness.tree(self.store)
        out = self.reset(*args, "--export").out
        self.assertEqual(harness.tree(self.store), before)
        return out

    def test_export_prints_the_plan(self):
        self.assertEqual(self.export("t", "u", "--to-current"), b"t,0,2\nu,0,0\nu,1,3\nu,2,5\n")
        self.assertEqual(sorted(self.export("u:1", "t", "--to-offset", "100").splitlines()), [b"t,0,5", b"u,1,5"])
        self.assertEqual(self.export("t", "--to-datetime", iso(2000)), b"t,0,1\n")

    def test_export_reset_import_restores(self):
        exported = self.export("--all-topics", "--to-current")
        self.reset("--all-topics", "--to-latest", "--execute")
        self.expect_positions({key: 5 for key in self.before})
        path = os.path.join(self.directory, "exported.csv")
        with open(path, "wb") as f:
            f.write(exported)
        self.reset("--from-file", path, "--execute")
        self.expect_positions(self.before)
        self.reset("--all-topics", "--to-earliest", "--execute")
        self.reset("--from-file", "-", "--execute", input=exported)
        self.expect_positions(self.before)
        self.reset("--from-file", path, "--execute", group="copy")
        self.expect_positions(self.before, "copy")

    def test_kafkas_form_with_the_group(self):
        path = self.file("g,t,0,4\nother,t,0,1\ng,u,1,1\n\nother,absent,0,1\n")
        result = self.reset("--from-file", path, "--execute")
        self.assertIn("other", result.text)
        self.expect_positions({**self.before, ("t", 0): 4, ("u", 1): 1})
        self.assertFalse(os.path.exists(os.path.join(self.store, "groups", "other")))
        self.assertEqual(self.reset("--from-file", path, "--dry-run", "-q").err, b"")

    def test_kafkas_quotes(self):
        self.create(self.LONG)
        self.fill(self.LONG, TIMES)
        self.reset("--from-file", self.file('"%s",0,3\n"t",0,1\n' % self.LONG), "--execute")
        self.expect_positions({**self.before, ("t", 0): 1, (self.LONG, 0): 3})
        self.reset("--from-file", self.file('"g","%s",0,2\n' % self.LONG), "--execute")
        self.expect_positions({**self.before, ("t", 0): 1, (self.LONG, 0): 2})

    def test_commit_reads_it_too(self):
        self.run_program("commit", "-g", "g", "--from-file", self.file("t,0,3\nu,0,1\n"))
        self.expect_positions({**self.before, ("t", 0): 3, ("u", 0): 1})
        self.run_program("commit", "-g", "g", "--from-file", "-", input=b"g,t,0,4\nother,t,0,5\n")
        self.expect_positions({**self.before, ("t", 0): 4, ("u", 0): 1})

    def test_what_is_not_that_form(self):
        """One message that names the file and the line, nothing changed, also not by the good lines before it."""
        for bad in ("t,0", "t,0,x", "t,x,1", "t,0,-1", "t 0 1", "g,t,0,1,metadata", "t,0,9223372036854775808", '"t,0,1', "a/b,0,1"):
            with self.subTest(line=bad):
                path = self.file("t,0,1\n\n%s\n" % bad)
                before = harness.tree(self.store)
                result = self.reset("--from-file", path, "--execute", status=None)
                self.assertIn(result.status, (1, 2))
                self.assertEqual(len(result.notices), 1, result.text)
                self.assertIn("3", result.text.replace(path, ""))
                self.assertIn("positions", result.text)
                self.assertEqual(harness.tree(self.store), before)
        self.refused("reset-offset", "-g", "g", "--from-file", os.path.join(self.directory, "absent.csv"), "--execute", status=1,
                     names=["absent.csv"])

    def test_an_empty_file_does_nothing(self):
        before = harness.tree(self.store)
        self.assertEqual(self.reset("--from-file", self.file("\n\n"), "--execute", "--json").json(), [])
        self.assertEqual(harness.tree(self.store), before)


class Tables(ResetTest):
    def test_forms_agree(self):
        self.commit("t:0:2")
        args = ("t", "--to-datetime", iso(9000), "-n")
        row = self.reset(*args, "--json").json()[0]
        header, line = (text.decode().split("\t") for text in self.reset(*args, "--tsv").lines)
        self.assertEqual(header[:len(FIELDS)], FIELDS)
        self.assertEqual(line[:len(FIELDS)], ["g", "t", "0", "2", "5", iso(9000), row["note"]])
        self.assertEqual(self.reset(*args, "--tsv", "--no-header").lines, ["\t".join(line).encode()])
        self.assertEqual(self.reset(*args).lines[0].decode().split()[:len(FIELDS)], FIELDS)
        bare = self.reset("t", "--to-offset", "1", "-n", "--tsv", "--no-header", group="new").lines
        self.assertEqual(bare, [b"new\tt\t0\t-\t1\t-\t-"])


if __name__ == "__main__":
    harness.main()
