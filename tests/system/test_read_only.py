"""Reading changes no byte, needs no write permission, and works on a read-only store; writing says why it does not."""

import os
import shutil
import subprocess

import harness

NOBODY = 65534


class ReadOnly(harness.Test):
    READING = (
        ["consume", "t"], ["consume", "t", "-J"], ["consume", "t", "--tail", "2"], ["consume", "t", "--merge", "time"], ["consume", "t", "-o", "3"],
        ["consume", "t", "--since", "2000-01-01"], ["consume", "t", "-F", "--idle-timeout", "10ms"], ["consume", "t", "--grep", "1"],
        ["list-topics"], ["list-topics", "--json"], ["describe-topic"], ["describe-topic", "t", "--configs"], ["describe-topic", "t", "--segments"],
        ["get-offsets", "t"], ["get-offsets", "t", "--time", "max-timestamp"], ["get-offsets", "t", "--time", "-1h"],
        ["get-offsets", "t", "--time", "earliest"],
        ["list-groups"], ["describe-group", "g"], ["describe-group", "g", "--members", "--json"], ["check-lag", "-g", "g", "--max", "100"],
        ["reset-offset", "-g", "g", "t", "--to-latest", "--export"], ["locks"], ["locks", "--all"],
        ["dump", "t"], ["dump", "t", "--records"], ["dump", "t:0:3", "--json"],
        ["verify"], ["verify", "t", "--json"], ["verify", "t", "--repair", "--dry-run"], ["verify", "t", "--reindex", "--dry-run"],
        ["help"], ["--version"],
    )
    # They write nothing, but say what the real run would say.
    DRY_RUNS = (["create-topic", "u", "-n"], ["alter-topic", "t", "-c", "segment.bytes=10000", "-n"], ["delete-topic", "t", "-n"],
                ["commit", "-g", "g", "t:0:5", "-n"], ["commit", "-g", "new", "t:0:5", "-n"], ["reset-offset", "-g", "g", "t", "--to-latest", "-n"],
                ["reset-offset", "-g", "new", "t", "--to-latest", "-n"], ["delete-offsets", "-g", "g", "t", "-n"], ["delete-group", "g", "-n"])
    WRITING = (
        (["produce", "t"], b"x\n"), (["create-topic", "u"], b""), (["alter-topic", "t", "-c", "segment.bytes=10000"], b""),
        (["delete-topic", "t", "--yes"], b""), (["produce", "t", "--create"], b"x\n"), (["produce", "u", "--create"], b"x\n"),
        (["commit", "-g", "g", "t:0:5"], b""), (["commit", "-g", "new", "t:0:5"], b""), (["reset-offset", "-g", "g", "t", "--to-latest", "--execute"], b""),
        (["reset-offset", "-g", "new", "t", "--to-latest", "--execute"], b""), (["delete-offsets", "-g", "g", "t", "--yes"], b""),
        (["delete-group", "g", "--yes"], b""), (["verify", "t", "--reindex"], b""),
        *((args, b"") for args in DRY_RUNS),
    )

    def setUp(self):
        super().setUp()
        self.create("t", segment_bytes=300)
        self.produce(b"".join(b"%d\n" % n for n in range(10)), "--batch-size", "80")
        self.run_program("commit", "-g", "g", "t:0:3")
        self.expected = b"".join(b"%d\n" % n for n in range(10))

    def check_reading(self, **how):
        before = harness.tree(self.store)
        for args in self.READING:
            with self.subTest(args=args):
                result = self.run_program(*args, **how)
                if args == ["consume", "t"]:
                    self.assertEqual(result.out, self.expected)
                self.assertEqual(result.err, b"")
                self.assertEqual(harness.tree(self.store), before)

    def check_writing(self, reason, **how):
        before = harness.tree(self.store)
        for args, data in self.WRITING:
            with self.subTest(args=args):
                result = self.run_program(*args, input=data, status=1, **how)
                self.assertEqual(len(result.notices), 1, result.text)
                self.assertIn(reason, result.text)
                self.assertEqual(harness.tree(self.store), before)

    def test_reading_changes_nothing(self):
        self.check_reading()

    def test_reading_calls_nothing_that_writes(self):
        self.need("strace")
        log = os.path.join(self.directory, "trace")
        writes = ("O_CREAT|O_WRONLY|O_RDWR|O_TRUNC", "ftruncate", "fallocate", "unlink", "rename", "mkdir", "pwrite", "F_SETLK")
        for args in self.READING + self.DRY_RUNS:
            self.run_program(harness.PROGRAM, *args, program=["strace", "-f", "-qq", "-y", "-o", log])
            with open(log, encoding="utf-8", errors="replace") as f:
                for line in f:
                    if self.store in line:
                        for word in "|".join(writes).split("|"):
                            self.assertNotIn(word, line, args)

    def as_nobody(self):
        """Another user, for whom the store is not writable and nothing else is in the way."""
        self.need_root("becoming another user")
        os.chmod(self.directory, 0o755)
        program = os.path.join(self.directory, "partlog")
        shutil.copy(harness.PROGRAM, program)
        os.chmod(program, 0o755)
        return {"program": [program], "user": NOBODY, "group": NOBODY, "extra_groups": []}

    def test_another_user(self):
        how = self.as_nobody()
        for path, _, files in os.walk(self.store):
            for name in files:
                mode = os.stat(os.path.join(path, name)).st_mode & 0o777
                self.assertEqual(mode & 0o444, 0o444, "others may read %s under the usual umask" % name)
        self.check_reading(**how)
        self.check_writing("Permission denied", **how)

    def test_another_user_without_any_write_bits(self):
        how = self.as_nobody()
        subprocess.run(["chmod", "-R", "a-w", self.store], check=True)
        self.check_reading(**how)
        self.check_writing("Permission denied", **how)

    def test_own_store_without_write_bits(self):
        how = self.as_nobody()
        subprocess.run(["chown", "-R", "%d:%d" % (NOBODY, NOBODY), self.store], check=True)
        subprocess.run(["chmod", "-R", "a-w", self.store], check=True)
        self.check_reading(**how)
        self.check_writing("Permission denied", **how)

    def test_private_store(self):
        how = self.as_nobody()
        os.chmod(self.store, 0o700)
        for args in (["consume", "t"], ["list-topics"], ["produce", "t"]):
            result = self.run_program(*args, status=1, **how)
            self.assertEqual(len(result.notices), 1)
            self.assertIn("Permission denied", result.text)

    def test_read_only_mount(self):
        self.need_root("mounting")
        if subprocess.run(["mount", "--bind", self.store, self.store], stderr=subprocess.DEVNULL).returncode:
            self.left_out("mount refused")
        self.addCleanup(subprocess.run, ["umount", "-l", self.store], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", self.store], check=True)
        self.check_reading()
        self.check_writing("Read-only file system")

    def test_torn_store_of_another_user(self):
        """A torn tail that the reader may not cut: it reads what is whole, and says nothing."""
        how = self.as_nobody()
        with open(self.log_path(), "ab") as f:
            f.write(b"\0" * 7)
        before = harness.tree(self.store)
        self.assertEqual(self.consume(**how).out, self.expected)
        self.assertEqual(harness.tree(self.store), before)
        self.expect_sound = False


if __name__ == "__main__":
    harness.main()
