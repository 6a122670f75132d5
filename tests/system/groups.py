"""What the tests of consumer groups share: positions and claims seen from outside, and changes to offset files by hand."""

import array
import fcntl
import os
import signal
import struct
import termios

import harness


# Waits in a script for a file that the test makes; the test has waited for the script before.
WAIT_FOR_GO = "while [ ! -e go ]; do sleep 0.01; done"


def claim_holder(path):
    """The pid that holds the lock on this file, 0 if nobody does: the kernel's word, asked without taking the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return 0
    try:
        form = "hhqqi4x"
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(form, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        kind, _, _, _, pid = struct.unpack(form, answer)
        return 0 if kind == fcntl.F_UNLCK else pid
    finally:
        os.close(descriptor)


def pending(descriptor):
    """Bytes in a pipe that its reader has not taken."""
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]


def state_of(pid):
    """As ps shows it: S sleeps, T is stopped, Z is dead and not waited for."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def read_exactly(descriptor, size):
    data = b""
    while len(data) < size:
        piece = os.read(descriptor, size - len(data))
        assert piece, "the pipe ended after %d of %d bytes" % (len(data), size)
        data += piece
    return data


def is_gone(pid):
    """Also a zombie that its new parent has not waited for is gone."""
    return state_of(pid) in "ZX"


class GroupTest(harness.Test):
    def setUp(self):
        super().setUp()
        self.environment["PROGRAM"] = harness.PROGRAM

    # Records whose value names their place: fixed width, so that bytes can be counted.

    def fill(self, count, partition=0, topic="t", start=0, width=16):
        make = lambda n: (b"%d.%06d." % (partition, n)).ljust(width - 1, b"x") + b"\n"
        self.produce(b"".join(map(make, range(start, start + count))), "-p", str(partition), "--sync", "none", "-q", topic=topic)

    def offsets(self, *args, **how):
        """What a run of `consume -g g` prints, as partition -> offsets in the order printed."""
        result = self.run_program("consume", "-g", "g", "-f", "%p %o\\n", *args, **how)
        got = {}
        for line in result.lines:
            partition, offset = map(int, line.split())
            got.setdefault(partition, []).append(offset)
        return got

    # Groups from outside.

    def group_path(self, *names, group="g"):
        return os.path.join(self.store, "groups", group, *names)

    def offset_path(self, partition=0, topic="t", group="g"):
        return self.group_path("offsets", topic, str(partition), group=group)

    def offset_fields(self, partition=0, topic="t", group="g"):
        try:
            with open(self.offset_path(partition, topic, group)) as f:
                return dict(line.rstrip("\n").split("=", 1) for line in f if "=" in line)
        except FileNotFoundError:
            return {}

    def position(self, partition=0, topic="t", group="g"):
        """As the file says; None if there is none."""
        offset = int(self.offset_fields(partition, topic, group).get("offset") or -1)
        return None if offset < 0 else offset

    def moved(self, partitions=1, topic="t", group="g"):
        """By how much a group that began at 0 has moved, all partitions together."""
        return sum(self.position(p, topic, group) or 0 for p in range(partitions))

    def edit_offset(self, partition=0, topic="t", group="g", **fields):
        """Replaces values in an offset file by hand, in one step."""
        path = self.offset_path(partition, topic, group)
        known = self.offset_fields(partition, topic, group)
        for name in fields:
            self.assertIn(name, known)
        known.update({name: str(value) for name, value in fields.items()})
        temporary = os.path.join(self.directory, "edited")
        with open(temporary, "w") as f:
            f.write("".join("%s=%s\n" % field for field in known.items()))
        os.rename(temporary, path)

    def set_log_start(self, offset, partition=0, topic="t"):
        path = os.path.join(self.partition(topic, partition), "log-start-offset")
        with open(path + ".new", "w") as f:
            f.write("%d\n" % offset)
        os.rename(path + ".new", path)

    def holder(self, partition=0, topic="t", group="g"):
        return claim_holder(self.group_path("claims", topic, "%d.lock" % partition, group=group))

    def holders(self, partitions, topic="t", group="g"):
        return [self.holder(p, topic, group) for p in range(partitions)]

    def described(self, group="g", **how):
        """The rows of describe-group by topic and partition."""
        rows = self.run_program("describe-group", group, "--json", **how).json()
        return {(row["topic"], row["partition"]): row for row in rows}

    def member(self, *args, topics=("t",), group="g", **how):
        return self.start("consume", *topics, "-g", group, *args, **how)

    def stop(self, process, number=signal.SIGTERM):
        """Ends a member as a user would, and checks that it went in good order."""
        process.send_signal(number)
        result = harness.finish(process)
        self.assertEqual((result.status, result.err), (128 + number, b""))
        return result

    def path(self, name):
        return os.path.join(self.directory, name)

    def content(self, name):
        try:
            with open(self.path(name), "rb") as f:
                return f.read()
        except FileNotFoundError:
            return b""

    def wait_beside(self, process, condition, what, deadline=None):
        """For a fact that a process brings about, which must live so long."""
        def done():
            ended = process.poll() is not None
            if condition():
                return True
            if ended:
                self.fail("ended with %d instead of %s: %s" % (process.returncode, what, process.stderr.read().decode()))
            return False

        harness.wait_until(done, what, deadline)

    def wait_for_full_pipe(self, member):
        """Until nothing goes into its pipe any more (a page may have room for less than a record), and it waits."""
        enough = fcntl.fcntl(member.stdout.fileno(), fcntl.F_GETPIPE_SZ) * 15 // 16
        self.wait_beside(member, lambda: pending(member.stdout.fileno()) >= enough and state_of(member.pid) == "S", "the pipe to fill")

    def wait_for_file(self, name, process):
        self.wait_beside(process, lambda: os.path.exists(self.path(name)), "a script to make " + name)
