#!/usr/bin/env python3
"""One entry of a store that is damaged, missing or may not be read costs what it alone says, and no more."""

import os
import shutil

import harness

NOBODY = 65534


class Entries(harness.Test):
    """Two topics of two partitions with one record each, and a group that has read all."""

    def setUp(self):
        super().setUp()
        self.expect_sound = False
        for topic in ("a", "b"):
            self.create(topic, "-p", "2", index_interval_bytes=100)
            for partition in ("0", "1"):
                self.produce(b"x" * 200 + b"\n", "-p", partition, topic=topic)
                self.produce(b"y" * 200 + b"\n", "-p", partition, topic=topic)
                self.run_program("commit", "-g", "g", "%s:%s:2" % (topic, partition))
        self.kept = os.path.join(self.directory, "kept")
        shutil.copytree(self.store, self.kept)

    def restore(self):
        shutil.rmtree(self.store)
        shutil.copytree(self.kept, self.store)

    def path(self, name):
        return os.path.join(self.store, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)

    def put_directory(self, name):
        if os.path.exists(self.path(name)):
            os.unlink(self.path(name))
        os.makedirs(self.path(name))

    def verify(self, *args, status=5, **how):
        rows = self.run_program("verify", *args, "--json", status=status, **how).json_lines()
        findings = [row for row in rows if row["type"] == "finding" and row["verdict"] == "damaged"]
        verdicts = {os.path.relpath(row["file"], self.path("topics")): row["verdict"] for row in rows if row["type"] == "summary"}
        return findings, verdicts

    def check_finding(self, name, *damaged, args=(), status=5, **how):
        """All partitions are told of, only this is damaged, and only the file is named."""
        findings, verdicts = self.verify(*args, status=status, **how)
        self.assertEqual([f["file"] for f in findings], [self.path(name)] * max(1, len(damaged)), findings)
        self.assertEqual(verdicts, {p: "damaged" if p in damaged else "clean" for p in ("a/0", "a/1", "b/0", "b/1")})
        return findings[0]["reason"]


