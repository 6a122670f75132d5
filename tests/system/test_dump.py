"""`dump`: what it prints of files whose contents are known otherwise, what it does about damage, and what it leaves alone."""

import base64
import glob
import json
import os
import re
import resource
import shutil
import struct
import sys
import unittest
from datetime import datetime, timedelta, timezone

import harness
import segments

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import known_files  # noqa: E402

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def milliseconds(text):
    """An ISO time as Kafka's number; -1 for null."""
    return -1 if text is None else (datetime.fromisoformat(text.replace("Z", "+00:00")) - EPOCH) // timedelta(milliseconds=1)


def content(row, name):
    if name + "_b64" in row:
        return base64.b64decode(row[name + "_b64"])
    return None if row[name] is None else row[name].encode()


def as_record(row):
    return {"offset": row["offset"], "timestamp": milliseconds(row["timestamp"]), "tstype": row["tstype"], "key": content(row, "key"),
            "value": content(row, "value"), "headers": [(content(h, "name"), content(h, "value")) for h in row["headers"]]}


class DumpTest(harness.Test):
    def dump(self, *args, status=0, **how):
        return self.run_program("dump", *args, "--json", status=status, **how)

    def batches(self, *args, **how):
        return self.dump(*args, **how).json_lines()

    def records(self, *args, **how):
        return [as_record(row) for row in self.dump("--records", *args, **how).json_lines()]


