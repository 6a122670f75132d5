#!/usr/bin/env python3
"""`partlog verify --repair` beside several faults at once: what is whole is kept at the offset that it had, or told."""

import glob
import os
import shutil
import struct

import harness
from known_files import FORMS
from test_verify import BATCH, VerifyTest


class RepairTest(VerifyTest):
    """Five segments; after a repair whatever is whole is there, at the offset that it had, or listed as lost."""

    in_segment = 3  # batches

    def setUp(self):
        super().setUp()
        self.expect_sound = False
        self.create(segment_bytes=200 * self.in_segment)
        count = 5 * self.in_segment
        for n in range(count):
            self.produce(b"".join(b"r%05d\n" % (n * BATCH + i) for i in range(BATCH)), "--timestamp", "2024-05-01")
        self.whole = {o: b"r%05d" % o for o in range(count * BATCH)}
        self.ours = self.partition()
        self.kept = os.path.join(self.directory, "kept")
        shutil.copytree(self.ours, self.kept)
        self.batches = []
        for log in sorted(glob.glob(self.kept + "/*.log")):
            self.batches += self.cut_batches(self.bytes_of(log))
        self.assertEqual(len(self.batches), count)
        self.assertEqual(self.logs(self.kept), [self.name(self.kept, n * self.in_segment * BATCH) for n in range(5)])

    @staticmethod
    def bytes_of(path):
        with open(path, "rb") as f:
            return f.read()

    @staticmethod
    def logs(directory):
        return sorted(glob.glob(directory + "/*.log"))

    def place(self, ours):
        """The log as a partition of the store, or as bare segments in a directory."""
        part = self.ours if ours else os.path.join(self.directory, "bare", "t-0")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(self.kept, part, ignore=None if ours else lambda _, names: [n for n in names if not n.endswith(".log")])
        return part

    def consumed(self, part):
        args = ["t"] if part == self.ours else ["--files", part]
        result = self.run_program("consume", *args, "-f", "%o %s\n", status=0)
        pairs = [line.split() for line in result.out.splitlines()]
        self.assertEqual(len({o for o, _ in pairs}), len(pairs))
        return {int(o): value for o, value in pairs}

    def listed(self, part):
        lost = set()
        if os.path.exists(part + "/lost-offsets"):
            for line in self.bytes_of(part + "/lost-offsets").splitlines():
                first, last = map(int, line.split()[:2])
                self.assertLess(last, 2 * len(self.whole))
                lost |= set(range(first, last + 1))
        return lost

    def check_repair(self, part, may_lose=True):
        there = b"|".join(self.bytes_of(log) for log in self.logs(part))
        sound = {n * BATCH + i for n, batch in enumerate(self.batches) if batch[8:] in there for i in range(BATCH)}
        planned = self.run_program("verify", part, "--repair", "-n", "--json", status=None).json_lines()
        rows = self.run_program("verify", part, "--repair", "--yes", "--json", status=None).json_lines()
        lost = self.listed(part)
        for told in (planned, rows):
            self.assertEqual({o for r in told if r["type"] == "lost" for o in range(r["first_offset"], r["last_offset"] + 1)}, lost)
        self.verify(part, status=0)
        left = self.consumed(part)
        self.assertEqual(left, {o: self.whole[o] for o in left})
        self.assertEqual(sound - left.keys() - lost, set())
        self.assertEqual(lost & left.keys(), set())
        if not may_lose:
            self.assertEqual(sound - left.keys(), set())
        before = harness.tree(part)
        self.run_program("verify", part, "--repair", "--yes", status=0)
        self.assertEqual(harness.tree(part), before)
        if part == self.ours:
            self.produce(b"more\n")
            now = self.consumed(part)
            self.assertEqual(now, {**left, max(now): b"more"})
            self.assertGreater(max(now), max([max(self.whole), *left, *lost]))  # none is used again
        return left.keys()

    def swap(self, one, other):
        os.rename(one, one + "x")
        os.rename(other, one)
        os.rename(one + "x", other)

    def name(self, part, base):
        return os.path.join(part, "%020d.log" % base)

    def append(self, log, batch):
        with open(log, "ab") as f:
            f.write(self.batches[batch])


