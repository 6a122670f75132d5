#!/usr/bin/env python3
"""`partlog verify`: damage is found, named and mended, and nothing else is called damage."""

import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys

import harness
import known_files
import segments

BATCH = 10  # records
NOBODY = 65534


def flipped(data, bit):
    return data[:bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1:]


class VerifyTest(harness.Test):
    def verify(self, *args, **how):
        """Findings and summaries."""
        rows = self.run_program("verify", *args, "--json", **how).json_lines()
        return [r for r in rows if r["type"] == "finding"], [r for r in rows if r["type"] == "summary"]

    def clean(self, *args, notes=0, **how):
        findings, summaries = self.verify(*args, status=0, **how)
        self.assertEqual([f["verdict"] for f in findings], ["note"] * notes, findings)
        self.assertEqual({s["verdict"] for s in summaries}, {"clean"}, findings)
        return summaries

    @staticmethod
    def cut_batches(data):
        batches = []
        while data:
            size = 12 + struct.unpack(">i", data[8:12])[0]
            batches.append(data[:size])
            data = data[size:]
        return batches


class FiveSegments(VerifyTest):
    """Each of some 100 records, in batches of 10."""

    def setUp(self):
        super().setUp()
        self.expect_sound = False
        self.create(segment_bytes=3000, index_interval_bytes=300)
        for n in range(45):
            self.produce(b"".join(b"r%05d %s\n" % (n * BATCH + i, b"x" * 10) for i in range(BATCH)), "--timestamp", "2024-05-01")
        self.part = self.partition()
        self.logs = sorted(glob.glob(self.part + "/*.log"))
        self.assertEqual(len(self.logs), 5)
        self.whole = self.consumed()
        self.assertEqual(len(self.whole), 450)
        self.kept = os.path.join(self.directory, "kept")
        shutil.copytree(self.part, self.kept)
        self.batches = self.run_program("dump", "t", "--json").json_lines()

    def restore(self):
        shutil.rmtree(self.part)
        shutil.copytree(self.kept, self.part)

    def consumed(self, status=0):
        out = self.consume("-f", "%o %s\n", status=status).out
        return {int(line.split()[0]): line for line in out.splitlines()}

    def edit(self, path, change):
        with open(path, "rb") as f:
            data = f.read()
        with open(path, "wb") as f:
            f.write(change(data))

    def flip(self, path, rng):
        at = rng.randrange(os.path.getsize(path))
        self.edit(path, lambda data: data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1:])
        return at

    def listed(self):
        """The offsets in the list of what was lost."""
        lost = set()
        if os.path.exists(self.part + "/lost-offsets"):
            with open(self.part + "/lost-offsets", encoding="utf-8") as f:
                for line in f:
                    first, last, time = line.split()
                    self.assertRegex(time, r"^\d{4}-\d\d-\d\dT")
                    lost |= set(range(int(first), int(last) + 1))
        return lost

    def check_repair(self, most):
        """Repairs; what is lost is listed and all the rest is there; the files as they were are kept; offsets are not used again."""
        before = harness.tree(self.part)
        found = self.run_program("verify", status=None).status
        planned = self.run_program("verify", "--repair", "-n", "--json", status=None)
        self.assertEqual(harness.tree(self.part), before)
        damaged = {n: self.contents(n) for n in os.listdir(self.part)}
        result = self.run_program("verify", "--repair", "--yes", "--json", status=None)
        lost = self.listed()
        rows = [r for r in result.json_lines() if r["type"] == "lost"]
        self.assertEqual({o for r in rows for o in range(r["first_offset"], r["last_offset"] + 1)}, lost)
        self.assertEqual([(r["first_offset"], r["last_offset"]) for r in planned.json_lines() if r["type"] == "lost"],
                         [(r["first_offset"], r["last_offset"]) for r in rows])
        self.assertEqual(result.status, found, result.out)
        self.assertLessEqual(len(lost), most)
        self.clean()
        self.assertEqual(self.consumed(), {o: line for o, line in self.whole.items() if o not in lost})
        kept = {n for d in glob.glob(self.part + "/before-repair.*") for n in os.listdir(d)}
        for name, data in damaged.items():
            if name.endswith(".log") and data != self.contents(name):
                self.assertIn(name, kept)
                self.assertEqual(self.contents("before-repair.1/" + name), data)
        self.produce(b"more\n")
        self.assertEqual(self.consume("-f", "%o %s\n", "-o", "450").out, b"450 more\n")
        self.clean()
        return lost

    def contents(self, name):
        path = os.path.join(self.part, name)
        if os.path.isdir(path):
            return None
        with open(path, "rb") as f:
            return f.read()

    def test_the_base_offset_of_the_last_batch(self):
        """It is outside the checksum, and nothing follows: the recovery point tells. Also with what nobody has synced behind it, be
        that a batch or a torn one."""
        last = self.batches[-1]
        log, at = self.logs[4], last["position"]
        whole = self.contents(os.path.basename(log))
        point = self.contents("recovery-point")
        for upwards in (1, 2, 16, 1 << 23, 1 << 31, 1 << 40, 1 << 62):
            for behind in (b"", whole[at:at + 60], bytes(100)):
                wrong = whole[:at] + struct.pack(">q", 440 + upwards) + whole[at + 8:] + behind
                with self.subTest(upwards=upwards, behind=behind[:1]):
                    self.edit(log, lambda _, wrong=wrong: wrong)
                    findings, _ = self.verify(status=5)
                    damage = [f for f in findings if f["verdict"] == "damaged"]
                    self.assertEqual([(f["position"], f["first_offset"], f["last_offset"]) for f in damage], [(at, 440, 449)])
                    self.assertEqual(self.consumed(5), {o: line for o, line in self.whole.items() if o < 440})
                    before = harness.tree(self.part)
                    self.assertEqual(self.run_program("produce", "t", input=b"no\n", status=5).out, b"")
                    self.assertEqual(self.contents(os.path.basename(log)), wrong)
                    self.assertEqual(harness.tree(self.part).keys(), before.keys())
                    passed = self.consume("--skip-corrupt", "-f", "%o %s\n", status=5)
                    self.assertEqual(len(passed.lines), 440)
                    self.assertIn("440", passed.text)
                    copied = os.path.join(self.directory, "copied")
                    shutil.copytree(self.part, copied)
                    self.assertEqual(len(self.run_program("consume", "--files", copied, status=5).lines), 440)
                    shutil.rmtree(copied)
                    self.assertEqual(self.check_repair(0), set())
                self.restore()
        # Of a batch that is not synced yet: writers leave no gaps.
        self.produce(b"more\n", "--sync", "none", "--timestamp", "2024-05-01")
        self.whole[450] = b"450 more"
        end = len(whole)
        self.edit(log, lambda d: d[:end] + struct.pack(">q", 450 ^ 4) + d[end + 8:])
        self.verify(status=5)
        self.assertEqual(self.consumed(5), {o: line for o, line in self.whole.items() if o < 450})
        self.run_program("produce", "t", input=b"no\n", status=5)
        self.run_program("verify", "--repair", "--yes", status=5)
        self.clean()
        self.assertEqual(self.consumed(), self.whole)
        self.restore()
        # With a whole batch behind it, unsynced.
        self.produce(b"more\n", "--sync", "none", "--timestamp", "2024-05-01")
        self.edit(log, lambda d: d[:at] + struct.pack(">q", 445) + d[at + 8:])
        self.whole = {o: line for o, line in self.whole.items() if o < 440}
        self.assertEqual(self.consumed(5), self.whole)
        self.verify(status=5)
        self.restore()
        # The recovery point may be wrong itself: then nothing changes that is read.
        for n, byte in enumerate(point):
            self.edit(self.part + "/recovery-point", lambda _, n=n, byte=byte: point[:n] + bytes([byte ^ 1]) + point[n + 1:])
            self.assertEqual(len(self.consumed(None)), 450, point[:n])

    def test_each_flipped_bit_is_found_and_costs_one_batch_at_most(self):
        rng = harness.new_random("flips")
        for n in range(harness.scaled(50)):
            log = rng.choice(self.logs)
            at = self.flip(log, rng)
            mine = next(b for b in self.batches if b["file"] == log and b["position"] <= at < b["position"] + b["size"])
            with self.subTest(log=log, at=at, of=at - mine["position"]):
                findings, _ = self.verify(status=5)
                damage = [f for f in findings if f["file"] == log and f["verdict"] == "damaged"]
                self.assertTrue(damage, findings)
                self.assertLessEqual(damage[0]["position"], mine["position"])
                if mine["position"] != damage[0]["position"]:  # the next one shows that this one is wrong
                    self.fail((mine, damage))
                self.assertLessEqual(damage[0]["first_offset"], mine["baseOffset"])
                self.assertGreaterEqual(damage[0]["last_offset"], mine["lastOffset"] if damage[0]["end_position"] > mine["position"] else 0)
                text = self.run_program("verify", log, status=None)
                self.assertIn(log, text.out.decode())
                if n % 5 == 0:
                    self.check_repair(BATCH)
            self.restore()

    def test_flips_in_indexes_never_change_what_consume_prints(self):
        rng = harness.new_random("indexes")
        indexes = [f for f in glob.glob(self.part + "/*index") if os.path.getsize(f)]
        found = 0
        for _ in range(harness.scaled(30)):
            path = rng.choice(indexes)
            self.flip(path, rng)
            with self.subTest(path):
                self.assertEqual(self.consumed(), self.whole)
                self.assertEqual(self.consume("-f", "%o\n", "-o", "250", "-c", "1").out, b"250\n")
                findings, _ = self.verify(status=None)
                self.assertTrue(all(f["file"] == path for f in findings), findings)
                found += bool(findings)
                made = self.run_program("verify", "--reindex").out.decode()
                self.assertEqual({n: self.contents(n) for n in os.listdir(self.part)},
                                 {n: open(os.path.join(self.kept, n), "rb").read() for n in os.listdir(self.kept)}, made)
                self.assertIn(path, made)
            self.restore()
        self.assertGreater(found, harness.scaled(30) * 0.8)

    def test_segments_swapped_deleted_and_emptied(self):
        def swap(a, b):
            os.rename(a, a + "x")
            os.rename(b, a)
            os.rename(a + "x", b)

        cases = [
            ("swapped", lambda: swap(self.logs[1], self.logs[3]), [(90, 179), (270, 359)], 0),
            ("the first two swapped", lambda: swap(self.logs[0], self.logs[1]), [(0, 89), (90, 179)], 0),
            ("the last swapped", lambda: swap(self.logs[4], self.logs[1]), [(90, 179), (360, 449)], 0),
            ("the first deleted", lambda: os.unlink(self.logs[0]), [(0, 89)], 90),
            ("one deleted", lambda: os.unlink(self.logs[2]), [(180, 269)], 90),
            ("the last deleted", lambda: os.unlink(self.logs[4]), [(360, 449)], 90),
            ("one emptied", lambda: os.truncate(self.logs[2], 0), [(180, 269)], 90),
        ]
        for what, damage, ranges, most in cases:
            with self.subTest(what):
                damage()
                findings, _ = self.verify(status=5)
                logs = [f for f in findings if f["file"].endswith(".log")]
                self.assertEqual([(f["first_offset"], f["last_offset"]) for f in logs], ranges, findings)
                self.assertEqual(len(self.check_repair(most)), most)
            self.restore()

    def test_batches_zeroed_repeated_and_shifted(self):
        cases = [
            ("header zeroed", 2, lambda d: d[:301] + bytes(61) + d[362:], (190, 199), 10),
            ("repeated", 2, lambda d: d[:602] + d[301:], (190, 199), 0),
            ("garbage between", 2, lambda d: d[:602] + b"garbage" * 99 + d[602:], (None, None), 0),
            ("cut inside", 1, lambda d: d[:-20], (170, 179), 10),
            ("cut at the end", 4, lambda d: d[:-20], (440, 449), 10),
            ("the last one", 4, lambda d: d[:-1] + b"Z", (440, 449), 10),
            ("offset outside the checksum", 2, lambda d: d[:301] + struct.pack(">q", 1190) + d[309:], (190, 199), 0),
            ("offset of the last", 4, lambda d: d[:-301] + struct.pack(">q", 9440) + d[-293:], (440, 449), 0),
            ("epoch outside the checksum", 2, lambda d: d[:313] + struct.pack(">i", 64) + d[317:], (190, 199), 0),
        ]
        for what, number, change, offsets, most in cases:
            with self.subTest(what):
                self.edit(self.logs[number], change)
                findings, _ = self.verify(status=5)
                found = next(f for f in findings if f["file"] == self.logs[number])
                self.assertEqual((found["first_offset"], found["last_offset"]), offsets, findings)
                self.assertEqual(len(self.check_repair(most)), most)
            self.restore()

    def test_batches_in_the_place_of_others(self):
        """A batch that stands elsewhere, too, is a copy; one whose own place is free goes there; none gets the offsets of another."""
        def put(changes):
            self.restore()
            data = {n: self.contents(os.path.basename(log)) for n, log in enumerate(self.logs)}
            of = lambda n: [b for b in self.batches if b["file"] == self.logs[n]]
            spans = {n: [(b["position"], b["position"] + b["size"]) for b in of(n)] for n in data}
            for (to, at), (source, which) in changes.items():
                begin, end = spans[to][at]
                taken = data[source][slice(*spans[source][which])]
                self.assertEqual(end - begin, len(taken))
                self.edit(self.logs[to], lambda old: old[:begin] + taken + old[end:])

        one, other = 1, 2
        for changes, most in (({(one, 1): (one, 0)}, BATCH), ({(one, 2): (one, 4), (one, 4): (one, 2)}, 0),
                              ({(one, 1): (other, 3)}, BATCH), ({(one, 3): (other, 2), (other, 2): (one, 3)}, 0)):
            with self.subTest(changes):
                put(changes)
                self.assertEqual(len(self.check_repair(most)), most)

    def test_a_wrong_checkpoint_of_epochs_beside_a_bad_batch(self):
        """The batches are believed, not the checkpoint."""
        with open(self.part + "/leader-epoch-checkpoint", "w", encoding="utf-8") as f:
            f.write("0\n1\n7 0\n")
        self.edit(self.logs[1], lambda data: data[:-20] + bytes([data[-20] ^ 1]) + data[-19:])
        self.assertEqual(len(self.check_repair(BATCH)), BATCH)
        self.assertEqual({r["epoch"] for r in self.consume_json()}, {0})

    def test_a_wrapper_at_the_end(self):
        """Of a compressed set of an old format, whose checksum is wrong, the last offset is known."""
        for form in ("v0-snappy", "v1-gzip"):
            directory = os.path.join(self.directory, form + "-0")
            shutil.copytree(next(f for f in known_files.FORMS if f.endswith("/" + form + "/")), directory)
            last = sorted(glob.glob(directory + "/*.log"))[-1]
            self.edit(last, lambda data: data[:-20] + bytes([data[-20] ^ 4]) + data[-19:])
            left = self.run_program("consume", "--files", last, "--skip-corrupt", status=5).text
            rows = self.run_program("verify", "--repair", "--yes", "--json", directory, status=5).json_lines()
            lost = [(r["first_offset"], r["last_offset"]) for r in rows if r["type"] == "lost"]
            self.assertEqual(lost, [(110, 114)])
            self.assertIn("offsets 110 to 114 left out", left)

    def test_several_at_once_and_a_second_repair(self):
        self.edit(self.logs[2], lambda d: d[:602] + b"garbage" * 99 + d[602:])
        self.edit(self.logs[0], lambda d: d[:100] + b"ZZZ" + d[103:])
        self.edit(self.logs[4], lambda d: d[:-1] + b"Z")
        self.assertEqual(self.check_repair(20), set(range(10)) | set(range(440, 450)))
        self.edit(self.logs[1], lambda d: d[:100] + b"ZZZ" + d[103:])
        self.run_program("verify", "t", "--repair", "--yes", status=5)
        self.assertEqual(self.listed(), set(range(10)) | set(range(90, 100)) | set(range(440, 450)))
        self.assertEqual(len(glob.glob(self.part + "/before-repair.*")), 2)
        self.clean()

    def test_a_torn_tail_is_none_and_repair_cuts_it(self):
        size = os.path.getsize(self.logs[4])
        for tail in (b"x", bytes(5000), struct.pack(">q", 450) + b"\0\0\1\0" + bytes(4) + b"\2" + b"y" * 80):
            self.edit(self.logs[4], lambda d: d[:size] + tail)
            findings, summaries = self.verify(status=0)
            self.assertEqual([f["verdict"] for f in findings], ["torn tail"])
            self.assertEqual((findings[0]["position"], findings[0]["end_position"]), (size, size + len(tail)))
            self.assertEqual([s["verdict"] for s in summaries], ["torn tail"])
        self.check_repair(0)

    def test_small_files(self):
        cases = [
            ("log-start-offset", b"x1\n"), ("log-start-offset", b"999\n"), ("partition.metadata", b"version: 1\n"),
            ("partition.metadata", b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"), ("recovery-point", b"offset=7\n"),
            ("leader-epoch-checkpoint", b"0\n2\n0 0\n"), ("leader-epoch-checkpoint", b"0\n1\n7 0\n"),
            ("leader-epoch-checkpoint", b"0\n2\n0 0\n3 200\n"), ("leader-epoch-checkpoint", b"0\n1\n0 300\n"),
        ]
        for name, data in cases:
            with self.subTest(name):
                self.edit(os.path.join(self.part, name), lambda _, data=data: data)
                findings, _ = self.verify("t", status=5)
                self.assertEqual([f["file"] for f in findings], [os.path.join(self.part, name)])
                self.check_repair(0)
            self.restore()
        self.edit(self.part + "/recovery-point", lambda _: b"")  # as a power failure leaves it
        self.clean(notes=1)

    def test_small_files_as_large_as_no_other(self):
        """What only helps is left alone by readers; where they need a file, verify names it as they do."""
        for name in ("recovery-point", "leader-epoch-checkpoint", "partition.metadata", "lost-offsets", "cuts", "log-start-offset"):
            for fill in (b"\0", b"\n", b"7"):
                with self.subTest(name, fill=fill):
                    with open(os.path.join(self.part, name), "ab") as f:
                        f.write(fill * (2 << 20 if name not in ("lost-offsets", "cuts") else 65 << 20))
                    findings, _ = self.verify(status=5)
                    self.assertEqual([f["file"] for f in findings], [os.path.join(self.part, name)])
                    needed = name == "log-start-offset"
                    result = self.consume("-f", "%o %s\n", status=5 if needed else 0)
                    self.assertEqual(result.lines, [] if needed else list(self.whole.values()))
                    if needed:
                        self.assertIn(name, result.text)
                    if name in ("recovery-point", "log-start-offset"):
                        self.check_repair(0)
                self.restore()

    def test_a_log_start_behind_the_end(self):
        """All records would be gone, and others given offsets far behind them."""
        for start in (451, 99999, 2 ** 62, 2 ** 63 - 1):
            self.edit(self.part + "/log-start-offset", lambda _, start=start: b"%d\n" % start)
            findings, _ = self.verify(status=5)
            self.assertEqual([f["file"] for f in findings], [self.part + "/log-start-offset"])
            result = self.consume(status=5)
            self.assertIn("log-start-offset: the log start offset %d is behind the end offset 450" % start, result.text)
            before = harness.tree(self.part)
            self.run_program("produce", "t", input=b"no\n", status=5)
            self.assertEqual(harness.tree(self.part), before)
            self.check_repair(0)
            self.restore()

    def test_epochs_against_the_checkpoint(self):
        path = self.part + "/leader-epoch-checkpoint"
        self.edit(path, lambda _: b"0\n2\n0 0\n3 200\n")
        findings, _ = self.verify(status=5)
        self.assertEqual([(f["file"], f["first_offset"], f["last_offset"], f["reason"]) for f in findings],
                         [(path, 200, None, "it gives the leader epoch 3 where the batches have 0")])
        self.edit(path, lambda _: b"0\n2\n0 0\n3 999\n")
        self.clean(notes=1)
        # The epoch of one batch is wrong as well: it is not taken for that of the log.
        self.edit(path, lambda _: b"0\n1\n7 0\n")
        log = self.contents(os.path.basename(self.logs[2]))
        self.edit(self.logs[2], lambda d: d[:313] + struct.pack(">i", 64) + d[317:])
        findings, _ = self.verify(status=5)
        self.assertEqual({f["file"] for f in findings}, {path, self.logs[2]})
        self.edit(self.logs[2], lambda _: log)
        self.run_program("verify", "--repair", "--yes", status=5)
        with open(path, "rb") as f:
            self.assertEqual(f.read(), b"0\n1\n0 0\n")
        self.clean()

    def test_indexes_that_a_repair_replaces_are_kept_and_named(self):
        names = ["%020d.%s" % (base, suffix) for base, suffix in ((90, "index"), (180, "timeindex"), (360, "index"))]
        last = os.stat(os.path.join(self.part, names[2])).st_ino
        for name in names:
            self.edit(os.path.join(self.part, name), lambda d: b"\xff" * len(d))
        damaged = {name: self.contents(name) for name in names}
        result = self.run_program("verify", "--repair", "--yes", "--json", status=5).json_lines()
        self.assertEqual(sorted(r["file"] for r in result if r["type"] == "replaced"), [os.path.join(self.part, n) for n in names])
        kept = os.listdir(self.part + "/before-repair.1")
        self.assertEqual(sorted(kept), sorted(names + ["recovery-point"]))
        for name in names:
            self.assertEqual(self.contents("before-repair.1/" + name), damaged[name])
        for name in os.listdir(self.kept):
            if name != "recovery-point":
                with open(os.path.join(self.kept, name), "rb") as f:
                    self.assertEqual(self.contents(name), f.read(), name)
        self.assertEqual(os.stat(os.path.join(self.part, names[2])).st_ino, last)  # writers have it open
        self.clean()

    def test_a_repair_that_was_killed_is_told_of_by_the_next(self):
        """At whatever call it dies: the offsets lost, the files kept, and the status of a repair that got to its end."""
        self.need("strace")
        self.need_plain_build()
        if subprocess.run(["strace", "-f", "-o", os.devnull, "-e", "inject=rename:signal=KILL", "true"], stderr=subprocess.DEVNULL).returncode:
            self.left_out("strace may not inject signals here")

        def damage():
            self.restore()
            self.edit(self.logs[1], lambda d: d[:100] + b"ZZZ" + d[103:])
            self.edit(self.logs[4], lambda d: d[:-1] + b"Z")
            os.unlink(self.part + "/partition.metadata")
            os.mkdir(self.part + "/partition.metadata")
            self.edit(self.logs[4].replace(".log", ".index"), lambda d: b"\xff" * len(d))

        def told(rows):
            return [(r["type"], r["file"], r["first_offset"], r["last_offset"], r["reason"]) for r in rows if r["type"] != "finding"]

        def repair(*args, **how):
            result = self.run_program("verify", "--repair", *args, "--json", **how)
            return result.json_lines(), result.status

        damage()
        whole, status = repair("--yes", status=5)
        whole = told(whole)
        self.assertEqual([(r[2], r[3]) for r in whole if r[0] == "lost"], [(90, 99), (440, 449)])
        interrupted = 0
        for call in ("rename", "fdatasync", "unlink", "rmdir", "write"):
            for n in range(1, 100):
                damage()
                inject = ("-e", "trace=" + call, "-e", "inject=%s:signal=KILL:when=%d" % (call, n))
                with open(os.path.join(self.directory, "out"), "w+b") as out:
                    done = subprocess.run(["strace", "-f", "-qq", "-o", os.devnull, *inject, harness.PROGRAM, "-d", self.store, "verify",
                                           "--repair", "--yes", "--json"], stdout=out, stderr=subprocess.PIPE, check=False)
                    out.seek(0)
                    first = told(json.loads(line) for line in out.read().splitlines())
                if done.returncode == 5:
                    self.assertEqual(first, whole)
                    break
                with self.subTest(call=call, n=n):
                    self.assertNotIn(done.returncode, (0, 1), done.stderr)
                    is_half = os.path.exists(self.part + "/repair/plan") and self.contents("repair/plan").endswith(b"end\n")
                    findings, _ = self.verify(status=None)
                    hint = [f for f in findings if f["file"] == self.part + "/repair"]
                    if is_half:
                        self.assertEqual([f["reason"] for f in hint], ["a repair was interrupted; --repair finishes it"])
                    interrupted += is_half
                    if first == whole:
                        repair("--yes", status=None)
                    else:
                        before = harness.tree(self.part)
                        planned, _ = repair("-n", status=5)
                        self.assertEqual(harness.tree(self.part), before)
                        self.assertEqual([r[1:4] for r in told(planned) if r[0] == "lost"], [r[1:4] for r in whole if r[0] == "lost"])
                        if is_half:
                            self.refused("verify", "--reindex", status=5, names=["interrupted", "--repair"])
                        rows, ended = repair("--yes", status=None)
                        kept = max(glob.glob(self.part + "/before-repair.*"))
                        self.assertEqual(told(rows), [r if "kept" not in r[0] else (*r[:4], kept) for r in whole])
                        self.assertEqual(ended, status)
                        self.assertTrue(os.path.isdir(kept + "/partition.metadata"))
                    self.clean()
                    self.assertEqual(self.listed(), set(range(90, 100)) | set(range(440, 450)))
        self.assertGreater(interrupted, 15)

    def test_new_files_have_the_access_of_the_old_ones(self):
        self.need_root("files of another user")

        def hand_over():
            for path, _, files in os.walk(self.part):
                for name, mode in [("", 0o750)] + [(n, 0o640) for n in files]:
                    os.chown(os.path.join(path, name), NOBODY, NOBODY)
                    os.chmod(os.path.join(path, name), mode)

        def check():
            for path, _, files in os.walk(self.part):
                for name, mode in [("", 0o750)] + [(n, 0o640) for n in files]:
                    status = os.stat(os.path.join(path, name))
                    self.assertEqual((status.st_uid, status.st_gid, status.st_mode & 0o777), (NOBODY, NOBODY, mode), (path, name))

        hand_over()
        self.edit(self.logs[2], lambda d: d[:100] + b"ZZZ" + d[103:])
        self.edit(self.logs[4], lambda d: d[:-1] + b"Z")  # the log goes on in a new segment
        self.edit(self.logs[1].replace(".log", ".index"), lambda d: b"\xff" * len(d))
        self.edit(self.part + "/partition.metadata", lambda _: b"")
        self.run_program("verify", "--repair", "--yes", status=5)
        self.assertTrue(os.path.exists(self.part + "/lost-offsets"))
        self.assertEqual(len(glob.glob(self.part + "/*.log")), 6)
        check()
        os.unlink(self.logs[0].replace(".log", ".index"))
        self.edit(self.logs[3].replace(".log", ".timeindex"), lambda d: b"\xff" * len(d))
        self.run_program("verify", "--reindex")
        self.assertTrue(os.path.exists(self.part + "/%020d.timeindex" % 450))
        check()

    def test_a_failed_sync_is_cleared_once_read_back(self):
        with open(self.part + "/sync-failed", "w", encoding="utf-8") as f:
            f.write("offsets 440 to 449: sync: Input/output error\n")
        self.produce(b"x\n", status=1)
        findings, _ = self.verify(status=5)
        self.assertEqual([f["file"] for f in findings], [self.part + "/sync-failed"])
        self.run_program("verify", "t", "--repair", "--yes", status=5)
        self.assertFalse(os.path.exists(self.part + "/sync-failed"))
        self.check_repair(0)

    def test_positions_of_groups(self):
        self.run_program("commit", "-g", "g", "t:0:100")
        self.clean()
        path = os.path.join(self.store, "groups/g/offsets/t/0")
        self.edit(path, lambda d: d.replace(b"offset=100", b"offset=1000"))
        findings, _ = self.verify("t:0", status=5)
        self.assertEqual([(f["file"], f["verdict"]) for f in findings], [(path, "damaged")])
        self.assertIn("1000", findings[0]["reason"])
        self.assertIn("450", findings[0]["reason"])
        self.edit(path, lambda d: d.replace(b"offset=1000", b"offset=100"))
        self.edit(self.part + "/log-start-offset", lambda _: b"180\n")
        self.clean(notes=1)
        self.edit(path, lambda _: b"garbage\n")
        findings, _ = self.verify(status=5)
        self.assertEqual([f["file"] for f in findings], [path])

    def test_a_repair_tells_of_positions_past_the_end(self):
        """With the command that mends them, also for a store that is named by --dir; a dry run foresees where the log will end."""
        for name, offset in (("g", 440), ("h", 450), ("i", 100)):
            self.run_program("commit", "-g", name, "t:0:%d" % offset)
        path = os.path.join(self.store, "groups/h/offsets/t/0")
        self.edit(path, lambda d: d.replace(b"offset=450", b"offset=1000"))
        os.truncate(self.logs[4], os.path.getsize(self.logs[4]) // 2)
        before = harness.tree(self.store)
        named = ["-d", self.store]
        for where, env in (([], None), (named, {"PARTLOG_DIR": None}), (named, {"PARTLOG_DIR": self.store})):
            for run in (["-n"], ["--yes"]):
                with self.subTest(where=where, run=run, env=env):
                    result = self.run_program("verify", "--repair", *run, *where, env=env, status=5)
                    told = [line.decode() for line in result.lines if b"groups/" in line]
                    shown = "-d %s " % self.store if env and not env["PARTLOG_DIR"] else ""
                    command = "%sreset-offset --group h t:0 --to-latest --execute" % shown
                    self.assertEqual(told, ['%s: damaged: group "h": the position 1000 is past the end offset 450 (partlog %s mends it)'
                                            % (path, command)])
                    if run == ["-n"]:
                        self.assertEqual(harness.tree(self.store), before)
                    self.assertEqual(self.run_program("verify", *where, env=env, status=5).out.decode().count(command), 1)
            before = harness.tree(self.store)
        text = self.run_program("consume", "t", "-g", "h", *named, env={"PARTLOG_DIR": None}, status=4).text
        self.assertIn("partlog -d %s reset-offset --group h t:0 --to-latest --execute mends it)" % self.store, text)
        subprocess.run(text.split("have ended, ")[1].split(" mends")[0].replace("partlog", harness.PROGRAM, 1), shell=True, check=True,
                       stdout=subprocess.DEVNULL)
        self.clean()

    def test_strangers_cost_one_warning_at_most(self):
        os.mkdir(self.part + "/lost+found", mode=0o700)
        os.mkdir(self.part + "/notes")
        for name in (".00000000000000000000.log.swp", "00000000000000000000.log~", "#x#", "core"):
            with open(os.path.join(self.part, name), "wb") as f:
                f.write(b"stranger")
        os.mkdir(os.path.join(self.store, "topics", "lost+found"))
        self.clean()
        with open(self.part + "/00000000000000009999.log", "wb"):
            pass
        self.clean(notes=1)

    def test_the_first_segment_is_missing(self):
        """With or without its indexes: it was on stable storage. An operation that goes on behind it is none the worse."""
        base = int(os.path.basename(self.logs[1])[:20])
        for names in (["log"], ["log", "index", "timeindex"]):
            with self.subTest(names=names):
                for name in names:
                    os.unlink(self.logs[0].removesuffix("log") + name)
                findings, _ = self.verify(status=5)
                self.assertEqual([(f["first_offset"], f["last_offset"]) for f in findings if f["verdict"] == "damaged"], [(0, base - 1)])
                result = self.consume(status=5)
                self.assertEqual(result.lines, [])
                self.assertIn("offsets 0 to %d" % (base - 1), result.text)
                rest = [b"%s" % line.split(b" ", 1)[1] for o, line in self.whole.items() if o >= base]
                self.assertEqual(self.consume("--skip-corrupt", status=5).lines, rest)
                self.assertEqual(self.consume("-o", str(base)).lines, rest)
                self.check_repair(base)
            self.restore()

    def test_segments_of_another_log_in_a_new_topic(self):
        """With the first, empty segment of the topic beside them or without: nothing is missing, then or later."""
        for leave in (False, True):
            topic = "new-%d" % leave
            self.create(topic)
            part = self.partition(topic)
            if not leave:
                for name in glob.glob(part + "/0000*"):
                    os.unlink(name)
            for log in self.logs[2:]:
                for name in glob.glob(log.removesuffix("log") + "*"):
                    shutil.copy(name, part)
            rest = [line for o, line in self.whole.items() if o >= int(os.path.basename(self.logs[2])[:20])]
            self.clean(topic, notes=1)
            self.assertEqual(self.consume("-f", "%o %s\n", topic=topic).lines, rest)
            for more in (b"450 more", b"451 more"):
                self.produce(b"more\n", topic=topic)
                rest.append(more)
                result = self.consume("-f", "%o %s\n", topic=topic)
                self.assertEqual((result.lines, result.err), (rest, b""))
                self.clean(topic)

    def test_a_batch_that_was_there_already_at_the_end(self):
        """Whole, with offsets that fall: no writer that died leaves that. A writer cuts nothing and appends nothing."""
        for at in (self.batches[-1]["position"], 0):
            for behind in (b"", bytes(50)):
                with self.subTest(at=at, behind=behind):
                    self.edit(self.logs[4], lambda d, at=at, behind=behind: d + d[at:at + 301] + behind)
                    size = os.path.getsize(self.logs[4])
                    self.verify(status=5)
                    self.assertEqual(self.consumed(5), self.whole)
                    self.run_program("produce", "t", input=b"no\n", status=5)
                    self.assertEqual(os.path.getsize(self.logs[4]), size)
                    self.assertEqual(self.check_repair(0), set())
                self.restore()

    def test_many_empty_segments_cost_little(self):
        """Each listing of the directory for each of them would take minutes."""
        def fill(bases, into=self.part):
            for base in bases:
                with open("%s/%020d.log" % (into, base), "ab"):
                    pass

        alone = os.path.join(self.directory, "em-0")
        os.mkdir(alone)
        fill(range(1, 4001), alone)
        for command in (("consume", "--files", alone), ("dump", alone), ("verify", alone)):
            result = self.run_program(*command, timeout=20)
            self.assertLessEqual(len(result.notices), 1, result.text)
        for bases in (range(1, 450), range(450, 3450), range(2000, 5000)):
            with self.subTest(bases=bases):
                fill(bases)
                self.assertEqual(self.consumed(), self.whole)
                self.assertEqual(self.consume("-o", "300").lines, self.consume().lines[300:])
                for command in (("verify",), ("dump", "t"), ("get-offsets", "t"), ("disk-usage",), ("consume", "--files", self.part)):
                    self.assertLessEqual(len(self.run_program(*command, timeout=20).notices), 1)
                result = self.produce(b"more\n")
                self.assertLessEqual(len(result.notices), 2, result.text)
                self.assertEqual(self.consume("-f", "%o %s\n", "-o", "450").out, b"450 more\n")
                self.clean()
            self.restore()

    def agree(self, directory, status):
        """`verify` and `consume` of files no store is known of."""
        findings, _ = self.verify(directory, status=status)
        result = self.run_program("consume", "--files", directory, "-f", "%o\n", status=status)
        return findings, result

    def test_a_segment_taken_out_of_a_copy(self):
        """What its index or the recovery point says was there, is missing, whether records have keys or not."""
        copy = os.path.join(self.directory, "c-0")
        for keys in (False, True):
            if keys:
                self.create("k", segment_bytes=3000, index_interval_bytes=300)
                for n in range(45):
                    self.produce(b"".join(b"k%d:%s\n" % (n * BATCH + i, b"x" * 14) for i in range(BATCH)), "-K", ":", topic="k")
            part = self.partition("k" if keys else "t")
            logs = sorted(glob.glob(part + "/*.log"))
            for at, bare in ((0, False), (0, True), (2, False)):
                with self.subTest(keys=keys, at=at, bare=bare):
                    shutil.rmtree(copy, ignore_errors=True)
                    shutil.copytree(part, copy)
                    gone = os.path.join(copy, os.path.basename(logs[at]))
                    for path in glob.glob(gone[:-3] + "*") if bare else (gone,):
                        os.unlink(path)
                    first = int(os.path.basename(gone)[:-4])
                    behind = int(os.path.basename(logs[at + 1])[:-4])
                    findings, result = self.agree(copy, 5)
                    damage = [f for f in findings if f["verdict"] == "damaged"]
                    self.assertEqual([(f["first_offset"], f["last_offset"]) for f in damage], [(first, behind - 1)], findings)
                    self.assertIn("offsets %d to %d" % (first, behind - 1), result.text)
                    self.run_program("verify", copy, "--repair", "--yes", status=5)
                    findings, result = self.agree(copy, 0)
                    self.assertEqual(len(result.lines), 450 - (behind - first))
                    shutil.rmtree(copy)

    def copy_segments(self):
        """A directory of nothing but segments and their indexes."""
        copy = os.path.join(self.directory, "s-0")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.part, copy, ignore=lambda _, names: [n for n in names if not n.endswith((".log", "index"))])
        return copy

    def test_segments_whose_indexes_alone_are_left(self):
        """The first and the last, of a directory that says nothing of what was in it; not where a broker is about to remove both."""
        for at, other in ((0, "index"), (0, "timeindex"), (4, "index"), (4, "timeindex")):
            copy = self.copy_segments()
            gone = os.path.join(copy, os.path.basename(self.logs[at]))
            os.unlink(gone[:-3] + other)
            first = int(os.path.basename(gone)[:-4])
            with self.subTest(first=first, other=other):
                os.rename(gone, gone + ".deleted")
                self.agree(copy, 0)
                os.unlink(gone + ".deleted")
                findings, result = self.agree(copy, 5)
                self.assertEqual([f["first_offset"] for f in findings if f["verdict"] == "damaged"], [first], findings)
                before = [b"%d" % o for o in range(first)]
                self.assertEqual(result.lines, before)
                result = self.run_program("consume", "--files", copy, "--skip-corrupt", "-f", "%o\n", status=5)
                behind = int(os.path.basename(self.logs[1])[:-4]) if at == 0 else 450
                self.assertEqual(result.lines, before + [b"%d" % o for o in range(behind, 450)])
                self.assertEqual(result.text.count("left out"), 1)
                if at == 0:
                    self.run_program("consume", "--files", copy, "-o", "7", status=5)
                self.run_program("verify", copy, "--repair", "--yes", status=5)
                with open(copy + "/lost-offsets", encoding="utf-8") as f:
                    self.assertEqual(int(f.read().split()[0]), first)
                self.agree(copy, 0)

    def test_the_last_batch_of_segments_alone(self):
        """Nothing says that it was whole, but where a header has one wrong bit, a length or a checksum leads to the end of the file:
        no writer that died leaves that. What such a writer leaves is a torn tail at every length."""
        copy = self.copy_segments()
        log = os.path.join(copy, os.path.basename(self.logs[4]))
        with open(log, "rb") as f:
            whole = f.read()
        last = self.batches[-1]
        at = last["position"]
        before = [b"%d" % o for o in range(440)]
        outside = set(range(8)) | set(range(12, 16))  # base offset and leader epoch: the batch is whole with any
        for bit in range(8 * 61):
            if bit // 8 in outside:
                continue
            with self.subTest(byte=bit // 8, bit=bit % 8):
                self.edit(log, lambda _, bit=bit: flipped(whole, 8 * at + bit))
                findings, result = self.agree(copy, 5)
                self.assertEqual([(f["position"], f["end_position"], f["first_offset"], f["last_offset"]) for f in findings
                                  if f["verdict"] == "damaged"], [(at, len(whole), 440, 449)], findings)
                self.assertEqual(result.lines, before)
                if bit % 8 == 1:
                    result = self.run_program("consume", "--files", copy, "--skip-corrupt", "-q", "-f", "%o\n", status=5)
                    self.assertEqual(result.lines, before)
                    self.assertIn("offsets 440 to 449 left out", result.text)
        for bit in (8 * 11, 8 * 16 + 1, 8 * 24, 8 * 60 + 1):
            with self.subTest(repaired=bit):
                copy = self.copy_segments()
                self.edit(log, lambda _, bit=bit: flipped(whole, 8 * at + bit))
                self.run_program("verify", copy, "--repair", "--yes", status=5)
                with open(copy + "/lost-offsets", encoding="utf-8") as f:
                    self.assertEqual(f.read().split()[:2], ["440", "449"])
                self.agree(copy, 0)
        copy = self.copy_segments()
        with self.subTest("behind a hole"):
            ahead = self.batches[-2]["position"]
            self.edit(log, lambda _: whole[:ahead] + flipped(whole[at:], 8 * 100))
            findings, _ = self.agree(copy, 5)
            self.assertEqual([(f["first_offset"], f["last_offset"]) for f in findings if f["file"].endswith(".log")], [(430, 449)])
        with self.subTest("in a store"):
            for bit in (8 * 23, 8 * 25, 8 * 26 + 6):
                self.edit(self.logs[4], lambda _, bit=bit: flipped(whole, 8 * at + bit))
                result = self.consume("--skip-corrupt", "-q", "-f", "%o\n", status=5)
                self.assertEqual(result.lines, before)
                self.assertEqual(re.findall("offsets .* left out", result.text), ["offsets 440 to 449 left out"])
            self.edit(self.logs[4], lambda _: whole)
        for size in range(at + 1, len(whole)):
            with self.subTest(size=size):
                self.edit(log, lambda _, size=size: whole[:size])
                findings, result = self.agree(copy, 0)
                self.assertEqual([f["verdict"] for f in findings], ["torn tail"])
                self.assertEqual(result.lines, before)

    def test_a_segment_that_is_no_readable_file(self):
        """Its offsets are told, and no others; what stands behind it is looked at."""
        ends = [int(os.path.basename(log)[:-4]) for log in self.logs] + [450]
        plain = os.path.join(self.directory, "p-0")
        make = (lambda p: os.symlink("nowhere", p), os.mkdir, os.mkfifo, lambda p: os.symlink("/dev/zero", p))
        for put in make:
            for at in (2, 4):
                with self.subTest(at=at):
                    os.unlink(self.logs[at])
                    put(self.logs[at])
                    for operand in ("t", self.part):
                        findings, _ = self.verify(operand, status=5)
                        damage = [(f["first_offset"], f["last_offset"]) for f in findings if f["verdict"] == "damaged"]
                        self.assertEqual(damage, [(ends[at], ends[at + 1] - 1)], findings)
                self.restore()
        shutil.copytree(self.part, plain)
        os.unlink(plain + "/recovery-point")
        os.symlink("nowhere", plain + "/%020d.log" % 450)
        self.verify(plain, status=5)

    def test_holes_of_a_compaction_are_none(self):
        for policy, status in (("compact", 0), ("delete", 5)):
            self.create(policy, cleanup_policy=policy)
            for n in range(45):
                self.produce(b"k%d:v\n" % n, "-K", ":", topic=policy)
            log = self.log_path(policy)
            self.edit(log, lambda d: b"".join(b for i, b in enumerate(self.cut_batches(d)) if i % 3 != 1))
            with open(self.partition(policy) + "/recovery-point", "wb"):
                pass
            for path in glob.glob(self.partition(policy) + "/*index"):
                os.unlink(path)
            findings, _ = self.verify(policy, status=status)
            self.assertEqual(len([f for f in findings if f["verdict"] == "damaged"]), 15 if status else 0, findings)

    def test_a_first_segment_that_a_compaction_emptied(self):
        for policy, status in (("compact", 0), ("delete", 5)):
            self.create(policy, cleanup_policy=policy)
            for n in range(3):
                self.produce(b"k%d:v\n" % n, "-K", ":", topic=policy)
            log = self.log_path(policy)
            with open(log, "rb") as f:
                batches = self.cut_batches(f.read())
            moved = os.path.join(os.path.dirname(log), "%020d.log" % 2)
            with open(moved, "wb") as f:
                f.write(batches[2])
            for path in (log, log[:-3] + "index", log[:-3] + "timeindex"):
                os.truncate(path, 0)
            self.edit(self.partition(policy) + "/recovery-point",
                      lambda d: re.sub(rb"(segment|position)=.*", lambda m: m[1] + (b"=2" if m[1] == b"segment" else b"=0"), d))
            self.verify(policy, status=status)
            self.assertEqual(self.run_program("consume", policy, status=status).out, b"" if status else b"v\n")


class Lost(VerifyTest):
    """What a repair cannot keep is in the list, whatever was wrong: a check behind it finds nothing."""

    def setUp(self):
        super().setUp()
        self.expect_sound = False

    def batches(self, count):
        self.create()
        for n in range(count):
            self.produce(b"r%d\nr%d\n" % (2 * n, 2 * n + 1), "--timestamp", "2024-05-01")
        with open(self.log_path(), "rb") as f:
            data = f.read()
        size = 12 + struct.unpack(">i", data[8:12])[0]
        self.assertEqual(len(data), count * size)
        return [data[at:at + size] for at in range(0, len(data), size)]

    def sealed(self, base, batch, records=b""):
        """The batch with other bytes for its records, and with a checksum and a size for them."""
        body = batch[21:61] + (records or batch[61:])
        return struct.pack(">qi", base, 9 + len(body)) + batch[12:17] + struct.pack(">I", segments.crc32c(body)) + body

    def check_lost(self, data, lost):
        """Of that as our log and as a broker's."""
        broker = os.path.join(self.directory, "kafka", "t-0")
        shutil.rmtree(broker, ignore_errors=True)
        os.makedirs(broker)
        for path in (self.partition() + "/recovery-point", self.partition() + "/lost-offsets", *glob.glob(self.partition() + "/*index")):
            if os.path.exists(path):
                os.unlink(path)
        for directory in (self.partition(), broker):
            log = os.path.join(directory, os.path.basename(self.log_path()))
            with self.subTest(log):
                with open(log, "wb") as f:
                    f.write(data)
                findings, _ = self.verify(directory, status=5)
                for f in (f for f in findings if f["verdict"] == "damaged"):
                    self.assertLessEqual(f["first_offset"], f["last_offset"])
                self.run_program("verify", directory, "--repair", "--yes", status=5)
                with open(directory + "/lost-offsets", encoding="utf-8") as f:
                    self.assertEqual([tuple(map(int, line.split()[:2])) for line in f], lost)
                findings, _ = self.verify(directory, status=0)
                self.assertLessEqual({f["verdict"] for f in findings}, {"note"})

    def test_records_that_cannot_be_decoded(self):
        one, two, three = self.batches(3)
        self.check_lost(one + self.sealed(2, two, two[61:] + b"junk") + three, [(2, 3)])
        self.check_lost(one + self.sealed(2, two, two[61:-2]) + three, [(2, 3)])

    def test_a_hole_inside_a_segment(self):
        one, two, three = self.batches(3)
        self.check_lost(one + three, [(2, 3)])

    def test_the_first_batch(self):
        one, two, three = self.batches(3)
        self.check_lost(one[:-1] + b"X" + two + three, [(0, 1)])


class Forms(VerifyTest):
    def test_files_that_brokers_wrote(self):
        for directory in known_files.FORMS:
            with self.subTest(directory):
                findings, summaries = self.verify(directory, status=0)
                torn = directory.endswith("v2-tail/")
                no_indexes = ["note"] * 2 * summaries[0]["segments"]
                self.assertEqual([f["verdict"] for f in findings], ["torn tail"] * torn + no_indexes)
                self.assertEqual([s["verdict"] for s in summaries], ["torn tail" if torn else "clean"])

    def test_segments_of_real_brokers(self):
        where, facts = known_files.of_brokers(self)
        for log, fact in facts.items():
            with self.subTest(log):
                findings, summaries = self.verify(os.path.join(where, log), status=5 if fact["errors"] else 0)
                self.assertEqual(len([f for f in findings if f["verdict"] != "note"]), len(fact["errors"]), findings)
                self.assertEqual((summaries[0]["batches"], summaries[0]["records"]),
                                 (fact["batches"] - len(fact["errors"]), 0 if fact["errors"] else fact["records"]))
        for directory in sorted(d for d in glob.glob(where + "/*/") if "krust" not in d):
            with self.subTest(directory):
                findings, _ = self.verify(directory, status=0)
                self.assertEqual([f for f in findings if f["verdict"] != "note"], [])
        for directory in sorted(d for d in glob.glob(where + "/aryan-310/*/")):
            copy = os.path.join(self.directory, os.path.basename(directory[:-1]))
            shutil.copytree(directory, copy)
            before = {n: open(os.path.join(directory, n), "rb").read() for n in os.listdir(directory)}
            self.run_program("verify", "--reindex", copy)
            after = {n: open(os.path.join(copy, n), "rb").read() for n in os.listdir(copy)}
            self.assertEqual(after, before)

    def test_a_broker_directory_is_mended(self):
        broker = os.path.join(self.directory, "kafka", "t-0")
        os.makedirs(broker)
        self.create(segment_bytes=3000)
        for n in range(20):
            self.produce(b"".join(b"r%05d %s\n" % (n * BATCH + i, b"x" * 10) for i in range(BATCH)))
        for path in glob.glob(self.partition() + "/0*"):
            shutil.copy(path, broker)
        logs = sorted(glob.glob(broker + "/*.log"))
        self.clean(os.path.dirname(broker))
        os.rename(logs[1], logs[1] + "x")
        findings, _ = self.verify(broker, status=5)  # records without keys: no compaction was here
        self.assertEqual((findings[0]["first_offset"], findings[0]["last_offset"]), (90, 179))
        os.rename(logs[1] + "x", logs[1])
        with open(logs[0], "r+b") as f:
            f.seek(400)
            f.write(b"ZZZ")
        self.run_program("verify", broker, "--repair", "--yes", status=5)
        self.clean(broker)
        self.assertEqual(open(broker + "/lost-offsets", encoding="utf-8").read().split()[:2], ["10", "19"])
        with open(broker + "/leader-epoch-checkpoint", "wb") as f:
            f.write(b"0\n2\n0 40\n1 100\n")
        findings, _ = self.verify(broker, status=5)
        self.assertEqual([(f["file"], f["first_offset"]) for f in findings], [(broker + "/leader-epoch-checkpoint", 100)])
        os.unlink(broker + "/leader-epoch-checkpoint")
        os.unlink(logs[0].replace(".log", ".index"))
        self.run_program("verify", "--reindex", os.path.dirname(broker))
        self.assertTrue(os.path.exists(logs[0].replace(".log", ".index")))

    def test_operands(self):
        self.create()
        self.produce(b"x\n")
        log = self.log_path()
        for operand in (log, log.replace(".log", ".index"), self.partition(), self.partition() + "/", self.store,
                        os.path.dirname(self.partition()), self.partition() + "/recovery-point", "t", "t:0"):
            with self.subTest(operand):
                self.assertEqual(len(self.clean(operand)), 1 if not operand.endswith("/t") else 2)
        self.refused("verify", "t:0:3", status=2, names=["t:0:3"])
        self.refused("verify", "none", status=1, names=["none"])
        self.refused("verify", "./none", status=1, names=["none"])
        self.refused("verify", self.directory, status=1, names=["no segments"])
        self.refused("verify", "--repair", status=2, names=["--yes"])
        self.refused("verify", log, "--repair", "--yes", status=2, names=["directory"])
        self.refused("verify", "--repair", "--reindex", status=2, names=["--reindex"])
        self.refused("verify", "-n", status=2, names=["--repair"])
        self.assertEqual(self.run_program("verify").out.decode(),
                         self.partition() + ": clean, 1 segment, 1 batch, 1 record, offset 0\n")
        head = "file\ttype\tverdict\tposition\tend_position\tfirst_offset\tlast_offset\tsegments\tbatches\trecords\treason"
        self.assertEqual(self.run_program("verify", "--tsv").out.decode().splitlines()[0], head)
        for how in (("--repair", "-n"), ("--repair", "--yes"), ("--reindex",)):  # also of nothing
            self.assertEqual(self.run_program("verify", *how, "--tsv").out.decode(), head + "\n")
            self.assertEqual(self.run_program("verify", *how, "--tsv", "--no-header").out.decode(), "")

    def test_reindex_says_what_it_would_do(self):
        self.create(index_interval_bytes=100)
        for _ in range(10):
            self.produce(b"x" * 50 + b"\n")
        index = self.log_path().replace(".log", ".index")
        with open(index, "rb") as f:
            right = f.read()
        notes = {None: 1, right: 0, right[:-8]: 0, b"": 0}
        for contents in (right, None, b"", right[:-8], right + bytes(16)):
            with self.subTest(contents):
                os.unlink(index)
                if contents is not None:
                    with open(index, "wb") as f:
                        f.write(contents)
                self.clean("t", notes=notes.get(contents, 0))
                wrong = int(contents != right)
                said = self.run_program("verify", "--reindex", "-n", "t").out.decode().splitlines()
                self.assertIn("%d index%s would be made anew" % (wrong, "" if wrong else "es"), said[-1])
                self.assertEqual(os.path.exists(index), contents is not None)
                did = self.run_program("verify", "--reindex", "t").out.decode().splitlines()
                self.assertEqual([line.replace("would be ", "") for line in said], did)

    def test_directories_in_the_place_of_small_files(self):
        self.expect_sound = False
        for name in ("leader-epoch-checkpoint", "recovery-point", "log-start-offset", "partition.metadata"):
            with self.subTest(name):
                self.create(name)
                for text in (b"a\n", b"b\n"):
                    self.produce(text, topic=name)
                path = self.partition(name) + "/" + name
                os.unlink(path)
                os.mkdir(path)
                findings, summaries = self.verify(name, status=5)
                self.assertEqual([f["file"] for f in findings], [path])
                self.assertEqual(summaries[0]["records"], 2)
                with open(self.log_path(name), "r+b") as f:
                    f.seek(65)
                    f.write(b"ZZ")
                self.run_program("verify", name, "--repair", "--yes", status=5)
                self.clean(name)
                self.assertTrue(os.path.isdir(self.partition(name) + "/before-repair.1/" + name))

    def test_a_plan_of_repair_names_files_of_the_partition_only(self):
        """The directory may be somebody else's, and root may be who repairs it."""
        self.create()
        self.produce(b"one\n")
        repair = os.path.join(self.partition(), "repair")
        victim = os.path.join(self.directory, "victim")
        for name in ("s/victim", "../../victim", ""):
            with self.subTest(name=name):
                os.makedirs(os.path.join(repair, "s"))
                for path in (victim, os.path.join(repair, "s", "victim")):
                    with open(path, "w") as file:
                        file.write(path)
                os.symlink(self.directory, os.path.join(self.partition(), "s"))
                with open(os.path.join(repair, "plan"), "w") as file:
                    file.write(name + " 9\nend\n")
                result = self.run_program("verify", "--repair", "--yes", "t", status=5)
                self.assertIn("repair/plan: \"%s\" is no file of the partition" % name, result.text)
                with open(victim) as file:
                    self.assertEqual(file.read(), victim)
                os.remove(os.path.join(self.partition(), "s"))
                shutil.rmtree(repair)

    def test_a_recovery_point_behind_the_end(self):
        self.create()
        self.produce(b"a\n")
        point = self.partition() + "/recovery-point"
        with open(point, encoding="utf-8") as f:
            text = f.read()
        size = str(os.path.getsize(self.log_path()))
        with open(point, "w", encoding="utf-8") as f:
            f.write(text.replace(size, "9" + size))
        self.verify("t", status=5)
        self.run_program("verify", "t", "--repair", "--yes", status=5)
        self.clean("t")
        with open(point, encoding="utf-8") as f:
            self.assertEqual(f.read(), text)

    def test_output_that_cannot_be_written_is_told_once(self):
        self.run_program("create-topic", "t", "-p", "3")
        with open("/dev/full", "wb") as full:
            done = subprocess.run([harness.PROGRAM, "-d", self.store, "verify"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1), done.stderr)

    def test_in_dir_of_nobody(self):
        self.need_root("another user")
        self.create()
        self.produce(b"x\n")
        subprocess.run(["chmod", "-R", "a+rX,go-w", self.directory], check=True)
        self.clean(user=NOBODY, group=NOBODY, extra_groups=[])


class Live(VerifyTest):
    def make_input(self, count):
        path = os.path.join(self.directory, "input")
        with open(path, "wb") as f:
            f.write(b"".join(b"%07d\n" % n for n in range(count)))
        return path

    def test_beside_writers_nothing_is_ever_damaged(self):
        self.create(segment_bytes=100_000, index_interval_bytes=100)
        lines = self.make_input(20_000)
        runs = 0
        while runs < harness.scaled(20):
            writers = [self.start("produce", "t", lines, "-q", "--batch-size", "700", "--sync", sync) for sync in ("none", "end")]
            while any(w.poll() is None for w in writers):
                self.clean()
                runs += 1
            for writer in writers:
                self.assertEqual(harness.finish(writer).status, 0)

    def test_writers_live_through_reindexing(self):
        self.create(segment_bytes=50_000)
        lines = self.make_input(20_000)
        writers = [self.start("produce", "t", lines, "-q", "--batch-size", "700", "--sync", sync) for sync in ("none", "end")]
        runs = 0
        while any(w.poll() is None for w in writers) or runs == 0:
            self.run_program("verify", "t", "--reindex")
            runs += 1
        for writer in writers:
            self.assertEqual(harness.finish(writer).status, 0)
        self.run_program("verify", "t", "--reindex")
        self.clean()

    def test_a_reader_goes_on_through_a_repair(self):
        self.expect_sound = False
        self.create(segment_bytes=2000)
        self.produce(b"".join(b"%05d\n" % n for n in range(500)), "--batch-size", "200")
        logs = sorted(glob.glob(self.partition() + "/*.log"))
        follower = self.start("consume", "t", "-F", "-u", "-c", "500")
        while follower.stdout.readline() != b"00499\n":
            pass
        with open(logs[-1], "r+b") as f:
            f.seek(100)
            f.write(b"Z")
        self.run_program("verify", "t", "--repair", "--yes", status=5)
        self.assertEqual(harness.finish(follower).status, 0)

    def test_writers_go_on_in_the_new_file(self):
        self.expect_sound = False
        self.create()
        writer = self.start("produce", "t", "--linger", "0", "--report", "--sync", "none")
        def say(line):
            writer.stdin.write(line)
            self.assertTrue(writer.stdout.readline())
        for n in range(10):
            say(b"%d\n" % n)
        with open(self.log_path(), "r+b") as f:
            f.seek(100)
            f.write(b"Z")
        self.run_program("verify", "t", "--repair", "--yes", status=5)
        say(b"10\n")
        writer.stdin.close()
        writer.wait()
        self.assertEqual(self.consume().out, b"".join(b"%d\n" % n for n in range(11) if n != 1))
        self.clean()

    def test_an_interrupted_repair_is_told_of_beside_a_busy_writer(self):
        self.create()
        self.produce(b"x\n")
        os.mkdir(self.partition() + "/repair")
        with open(self.partition() + "/repair/plan", "w", encoding="utf-8") as f:
            f.write("kept before-repair.1\nend\n")
        busy = "import fcntl,sys,time\nf=open(sys.argv[1],'r+b')\nprint(1,flush=True)\nwhile True:\n" \
               " fcntl.lockf(f,fcntl.LOCK_EX)\n time.sleep(0.004)\n fcntl.lockf(f,fcntl.LOCK_UN)\n time.sleep(0.001)"
        writer = subprocess.Popen([sys.executable, "-c", busy, self.partition() + "/append.lock"], stdout=subprocess.PIPE)
        self.processes.append(writer)
        writer.stdout.readline()
        for _ in range(10):
            self.assertIn("a repair was interrupted", self.run_program("verify", status=5).out.decode())
            self.assertIn("a repair was interrupted", self.run_program("verify", "--repair", "-n", status=5).out.decode())
        self.refused("verify", "--reindex", "-n", status=5, names=["a repair was interrupted"])
        self.assertIn("it is finished now", self.run_program("verify", "--repair", "--yes", status=5).out.decode())
        writer.kill()
        writer.wait()
        self.clean()

    def test_a_repair_waits_for_the_lock(self):
        self.create()
        self.produce(b"x\n")
        holder = subprocess.Popen([sys.executable, "-c", "import fcntl,sys,time\nf=open(sys.argv[1],'r+b')\nfcntl.lockf(f,fcntl.LOCK_EX)\nprint(1,flush=True)\nsys.stdin.read()",
                                   self.partition() + "/append.lock"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        holder.stdout.readline()
        self.refused("verify", "--repair", "--yes", "--lock-timeout", "10ms", status=6, names=["append.lock"])
        self.refused("verify", "--reindex", "--lock-timeout", "10ms", status=6, names=["append.lock"])
        self.clean()
        holder.communicate(b"")


if __name__ == "__main__":
    harness.main()
