"""What the whole-program tests share: a store in a temporary directory, running the program with deadlines, feeding it in
pieces, reading pipes that stay open.

Environment: PARTLOG (the program), PARTLOG_TEST_SCALE (1 is the quick suite; larger means more rounds and larger inputs),
PARTLOG_SEED (seeds.py)."""

import array
import contextlib
import fcntl
import hashlib
import json
import os
import random
import re
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest
from dataclasses import dataclass

import seeds
import segments

PROGRAM = os.path.abspath(os.environ.get("PARTLOG") or shutil.which("partlog") or "partlog")
SCALE = float(os.environ.get("PARTLOG_TEST_SCALE", "1"))
DEADLINE = 60 * max(1.0, SCALE)
IS_ROOT = os.geteuid() == 0


def is_sanitized(program):
    try:
        with open(program, "rb") as f:
            content = f.read()
    except OSError:
        return False
    return b"__asan_init" in content or b"__tsan_init" in content


IS_SANITIZED = is_sanitized(PROGRAM)


def scaled(n):
    return max(1, int(n * SCALE))


def say(text):
    print("    " + text, file=sys.stderr, flush=True)


def new_random(name):
    seed = seeds.chosen_seed()
    say("%s: PARTLOG_SEED=%d" % (name, seed))
    return random.Random(seed)


def wait_until(condition, what, deadline=None):
    """Polls for a fact about a file or process that cannot be waited for otherwise; never used to let a race pass."""
    end = time.monotonic() + (deadline or DEADLINE)
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("waited in vain for " + what)
        time.sleep(0.0005)


@dataclass
class Result:
    out: bytes
    err: bytes
    status: int  # as a shell shows it: 128 + n for an end by signal n
    signal: int  # 0 or the signal that ended it

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def text(self):
        return self.err.decode("utf-8", "replace")

    @property
    def notices(self):
        return self.text.splitlines()

    def json(self):
        return json.loads(self.out)

    def json_lines(self):
        return [json.loads(line.decode("utf-8")) for line in self.out.split(b"\n") if line]


def result_of(code, out, err):
    return Result(out, err, code if code >= 0 else 128 - code, -code if code < 0 else 0)


class Lines:
    """Lines of a pipe that stays open, each waited for with a deadline."""

    def __init__(self, stream):
        self.fd = stream.fileno()
        self.buffer = b""
        self.ended = False

    def _more(self, seconds):
        if not select.select([self.fd], [], [], max(0.0, seconds))[0]:
            return False
        data = os.read(self.fd, 1 << 16)
        self.ended = not data
        self.buffer += data
        return True

    def next(self, seconds=None):
        """The next line without its newline; None at the end of the stream."""
        end = time.monotonic() + (seconds or DEADLINE)
        while b"\n" not in self.buffer and not self.ended:
            if not self._more(end - time.monotonic()):
                raise AssertionError("no line came; so far %r" % self.buffer[-200:])
        if b"\n" not in self.buffer:
            return None
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line

    def ready(self, seconds=0.0):
        """What lines are there now, or come within `seconds`."""
        end = time.monotonic() + seconds
        while b"\n" not in self.buffer and not self.ended and self._more(end - time.monotonic()):
            pass
        *lines, self.buffer = self.buffer.split(b"\n")
        return lines

    def rest(self, lines=None):
        """All lines to the end of the stream, added to `lines` as they come."""
        lines = [] if lines is None else lines
        while (line := self.next()) is not None:
            lines.append(line)
        return lines


def pipe_is_empty(fd):
    pending = array.array("i", [0])
    fcntl.ioctl(fd, termios.FIONREAD, pending)
    return pending[0] == 0


def feed(process, pieces, pace=0.0):
    """Writes each piece once the program has taken the one before it, so that its reads end where the pieces do."""
    fd = process.stdin.fileno()
    for piece in pieces:
        os.write(fd, piece)
        wait_until(lambda: pipe_is_empty(fd) or process.poll() is not None, "the program to read its input")
        if process.poll() is not None:
            return
        if pace:
            time.sleep(pace)