class Shuffled(RepairTest):
    """Segments in the place of others, under other names, and batches once more elsewhere."""

    def test_a_batch_twice_beside_swapped_segments(self):
        for ours in (True, False):
            for to, batch, one, other in ((0, 11, 0, 30), (30, 11, 0, 30), (0, 10, 0, 120), (90, 13, 90, 30), (30, 13, 90, 30)):
                with self.subTest(ours=ours, to=to, batch=batch, swapped=(one, other)):
                    part = self.place(ours)
                    self.swap(self.name(part, one), self.name(part, other))
                    self.append(self.name(part, to), batch)
                    self.check_repair(part, may_lose=False)

    def test_a_segment_with_a_wrong_name(self):
        for ours in (True, False):
            for old, new in ((120, 31), (0, 29), (0, 31), (90, 31), (60, 95), (30, 119), (120, 1), (60, 50), (60, 70), (0, 153), (120, 153)):
                with self.subTest(ours=ours, old=old, new=new):
                    part = self.place(ours)
                    os.rename(self.name(part, old), self.name(part, new))
                    self.check_repair(part, may_lose=False)


class Scattered(RepairTest):
    """Several faults at once, in offsets and headers too."""

    in_segment = 10

    def place_of(self, batch):
        return batch // self.in_segment * self.in_segment * BATCH, batch % self.in_segment * self.size

    def write(self, part, batch, data, at=0):
        base, position = self.place_of(batch)
        with open(self.name(part, base), "r+b") as f:
            f.seek(position + at)
            f.write(data)

    def setUp(self):
        super().setUp()
        self.size = len(self.batches[0])
        self.assertEqual({len(batch) for batch in self.batches}, {self.size})

    def flip(self, part, batch, bit):
        self.write(part, batch, struct.pack(">q", batch * BATCH ^ 1 << bit))

    def exchange(self, part, one, other):
        self.write(part, one, self.batches[other])
        self.write(part, other, self.batches[one])

    def zero(self, part, batch):
        self.write(part, batch, bytes(17))

    def each(self, *steps, gone):
        """`gone`: the offsets that a repair cannot save, but no others."""
        for ours in (True, False):
            with self.subTest(ours=ours):
                part = self.place(ours)
                for step in steps:
                    step(part)
                self.assertEqual(self.whole.keys() - self.check_repair(part), set(gone))

    def remove(self, base):
        return lambda part: os.unlink(self.name(part, base))

    def test_a_flipped_offset_that_leads_into_a_missing_segment(self):
        self.each(lambda p: self.flip(p, 31, 7), self.remove(400), gone=range(400, 500))

    def test_a_flipped_offset_before_a_broken_header(self):
        self.each(lambda p: self.flip(p, 31, 6), lambda p: self.zero(p, 32), gone=range(320, 330))

    def test_a_flipped_offset_behind_a_broken_header(self):
        self.each(lambda p: self.flip(p, 31, 7), lambda p: self.zero(p, 30), self.remove(400), gone=[*range(300, 310), *range(400, 500)])

    def test_two_offsets_in_a_row_that_no_segment_holds(self):
        for bit in (32, 40, 62):
            self.each(lambda p, bit=bit: self.flip(p, 31, bit), lambda p, bit=bit: self.flip(p, 32, bit), gone=range(310, 330))

    def test_an_exchanged_batch_whose_segment_is_missing(self):
        part = self.place(True)
        self.exchange(part, 5, 15)
        os.unlink(self.name(part, 0))
        self.assertLessEqual(set(range(100, 150)) | set(range(160, 500)), self.check_repair(part))

    def test_a_copy_in_the_place_of_another(self):
        self.each(lambda p: self.write(p, 15, self.batches[5]),
                  lambda p: os.rename(self.name(p, 0), self.name(p, 427)), gone=range(150, 160))

    def test_a_broken_header_in_swapped_segments(self):
        self.each(lambda p: self.swap(self.name(p, 100), self.name(p, 300)), lambda p: self.zero(p, 30), gone=range(100, 110))
        self.each(lambda p: self.swap(self.name(p, 100), self.name(p, 300)), lambda p: self.zero(p, 35), gone=range(150, 160))

    def test_a_broken_header_among_exchanged_batches(self):
        self.each(lambda p: self.exchange(p, 10, 19), lambda p: self.zero(p, 11), gone=range(110, 120))
        self.each(lambda p: self.exchange(p, 13, 15), lambda p: self.zero(p, 14), gone=range(140, 150))

    def test_at_random(self):
        rng = harness.new_random("scattered")
        for n in range(harness.scaled(60)):
            part = self.place(n % 2 == 0)
            done = []
            bits = rng.sample(range(64), 3)  # of two batches in a row with the same one flipped nobody can tell
            for _ in range(rng.randint(1, 3)):
                logs = self.logs(part)
                what, log = rng.choice(("swap", "rename", "repeat", "delete", "cut", "flip", "exchange", "zero", "copy", "out")), rng.choice(logs)
                with open(log, "rb") as file:
                    data = file.read()
                places = range(0, len(data) - self.size + 1, self.size)
                if what == "swap":
                    done.append((what, log, rng.choice(logs)))
                    if log != done[-1][2]:
                        self.swap(log, done[-1][2])
                elif what == "rename":
                    done.append((what, log, rng.choice([b for b in range(520) if self.name(part, b) not in logs])))
                    os.rename(log, self.name(part, done[-1][2]))
                elif what == "repeat":
                    done.append((what, log, rng.randrange(len(self.batches))))
                    self.append(log, done[-1][2])
                elif what == "delete" and len(logs) > 1:
                    done.append((what, log))
                    os.unlink(log)
                elif what == "cut":
                    done.append((what, log, rng.randrange(len(data) + 1)))
                    os.truncate(log, done[-1][2])
                elif places:
                    at = rng.choice(places)
                    done.append((what, log, at // self.size))
                    batch = data[at:at + self.size]
                    if what == "flip":
                        done[-1] += (bit := bits.pop(),)
                        batch = struct.pack(">Q", struct.unpack_from(">Q", batch)[0] ^ 1 << bit) + batch[8:]
                    elif what == "zero":
                        batch = bytes(17) + batch[17:]
                    elif what == "copy":
                        done[-1] += (other := rng.randrange(len(self.batches)),)
                        batch = self.batches[other]
                    elif what == "exchange":
                        done[-1] += ((there := rng.choice(places)) // self.size,)
                        data, batch = data[:there] + batch + data[there + self.size:], data[there:there + self.size]
                    else:
                        batch = b""
                    with open(log, "wb") as file:
                        file.write(data[:at] + batch + data[at + self.size:])
            with self.subTest(ours=n % 2 == 0, done=[(w, *(os.path.basename(str(x)) for x in rest)) for w, *rest in done]):
                self.check_repair(part)


class Files(VerifyTest):
    """What stands for a segment."""

    def setUp(self):
        super().setUp()
        self.expect_sound = False
        self.create()
        for n in range(3):
            self.produce(b"r%d\n" % n)
        self.part = self.partition()
        self.log = self.part + "/%020d.log" % 0

    def test_a_relative_link(self):
        for suffix in ("log", "index"):
            with self.subTest(suffix):
                link = self.log[:-3] + suffix
                elsewhere = os.path.join(self.part, "elsewhere")
                os.makedirs(elsewhere)
                os.rename(link, os.path.join(elsewhere, os.path.basename(link)))
                os.symlink(os.path.join("elsewhere", os.path.basename(link)), link)
                with open(link, "r+b") as f:
                    f.seek(-1 if suffix == "log" else 0, os.SEEK_END)
                    f.write(b"X" * 8)
                with open(link, "rb") as f:
                    damaged = f.read()
                self.run_program("verify", "--repair", "--yes", status=5)
                kept = max(glob.glob(self.part + "/before-repair.*"))
                with open(os.path.join(kept, os.path.basename(link)), "rb") as f:
                    self.assertEqual(f.read(), damaged)
                self.verify(status=0)
                shutil.rmtree(elsewhere)
        self.assertEqual(self.run_program("consume", "t").out, b"r0\nr1\n")

    def test_all_but_an_empty_segment_is_gone(self):
        for path in glob.glob(self.log[:-3] + "*"):
            os.unlink(path)
        with open(self.part + "/%020d.log" % 3, "w"):
            pass
        findings, _ = self.verify(status=5)
        self.assertEqual([(f["first_offset"], f["last_offset"]) for f in findings if f["verdict"] == "damaged"], [(0, 2)])
        self.run_program("consume", "t", status=5)
        self.run_program("verify", "--repair", "--yes", status=5)
        self.verify(status=0)
        self.assertEqual(self.run_program("consume", "t").out, b"")
        self.produce(b"more\n")
        self.assertEqual(self.run_program("consume", "t", "-f", "%o").out, b"3")


class Holes(VerifyTest):
    """Where offsets are missing for a reason, a batch behind them is no moved one, though a single bit would put it next to another."""

    def setUp(self):
        super().setUp()
        self.expect_sound = False
        self.create(segment_bytes=700)
        for n in range(40):
            self.produce(b"r%05d\n" % n, "--timestamp", "2024-05-01")
        self.part = self.partition()
        self.logs = sorted(glob.glob(self.part + "/*.log"))
        size = os.path.getsize(self.logs[0]) // int(os.path.basename(self.logs[1])[:-4])
        with open(self.logs[0], "r+b") as f:
            data = f.read()
            f.seek(0)
            f.write(data[:2 * size] + data[3 * size:])
            f.truncate()
        self.run_program("verify", "--repair", "--yes", status=5)
        self.left = self.read()
        self.assertEqual(self.left, {o: b"r%05d" % o for o in range(40) if o != 2})

    def read(self):
        return {int(o): v for o, v in (line.split() for line in self.run_program("consume", "t", "-f", "%o %s\n").lines)}

    def test_a_renamed_segment(self):
        os.rename(self.logs[0], self.part + "/%020d.log" % 1)
        self.run_program("verify", "--repair", "--yes", status=5)
        self.assertEqual(self.read(), self.left)

    def test_swapped_segments(self):
        os.rename(self.logs[0], self.part + "/x")
        os.rename(self.logs[1], self.logs[0])
        os.rename(self.part + "/x", self.logs[1])
        self.run_program("verify", "--repair", "--yes", status=5)
        self.assertEqual(self.read(), self.left)


class Markers(VerifyTest):
    """Whether the records of a transaction count, its marker alone tells."""

    def test_a_flipped_bit_is_put_right(self):
        rng = harness.new_random("markers")
        self.part = os.path.join(self.directory, "t-0")
        os.mkdir(self.part)
        form, = (form for form in FORMS if form.endswith("/v2-txn-none/"))
        self.log = shutil.copy(*glob.glob(form + "*.log"), self.part)
        with open(self.log, "rb") as f:
            whole = f.read()
        records = self.run_program("consume", "--files", self.part).out
        rows = self.run_program("dump", "--json", self.log).json_lines()
        markers = [(row["baseOffset"], row["position"], row["size"]) for row in rows if row["isControl"]]
        self.assertEqual(len(markers), 3)
        for offset, position, size in markers:
            is_last = position + size == len(whole)  # then what makes a wrong header looks like what a writer that died left behind
            places = range(27, 57) if is_last else [*range(8, 12), *range(16, size)]  # a broker's epoch stays as it is
            bits = [8 * byte + bit for byte in places for bit in range(8)]
            for wrong in [[bit] for bit in rng.sample(bits, harness.scaled(15))] + [rng.sample(bits, 2)]:
                with self.subTest(offset=offset, wrong=wrong):
                    shutil.rmtree(self.part)
                    os.mkdir(self.part)
                    damaged = bytearray(whole)
                    for bit in wrong:
                        damaged[position + bit // 8] ^= 1 << bit % 8
                    with open(self.log, "wb") as f:
                        f.write(damaged)
                    self.run_program("verify", self.part, status=5)
                    told = self.run_program("verify", self.part, "--repair", "--yes", "--json", status=5).json_lines()
                    lost = [(row["first_offset"], row["last_offset"]) for row in told if row["type"] == "lost"]
                    self.run_program("verify", self.part, status=0)
                    if len(wrong) == 1:
                        self.assertEqual(lost, [])
                        self.assertEqual(self.run_program("consume", "--files", self.part).out, records)
                        with open(self.log, "rb") as f:
                            self.assertEqual(f.read(), whole)
                    else:
                        self.assertEqual(lost, [(offset, offset)])


if __name__ == "__main__":
    harness.main()
