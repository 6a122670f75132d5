#!/usr/bin/env python3
"""`consume` beside damage: whatever is not printed is told, and nothing later comes without a word before it."""

import base64
import glob
import json
import os
import re
import shutil
import struct
import subprocess

import harness

BATCH = 10   # records
COUNT = 500  # in five segments
NO_FILES = {
    "a directory": os.mkdir,
    "a pipe": os.mkfifo,
    "a link to nothing": lambda path: os.symlink("nowhere", path),
    "a link to itself": lambda path: os.symlink(path, path),
    "a link to a long name": lambda path: os.symlink("n" * 300, path),
    "a link to a device": lambda path: os.symlink("/dev/zero", path),
}


class FiveSegments(harness.Test):
    """Each of 100 records, in batches of 10: as a partition of a store, and as bare segments in a directory."""

    def setUp(self):
        super().setUp()
        self.expect_sound = False
        self.create(segment_bytes=8715, index_interval_bytes=1500)
        for n in range(COUNT // BATCH):
            lines = b"".join(b"r%05d %s\n" % (n * BATCH + i, b"x" * 65) for i in range(BATCH))
            self.produce(lines, "--timestamp", "2024-05-01")
        self.ours = self.partition()
        self.bare = os.path.join(self.directory, "bare", "t-0")
        self.kept = os.path.join(self.directory, "kept")
        shutil.copytree(self.ours, self.kept)
        self.assertEqual([os.path.basename(log) for log in self.logs(self.kept)], ["%020d.log" % base for base in range(0, COUNT, 100)])
        self.batches = [batch for log in self.logs(self.kept) for batch in self.cut_batches(log)[0]]
        self.assertEqual(len(self.batches), COUNT // BATCH)

    def place(self, ours):
        part = self.ours if ours else self.bare
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(self.kept, part, ignore=None if ours else lambda _, names: [n for n in names if not n.endswith(".log")])
        return part

    @staticmethod
    def logs(part):
        return sorted(log for log in glob.glob(part + "/*.log") if os.path.isfile(log))

    @staticmethod
    def log(part, base):
        return os.path.join(part, "%020d.log" % base)

    @staticmethod
    def rewrite_recovery_point(part, pattern, text):
        path = os.path.join(part, "recovery-point")
        with open(path) as f:
            changed = re.sub(pattern, text, f.read())
        with open(path, "w") as f:
            f.write(changed)

    @staticmethod
    def bytes_of(path):
        with open(path, "rb") as f:
            return f.read()

    def cut_batches(self, path):
        """And what stands behind them."""
        data, batches = self.bytes_of(path), []
        while len(data) >= 12:
            size = 12 + struct.unpack(">i", data[8:12])[0]
            if size < 61 or size > len(data):
                break
            batches.append(data[:size])
            data = data[size:]
        return batches, data

    def put(self, path, batches, rest=b""):
        with open(path, "wb") as f:
            f.write(b"".join(batches) + rest)

    def change(self, part, base, edit):
        """Changes the list of batches of a segment in place."""
        batches, rest = self.cut_batches(self.log(part, base))
        edit(batches)
        self.put(self.log(part, base), batches, rest)

    def swap(self, one, other):
        if one == other:
            return
        os.rename(one, one + "x")
        os.rename(other, one)
        os.rename(one + "x", other)

    def read(self, part, *options):
        """All lines in the order in which they came, and the status."""
        operands = ["t"] if part == self.ours else ["--files", part]
        result = self.run_program("consume", *operands, "-u", "-f", "%o %s\n", *options, status=None, stderr=subprocess.STDOUT)
        return result.out.decode().splitlines(), result.status

    @staticmethod
    def printed(lines):
        return [(int(line.split()[0]), line.split()[1]) for line in lines if not line.startswith("partlog: ")]

    @staticmethod
    def named(lines):
        found = set()
        for line in lines:
            if line.startswith("partlog: "):
                for first, last in re.findall(r"offsets (\d+) to (\d+)", line):
                    found |= set(range(int(first), int(last) + 1))
                found |= {int(one) for one in re.findall(r"offset (\d+) (?:left out|is gone)", line)}
        return found

    def check_values(self, printed, moved):
        offsets = [o for o, _ in printed]
        self.assertEqual(offsets, sorted(set(offsets)))
        wrong = {(o, value) for o, value in printed if value != "r%05d" % o}
        if not moved:
            self.assertEqual(wrong, set())
        return set(offsets)

    def check_word_before(self, lines, first):
        """Whatever is not printed, a line comes before what is printed behind it."""
        expected = first
        for line in lines:
            if line.startswith("partlog: "):
                return
            self.assertEqual(int(line.split()[0]), expected)
            expected += 1

    def check(self, part, moved=False):
        """`moved`: a base offset, which stands outside the checksum, may be wrong."""
        first = 0 if part == self.ours else min(int(name[:-4]) for name in os.listdir(part))
        plain, _ = self.read(part)
        self.check_values(self.printed(plain), moved)
        self.check_word_before(plain, first)
        lines, status = self.read(part, "--skip-corrupt")
        self.check_word_before(lines, first)
        there, named = self.check_values(self.printed(lines), moved), self.named(lines)
        # Of bare segments nobody knows where they began and ended, but for what stands in them.
        data = b"".join(self.bytes_of(log) for log in self.logs(part))
        sound = [(n + 1) * BATCH for n, batch in enumerate(self.batches) if batch in data]
        end = COUNT if part == self.ours else max([first, *(o + 1 for o in there), *sound])
        told = "\n".join(line for line in lines if line.startswith("partlog: "))
        self.assertEqual(set(range(first, end)) - there - named, set(), told)
        if not moved:
            self.assertEqual(named & there & set(range(COUNT)), set(), told)
            self.assertEqual([line for line in plain if not line.startswith("partlog: ")],
                             [line for line in lines if not line.startswith("partlog: ")][:len(self.printed(plain))])
        return there, named, status


class SkipCorrupt(FiveSegments):
    def both(self, damage):
        for ours in (True, False):
            with self.subTest(ours=ours):
                part = self.place(ours)
                damage(part)
                yield self.check(part)

    def test_two_holes_inside_a_segment(self):
        def cut(batches):
            del batches[5], batches[2]
        for _, named, _ in self.both(lambda part: self.change(part, 300, cut)):
            self.assertEqual(named, set(range(320, 330)) | set(range(350, 360)))

        notices = self.consume("--skip-corrupt", "--tail", "400").notices
        self.assertEqual(len(notices), 2, notices)  # what is read twice is told once

    def test_a_hole_between_batches_in_each_others_place(self):
        def exchange(batches):
            batches[3], batches[5] = batches[5], batches[3]
            del batches[4]
        for _, named, _ in self.both(lambda part: self.change(part, 300, exchange)):
            self.assertEqual(named, set(range(340, 360)))

    def test_a_hole_before_what_stands_early(self):
        def move(batches):
            batches.insert(2, batches.pop(7))  # 370 before 320
            del batches[7]                     # 360
        for _, named, _ in self.both(lambda part: self.change(part, 300, move)):
            self.assertEqual(named, set(range(360, 380)))

    def test_whole_batches_behind_a_broken_one_at_the_end(self):
        def damage(batches):
            batches[8] = batches[8][:-1] + b"X"
            batches.append(self.batches[18])
        for _, named, _ in self.both(lambda part: self.change(part, 400, damage)):
            self.assertEqual(named, set(range(480, 500)))

    def test_a_broken_stable_end_after_a_restart(self):
        for rest in (bytes(500), b"x" * 500, self.batches[0]):
            with self.subTest(rest[:1]):
                part = self.place(True)
                size = os.path.getsize(self.log(part, 400))
                self.rewrite_recovery_point(part, r"boot_id=.*", "boot_id=other")
                os.truncate(self.log(part, 400), size - 10)
                with open(self.log(part, 400), "ab") as f:
                    f.write(rest)
                plain, status = self.read(part)
                self.assertEqual((self.printed(plain)[-1:], status), ([(489, "r00489")], 5))
                told = "partlog: %s position %d (offset 490): " % (self.log(part, 400), size - len(self.batches[-1]))
                self.assertEqual([line[:len(told)] for line in plain if line.startswith("partlog: ")], [told])
                there, named, status = self.check(part)
                self.assertEqual((len(there), named, status), (490, set(range(490, 500)), 5))
                for tail in ("--tail", "5"), ("-F", "--idle-timeout", "1ms"), ("-g", "g"):
                    lines, status = self.read(part, *tail)
                    self.assertEqual(([line[:len(told)] for line in lines if line.startswith("partlog: ")], status), ([told], 5))
                    lines, status = self.read(part, *tail, "--skip-corrupt")
                    self.assertEqual((self.named(lines), status), (set(range(490, 500)), 5))
                self.run_program("delete-group", "g", "--yes")
                self.produce(b"more\n", status=5)

    def test_the_newest_behind_a_wide_hole(self):
        for base in (1000, 10**15):
            for name in ("%020d.log" % base, "no file"):
                with self.subTest(base=base, name=name):
                    part = self.place(True)
                    shutil.copy(self.log(part, 0), self.log(part, base))
                    if name == "no file":
                        os.unlink(self.log(part, 300))
                        os.mkdir(self.log(part, 300))
                    lines, status = self.read(part, "--tail", "250", "--skip-corrupt")
                    whole = self.read(part, "--skip-corrupt")[0]
                    told = [line for line in whole if line.startswith("partlog: ")]
                    self.assertEqual(([line for line in lines if line.startswith("partlog: ")], status), (told, 5))
                    self.assertEqual(self.printed(lines), self.printed(whole)[-250:])
                    self.assertEqual(sum("offsets 500 to %d left out" % (base - 1) in line for line in told), 1)

    def test_no_file_at_the_end_before_an_empty_one_after_a_restart(self):
        part = self.place(True)
        self.rewrite_recovery_point(part, r"boot_id=.*", "boot_id=other")
        os.unlink(self.log(part, 400))
        os.mkdir(self.log(part, 400))
        with open(self.log(part, 600), "wb"):
            pass
        told = ["partlog: %s position 0, offsets 400 to 599 left out: not a regular file" % self.log(part, 400)]
        for options, count in ((), 400), (("--tail", "1000"), 400), (("--tail", "150"), 150):
            lines, status = self.read(part, *options, "--skip-corrupt")
            self.assertEqual(([line for line in lines if line.startswith("partlog: ")], status), (told, 5))
            self.assertEqual([o for o, _ in self.printed(lines)], list(range(400 - count, 400)))

    def test_no_file_inside_a_segment_costs_a_line(self):
        for ours in (True, False):
            for base in (30, 225, 450):
                with self.subTest(ours=ours, base=base):
                    part = self.place(ours)
                    os.mkdir(self.log(part, base))
                    told = ["partlog: %s position 0, no offsets left out: not a regular file" % self.log(part, base)]
                    for options, first in ((), 0), (("-o", str(base + 5)), base + 5), (("--tail", "495"), 5):
                        lines, status = self.read(part, *options, "--skip-corrupt")
                        self.assertEqual(([line for line in lines if line.startswith("partlog: ")], status), (told, 5))
                        self.assertEqual([o for o, _ in self.printed(lines)], list(range(first, COUNT)))

    def test_what_is_no_file(self):
        for what, put in NO_FILES.items():
            for ours in (True, False):
                for base in (0, 200, 400, 500):
                    with self.subTest(what, ours=ours, base=base):
                        self.check_no_file(self.place(ours), base, put)

    def check_no_file(self, part, base, put):
        log = self.log(part, base)
        if base < COUNT:
            os.unlink(log)
        put(log)
        plain, status = self.read(part)
        self.assertEqual((self.printed(plain)[-1:], status), ([(base - 1, "r%05d" % (base - 1))] if base else [], 5))
        self.assertEqual([line for line in plain if line.startswith("partlog: ")],
                         ["partlog: " + log + ": not a regular file; move away what stands there"])
        there, named, status = self.check(part)
        self.assertEqual((len(there), status), (COUNT - 100 if base < COUNT else COUNT, 5))
        if base < 400 or part == self.ours:
            self.assertEqual(named, set(range(base, min(base + 100, COUNT))))
        followed, status = self.read(part, "-F", "--idle-timeout", "1ms", "--skip-corrupt")
        self.assertEqual((len(self.printed(followed)), status), (len(there), 5))
        dumped = self.run_program("dump", part, "--json", status=1)
        self.assertEqual((len(dumped.lines), len(dumped.notices)), (len(there) // BATCH, 1))
        self.run_program("disk-usage")
        repair = self.run_program("verify", part, "--repair", "--yes", status=5)
        self.assertEqual([line for line in repair.notices if "move away" not in line], [])
        if part == self.ours:
            self.check_no_file_beside_writers(log, base)
        shutil.rmtree(log) if os.path.isdir(log) else os.unlink(log)
        self.run_program("verify", part, "--repair", "--yes", status=None)
        self.run_program("verify", part, status=0)
        self.assertLessEqual(there, {o for o, _ in self.printed(self.read(part)[0])})

    def check_no_file_beside_writers(self, log, base):
        if base >= 400:
            result = self.produce(b"more\n", status=5)
            self.assertEqual(sum(log in line and "verify --repair t" in line for line in result.notices), 1)
        group = self.consume("-g", "g", "-f", "%o\n", status=5)
        self.assertEqual(len(group.lines), base)
        self.run_program("delete-group", "g", "--yes")
        offsets = self.run_program("get-offsets", "t", "--json").json()
        self.assertEqual(offsets[0]["offset"], COUNT)
        behind = self.consume("-o", "450", "--skip-corrupt", status=5 if base >= 400 else 0)
        self.assertEqual((len(behind.lines), len(behind.notices)), (0 if base == 400 else 50, 1 if base >= 400 else 0))

    def fault(self, rng, part, done):
        logs = self.logs(part)
        what = rng.choice(("cut out", "exchange", "zero", "flip", "repeat", "delete", "swap", "rename", "cut short", "no file"))
        log = rng.choice(logs)
        batches, rest = self.cut_batches(log)
        at = rng.randrange(len(batches)) if batches else None
        told = [what, int(os.path.basename(log)[:-4])]
        if what in ("cut out", "zero", "exchange") and batches:
            told.append(at)
            if what == "cut out":
                del batches[at]
            elif what == "zero":
                batches[at] = bytes(61) + batches[at][61:]
            else:
                other = rng.choice(logs)
                others, other_rest = (batches, rest) if other == log else self.cut_batches(other)
                if not others:
                    return
                told += [int(os.path.basename(other)[:-4]), rng.randrange(len(others))]
                batches[at], others[told[-1]] = others[told[-1]], batches[at]
                self.put(other, others, other_rest)
            self.put(log, batches, rest)
        elif what == "flip" and os.path.getsize(log):
            told += [rng.randrange(os.path.getsize(log)), rng.randrange(8)]
            with open(log, "r+b") as f:
                f.seek(told[2])
                byte = f.read(1)[0]
                f.seek(told[2])
                f.write(bytes([byte ^ 1 << told[3]]))
        elif what == "repeat":
            told.append(rng.randrange(len(self.batches)))
            with open(log, "ab") as f:
                f.write(self.batches[told[-1]])
        elif what == "delete" and len(logs) > 1:
            os.unlink(log)
        elif what == "swap":
            told.append(int(os.path.basename(rng.choice(logs))[:-4]))
            self.swap(log, self.log(part, told[-1]))
        elif what == "rename":
            told.append(rng.choice([b for b in range(COUNT + 10) if self.log(part, b) not in logs]))
            os.rename(log, self.log(part, told[-1]))
        elif what == "no file" and len(logs) > 1:
            told.append(rng.choice(list(NO_FILES)))
            os.unlink(log)
            NO_FILES[told[-1]](log)
        elif what == "cut short":
            told.append(rng.randrange(os.path.getsize(log) + 1))
            os.truncate(log, told[-1])
        else:
            return
        done.append(tuple(told))

    def has_moved(self, part):
        """Whether a sound batch has another base offset than it was written with."""
        bodies = {batch[12:]: batch[:8] for batch in self.batches}
        for log in self.logs(part):
            data = self.bytes_of(log)
            for body, base in bodies.items():
                at = data.find(body)
                while at >= 0:
                    if at < 12 or data[at - 12:at - 4] != base:
                        return True
                    at = data.find(body, at + 1)
        return False

    def test_at_random(self):
        rng = harness.new_random("skip corrupt")
        for n in range(harness.scaled(100)):
            part = self.place(n % 2 == 0)
            done = []
            for _ in range(rng.randint(1, 3)):
                self.fault(rng, part, done)
            with self.subTest(ours=n % 2 == 0, done=done):
                self.check(part, self.has_moved(part))


class WithinValues(harness.Test):
    """A value may hold whole batches, as that of a backup does: they are not the log's, whatever is damaged in front of them."""

    def setUp(self):
        super().setUp()
        self.expect_sound = False
        self.create()
        self.produce(b"inner %d\n" % 1 * 3)
        with open(self.partition() + "/%020d.log" % 0, "rb") as f:
            inner = f.read()
        self.inner = struct.pack(">q", 20) + inner[8:]
        self.run_program("create-topic", "outer")
        self.log = os.path.join(self.store, "topics", "outer", "0", "%020d.log" % 0)
        self.starts = []
        for value in (b"before", self.inner + b"text" + self.inner, b"behind", b"last"):
            self.starts.append(os.path.getsize(self.log))
            line = json.dumps({"value_b64": base64.b64encode(value).decode()})
            self.run_program("produce", "outer", "-J", "--sync", "batch", input=line.encode() + b"\n")
        with open(self.log, "rb") as f:
            self.whole = f.read()

    def test_are_not_read_behind_a_damaged_header(self):
        at = self.starts[1]
        faults = [(at + byte, bytes([self.whole[at + byte] ^ 1 << bit])) for byte in (*range(8, 12), *range(16, 23)) for bit in range(8)]
        for position, damage in [*faults, (at, bytes(17))]:
            with self.subTest(position=position - at, damage=damage):
                with open(self.log, "wb") as f:
                    f.write(self.whole[:position] + damage + self.whole[position + len(damage):])
                result = self.run_program("consume", "outer", "--skip-corrupt", "-f", "%o %s\n", status=5)
                self.assertEqual(result.out, b"0 before\n2 behind\n3 last\n")
                self.assertIn("offset 1 left out", result.text)


if __name__ == "__main__":
    harness.main()