def finish(process, timeout=None):
    """Closes stdin, reads what is left of stdout and stderr, waits for the end."""
    try:
        if process.stdin and process.stdin.closed:
            process.stdin = None  # a feeder closed it
        out, err = process.communicate(timeout=timeout or DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError("still running after the deadline: %s\nstderr: %r" % (process.args, err[-2000:]))
    return result_of(process.returncode, out or b"", err or b"")


def tree(directory):
    """Everything about the files below a directory that a reader must not change."""
    facts = {}
    for path, directories, files in os.walk(directory):
        for name in directories + files:
            full = os.path.join(path, name)
            status = os.lstat(full)
            content = b""
            if stat.S_ISREG(status.st_mode):
                with open(full, "rb") as f:
                    content = hashlib.sha256(f.read()).digest()
            facts[os.path.relpath(full, directory)] = (status.st_mode, status.st_size, status.st_ino, status.st_mtime_ns,
                                                       status.st_ctime_ns, status.st_blocks, content)
    return facts


class Test(unittest.TestCase):
    """One temporary directory a test, with a store in it. Afterwards every partition must be whole, dense and readable by the
    reader of segments.py, unless the test damaged it on purpose (`self.expect_sound = False`)."""

    maxDiff = 4000

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="partlog-test-")
        self.addCleanup(self._remove)
        self.store = os.path.join(self.directory, "store")
        self.expect_sound = True
        self.expect_indexes = True  # off where writers were killed: an index entry may be half written then
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PARTLOG_")}
        self.environment.update(PARTLOG_DIR=self.store, HOME=self.directory, TZ="UTC", LC_ALL="C.UTF-8")
        self.environment.pop("XDG_DATA_HOME", None)
        self.processes = []

    def _remove(self):
        for path, directories, _ in os.walk(self.directory):
            for name in directories:
                full = os.path.join(path, name)
                if not os.path.islink(full):
                    os.chmod(full, 0o700)
        shutil.rmtree(self.directory)

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(OSError):
                        stream.close()
        if self.expect_sound and os.path.isdir(os.path.join(self.store, "topics")):
            self.check_store()

    def check_store(self):
        topics = os.path.join(self.store, "topics")
        for topic in os.listdir(topics):
            numbers = os.listdir(os.path.join(topics, topic)) if os.path.isdir(os.path.join(topics, topic)) else []
            for name in numbers:
                directory = os.path.join(topics, topic, name)
                if os.path.isdir(directory):
                    size = sum(os.path.getsize(os.path.join(directory, n)) for n in os.listdir(directory))
                    if size < 64 << 20:
                        segments.read_partition(directory, checksum=size < 8 << 20, indexes=self.expect_indexes)

    def left_out(self, why):
        say("%s: NOT RUN: %s" % (self.id().split(".", 1)[-1], why))
        self.skipTest(why)

    def need(self, *tools):
        for tool in tools:
            if not shutil.which(tool):
                self.left_out("%s is not installed" % tool)

    def need_plain_build(self):
        if IS_SANITIZED:
            self.left_out("a build with sanitizers needs memory, and start-up work, of its own")

    def need_root(self, why):
        if not IS_ROOT:
            self.left_out("%s needs root" % why)

    # Running the program.

    def start(self, *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=None, program=None,
              **popen):
        environment = dict(self.environment, **(env or {}))
        environment = {k: v for k, v in environment.items() if v is not None}
        process = subprocess.Popen([*(program or [PROGRAM]), *args], stdin=stdin, stdout=stdout, stderr=stderr,
                                   env=environment, bufsize=0, **popen)
        self.processes.append(process)
        return process

    def run_program(self, *args, input=b"", status=0, timeout=None, **how):
        """Runs to the end and checks the status and the form of stderr; `status` None takes any."""
        if "stdin" not in how:
            how["stdin"] = subprocess.PIPE
        process = self.start(*args, **how)
        try:
            piped = how["stdin"] == subprocess.PIPE
            out, err = process.communicate(input if piped else None, timeout=timeout or DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise AssertionError("still running after the deadline: %s" % (process.args,))
        result = result_of(process.returncode, out or b"", err or b"")
        if status is not None and result.status != status:
            self.fail("status %d instead of %d: partlog %s\nstdout: %r\nstderr: %s" %
                      (result.status, status, args, result.out[:500], result.text[:2000]))
        self.check_stderr(result)
        return result

    def check_stderr(self, result):
        for line in result.notices:
            self.assertTrue(line.startswith("partlog: "), "stderr line without prefix: %r" % line)
        self.assertTrue(result.err == b"" or result.err.endswith(b"\n"), result.err[-200:])

    def create(self, topic="t", *args, **config):
        words = [w for name, value in config.items() for w in ("-c", "%s=%s" % (name.replace("_", "."), value))]
        return self.run_program("create-topic", topic, *args, *words)

    def produce(self, data, *args, topic="t", **how):
        return self.run_program("produce", topic, *args, input=data, **how)

    def consume(self, *args, topic="t", **how):
        return self.run_program("consume", topic, *args, **how)

    def consume_json(self, *args, topic="t", **how):
        return self.consume("-J", *args, topic=topic, **how).json_lines()

    def refused(self, *args, status, names=(), rows=False, **how):
        """One line on stderr with these words in it, that status, nothing changed in the store; nothing on stdout, unless a
        listing shows the failed row there (`rows`)."""
        before = tree(self.store)
        result = self.run_program(*args, status=status, **how)
        self.assertEqual(len(result.notices), 1, "partlog %s: %s" % (args, result.text))
        if not rows:
            self.assertEqual(result.out, b"", args)
        for word in names:
            self.assertIn(word, result.text, args)
        self.assertEqual(tree(self.store), before, args)
        return result

    def hold_lock(self):
        """Another process that holds the append lock, as a writer in its critical section does."""
        path = os.path.join(self.partition(), "append.lock")
        script = ("import fcntl,sys\nf=open(%r,'r+')\nfcntl.lockf(f,fcntl.LOCK_EX)\nprint('held',flush=True)\nsys.stdin.readline()"
                  % path)
        holder = subprocess.Popen(["python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.processes.append(holder)
        self.assertEqual(holder.stdout.readline(), b"held\n")
        return holder

    @staticmethod
    def waits_for_lock(process):
        """The kernel lists who waits for a lock; one that polls for it comes back to a file named append.lock."""
        with open("/proc/locks") as f:
            if any("->" in text and " %d " % process.pid in text for text in f):
                return True
        with contextlib.suppress(OSError):
            for n in os.listdir("/proc/%d/fd" % process.pid):
                if os.readlink("/proc/%d/fd/%s" % (process.pid, n)).endswith("append.lock"):
                    return True
        return False

    # Looking at the store from outside.

    def partition(self, topic="t", number=0):
        return os.path.join(self.store, "topics", topic, str(number))

    def records(self, topic="t", number=0, **how):
        return segments.records_of(self.partition(topic, number), **how)

    def values(self, topic="t", number=0, **how):
        return [r.value for r in self.records(topic, number, **how)]

    def log_path(self, topic="t", number=0):
        return os.path.join(self.partition(topic, number), segments.segment_names(self.partition(topic, number))[-1])

    def end_offset(self, topic="t", number=0):
        rows = self.run_program("get-offsets", "%s:%d" % (topic, number), "--json").json()
        return rows[0]["offset"]

    def stored_count(self, result):
        """What a produce summary says: how many records were stored."""
        for line in result.notices:
            found = re.search(r"(\d+) (?:of \d+ )?records?\b", line)
            if found:
                return int(found.group(1))
        self.fail("no summary in %r" % result.text)


class Feeder(threading.Thread):
    """Writes lines to a process from a thread until told to stop or until the process is gone."""

    def __init__(self, process, make, count=None):
        super().__init__(daemon=True)
        self.process, self.make, self.count = process, make, count
        self.fed = 0
        self.stopped = threading.Event()

    def run(self):
        fd = self.process.stdin.fileno()
        try:
            while not self.stopped.is_set() and (self.count is None or self.fed < self.count):
                n = 100 if self.count is None else min(100, self.count - self.fed)
                data = b"".join(self.make(self.fed + i) for i in range(n))
                while data:
                    data = data[os.write(fd, data):]
                self.fed += n
        except OSError:
            pass  # the process is gone; who started it knows why
        finally:
            with contextlib.suppress(OSError):
                self.process.stdin.close()


def main():
    if not os.access(PROGRAM, os.X_OK):
        sys.exit("no program: set PARTLOG to its path")
    unittest.main(verbosity=2, module="__main__")
