"""Partition directories of brokers, of every message format: what stands in tests/segments (made with Kafka's own classes) and what
PARTLOG_SEGMENTS names is put into a store, consumed, and appended to."""

import glob
import json
import os
import re
import shutil
import sys
import unittest

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURES = os.path.join(os.path.dirname(HERE), "segments")
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "kafka"))

import beside  # noqa: E402

TIMESTAMP_TYPES = {"CreateTime": "create", "LogAppendTime": "logappend", "NoTimestampType": "none"}


def expected_records(path):
    """The lines of an expected.jsonl."""
    with open(path, encoding="utf-8") as f:
        for line in f:
            r = json.loads(line)
            yield {"offset": r["offset"], "timestamp": r["timestamp"], "tstype": TIMESTAMP_TYPES[r["tstype"]],
                   "epoch": r["epoch"] if r["epoch"] >= 0 else None, "key": beside.unhex(r["key_hex"]),
                   "value": beside.unhex(r["value_hex"]),
                   "headers": [(h["name"].encode(), beside.unhex(h["hex"])) for h in r["headers"]],
                   **({"committed": r["committed"]} if "committed" in r else {})}


def is_shown_as(content, shown):
    """Whether bytes are what facts.json shows of them: null, "text"(size) or hex:…(size), long ones cut off."""
    if shown == "null":
        return content is None
    found = re.fullmatch(r'(?:hex:([0-9a-f]*)(…?)|"(.*?)(…?)")\((\d+)\)', shown, re.S)
    hex_digits, hex_more, text, text_more, size = found.groups()
    want, more = (bytes.fromhex(hex_digits), hex_more) if hex_digits is not None else (text.encode(), text_more)
    return content is not None and len(content) == int(size) and (content.startswith(want) if more else content == want)


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
                record = beside.parse_json_line(line)
                record.pop("partition")
                if record["epoch"] is not None and record["epoch"] < 0:
                    record["epoch"] = None
                records.append(record)
        return records

    def fixtures(self):
        forms = sorted(glob.glob(os.path.join(FIXTURES, "*", "")))
        self.assertGreater(len(forms), 25)
        for form in forms:
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

    def test_groups_read_old_messages(self):
        for name in ("v0-lz4", "v1-holes-gzip", "mixed"):
            with self.subTest(name):
                logs = glob.glob(os.path.join(FIXTURES, name, "*.log"))
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
        where = os.environ.get("PARTLOG_SEGMENTS")
        if not where:
            self.left_out("PARTLOG_SEGMENTS does not name a directory of segments that brokers wrote")
        with open(os.path.join(where, "facts.json"), encoding="utf-8") as f:
            facts = json.load(f)["logs"]
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