class BadEntries(Entries):
    def test_files_of_groups(self):
        offset = "groups/g/offsets/a/0"
        cases = {
            "a directory": (lambda: self.put_directory(offset), offset, ["a/0"]),
            "damaged": (lambda: self.write(offset, b"garbage\n"), offset, ["a/0"]),
            "no number": (lambda: self.write(offset, b"offset=x\n"), offset, ["a/0"]),
            "a file for a directory": (lambda: (shutil.rmtree(self.path("groups/g/offsets/a")), self.write("groups/g/offsets/a", b"")),
                                       "groups/g/offsets/a", ["a/0", "a/1"]),
        }
        for what, (damage, name, damaged) in cases.items():
            with self.subTest(what):
                damage()
                self.assertIn('group "g": ', self.check_finding(name, *damaged))
            self.restore()

    def test_a_partition_is_missing(self):
        shutil.rmtree(self.path("topics/a/0"))
        self.assertIn("missing", self.check_finding("topics/a/0", "a/0"))
        for options in (["--repair", "--yes"], ["--repair", "-n"]):
            result = self.run_program("verify", *options, status=5)
            self.assertEqual([line for line in result.lines if b": damaged: " in line],
                             [self.path("topics/a/0").encode() + b": damaged: the directory of the partition is missing"])
            self.assertEqual(result.err, b"")
            self.assertEqual(result.out.count(b"clean, nothing to repair"), 3)
            self.assertFalse(os.path.exists(self.path("topics/a/0")))
        for command in (["describe-topic"], ["get-offsets", "a", "b"]):
            rows = self.run_program(*command, "--json", status=1).json()
            self.assertEqual(["error" in r for r in rows], [True, False, False, False])
        os.mkdir(self.path("topics/a/0"))
        self.run_program("delete-group", "g", "--yes")
        self.assertIn("no segments", self.check_finding("topics/a/0", "a/0"))

    def test_properties_of_a_topic(self):
        for what, data in (("text", b"garbage\n"), ("no number", b"partitions=x\n"), ("binary", bytes(range(256))), ("missing", None)):
            with self.subTest(what):
                self.write("topics/a/topic.properties", data or b"")
                if data is None:
                    os.unlink(self.path("topics/a/topic.properties"))
                self.check_finding("topics/a/topic.properties")
                findings, verdicts = self.verify("a:1", "b")
                self.assertEqual(([f["file"] for f in findings], sorted(verdicts)),
                                 ([self.path("topics/a/topic.properties")], ["a/1", "b/0", "b/1"]))
                self.assertEqual([r["topic"] for r in self.run_program("list-topics", "--json", status=5).json()], ["a", "b"])
                self.assertEqual(len(self.run_program("disk-usage", "--json", status=5).json()), 3)
                self.assertEqual([("error" in r) for r in self.run_program("describe-topic", "--json", status=5).json()],
                                 [True, False, False])
                self.run_program("verify", "--repair", "--yes", status=5)
            self.restore()

    def test_a_damaged_list_of_lost_offsets(self):
        """It is put aside by a repair, which lists what is lost anew."""
        part = "topics/a/0"
        log = self.path(part + "/00000000000000000000.log")
        with open(log, "r+b") as f:
            f.seek(70)
            f.write(b"ZZ")
        self.run_program("verify", "a:0", "--repair", "--yes", status=5)
        self.verify("a:0", status=0)
        for text in (b"garbage\n", b"0 0 x y\n"):
            with self.subTest(text):
                self.write(part + "/lost-offsets", text)
                findings, _ = self.verify("a:0")
                self.assertIn(self.path(part + "/lost-offsets"), [f["file"] for f in findings])
                result = self.run_program("verify", "a:0", "--repair", "--yes", status=5)
                self.assertIn("cannot be read; only what is missing now is listed", result.out.decode())
                kept = max((d for d in os.listdir(self.path(part)) if d.startswith("before-repair.")), key=lambda d: int(d[14:]))
                with open(self.path(part + "/" + kept + "/lost-offsets"), "rb") as f:
                    self.assertEqual(f.read(), text)
                with open(self.path(part + "/lost-offsets"), "rb") as f:
                    self.assertEqual(f.read()[:4], b"0 0 ")
                self.verify("a:0", status=0)
        self.write("topics/b/1/lost-offsets", b"garbage\n")  # where nothing is lost
        self.run_program("verify", "b:1", "--repair", "--yes", status=5)
        self.verify("b", status=0)

    def test_directories_in_the_place_of_indexes(self):
        for suffix in ("index", "timeindex"):
            with self.subTest(suffix):
                name = "topics/a/0/00000000000000000000." + suffix
                self.put_directory(name)
                self.check_finding(name, "a/0")
                self.run_program("verify", "a", "--repair", "--yes", status=5)
                self.verify("a", status=0)
                self.assertTrue(os.path.isdir(self.path("topics/a/0/before-repair.1/00000000000000000000." + suffix)))
            self.restore()