class KnownFiles(DumpTest):
    def test_every_form_that_kafka_writes(self):
        for form in known_files.FORMS:
            with self.subTest(form):
                expected = [dict(r) for r in known_files.expected_records(form + "expected.jsonl")]
                for record in expected:
                    record.pop("epoch")
                rows = self.dump("--records", *sorted(glob.glob(form + "*.log"))).json_lines()
                got = [as_record(row) for row in rows if row["controlType"] is None]
                if "txn" in form:
                    got = [r for r in got if not r["value"].startswith(b"aborted")]
                    self.assertEqual([row["controlType"] for row in rows if row["controlType"]], ["ABORT", "COMMIT", "COMMIT"])
                    self.assertEqual({row["coordinatorEpoch"] for row in rows if row["controlType"]}, {3})
                self.assertEqual(got, expected)

    def test_segments_of_real_brokers(self):
        where, facts = known_files.of_brokers(self)
        for log, fact in facts.items():
            with self.subTest(log):
                status = 5 if fact["errors"] else 0
                path = os.path.join(where, log)
                batches = self.batches(path, status=status)
                records = self.dump("--records", path, status=status).json_lines()
                self.check(fact, batches, records)
        self.assertGreater(len(facts), 60)

    def check(self, fact, batches, records):
        sound = [b for b in batches if b["isvalid"]]
        self.assertEqual(len(batches), fact["batches"])
        self.assertEqual(len(batches) - len(sound), len(fact["errors"]))
        if fact["errors"]:
            self.assertEqual(records, [])
            return
        self.assertEqual(len(records), fact["records"])
        self.assertEqual(sum(b["count"] for b in sound), fact["records"])
        self.assertEqual(sum(b["size"] for b in sound), fact["valid_bytes"])
        self.assertEqual(sorted({b["magic"] for b in sound}), fact["magic"])
        codecs = {}
        for b in sound:
            codecs[b["compresscodec"]] = codecs.get(b["compresscodec"], 0) + 1
        facts_codecs = {}
        for name, count in fact["codecs"].items():  # there snappy/raw and snappy/xerial
            facts_codecs[name.split("/")[0]] = facts_codecs.get(name.split("/")[0], 0) + count
        self.assertEqual(codecs, facts_codecs)
        self.assertEqual(sum(b["isControl"] for b in sound), fact["control_batches"])
        self.assertEqual(sum(b["isTransactional"] for b in sound), fact["txn_batches"])
        if not records:
            return
        self.assertEqual((records[0]["offset"], records[-1]["offset"]), (fact["first_offset"], fact["last_offset"]))
        self.assertEqual(max(milliseconds(b["timestamp"]) for b in sound), fact["max_timestamp"])
        for row, first in zip(records, fact["first3"]):
            record = as_record(row)
            self.assertEqual((record["offset"], record["timestamp"]), (first["offset"], first["ts"]))
            self.assertTrue(known_files.is_shown_as(record["key"], first["key"]), first)
            self.assertTrue(known_files.is_shown_as(record["value"], first["value"]), first)

    def test_side_files_of_real_brokers(self):
        where, _ = known_files.of_brokers(self)
        seen = set()
        for path in sorted(glob.glob(where + "/*/**", recursive=True)):
            name = os.path.basename(path)
            if not os.path.isfile(path) or name.endswith((".log", ".json", ".md")):
                continue
            seen.add(os.path.splitext(name)[1] or name)
            with self.subTest(path):
                rows = self.batches(path)
                if name.endswith((".index", ".timeindex")):
                    layout = ">ii" if name.endswith(".index") else ">qi"
                    with open(path, "rb") as f:
                        data = f.read()
                    want = [e for e in struct.iter_unpack(layout, data)]
                    base = int(name.split(".")[0])
                    got = [(r["offset"] - base, r["position"]) if layout == ">ii" else (milliseconds(r["timestamp"]), r["offset"] - base)
                           for r in rows]
                    self.assertEqual(got, want)
                elif name.endswith("-checkpoint"):
                    with open(path, encoding="utf-8") as f:
                        lines = f.read().splitlines()[2:]
                    self.assertEqual([" ".join(str(v) for k, v in r.items() if k != "file") for r in rows], lines)
        self.assertGreater(len(seen), 7, seen)

    def test_committed_offsets_of_a_broker_are_decoded(self):
        # An offset commit of version 3 and a tombstone; a type that nobody knows; a value cut short.
        commit = struct.pack(">h", 1) + b"\0\1g\0\1t" + struct.pack(">i", 2)
        value = struct.pack(">hqih", 3, 7, -1, 2) + b"md" + struct.pack(">q", 1000)
        flexible = struct.pack(">hqi", 4, 7, 5) + b"\x03md" + struct.pack(">q", 1000) + b"\x01\x00\x10" + bytes(range(16))
        self.create("__consumer_offsets")
        lines = [(commit, value), (commit, None), (struct.pack(">h", 99), b"x"), (commit, value[:-1]), (commit, flexible)]
        data = "".join(json.dumps({"key_b64": base64.b64encode(k).decode(), "value": None} if v is None else
                                  {"key_b64": base64.b64encode(k).decode(), "value_b64": base64.b64encode(v).decode()}) + "\n" for k, v in lines)
        self.produce(data.encode(), "-J", topic="__consumer_offsets")
        rows = self.dump("--records", "--decode", "__consumer_offsets:0").json_lines()
        key = {"type": "1", "data": {"group": "g", "topic": "t", "partition": 2}}
        data = {"offset": 7, "leaderEpoch": -1, "metadata": "md", "commitTimestamp": 1000}
        self.assertEqual((rows[0]["key"], rows[0]["value"]), (key, {"version": "3", "data": data}))
        self.assertEqual((rows[1]["key"], rows[1]["value"]), (key, None))
        self.assertEqual((content(rows[2], "key"), rows[2]["value"]), (lines[2][0], "x"))
        self.assertEqual((rows[3]["key"], content(rows[3], "value")), (key, lines[3][1]))
        self.assertEqual(rows[4]["value"], {"version": "4", "data": dict(data, leaderEpoch=5, topicId="AAECAwQFBgcICQoLDA0ODw")})


