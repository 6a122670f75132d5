"""Partition directories of brokers, of every message format: what stands in tests/segments (made with Kafka's own classes) and what
PARTLOG_SEGMENTS names is put into a store, consumed, and appended to."""

import glob
import os
import re
import shutil
import unittest

import harness
from known_files import FORMS, expected_records, is_shown_as, of_brokers, parse_json_line


def split_messages(data):
    """Of format v0 or v1."""
    at = 0
    while at < len(data):
        behind = at + 12 + int.from_bytes(data[at + 8:at + 12], "big")
        yield data[at:behind]
        at = behind


class OldFormats(harness.Test):
    def setUp(self):
        super().setUp()
        self.expect_sound = False  # the reader that checks stores knows format v2 alone

    def put(self, topic, files, **config):
        """A topic whose only partition has these files."""
        if "holes" in topic:
            config["cleanup_policy"] = "compact"  # else offsets that are missing are damage
        self.create(topic, **config)
        for old in glob.glob(os.path.join(self.partition(topic), "00*")):
            os.remove(old)
        for path in files:
            shutil.copy(path, self.partition(topic))

    def consumed(self, topic, *args):
        records = []
        for line in self.consume("-J", *args, topic=topic).out.decode().split("\n"):
            if line:
                record = parse_json_line(line)
                record.pop("partition")
                if record["epoch"] is not None and record["epoch"] < 0:
                    record["epoch"] = None
                records.append(record)
        return records

    def fixtures(self):
        self.assertGreater(len(FORMS), 25)
        for form in FORMS:
            name = os.path.basename(os.path.dirname(form))
            expected = list(expected_records(os.path.join(form, "expected.jsonl")))
            self.assertGreater(len(expected), 2, name)
            yield name, glob.glob(os.path.join(form, "*.log")), expected

    def test_every_form_that_kafka_writes(self):
        for name, logs, expected in self.fixtures():
            with self.subTest(name):
                self.put(name, logs)
                got = self.consumed(name)
                self.assertEqual(got, expected)
                if "txn" in name:
                    got = self.consumed(name, "--isolation", "uncommitted")
                    self.assertEqual(sum(r["value"].startswith(b"aborted") for r in got), 2)
                    self.assertEqual([r for r in got if not r["value"].startswith(b"aborted")], expected)
                for record in expected[::3]:
                    one = self.consumed(name, "-o", str(record["offset"]), "-c", "1")
                    self.assertEqual(one, [record], "from its offset")

    def test_appending_behind_every_form(self):
        for name, logs, expected in self.fixtures():
            with self.subTest(name):
                self.put(name, logs, index_interval_bytes=100)
                before = self.consumed(name)
                self.assertGreaterEqual(before[-1]["offset"], expected[-1]["offset"])
                for value in (b"one\n", b"two\n"):
                    self.produce(b"k:" + value, "-K:", topic=name)
                after = self.consumed(name)
                self.assertEqual(after[:-2], before)
                self.assertEqual([r["value"] for r in after[-2:]], [b"one", b"two"])
                self.assertEqual(after[-1]["offset"], after[-2]["offset"] + 1)
                for record in after[::4]:  # now through the index
                    self.assertEqual(self.consumed(name, "-o", str(record["offset"]), "-c", "1"), [record])

    def test_a_hole_between_segments_is_damage(self):
        """Inside of a segment a compaction of long ago may have left it."""
        for name, logs, _ in self.fixtures():
            if name not in ("v0-none", "v1-none"):
                continue
            with self.subTest(name):
                self.put(name, logs)
                path = self.log_path(name)
                with open(path, "rb") as f:
                    messages = list(split_messages(f.read()))
                half = len(messages) // 2
                base = int.from_bytes(messages[half][:8], "big")
                second = os.path.join(self.partition(name), "%020d.log" % base)
                for first, status in (messages[:half - 1], 5), (messages[:1] + messages[2:half], 0):
                    for file, part in (path, first), (second, messages[half:]):
                        with open(file, "wb") as f:
                            f.write(b"".join(part))
                    consumed = self.consume(topic=name, status=status)
                    verified = self.run_program("verify", name, status=status)
                    if status == 5:
                        self.assertIn("(offset %d)" % (base - 1), consumed.text)
                        self.assertIn(b"position 0 (offset %d)" % (base - 1), verified.out)

    def test_groups_read_old_messages(self):
        for name in ("v0-lz4", "v1-holes-gzip", "mixed"):
            with self.subTest(name):
                logs = [log for form in FORMS if form.endswith("/" + name + "/") for log in glob.glob(form + "*.log")]
                self.put(name, logs)
                whole = self.consumed(name)
                half = len(whole) // 2
                self.assertEqual(self.consumed(name, "-g", "g", "-c", str(half)), whole[:half])
                self.assertEqual(self.consumed(name, "-g", "g"), whole[half:])
                self.assertEqual(self.consumed(name, "-g", "g"), [])

    def test_a_flipped_bit_in_any_message_is_damage(self):
        rng = harness.new_random("flips")
        for name, logs, _ in self.fixtures():
            if "v2" in name or name == "mixed":
                continue
            with self.subTest(name):
                self.put(name, logs)
                path = self.log_path(name)
                with open(path, "rb") as f:
                    good = f.read()
                whole = self.consumed(name)
                for _ in range(harness.scaled(4)):
                    bad = bytearray(good)
                    at = rng.randrange(16, 12 + int.from_bytes(good[8:12], "big"))  # in the first message, behind its checksum
                    bad[at] ^= 1 << rng.randrange(8)
                    with open(path, "wb") as f:
                        f.write(bad)
                    result = self.consume(topic=name, status=5)
                    self.assertEqual(result.out, b"")
                    self.assertIn("position 0 ", result.text)
                    self.assertIn(os.path.basename(path), result.text)
                with open(path, "wb") as f:
                    f.write(good)
                self.assertEqual(self.consumed(name), whole)

    def test_segments_of_real_brokers(self):
        where, facts = of_brokers(self)
        partitions = {}
        for log in sorted(facts):
            if log.endswith(".log"):
                partitions.setdefault(os.path.dirname(log), []).append(log)
        for number, (partition, logs) in enumerate(partitions.items()):
            with self.subTest(partition):
                topic = "broker%d" % number
                files = [path for path in glob.glob(os.path.join(where, partition, "00*")) if re.search(r"\.(log|index|timeindex)$", path)]
                self.put(topic, files, cleanup_policy="compact")  # some were compacted, though not by configuration
                got = self.consumed(topic)
                for log in logs:
                    fact = facts[log]
                    mine = [r for r in got if fact["records"] and fact["first_offset"] <= r["offset"] <= fact["last_offset"]]
                    self.check(mine, fact)
                sound = [facts[log] for log in logs if not facts[log]["errors"]]
                shown = sum(fact["records"] - fact["control_batches"] for fact in sound)
                self.assertEqual(len(got), shown)
                self.produce(b"k:behind\n", "-K:", topic=topic)
                self.assertEqual(self.consumed(topic)[:-1], got)
        self.assertGreater(len(partitions), 60)

    def check(self, got, fact):
        if fact["errors"] or not fact["records"]:  # the one message there is has a wrong checksum, and nothing follows
            self.assertEqual(got, [])
            return
        if not fact["control_batches"]:
            self.assertEqual(len(got), fact["records"])
            self.assertEqual((got[0]["offset"], got[-1]["offset"]), (fact["first_offset"], fact["last_offset"]))
            self.assertEqual(max(r["timestamp"] for r in got), fact["max_timestamp"])
            self.assertEqual(sum(r["key"] is None for r in got), fact["null_keys"])
            self.assertEqual(sum(r["value"] is None for r in got), fact["null_values"])
            self.assertEqual(sum(bool(r["headers"]) for r in got), fact["with_headers"])
        by_offset = {r["offset"]: r for r in got}
        for first in fact["first3"]:
            if first["offset"] not in by_offset and fact["control_batches"]:
                continue  # a marker, which is not shown
            record = by_offset[first["offset"]]
            self.assertEqual(record["timestamp"], first["ts"])
            self.assertTrue(is_shown_as(record["key"], first["key"]), (record["key"], first["key"]))
            self.assertTrue(is_shown_as(record["value"], first["value"]), (record["value"], first["value"]))
            self.assertEqual(len(record["headers"]), len(first["headers"]))
            for (name, value), (shown_name, shown_value) in zip(record["headers"], first["headers"]):
                self.assertTrue(is_shown_as(name, shown_name) and is_shown_as(value, shown_value), first["headers"])


if __name__ == "__main__":
    harness.main()
