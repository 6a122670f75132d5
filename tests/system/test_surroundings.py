"""Broken surroundings: what was acknowledged is there, nothing half is visible, the next produce goes on without a hole in the
offsets, and the summary told the truth."""

import contextlib
import os
import resource
import signal
import subprocess

import harness


def line(n):
    return b"%08d" % n + b"x" * 91 + b"\n"


def acknowledged(report):
    """How many records of the input the last whole line of a --report says are stored."""
    last = 0
    for text in report.split(b"\n")[:-1]:
        fields = text.split(b"\t")
        assert len(fields) == 6, text
        last = int(fields[4])
    return last


class Outputs(harness.Test):
    def test_head(self):
        self.create()
        self.produce(b"".join(map(line, range(20000))))
        for args in ([], ["-J"], ["-F"], ["-u"]):
            with self.subTest(args=args):
                consumer = self.start("consume", "t", *args)
                head = subprocess.run(["head", "-1"], stdin=consumer.stdout, stdout=subprocess.PIPE)
                consumer.stdout.close()
                consumer.stdout = None
                result = harness.finish(consumer)
                self.assertEqual(head.stdout.count(b"\n"), 1)
                self.assertEqual((result.signal, result.err), (signal.SIGPIPE, b""))

    def test_a_waiting_follower_notices_that_its_reader_left(self):
        """Nothing more is ever written to the topic; the closed pipe alone must end it."""
        self.create()
        self.produce(b"1\n")
        consumer = self.start("consume", "t", "-F")
        self.assertEqual(harness.Lines(consumer.stdout).next(), b"1")
        consumer.stdout.close()
        consumer.stdout = None
        result = harness.finish(consumer)
        self.assertEqual((result.signal, result.err), (signal.SIGPIPE, b""))

    def soft_mount(self, kind):
        """The environment in which the store is on a mount that gives up while there is a file; the path of that."""
        module = os.environ.get("PARTLOG_TEST_SOFT_MOUNT", "")
        if not os.path.exists(module):
            self.left_out("PARTLOG_TEST_SOFT_MOUNT does not name the module that makes such a mount")
        self.need_plain_build()
        paused = os.path.join(self.directory, "paused")
        return {"PARTLOG_FILESYSTEM": kind, "LD_PRELOAD": module, "SOFT_MOUNT": self.store, "SOFT_MOUNT_PAUSED": paused}, paused

    def meet_failure(self, paused):
        harness.wait_until(lambda: os.path.getsize(paused) > 0, "a call failed")

    def test_a_follower_outlasts_the_failures_of_a_soft_mount(self):
        """A host that was stopped for longer than such a mount waits for its server ends nobody early; a local disk that fails
        is no such mount."""
        for kind in "network", "local":
            environment, paused = self.soft_mount(kind)
            self.create(kind)
            self.produce(b"1\n", topic=kind)
            follower = self.start("consume", kind, "-F", env=environment)
            lines = harness.Lines(follower.stdout)
            self.assertEqual(lines.next(), b"1")
            open(paused, "w").close()
            self.produce(b"2\n", topic=kind)
            self.meet_failure(paused)
            if kind == "local":
                result = harness.finish(follower)
                self.assertEqual(result.status, 1)
                self.assertIn("Input/output error", result.text)
            os.unlink(paused)
            if kind == "network":
                self.assertEqual(lines.next(), b"2")
                follower.send_signal(signal.SIGTERM)
                self.assertEqual(harness.finish(follower).err, b"")

    def test_what_only_reads_outlasts_the_failures_of_a_soft_mount(self):
        environment, paused = self.soft_mount("network")
        self.create("t", "-p", "2")
        self.produce(b"1\n2\n", "-p", "0")
        self.produce(b"3\n", "-p", "1")
        for args in (["consume", "t"], ["consume", "t", "-o", "-1"], ["consume", "t", "--since", "-1h"], ["consume", "t", "--tail", "1"],
                     ["consume", "t", "-F", "-c", "3"], ["get-offsets", "t"], ["describe-topic", "t"], ["verify", "t"]):
            with self.subTest(args=args):
                expected = self.run_program(*args)
                open(paused, "w").close()
                process = self.start(*args, env=environment)
                self.meet_failure(paused)
                os.unlink(paused)
                result = harness.finish(process)
                self.assertEqual((result.status, result.out, result.err), (0, expected.out, expected.err))

    def test_report_to_a_closed_pipe(self):
        self.create()
        producer = self.start("produce", "t", "--report", "--linger", "0")
        harness.feed(producer, [b"1\n"])
        self.assertTrue(harness.Lines(producer.stdout).next().startswith(b"t\t0\t0\t0\t1\t2"))
        producer.stdout.close()
        producer.stdout = None
        harness.feed(producer, [b"2\n", b"3\n"])
        result = harness.finish(producer)
        self.assertEqual((result.signal, result.err), (signal.SIGPIPE, b""))
        self.assertEqual(self.values(), [b"1", b"2", b"3"][:len(self.values())])

    def test_full_device(self):
        self.create()
        self.produce(b"1\n2\n")
        before = harness.tree(self.store)
        for args in (["consume", "t"], ["consume", "t", "-J"], ["consume", "t", "-u"], ["consume", "t", "-c1"], ["list-topics"],
                     ["describe-topic", "t", "--json"], ["get-offsets", "t", "--tsv"], ["--version"], ["help"],
                     ["consume", "--help"], ["create-topic", "--help"]):
            with self.subTest(args=args), open("/dev/full", "wb") as full:
                result = self.run_program(*args, stdout=full, status=1)
                self.assertEqual(len(result.notices), 1)
                self.assertIn("No space left on device", result.text)
        self.assertEqual(harness.tree(self.store), before)

    def test_report_to_a_full_device(self):
        self.create()
        with open("/dev/full", "wb") as full:
            result = self.produce(b"1\n2\n", "--report", stdout=full, status=1)
        self.assertIn("No space left on device", result.text)
        self.assertEqual(self.stored_count(result), len(self.values()))

    def test_a_large_file(self):
        """Written by a second thread: the bytes are the same, and a write that fails is told, once, with nothing behind it."""
        data = b"".join(line(n) for n in range(200000)) + b"x" * (1 << 19) + b"\n" + b"".join(line(n) for n in range(500000))
        self.create()
        self.produce(data)
        path = os.path.join(self.directory, "out")
        with open(path, "wb") as out:
            self.consume(stdout=out)
        with open(path, "rb") as out:
            self.assertEqual(out.read(), data)
        for limit in ((9 << 20) + 1, len(data) - 1):
            with open(path, "wb") as out:
                result = self.consume(stdout=out, status=1,
                                      preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
            self.assertEqual(result.notices, ["partlog: write to standard output: File too large"])
            with open(path, "rb") as out:
                self.assertEqual(out.read(), data[:limit])

    def test_stderr_full_or_closed_changes_nothing(self):
        self.create()
        with open("/dev/full", "wb") as full:
            self.produce(b"1\n", stderr=full)
        self.shell('"$@" 2>&-', "produce", "t", input=b"2\n")
        self.assertEqual(self.values(), [b"1", b"2"])
        self.assertEqual(self.shell('"$@" 2>&-', "consume", "t").out, b"1\n2\n")

    def shell(self, script, *args, **how):
        return self.run_program(harness.PROGRAM, *args, program=["sh", "-c", script, "sh"], **how)

    def test_closed_stdin(self):
        """Descriptor 0 must not become a file of the store that is then read as input."""
        self.create()
        self.produce(b"1\n")
        result = self.shell('"$@" <&-', "produce", "t", status=1)
        self.assertIn("standard input: Bad file descriptor", result.text)
        self.assertEqual(self.values(), [b"1"])
        with open(os.path.join(self.directory, "in"), "wb") as f:
            f.write(b"2\n")
        self.shell('"$@" <&-', "produce", "t", os.path.join(self.directory, "in"))
        self.assertEqual(self.values(), [b"1", b"2"])
        self.assertEqual(self.shell('"$@" <&-', "consume", "t").out, b"1\n2\n")

    def test_closed_stdout(self):
        """Descriptor 1 must not become a file of the store that is then written to."""
        self.create()
        self.produce(b"1\n")
        before = harness.tree(self.store)
        for args in (["consume", "t"], ["list-topics"], ["get-offsets", "t"], ["--version"], ["help"]):
            result = self.shell('"$@" >&-', *args, status=1)
            self.assertEqual(len(result.notices), 1, result.text)
        self.assertEqual(harness.tree(self.store), before)
        self.shell('"$@" >&-', "produce", "t", input=b"2\n")
        self.shell('"$@" <&- >&- 2>&-', "create-topic", "u")
        self.shell('"$@" <&- >&- 2>&-', "produce", "t", os.path.join(self.directory, "absent"), status=1)
        self.assertEqual(self.values(), [b"1", b"2"])

    def test_stdin_is_a_directory(self):
        self.create()
        directory = os.open(self.directory, os.O_RDONLY)
        self.addCleanup(os.close, directory)
        result = self.run_program("produce", "t", stdin=directory, status=1)
        self.assertIn("Is a directory", result.text)
        self.assertEqual(self.values(), [])


class FullFileSystems(harness.Test):
    def mounted(self, *how):
        """A directory that is its own small file system."""
        self.need_root("mounting a small file system")
        mountpoint = os.path.join(self.directory, "mounted")
        os.mkdir(mountpoint)
        made = subprocess.run(["mount", *how, mountpoint], stderr=subprocess.PIPE)
        if made.returncode:
            self.left_out("mount refused: " + made.stderr.decode().strip())
        self.addCleanup(subprocess.run, ["umount", "-l", mountpoint], check=True)
        self.store = self.environment["PARTLOG_DIR"] = os.path.join(mountpoint, "store")
        return mountpoint

    def fill_and_free(self, mountpoint, topic, *options, env=None):
        """Fills up in the middle of an append, is freed, and goes on."""
        self.environment.update(env or {})
        # Warm-up, so that the failure comes in the middle of a log.
        self.produce(b"".join(map(line, range(100))), "--sync", "none", topic=topic)
        free = os.statvfs(mountpoint)
        filler = os.path.join(mountpoint, "filler")
        with open(filler, "wb") as f:
            left = free.f_bavail * free.f_frsize - (600 << 10)
            f.write(b"\1" * left)
            f.flush()
            os.fsync(f.fileno())
        total = 20000
        result = self.produce(b"".join(map(line, range(100, total))), "--report", *options, topic=topic, status=1)
        self.assertIn("No space left on device", result.text)
        stored = self.values(topic)
        self.assertEqual(stored, [line(n)[:-1] for n in range(len(stored))])
        self.assertLessEqual(acknowledged(result.out), len(stored) - 100)
        self.assertEqual(self.stored_count(result), len(stored) - 100)
        self.assertGreater(len(stored), 100)
        self.assertLess(len(stored), total)
        self.assertRegex(result.text, r"\b%d\b" % (len(stored) - 100 + 1))  # the first record that was not stored
        self.assertEqual(self.consume("-c", "1000000", topic=topic).out, b"".join(map(line, range(len(stored)))))
        # Still full: refused again, and still nothing half. Then freed.
        big = b"".join(map(line, range(20000)))
        result = self.produce(big, topic=topic, status=1)
        now = len(self.values(topic))
        self.assertEqual(now, len(stored) + self.stored_count(result))
        os.unlink(filler)
        rest = b"".join(map(line, range(len(stored), len(stored) + 500)))
        result = self.produce(rest, topic=topic)
        self.assertNotIn("torn", result.text)
        self.assertEqual(self.values(topic)[now:], rest.splitlines())

    def test_memory_file_system(self):
        mountpoint = self.mounted("-t", "tmpfs", "-o", "size=4m", "none")
        for n, options in enumerate((["--sync", "none"], ["--sync", "batch"], ["--batch-size", "3000"], [])):
            with self.subTest(options=options):
                self.create("t%d" % n)
                self.fill_and_free(mountpoint, "t%d" % n, *options)
                self.run_program("delete-topic", "t%d" % n, "--yes")

    def test_memory_file_system_with_rolling(self):
        mountpoint = self.mounted("-t", "tmpfs", "-o", "size=4m", "none")
        self.create("t", segment_bytes=50000)
        self.fill_and_free(mountpoint, "t", "--batch-size", "3000", "--sync", "none")

    def test_memory_file_system_with_network_rules(self):
        mountpoint = self.mounted("-t", "tmpfs", "-o", "size=4m", "none")
        self.create("t", segment_bytes=50000)
        self.fill_and_free(mountpoint, "t", "--batch-size", "3000", env={"PARTLOG_FILESYSTEM": "network"})

    def test_ext4(self):
        """Blocks are given out late there, so that the lack shows at other places."""
        self.need_root("mounting a small file system")
        self.need("mkfs.ext4", "losetup")
        image = os.path.join(self.directory, "image")
        with open(image, "wb") as f:
            f.truncate(16 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", image], check=True, stdout=subprocess.DEVNULL)
        mountpoint = self.mounted("-o", "loop", image)
        for n, options in enumerate((["--sync", "none"], ["--sync", "batch"])):
            with self.subTest(options=options):
                self.create("t%d" % n)
                self.fill_and_free(mountpoint, "t%d" % n, *options)
                self.run_program("delete-topic", "t%d" % n, "--yes")

    def test_no_room_for_a_topic(self):
        mountpoint = self.mounted("-t", "tmpfs", "-o", "size=1m,nr_inodes=60", "none")
        self.create("first")
        result = self.run_program("create-topic", "many", "-p", "100", status=1)
        self.assertIn("No space left on device", result.text)
        self.assertEqual(self.run_program("list-topics", "--tsv", "--no-header").lines, [b"first\t1"])
        self.run_program("create-topic", "many", "-p", "1")
        self.assertTrue(os.path.isdir(self.partition("many")), mountpoint)

    def test_file_size_limit(self):
        for topic, env in (("t", {}), ("n", {"PARTLOG_FILESYSTEM": "network"})):
            with self.subTest(env=env):
                self.create(topic)
                limit = 300_000
                result = self.produce(b"".join(map(line, range(20000))), "--report", "--batch-size", "10000", topic=topic, env=env,
                                      status=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
                self.assertIn("File too large", result.text)
                stored = self.values(topic)
                self.assertGreater(len(stored), 2000)
                self.assertEqual(stored, [line(n)[:-1] for n in range(len(stored))])
                self.assertLessEqual(acknowledged(result.out), len(stored))
                self.assertEqual(self.stored_count(result), len(stored))
                self.produce(b"more\n", topic=topic)
                self.assertEqual(self.values(topic), stored + [b"more"])

    def test_memory_ends(self):
        """Out of memory is an error like any other: said once, and what is stored is told."""
        if harness.IS_SANITIZED:
            self.skipTest("a sanitizer needs address space of its own")
        self.create("t", "-c", "max.message.bytes=1000000000")
        limit = 100 << 20
        result = self.produce(b"first\n" * 5 + b"x" * (150 << 20) + b"\n", "--batch-size", "10", topic="t", status=1,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertEqual(result.text.count("out of memory"), 1)
        self.assertEqual(self.stored_count(result), 5)
        self.assertIn("input record 6 is the first", result.text)
        self.assertEqual(self.values("t"), [b"first"] * 5)

    def test_few_descriptors(self):
        """More partitions than a process may open files: one clear message, or it works; never a half batch."""
        self.create("t", "-p", "40")
        keyed = b"".join(b"%d:%d\n" % (n, n) for n in range(2000))
        result = self.produce(keyed, "-K:", status=None,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))
        if result.status:
            self.assertEqual(result.status, 1)
            self.assertIn("Too many open files", result.text)
        got = sum(len(self.values("t", p)) for p in range(40))
        self.assertEqual(got, self.stored_count(result))
        consumed = self.consume(status=None, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24)))
        self.assertIn(consumed.status, (0, 1))
        if consumed.status == 0:
            self.assertEqual(len(consumed.lines), got)


class Signals(harness.Test):
    SIGNALS = ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129))

    def test_produce_at_full_speed(self):
        for number, status in self.SIGNALS:
            for sync in ("none", "end", "batch"):
                topic = "%s-%s" % (number.name, sync)
                with self.subTest(topic=topic):
                    self.create(topic, segment_bytes=1 << 20)
                    process = self.start("produce", topic, "--report", "--sync", sync)
                    feeder = harness.Feeder(process, line)
                    feeder.start()
                    lines = harness.Lines(process.stdout)
                    report = [lines.next() for _ in range(5)]
                    process.send_signal(number)
                    report += lines.rest()
                    result = harness.result_of(process.wait(harness.DEADLINE), b"", process.stderr.read())
                    feeder.join()
                    self.assertEqual(result.status, status, result.text)
                    self.check_stderr(result)
                    stored = self.values(topic, checksum=False)
                    self.assertEqual(stored, [line(n)[:-1] for n in range(len(stored))])
                    self.assertEqual(self.stored_count(result), len(stored))
                    self.assertGreaterEqual(len(stored), acknowledged(b"\n".join(report) + b"\n"))
                    self.produce(b"next\n", topic=topic)
                    self.assertEqual(self.values(topic, checksum=False)[len(stored):], [b"next"])

    def test_produce_that_waits_for_input(self):
        """Whole records that came in before the signal are stored; the piece of a record is not, for nobody ended it."""
        for number, status in self.SIGNALS:
            with self.subTest(signal=number):
                topic = number.name
                self.create(topic)
                process = self.start("produce", topic, "--linger", "60000")
                harness.feed(process, [b"1\n2\n", b"3\nhal"])
                process.send_signal(number)
                process.wait(harness.DEADLINE)
                result = harness.finish(process)
                self.assertEqual(result.status, status)
                self.assertEqual(self.values(topic), [b"1", b"2", b"3"])
                self.assertEqual(self.stored_count(result), 3)

    def test_consume_follow(self):
        self.create()
        self.produce(b"".join(map(line, range(5000))))
        for number, status in self.SIGNALS:
            with self.subTest(signal=number):
                process = self.start("consume", "t", "-F")
                lines = harness.Lines(process.stdout)
                got = [lines.next() for _ in range(5000)]
                process.send_signal(number)
                got += lines.rest()
                result = harness.finish(process)
                self.assertEqual(result.status, status)
                self.assertEqual(got, [line(n)[:-1] for n in range(5000)])
                self.assertEqual(result.err, b"")

    def test_consume_in_the_middle(self):
        """What was printed when the signal came is whole records. The reader is slow, so that it comes in the middle."""
        self.create()
        self.produce(b"".join(map(line, range(50000))))
        for number, status in self.SIGNALS:
            with self.subTest(signal=number):
                process = self.start("consume", "t")
                lines = harness.Lines(process.stdout)
                got = [lines.next()]
                process.send_signal(number)
                got += lines.rest()
                self.assertEqual(lines.buffer, b"")
                result = harness.finish(process)
                self.assertEqual(got, [line(n)[:-1] for n in range(len(got))])
                self.assertEqual(result.status, status)
                self.assertLess(len(got), 50000)

    def test_ignored_signals_stay_ignored(self):
        """nohup: a process started with SIGHUP ignored is not ended by it."""
        self.create()
        process = self.start("produce", "t", "--linger", "0", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        harness.feed(process, [b"1\n"])
        process.send_signal(signal.SIGHUP)
        harness.feed(process, [b"2\n"])
        result = harness.finish(process)
        self.assertEqual(result.status, 0, result.text)
        self.assertEqual(self.values(), [b"1", b"2"])

    def test_a_waiting_writer_is_interrupted(self):
        """A stopped process holds the lock; one that waits for it ends by SIGTERM, and --lock-timeout gives 6."""
        self.create()
        holder = self.hold_lock()
        waiting = self.start("produce", "t")
        os.write(waiting.stdin.fileno(), b"1\n")
        waiting.stdin.close()
        waiting.stdin = None
        harness.wait_until(lambda: self.waits_for_lock(waiting), "the writer to wait for the lock")
        waiting.send_signal(signal.SIGTERM)
        result = harness.finish(waiting)
        self.assertEqual(result.status, 143, result.text)
        self.assertEqual(self.stored_count(result), 0)
        self.assertEqual(len(result.notices), 1, "nothing but the summary")
        result = self.produce(b"2\n", "--lock-timeout", "50ms", status=6)
        self.assertIn(str(holder.pid), result.text)
        self.assertEqual(self.consume().out, b"")
        holder.communicate(b"\n")
        self.produce(b"3\n", "--lock-timeout", "10s")
        self.assertEqual(self.values(), [b"3"])


if __name__ == "__main__":
    harness.main()