class Damage(DumpTest):
    def setUp(self):
        super().setUp()
        self.expect_sound = False
        self.create(segment_bytes=2000, index_interval_bytes=200)
        for n in range(40):
            self.produce(b"%03d one\n%03d two\n" % (n, n) * 2, "--timestamp", "2024-05-01")
        self.logs = sorted(glob.glob(os.path.join(self.partition(), "*.log")))
        self.assertGreater(len(self.logs), 2)
        self.whole = self.batches("t")
        self.all_records = self.records("t")

    def test_a_flipped_bit_costs_one_batch_at_most(self):
        rng = harness.new_random("flips")
        for _ in range(harness.scaled(60)):
            log = rng.choice(self.logs)
            with open(log, "rb") as f:
                good = f.read()
            bad = bytearray(good)
            at = rng.randrange(len(bad))
            bad[at] ^= 1 << rng.randrange(8)
            with open(log, "wb") as f:
                f.write(bad)
            mine = next(b for b in self.whole if b["file"] == log and b["position"] <= at < b["position"] + b["size"])
            in_epoch = 12 <= at - mine["position"] < 16  # it stands outside the checksum, and any will do
            is_last = log == self.logs[-1] and mine["position"] + mine["size"] == len(good)
            with self.subTest(log=log, at=at, of=at - mine["position"]):
                result = self.dump("--records", "t", status=None)
                got = [as_record(row) for row in result.json_lines()]
                lost = [r for r in self.all_records if r not in got]
                self.assertTrue(all(mine["baseOffset"] <= r["offset"] <= mine["lastOffset"] for r in lost), lost)
                self.assertTrue(all(r in self.all_records for r in got) or at - mine["position"] < 8)
                if in_epoch:
                    self.assertEqual((result.status, lost), (0, []))
                elif is_last and at - mine["position"] < 8 and result.status == 0:  # as behind a gap that compaction left
                    self.assertTrue(all(r["offset"] > mine["lastOffset"] for r in got if r not in self.all_records))
                else:
                    self.assertTrue(result.status == 5 or (is_last and "torn tail" in result.text), result.text)
                    self.assertIn("%s position %d " % (log, mine["position"]), result.text)
            with open(log, "wb") as f:
                f.write(good)

    def test_zeroed_header_repeated_batch_and_garbage_between(self):
        log = self.logs[1]
        with open(log, "rb") as f:
            good = f.read()
        here = [b for b in self.whole if b["file"] == log]
        first, second = here[0], here[1]
        at, end = second["position"], second["position"] + second["size"]
        for what, data, lost in (("zeroed header", good[:at] + bytes(61) + good[at + 61:], 1),
                                 ("repeated", good[:end] + good[at:end] + good[end:], 0),
                                 ("garbage", good[:at] + b"garbage" * 100 + good[at:], 0),
                                 ("cut inside", good[:at] + good[at + 10:], 1)):
            with self.subTest(what):
                with open(log, "wb") as f:
                    f.write(data)
                result = self.dump(log, status=5)
                rows = [b for b in result.json_lines() if b["isvalid"]]
                self.assertEqual({b["baseOffset"] for b in here} - {b["baseOffset"] for b in rows}, {second["baseOffset"]} if lost else set())
                self.assertIn("%s position " % log, result.text)
                self.assertEqual(rows[0]["baseOffset"], first["baseOffset"])
        with open(log, "wb") as f:
            f.write(good)

    def test_a_torn_tail_is_a_notice_but_only_at_the_end_of_the_log(self):
        for log, status, word in ((self.logs[-1], 0, "torn tail"), (self.logs[0], 5, "passed over")):
            for tail in (b"x", bytes(5000), self.tail_of(log)):
                with self.subTest(log=log, tail=len(tail)):
                    with open(log, "ab") as f:
                        f.write(tail)
                    result = self.dump("t", status=status)
                    self.assertEqual(result.json_lines(), self.whole)
                    self.assertEqual(len(result.notices), 1)
                    self.assertIn(word, result.text)
                    self.assertIn("position %d " % (os.path.getsize(log) - len(tail)), result.text)
                    os.truncate(log, os.path.getsize(log) - len(tail))

    def tail_of(self, log):
        """A part of a batch that would follow."""
        with open(log, "rb") as f:
            batch = f.read(self.whole[0]["size"])
        end = max(b["lastOffset"] for b in self.whole if b["file"] == log) + 1
        return struct.pack(">q", end) + batch[8:-5]

    def test_side_files(self):
        index = glob.glob(os.path.join(self.partition(), "*.index"))[0]
        sound = self.batches(index)
        self.assertGreater(len(sound), 1)
        with open(index, "ab") as f:
            f.write(bytes(8 * 100_000))  # as a broker preallocates them
        self.assertEqual(self.batches(index), sound)
        with open(index, "r+b") as f:
            f.truncate(8 * len(sound) + 3)
            f.seek(8 * len(sound))
            f.write(b"\1\2\3")
        result = self.dump(index, status=5)
        self.assertEqual(result.json_lines(), sound)
        self.assertIn("position %d: the file ends inside an entry" % (8 * len(sound)), result.text)
        for name, text in (("leader-epoch-checkpoint", b"0\n2\n0 0\n"), ("leader-epoch-checkpoint", b"0\n1\n0 x\n"),
                           ("replication-offset-checkpoint", b"1\n0\n"), ("x.properties", b"a=b\nc\n"), ("log-start-offset", b"-1\n"),
                           ("00000000000000000000.snapshot", b"\0\1" + bytes(8)), ("00000000000000000000.snapshot", b"\0\7" + bytes(8)),
                           ("00000000000000000000.txnindex", bytes(33))):
            path = os.path.join(self.directory, name)
            with open(path, "wb") as f:
                f.write(text)
            with self.subTest(name=name, text=text):
                self.assertIn(path + " position ", self.dump(path, status=5).text)