class NoPermission(Entries):
    """What may not be read."""

    def setUp(self):
        self.need_root("another user")
        super().setUp()
        shutil.chown(self.directory, NOBODY, NOBODY)
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def test_each_entry(self):
        cases = {
            "topics/a/topic.properties": [],
            "topics/a/0": ["a/0"],
            "topics/a/0/recovery-point": ["a/0"],
            "topics/a/0/lost-offsets": ["a/0"],
            "topics/a/0/log-start-offset": ["a/0"],
            "topics/a/0/partition.metadata": ["a/0"],
            "topics/a/0/leader-epoch-checkpoint": ["a/0"],
            "topics/a/0/00000000000000000000.index": ["a/0"],
            "topics/a/0/00000000000000000000.timeindex": ["a/0"],
            "topics/a/0/00000000000000000000.log": ["a/0"],
            "groups/g/offsets/a/0": ["a/0"],
            "groups/g": ["a/0", "a/1", "b/0", "b/1"],
            "groups": ["a/0", "a/1", "b/0", "b/1"],
        }
        for name, damaged in cases.items():
            with self.subTest(name):
                if name.endswith("lost-offsets"):
                    self.write(name, b"")
                os.chmod(self.path(name), 0)
                self.check_finding(name, *damaged, **self.user)
                self.check_listings(name)
            os.chmod(self.path(name), 0o700)
            self.restore()

    def check_listings(self, name):
        """What does not depend on the entry is told."""
        failed = 0 if name.startswith("groups") else sum(name.endswith(n) for n in ("topic.properties", "/0", ".log", "log-start-offset"))
        for command in (["describe-topic"], ["get-offsets", "a", "b"]):
            rows = self.run_program(*command, "--json", status=None, **self.user).json()
            self.assertEqual(sum("error" in r for r in rows), failed or 0, (command, rows))
            self.assertEqual(sum(r["topic"] == "b" for r in rows), 2)
        self.assertEqual(len(self.run_program("list-topics", "--json", status=None, **self.user).json()), 2)
        rows = self.run_program("disk-usage", "--json", status=None, **self.user).json()
        self.assertEqual([r["topic"] for r in rows], ["a", "b", None])

    def test_a_topic_and_a_stranger(self):
        os.chmod(self.path("topics/a"), 0)
        os.mkdir(self.path("lost+found"), 0o700)
        findings, verdicts = self.verify(**self.user, status=5)
        self.assertEqual((len(findings), sorted(verdicts)), (1, ["b/0", "b/1"]))
        rows = self.run_program("list-topics", "--json", status=1, **self.user).json()
        self.assertEqual([("error" in r) for r in rows], [True, False])
        usage = self.run_program("disk-usage", "--json", status=1, **self.user)
        self.assertEqual([r["topic"] for r in usage.json()], ["a", "b", None])
        self.assertEqual(sum(b"lost+found" in line for line in usage.err.splitlines()), 1)
        self.assertEqual(len(usage.err.splitlines()), 2)
        os.chmod(self.path("topics/a"), 0o755)

    def test_strangers_alone_cost_a_warning_at_most(self):
        """Of the root of a file system, or of one that is mounted somewhere below."""
        commands = [("disk-usage",), ("disk-usage", "--by-partition"), ("list-topics",), ("describe-topic",), ("verify",),
                    ("verify", self.store), ("verify", self.path("topics/a")), ("diff", self.store, self.store), ("consume", "a"),
                    ("dump", "a"), ("list-groups",), ("describe-group", "g"), ("locks",), ("get-offsets", "a"),
                    ("check-lag", "-g", "g", "--max", "0"), ("consume", "--files", self.path("topics/a/0"))]
        for where in ("", "topics", "topics/a", "topics/a/0", "groups", "groups/g", "groups/g/offsets", "groups/g/offsets/a"):
            os.mkdir(self.path(os.path.join(where, "lost+found")), 0o700)
            for command in commands:
                with self.subTest(where=where, command=command):
                    if command[0] == "diff":
                        self.environment.pop("PARTLOG_DIR", None)
                    else:
                        self.environment["PARTLOG_DIR"] = self.store
                    result = self.run_program(*command, status=0, **self.user)
                    self.assertLessEqual(sum(b"lost+found" in line for line in result.err.splitlines()), 1)
            os.rmdir(self.path(os.path.join(where, "lost+found")))
        os.mkdir(self.path("topics/a/0/before-repair.1"), 0o700)  # that one is ours
        self.run_program("disk-usage", status=1, **self.user)

    def test_a_repair_by_the_owner(self):
        name = "topics/a/0/00000000000000000000.index"
        for path, directories, files in os.walk(self.store):
            for n in [*directories, *files, "."]:
                shutil.chown(os.path.join(path, n), NOBODY, NOBODY)
        for name in ("00000000000000000000.index", "lost-offsets", "recovery-point"):
            with self.subTest(name):
                path = "topics/a/0/" + name
                if name == "lost-offsets":
                    self.write(path, b"")
                    shutil.chown(self.path(path), NOBODY, NOBODY)
                os.chmod(self.path(path), 0)
                self.run_program("verify", "a", "--repair", "--yes", status=5, **self.user)
                self.verify("a", status=0, **self.user)


if __name__ == "__main__":
    harness.main()
