"""Torn tails and damage, with whole programs: readers show every whole batch and change nothing, the first writer trims and says
so in one line, and what is followed by valid batches is damage that nobody cuts."""

import os
import re
import shutil

import harness


class Tails(harness.Test):
    def setUp(self):
        super().setUp()
        self.create("t", segment_bytes=1200, index_interval_bytes=100)
        self.produce(b"".join(b"value %d\n" % n for n in range(60)), "--batch-size", "100", "--sync", "none")
        names = harness.segments.segment_names(self.partition())
        self.assertGreater(len(names), 2)
        self.base = int(names[-1][:20])
        self.log = self.log_path()
        with open(self.log, "rb") as f:
            self.data = f.read()
        self.batches = harness.segments.read_file(self.log)
        self.assertGreater(len(self.batches), 3)
        self.all = self.values()
        self.original = os.path.join(self.directory, "original")
        shutil.copytree(self.store, self.original)

    def restore(self):
        shutil.rmtree(self.store)
        shutil.copytree(self.original, self.store)

    def whole(self, length):
        """How many records are whole if the last segment is cut at `length`, and how many of its bytes they take."""
        count, size = self.base, 0
        for b in self.batches:
            if b.position + b.size <= length:
                count, size = b.last_offset + 1, b.position + b.size
        return count, size

    def check_tail(self, length, padding=b"", env=None):
        self.restore()
        self.environment.update(env or {})
        with open(self.log, "r+b") as f:
            f.truncate(length)
            f.seek(length)
            f.write(padding)
        self.check_repair_by_writer(length, len(padding))

    def check_repair_by_writer(self, length, padding):
        count, size = self.whole(length)
        before = harness.tree(self.store)
        result = self.consume()
        self.assertEqual(result.lines, self.all[:count])
        self.assertEqual(result.err, b"")
        self.assertEqual(self.end_offset(), count)
        self.assertEqual(harness.tree(self.store), before, "a reader changed something")
        result = self.produce(b"next\n", "--sync", "none")
        torn = length + padding - size
        notices = [n for n in result.notices if not n.startswith("partlog: stored")]
        if torn:
            cutting = [n for n in notices if re.search(r"\b%d\b" % count, n) and re.search(r"\b%d\b" % torn, n)]
            self.assertEqual(len(cutting), 1, "offset %d, %d bytes torn: %s" % (count, torn, result.text))
            self.assertLessEqual(len(notices), 2, result.text)
        else:
            self.assertLessEqual(len(notices), 1, result.text)
        self.assertEqual(self.values(), self.all[:count] + [b"next"])
        self.assertEqual(self.consume("-o", "-1", "-f", "%o").out, b"%d" % count)

    def test_every_length(self):
        for length in range(0, len(self.data) + 1):
            if length % 8 in (0, 3) or any(abs(length - b.position) < 4 for b in self.batches) or harness.SCALE > 1:
                with self.subTest(length=length):
                    self.check_tail(length)

    def test_padding(self):
        chance = harness.new_random("padding")
        for n in range(harness.scaled(40)):
            length = chance.choice([chance.randrange(len(self.data) + 1), chance.choice(self.batches).position, len(self.data)])
            size = chance.choice([1, 7, 11, 12, 16, 17, 60, 61, 62, 500, 4096, 70000])
            kind = chance.choice(["zero", "random", "half a batch"])
            padding = {"zero": bytes(size), "random": chance.randbytes(size), "half a batch": self.data[:min(size, 60)]}[kind]
            if kind == "half a batch" and length in [b.position for b in self.batches] + [len(self.data)]:
                padding = self.data[:chance.randrange(1, self.batches[0].size)]
            missing = next((self.data[length:b.position + b.size] for b in self.batches if b.position < length < b.position + b.size), b"")
            if missing and padding.startswith(missing):
                continue  # the batch is whole again
            with self.subTest(length=length, size=size, kind=kind):
                self.check_tail(length, padding)

    def test_a_hole_of_many_gigabytes(self):
        """As a copy, or what was never written, leaves it: nobody reads zeros that are known to be some. What stands behind it is
        seen, be that where the hole ends or not."""
        size = 40 << 30
        batch = self.data[self.batches[0].position:self.batches[0].size]
        later = batch.replace(batch[:8], (1000).to_bytes(8, "big"), 1)
        for position, data in ((None, b""), (size - 500, b"junk" * 50), (30 << 30, later), ((30 << 30) + 4080, later)):
            with self.subTest(position=position):
                self.restore()
                with open(self.log, "r+b") as f:
                    f.truncate(size)
                    if data:
                        f.seek(position)
                        f.write(data)
                if os.stat(self.log).st_blocks > 1 << 20:
                    self.restore()
                    self.left_out("a file system without holes")
                is_damage = data == later
                for command in (("consume", "t"), ("dump", self.log), ("verify", "t"), ("consume", "--files", self.partition())):
                    result = self.run_program(*command, timeout=20, status=5 if is_damage else 0)
                    if command[0] == "consume":
                        self.assertEqual(result.lines, self.all)
                self.run_program("produce", "t", "--sync", "none", input=b"next\n", timeout=20, status=5 if is_damage else 0)
                if not is_damage:
                    self.assertEqual(self.values(), self.all + [b"next"])
        self.restore()

    def test_network_rules(self):
        chance = harness.new_random("network")
        for _ in range(10):
            length = chance.randrange(len(self.data) + 1)
            with self.subTest(length=length):
                self.check_tail(length, env={"PARTLOG_FILESYSTEM": "network"})

    def test_another_boot(self):
        """After a restart of the host: the same for a plain torn tail."""
        chance = harness.new_random("another boot")
        for _ in range(10):
            length = chance.randrange(len(self.data) + 1)
            with self.subTest(length=length):
                self.check_tail(length, env={"PARTLOG_BOOT_ID": "another"})

    def test_indexes(self):
        """Indexes are hints: whatever stands in them, all is read, and appending goes on at the right offset."""
        chance = harness.new_random("indexes")
        stems = [n[:20] for n in harness.segments.segment_names(self.partition())]
        for stem in (stems[0], stems[1], stems[-1]):
            for suffix in (".index", ".timeindex"):
                for kind in ("missing", "empty", "short", "odd", "long", "zeroed", "random", "ff"):
                    with self.subTest(stem=stem, suffix=suffix, kind=kind):
                        self.restore()
                        path = os.path.join(self.partition(), stem + suffix)
                        with open(path, "rb") as f:
                            data = f.read()
                        if kind == "missing":
                            os.unlink(path)
                        else:
                            size = max(len(data), 24)
                            new = {"empty": b"", "short": data[:8 if suffix == ".index" else 12], "odd": data[:-3] + b"x", "long": data * 3 + bytes(24),
                                   "zeroed": bytes(size), "random": chance.randbytes(size), "ff": b"\xff" * size}[kind]
                            with open(path, "wb") as f:
                                f.write(new)
                        self.check_reading()
                        self.produce(b"next\n", "--sync", "none")
                        self.assertEqual(self.values(indexes=False), self.all + [b"next"])
                        self.assertEqual(self.consume().lines, self.all + [b"next"])
        self.expect_indexes = False

    def check_reading(self):
        before = harness.tree(self.store)
        self.assertEqual(self.consume().lines, self.all)
        self.assertEqual(self.end_offset(), len(self.all))
        for offset in (0, 1, 17, self.base - 1, self.base, self.base + 1, len(self.all) - 1):
            self.assertEqual(self.consume("-o", str(offset), "-c", "1").lines, [self.all[offset]])
        self.assertEqual(self.consume("--since", "2000-01-01", "-c", "1").lines, [self.all[0]])
        self.assertEqual(self.consume("--since", "@99999999999").lines, [])
        self.assertEqual(harness.tree(self.store), before, "a reader changed something")

    def test_all_indexes_missing(self):
        for name in os.listdir(self.partition()):
            if name.endswith("index"):
                os.unlink(os.path.join(self.partition(), name))
        self.check_reading()
        self.produce(b"next\n")
        self.assertEqual(self.values(indexes=False), self.all + [b"next"])
        self.expect_indexes = False

    def test_small_text_files_missing_or_broken(self):
        """recovery-point, log-start-offset, leader-epoch-checkpoint, cuts: absent is fine; garbage is status 5 or as if absent."""
        for name in ("recovery-point", "log-start-offset", "leader-epoch-checkpoint", "cuts", "partition.metadata"):
            for content in (None, b"", b"\0\0\0\0\0\0", b"garbage\n"):
                with self.subTest(name=name, content=content):
                    self.restore()
                    path = os.path.join(self.partition(), name)
                    if content is None:
                        if not os.path.exists(path):
                            continue
                        os.unlink(path)
                    else:
                        with open(path, "wb") as f:
                            f.write(content)
                    before = harness.tree(self.store)
                    result = self.consume(status=None)
                    self.assertEqual(harness.tree(self.store), before)
                    if content is None:
                        self.assertEqual(result.status, 0, result.text)
                    self.assertIn(result.status, (0, 5), result.text)
                    if result.status == 0:
                        self.assertEqual(result.lines, self.all)
                    else:
                        self.assertIn(name, result.text)
                    result = self.produce(b"next\n", status=None)
                    self.assertIn(result.status, (0, 5), result.text)
                    expected = self.all + ([b"next"] if result.status == 0 else [])
                    self.assertEqual(self.values(), expected)

    def flip(self, path, position, bit):
        with open(path, "r+b") as f:
            f.seek(position)
            byte = f.read(1)[0]
            f.seek(position)
            f.write(bytes([byte ^ (1 << bit)]))

    def check_damage(self, path, batch, name):
        """Everything before the batch is printed, then status 5 that names file, position and offset."""
        before = harness.tree(self.store)
        result = self.consume("-f", "%s\\n", status=5)
        self.assertEqual(result.lines, self.all[:batch.base_offset])
        self.assertEqual(len(result.notices), 1, result.text)
        for word in (name, str(batch.position), str(batch.base_offset)):
            self.assertIn(word, result.text)
        self.assertEqual(harness.tree(self.store), before)

    def test_flipped_bits(self):
        """In the last segment, in a batch that valid ones follow: nobody cuts anything. A writer looks only behind the last index
        entry (that its cost does not grow), so it must refuse where there is none, and may append behind where there is."""
        chance = harness.new_random("bits")
        self.expect_sound = False
        for n in range(harness.scaled(40)):
            batch = chance.choice(self.batches[:-1])
            # Not the leader epoch (12..16): it stands outside the checksum, on purpose, and any value is valid.
            where = chance.choice([*range(0, 12), *range(16, 61), *[chance.randrange(61, batch.size) for _ in range(30)]])
            bit = chance.randrange(8)
            indexed = n % 4 == 3
            with self.subTest(batch=batch.position, byte=where, bit=bit, indexed=indexed):
                self.restore()
                if not indexed:
                    os.unlink(self.log.removesuffix("log") + "index")
                self.flip(self.log, batch.position + where, bit)
                self.check_damage(self.log, batch, os.path.basename(self.log))
                with open(self.log, "rb") as f:
                    before = f.read()
                for _ in range(2):
                    result = self.produce(b"next\n", status=None if indexed else 5)
                    self.assertIn(result.status, (0, 5), result.text)
                    with open(self.log, "rb") as f:
                        self.assertEqual(f.read()[:None if result.status else len(before)], before)
                    self.assertEqual([n for n in os.listdir(self.partition()) if n.endswith(".cut")], [])
                    if result.status:
                        self.assertIn(os.path.basename(self.log), result.text)
                        self.assertEqual(self.stored_count(result), 0)

    def test_flipped_bit_in_an_earlier_segment(self):
        self.expect_sound = False
        first = os.path.join(self.partition(), harness.segments.segment_names(self.partition())[0])
        for batch in (harness.segments.read_file(first)[0], harness.segments.read_file(first)[-1]):
            self.restore()
            self.flip(first, batch.position + batch.size - 1, 3)
            self.check_damage(first, batch, os.path.basename(first))
            self.assertEqual(self.consume("-o", str(self.base)).lines, self.all[self.base:])

    def test_cut_short_in_an_earlier_segment(self):
        """What is missing between two segments is damage, not an end."""
        self.expect_sound = False
        first = os.path.join(self.partition(), harness.segments.segment_names(self.partition())[0])
        size = os.path.getsize(first)
        batches = harness.segments.read_file(first)
        for length, batch in ((size - 5, batches[-1]), (batches[-1].position, batches[-1]), (3, batches[0]), (0, batches[0])):
            with self.subTest(length=length):
                self.restore()
                with open(first, "r+b") as f:
                    f.truncate(length)
                result = self.consume(status=None)
                if length in (0, batches[-1].position):
                    # A hole between whole batches is what compaction leaves: no damage to be seen in a broker's log either.
                    self.assertIn(result.status, (0, 5))
                else:
                    self.assertEqual(result.status, 5)
                self.assertEqual(result.lines[:batch.base_offset], self.all[:batch.base_offset])

    def test_last_batch_flipped_is_damage_once_it_was_synced(self):
        self.produce(b"synced\n" * 3)
        with open(self.log, "rb") as f:
            data = f.read()
        batch = harness.segments.read_file(self.log)[-1]
        self.expect_sound = False
        for at in range(batch.position + 8, batch.position + batch.size, 5):
            if 12 <= at - batch.position < 16:
                continue  # the epoch stands outside the checksum
            with open(self.log, "wb") as f:
                f.write(data[:at] + bytes([data[at] ^ 4]) + data[at + 1:])
            for result in (self.consume(status=5), self.produce(b"next\n", status=5)):
                self.assertIn("%s position %d " % (self.log, batch.position), result.text)
            self.assertEqual(self.consume(status=5).lines, self.all)
            self.run_program("verify", "t", status=5)
            with open(self.log, "rb") as f:
                self.assertEqual(len(f.read()), len(data))
        with open(self.log, "wb") as f:
            f.write(data)
        self.assertEqual(self.consume().lines, self.all + [b"synced"] * 3)

    def test_last_batch_flipped_is_a_torn_tail(self):
        batch = self.batches[-1]
        self.flip(self.log, batch.position + batch.size - 2, 0)
        self.check_repair_by_writer(batch.position, batch.size)

    def test_more_than_a_prefix_of_a_batch_is_kept_aside(self):
        with open(self.log, "ab") as f:
            f.write(b"\x55" * 100_000)
        self.check_repair_by_writer(len(self.data), 100_000)
        aside = [n for n in os.listdir(self.partition()) if n.endswith(".cut")]
        self.assertEqual(len(aside), 1)
        with open(os.path.join(self.partition(), aside[0]), "rb") as f:
            self.assertEqual(f.read(), b"\x55" * 100_000)

    def test_hostile_batch_headers(self):
        """Lengths and counts that promise more than there is: no crash and no memory for what is not there."""
        self.expect_sound = False
        for field, size, values in ((8, 4, (0, 1, 48, 49, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)), (57, 4, (0, 0x7FFFFFFF, 0xFFFFFFFF)),
                                    (23, 4, (0x7FFFFFFF, 0xFFFFFFFF)), (21, 2, (7, 0x20, 0xFFFF)), (0, 8, (0, 1 << 62, (1 << 64) - 1))):
            for value in values:
                for fixed in (False, True):
                    with self.subTest(field=field, value=value, checksum=fixed):
                        self.restore()
                        batch = self.batches[0]
                        data = bytearray(self.data)
                        data[batch.position + field:batch.position + field + size] = value.to_bytes(size, "big")
                        if fixed:  # a checksum that fits, as an attacker would write it
                            body = bytes(data[batch.position + 21:batch.position + batch.size])
                            data[batch.position + 17:batch.position + 21] = harness.segments.crc32c(body).to_bytes(4, "big")
                        with open(self.log, "wb") as f:
                            f.write(data)
                        result = self.consume(status=None)
                        self.assertIn(result.status, (0, 5), result.text)
                        self.assertEqual(result.lines[:self.base], self.all[:self.base])
                        if result.status == 0 and not fixed:
                            self.assertEqual(data, self.data, "a changed header went unnoticed")