class Ranges(DumpTest):
    def setUp(self):
        super().setUp()
        self.create(segment_bytes=30_000, index_interval_bytes=1000)
        self.produce(b"".join(b"%06d\n" % n for n in range(6000)), "--batch-size", "400")
        self.whole = self.batches("t")
        self.assertGreater(len({b["file"] for b in self.whole}), 2)

    def test_by_offset(self):
        rng = harness.new_random("offsets")
        for index in ("right", "wrong", "none"):
            for path in glob.glob(os.path.join(self.partition(), "*.index")):
                if index == "wrong":
                    with open(path, "rb") as f:
                        data = bytearray(f.read())
                    data[4::8], data[6::8] = bytes(len(data) // 8), rng.randbytes(len(data) // 8)
                    with open(path, "wb") as f:
                        f.write(data)
                elif index == "none":
                    os.unlink(path)
            for _ in range(harness.scaled(10)):
                low = rng.randrange(6000)
                high = min(5999, low + rng.randrange(400))
                with self.subTest(index=index, low=low, high=high):
                    want = [b for b in self.whole if b["lastOffset"] >= low and b["baseOffset"] <= high]
                    span = ("--from-offset", str(low), "--to-offset", str(high))
                    self.assertEqual(self.batches("t", *span), want)
                    self.assertEqual([r["value"] for r in self.records("t", *span)], [b"%06d" % n for n in range(low, high + 1)])
                    self.assertEqual(self.batches("t:0:%d" % low), want[:1])
        self.expect_sound = False

    def test_by_position(self):
        rng = harness.new_random("positions")
        log = self.whole[0]["file"]
        here = [b for b in self.whole if b["file"] == log]
        for _ in range(harness.scaled(20)):
            low = rng.randrange(30_000)
            high = low + rng.randrange(5000)
            want = [b for b in here if low <= b["position"] <= high]
            self.assertEqual(self.batches(log, "--from-position", str(low), "--to-position", str(high)), want)

    def test_offsets_that_no_batch_holds(self):
        self.refused("dump", "t:0:6000", status=4, names=["6000"], rows=True)
        self.assertEqual(self.batches("t", "--from-offset", "6000"), [])

    def test_nothing_before_the_range_is_read(self):
        self.need("strace")
        self.need_plain_build()
        last = self.whole[-1]
        trace = os.path.join(self.directory, "trace")
        self.run_program("-o", trace, "-e", "trace=pread64,read", harness.PROGRAM, "dump", last["file"], "--from-offset", str(last["baseOffset"]),
                         program=["strace"], status=None)
        with open(trace, encoding="utf-8") as f:
            places = [int(m.group(1)) for m in re.finditer(r"pread64\(\d+, .*, (\d+)\) = ", f.read())]
        log_places = [p for p in places if p > 8 * 100]
        self.assertTrue(log_places and min(log_places) > last["position"] - 3000, places)


class Hostile(DumpTest):
    def write(self, name, data):
        path = os.path.join(self.directory, name)
        with open(path, "wb") as f:
            f.write(data)
        return path

    def limited(self, *args, status):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
        self.need_plain_build()
        return self.run_program("dump", *args, status=status, preexec_fn=limit)

    def batch(self, body, count=1, attributes=0, length=None, delta=0):
        rest = struct.pack(">hiqqqhii", attributes, delta, 0, 0, -1, -1, -1, count) + body
        size = len(rest) + 9 if length is None else length
        return struct.pack(">qiibI", 0, size, 0, 2, segments.crc32c(rest)) + rest

    def test_lengths(self):
        for length in (0x7fffffff, 0x7ffffff0, -1, 0, 48):
            path = self.write("00000000000000000000.log", self.batch(b"x" * 20, length=length))
            for more in ((), ("--records",)):
                self.limited(path, *more, status=None)

    def test_a_batch_larger_than_memory_may_be(self):
        path = self.write("00000000000000000000.log", self.batch(b"", length=300 << 20))
        os.truncate(path, (300 << 20) + 12)
        self.assertIn("position 0", self.limited(path, "--records", status=5).text)

    def test_bombs(self):
        import zlib
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(300)) + packer.flush()
        path = self.write("00000000000000000000.log", self.batch(bomb, attributes=1) + self.batch(b"", count=0))
        result = self.limited(path, "--records", status=5)
        self.assertIn("limit", result.text)
        self.assertEqual(len(self.limited(path, "--json", status=None).json_lines()), 2)

    def test_varints_and_counts(self):
        for body in (b"\xff" * 11, b"\x80" * 10 + b"\x01", b"\x0e\0\0\0\1\1\xff\xff\xff\xff\x0f"):
            path = self.write("00000000000000000000.log", self.batch(body))
            self.assertIn("position 0", self.limited(path, "--records", status=5).text)

    def test_garbage_of_any_name(self):
        rng = harness.new_random("garbage")
        for name in ("00000000000000000000.log", "0.index", "0.timeindex", "0.txnindex", "0.snapshot", "leader-epoch-checkpoint", "cuts",
                     "replication-offset-checkpoint", "x.properties", "partition.metadata", "quorum-state", "log-start-offset", "whatever"):
            for _ in range(harness.scaled(4)):
                path = self.write(name, rng.randbytes(rng.randrange(1, 3000)))
                self.assertIn(self.run_program("dump", path, status=None).status, (0, 1, 5), name)