class Shortened(harness.Test):
    """The log has lost records that were on stable storage. The next writer says which, and groups learn that others came in their
    place; readers who come before it are told as well."""

    COUNT = 60

    def setUp(self):
        super().setUp()
        self.create("t", segment_bytes=1200, index_interval_bytes=100)
        self.produce(b"".join(b"value %d\n" % n for n in range(self.COUNT)), "--batch-size", "100")
        self.run_program("commit", "-g", "g", "t:0:%d" % self.COUNT)
        self.run_program("commit", "-g", "h", "t:0:3")
        self.names = harness.segments.segment_names(self.partition())
        self.assertGreater(len(self.names), 2)
        self.all = self.values()
        self.original = os.path.join(self.directory, "original")
        shutil.copytree(self.store, self.original)

    def check(self, end, env=None, status=4, missing=False):
        """The log ends at `end` now; `missing`: since the segment of the recovery point is gone, which is damage."""
        gone = "%d" % end if end == self.COUNT - 1 else "%d to %d" % (end, self.COUNT - 1)
        before = harness.tree(self.store)
        result = self.consume(env=env, status=5 if missing else 0)
        self.assertEqual(result.lines, self.all[:end])
        self.assertEqual(len(result.notices), 2 if missing else 1, result.text)
        self.assertEqual("(offsets %d to %d)" % (end, self.COUNT - 1) in result.text, missing)
        for word in ("t:0: the log ends at %d," % end, " %d:" % self.COUNT, gone, "partlog verify"):
            self.assertIn(word, result.text)
        result = self.consume("-g", "g", env=env, status=status or (5 if missing else 0))
        self.assertIn("partlog verify", result.text)
        if status:
            self.assertEqual(harness.tree(self.store + "/topics"), {k[7:]: v for k, v in before.items() if k.startswith("topics/")})
        text = self.produce(b"new\n" * 4, env=env).text.splitlines()
        told = [line for line in text if gone in line]
        self.assertEqual(len(told), 1, text)
        self.assertRegex(told[0], r"^partlog: t:0: %d acknowledged offsets?, " % (self.COUNT - end))
        self.assertEqual(len(text), 2, text)
        with open(os.path.join(self.partition(), "cuts"), encoding="utf-8") as f:
            self.assertEqual([line.split()[0] for line in f], ["%d" % end])
        self.assertEqual(self.consume(env=env).err, b"")
        result = self.consume("-g", "g", "-f", "%o %s\n", env=env)
        self.assertEqual(result.lines, [b"%d new" % (end + n) for n in range(4)])
        self.assertEqual(len(result.notices), 1 if status else 0, result.text)
        self.assertEqual(self.consume("-g", "h", env=env).lines, (self.all[:end] + [b"new"] * 4)[min(3, end):])
        self.run_program("verify", env=env)
        self.assertNotIn("acknowledged", self.produce(b"more\n", env=env).text)

    def restore(self):
        shutil.rmtree(self.store)
        shutil.copytree(self.original, self.store)

    def test_the_last_segment_cut_at_every_batch(self):
        log = self.log_path()
        base = int(os.path.basename(log)[:20])
        batches = harness.segments.read_file(log)
        for torn in (0, 5):
            for batch in batches if harness.SCALE > 1 else batches[::2]:
                with self.subTest(position=batch.position, torn=torn):
                    self.restore()
                    os.truncate(log, batch.position + torn)
                    self.check(batch.base_offset if batch.position else base)

    def test_whole_segments_are_gone(self):
        bases = [int(name[:20]) for name in self.names]
        for number in (len(bases) - 1, 1, 0):
            with self.subTest(number=number):
                self.restore()
                for base in bases[number:]:
                    for suffix in (".log", ".index", ".timeindex"):
                        os.unlink(os.path.join(self.partition(), "%020d%s" % (base, suffix)))
                self.check(bases[number], missing=True)

    def test_cut_twice_at_the_same_place(self):
        log = self.log_path()
        batch = harness.segments.read_file(log)[1]
        for lines in (1, 2):
            os.truncate(log, batch.position)
            self.produce(b"new\n" * 4)
            self.assertEqual(self.consume("-g", "g", "-f", "%o %s\n").lines, [b"%d new" % (batch.base_offset + n) for n in range(4)])
            with open(os.path.join(self.partition(), "cuts"), encoding="utf-8") as f:
                self.assertEqual(len(f.readlines()), lines)

    def test_under_a_live_writer(self):
        """One that has the log open, and appends again."""
        writer = self.start("produce", "t", "--linger", "0", "--sync", "batch", "--report")
        report = harness.Lines(writer.stdout)
        harness.feed(writer, [b"one\n"])
        self.assertEqual(report.next().split(b"\t")[2], b"60")
        self.produce(b"two\n")
        os.truncate(self.log_path(), harness.segments.read_file(self.log_path())[-2].position)
        harness.feed(writer, [b"three\n"])
        self.assertEqual(report.next().split(b"\t")[2], b"60")
        self.assertIn("2 acknowledged offsets, 60 to 61, are gone", harness.finish(writer).text)

    def test_after_a_restart(self):
        """Of a segment that is gone; of the one that the recovery point names less than was stable is damage."""
        env = {"PARTLOG_BOOT_ID": "another"}
        base = int(self.names[-1][:20])
        for suffix in (".log", ".index", ".timeindex"):
            os.unlink(os.path.join(self.partition(), "%020d%s" % (base, suffix)))
        self.check(base, env=env, status=0, missing=True)


if __name__ == "__main__":
    harness.main()