class Harmless(DumpTest):
    def test_beside_a_writer(self):
        self.create(segment_bytes=200_000)
        self.produce(b"first\n")
        with open(os.path.join(self.directory, "input"), "wb") as f:
            f.write(b"".join(b"%07d\n" % n for n in range(300_000)))
        for _ in range(harness.scaled(3)):
            writers = [self.start("produce", "t", os.path.join(self.directory, "input"), "-q", "--batch-size", "700", "--sync", "none") for _ in range(2)]
            runs = 0
            while any(w.poll() is None for w in writers) or runs == 0:
                offsets = []
                for row in self.batches("t", "--from-offset", str(max(0, self.end_offset() - 3000))):
                    self.assertTrue(row["isvalid"])
                    offsets.append((row["baseOffset"], row["lastOffset"]))
                self.assertTrue(all(b[0] == a[1] + 1 for a, b in zip(offsets, offsets[1:])))
                runs += 1
            for writer in writers:
                self.assertEqual(harness.finish(writer).status, 0)

    def test_what_the_name_of_a_file_does_not_tell(self):
        self.create()
        self.produce(b"x\n")
        shutil.copy(self.log_path(), os.path.join(self.directory, "copy"))
        self.assertEqual(len(self.batches(os.path.join(self.directory, "copy"))), 1)
        self.refused("dump", os.path.join(self.store, "topics", "t", "topic.lock"), status=1, names=["topic.lock"])

    def test_topic_or_file(self):
        self.create()
        self.produce(b"x\n")
        shutil.copy(self.log_path(), os.path.join(self.directory, "t"))
        shutil.copy(self.log_path(), os.path.join(self.directory, "u.log"))
        where = {"cwd": self.directory}
        self.refused("dump", "t", status=2, names=["./t"], **where)
        self.assertEqual(self.batches("./t", **where)[0]["file"], "./t")
        self.assertEqual(self.batches("u.log", **where)[0]["file"], "u.log")
        self.assertEqual(self.batches("u.log", env={"PARTLOG_DIR": self.directory + "/none"}, **where)[0]["file"], "u.log")
        self.refused("dump", "v", status=1, names=["v"], **where)
        self.refused("dump", "t:5", status=2, names=["no partition 5"])


if __name__ == "__main__":
    harness.main()
