"""The directory of a broker that had transactions, a cleaner at work, groups of every kind, and a log of its own metadata: every command
that looks into files says of tests/broker/data what Kafka's consumer saw there, tests/broker/expected."""

import glob
import os
import shutil
import struct
import sys

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from test_dump import as_record, content, milliseconds  # noqa: E402
from known_files import expected_records, parse_json_line  # noqa: E402

WHERE = os.environ.get("PARTLOG_BROKER_FILES") or os.path.join(os.path.dirname(HERE), "broker")
DATA = os.path.join(WHERE, "data")
PARTITIONS = ["__cluster_metadata-0", "__consumer_offsets-0", "__share_group_state-0", "__transaction_state-0", "compacted-0",
              "open-transaction-0", "segments-0", "transactions-0"]
COMPARED = ("offset", "timestamp", "tstype", "key", "value", "headers")


def comparable(record):
    return tuple(record[name] for name in COMPARED)


class BrokerTest(harness.Test):
    def expected(self, name):
        """All records, and those of them that read_committed shows."""
        path = os.path.join(WHERE, "expected", name + ".jsonl")
        records = list(expected_records(path))
        self.assertGreater(len(records), 1)
        return records, [r for r in records if r["committed"]]

    def logs(self, partition):
        return sorted(glob.glob(os.path.join(DATA, partition, "*.log")))

    def files(self):
        """(name of its records, files that hold them, the operand that means all of them)."""
        for partition in PARTITIONS:
            yield partition, self.logs(partition), os.path.join(DATA, partition)
        snapshot, = glob.glob(os.path.join(DATA, "__cluster_metadata-0", "*.checkpoint"))
        yield "__cluster_metadata-0.checkpoint", [snapshot], snapshot

    def dump(self, *args, **how):
        return self.run_program("dump", "--json", *args, **how).json_lines()

    def consumed(self, *args):
        out = self.run_program("consume", "--files", "-J", "-q", *args).out.decode()
        return [parse_json_line(line) for line in out.split("\n") if line]


class Everything(BrokerTest):
    def test_consume_shows_what_kafkas_consumer_shows(self):
        for name, files, whole in self.files():
            everything, committed = self.expected(name)
            for operands in ([whole], files):
                with self.subTest(name=name, operands=len(operands)):
                    got = self.consumed(*operands, "--isolation", "uncommitted")
                    self.assertEqual([comparable(r) for r in got], [comparable(r) for r in everything])
                    self.assertEqual([r["epoch"] for r in got], [r["epoch"] for r in everything])
                    self.assertEqual([comparable(r) for r in self.consumed(*operands)], [comparable(r) for r in committed])

    def test_consume_from_any_offset(self):
        for name in ("transactions-0", "open-transaction-0", "compacted-0", "segments-0"):
            everything, committed = self.expected(name)
            first = everything[0]["offset"]
            for start in range(first, everything[-1]["offset"], 23):
                with self.subTest(name=name, start=start):
                    for records, isolation in ((everything, "uncommitted"), (committed, "committed")):
                        if start > records[-1]["offset"]:
                            continue  # nothing is left, or it lies behind what may be read
                        got = self.consumed(os.path.join(DATA, name), "-o", str(start), "--isolation", isolation)
                        self.assertEqual([comparable(r) for r in got], [comparable(r) for r in records if r["offset"] >= start])

    def test_dump_shows_every_record_and_the_batches_around_them(self):
        for name, files, _ in self.files():
            with self.subTest(name):
                everything, _ = self.expected(name)
                rows = self.dump("--records", *files)
                got = [comparable(as_record(row)) for row in rows if row["controlType"] is None]
                self.assertEqual(got, [comparable(r) for r in everything])
                batches = self.dump(*files)
                self.assertTrue(all(b["isvalid"] and b["magic"] == 2 for b in batches))
                offsets = [r["offset"] for r in everything]
                for b in batches:
                    inside = sum(b["baseOffset"] <= offset <= b["lastOffset"] for offset in offsets)
                    self.assertEqual(b["count"], 1 if b["isControl"] else inside, b)
                self.assertEqual(sum(b["count"] for b in batches), len(rows))
                for log in files:
                    mine = [b for b in batches if b["file"] == log]
                    self.assertEqual(sum(b["size"] for b in mine), os.path.getsize(log))

    def test_verify_finds_nothing(self):
        rows = self.run_program("verify", "--json", DATA).json_lines()
        self.assertEqual([r for r in rows if r["type"] == "finding"], [])
        self.assertEqual({r["verdict"] for r in rows}, {"clean"})
        summaries = {os.path.basename(r["file"]): r for r in rows}
        for name, files, whole in self.files():
            with self.subTest(name):
                row = summaries[name] if name in summaries else self.run_program("verify", "--json", whole).json_lines()[0]
                batches = self.dump(*files)
                self.assertEqual((row["segments"], row["batches"], row["records"]),
                                 (len(files) if name in summaries else row["segments"], len(batches), sum(b["count"] for b in batches)))

    def test_indexes_point_where_batches_start(self):
        entries = {".index": 0, ".timeindex": 0}
        for log in (log for partition in PARTITIONS for log in self.logs(partition)):
            batches = self.dump(log)
            last = {b["position"]: b["lastOffset"] for b in batches}
            for suffix in entries:
                rows = self.dump(log.replace(".log", suffix))
                self.assertEqual(len(rows) * (8 if suffix == ".index" else 12), os.path.getsize(log.replace(".log", suffix)))
                entries[suffix] += len(rows)
                for row in rows:
                    if suffix == ".index":
                        self.assertEqual(last[row["position"]], row["offset"])
                    else:
                        holding = [b for b in batches if b["baseOffset"] <= row["offset"] <= b["lastOffset"]]
                        self.assertEqual([milliseconds(b["timestamp"]) for b in holding], [milliseconds(row["timestamp"])])
        self.assertGreater(min(entries.values()), 30)


class Transactions(BrokerTest):
    def test_the_list_of_aborted_transactions_is_what_the_markers_say(self):
        for name in ("transactions-0", "open-transaction-0"):
            with self.subTest(name):
                everything, committed = self.expected(name)
                batches = self.dump(*self.logs(name))
                aborted = [row for path in sorted(glob.glob(os.path.join(DATA, name, "*.txnindex"))) for row in self.dump(path)]
                self.assertGreater(len(aborted), 0)
                inside = set()
                for b in batches:
                    for row in aborted:
                        if b["isTransactional"] and b["producerId"] == row["producerId"] and row["firstOffset"] <= b["baseOffset"] <= row["lastOffset"]:
                            inside.update(range(b["baseOffset"], b["lastOffset"] + 1))
                still_open = self.still_open(name)
                self.assertEqual(len(still_open), 1 if name == "open-transaction-0" else 0)
                end = min(still_open, default=everything[-1]["offset"] + 1)
                want = [r["offset"] for r in everything if r["offset"] not in inside and r["offset"] < end]
                self.assertEqual([r["offset"] for r in committed], want)

    def still_open(self, name):
        """First offsets of the transactions that were open when the broker stopped, from its last snapshot of producers."""
        last = max(glob.glob(os.path.join(DATA, name, "*.snapshot")))
        return [row["currentTxnFirstOffset"] for row in self.dump(last) if row["currentTxnFirstOffset"] is not None]

    def test_there_is_something_to_see(self):
        batches = self.dump(*self.logs("transactions-0"))
        producers = [b["producerId"] for b in batches if b["isTransactional"] and not b["isControl"]]
        self.assertGreaterEqual(len(set(producers)), 4)
        self.assertGreater(sum(a != b for a, b in zip(producers, producers[1:])), 20)
        self.assertEqual({b["compresscodec"] for b in batches}, {"none", "gzip", "snappy", "lz4", "zstd"})
        self.assertEqual(len({b["partitionLeaderEpoch"] for b in batches}), 2)
        controls = [row["controlType"] for row in self.dump("--records", *self.logs("transactions-0")) if row["controlType"]]
        self.assertGreater(controls.count("ABORT"), 4)
        self.assertGreater(controls.count("COMMIT"), 8)
        result = self.run_program("consume", "--files", os.path.join(DATA, "open-transaction-0"), "-c", "1000")
        self.assertIn("not read from offset 7 on", result.text)


class Cleaned(BrokerTest):
    def test_there_is_something_to_see(self):
        logs = self.logs("compacted-0")
        self.assertGreaterEqual(len(logs), 4)
        batches = self.dump(*logs)
        everything, _ = self.expected("compacted-0")
        offsets = [r["offset"] for r in everything]
        self.assertGreater(sum(b - a > 1 for a, b in zip(offsets, offsets[1:])), 20)
        holey = [b for b in batches if b["lastOffset"] - b["baseOffset"] + 1 > b["count"]]
        self.assertEqual({b["compresscodec"] for b in holey}, {"none", "gzip", "snappy", "lz4", "zstd"})
        self.assertGreater(sum(b["deleteHorizonMs"] is not None for b in batches), 3)
        self.assertIn(0, [b["count"] for b in batches])
        self.assertGreater(sum(r["value"] is None for r in everything), 5)
        self.assertTrue(any(b["isControl"] and b["deleteHorizonMs"] for b in batches))
        for horizon in (b["deleteHorizonMs"] for b in batches if b["deleteHorizonMs"] is not None):
            self.assertRegex(horizon, r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

    def test_appending_behind_it(self):
        self.expect_sound = False  # the reader that checks stores knows no holes
        _, committed = self.expected("compacted-0")
        end = self.dump(*self.logs("compacted-0"))[-1]["lastOffset"] + 1
        self.create("compacted", index_interval_bytes=100, cleanup_policy="compact")
        for old in glob.glob(self.partition("compacted") + "/00*"):
            os.remove(old)
        for path in glob.glob(os.path.join(DATA, "compacted-0", "00*")):
            shutil.copy(path, self.partition("compacted"))
        self.produce(b"key:behind\n", "-K", ":", topic="compacted")
        out = self.consume("-J", topic="compacted").out.decode()
        got = [comparable(parse_json_line(line)) for line in out.split("\n") if line]
        self.assertEqual(got[:-1], [comparable(r) for r in committed])
        self.assertEqual((got[-1][0], got[-1][4]), (end, b"behind"))


class Coordinators(BrokerTest):
    def decoded(self, partition):
        plain = [row for row in self.dump("--records", *self.logs(partition)) if row["controlType"] is None]
        rows = [row for row in self.dump("--records", "--decode", *self.logs(partition)) if row["controlType"] is None]
        self.assertEqual([row["offset"] for row in rows], [row["offset"] for row in plain])
        return zip(plain, rows)

    def test_groups(self):
        types, groups = set(), {}
        for plain, row in self.decoded("__consumer_offsets-0"):
            kind = struct.unpack(">h", content(plain, "key")[:2])[0]
            types.add(kind)
            if 9 <= kind <= 15:  # share groups: as they stand
                self.assertEqual(row, plain)
                continue
            self.assertEqual(row["key"]["type"], str(kind))
            group = row["key"]["data"].get("group") or row["key"]["data"]["groupId"]
            self.assertIn(group.encode(), content(plain, "key"))
            self.assertIn("value", row, "not decoded")
            self.assertEqual(row["value"] is None, plain.get("value", "") is None)
            if kind == 1:
                data = row["value"] and row["value"]["data"]
                groups.setdefault(group, {})[row["key"]["data"]["topic"]] = data and (data["offset"], data["metadata"])
        self.assertEqual(types & {1, 2, 3, 5, 6, 7, 8, 16}, {1, 2, 3, 5, 6, 7, 8, 16})
        self.assertEqual(groups["deleted"], {"transactions": None, "segments": None})
        self.assertEqual(groups["assigned"]["segments"], None)
        for group in ("classic", "consumer"):
            self.assertEqual([data[1] for data in groups[group].values()], ["by " + group] * 2)
        self.assertEqual(groups["transactional"]["transactions"], (5, ""))

    def test_transactions(self):
        statuses, last = set(), {}
        for plain, row in self.decoded("__transaction_state-0"):
            name = row["key"]["data"]["transactionalId"]
            self.assertIn(name.encode(), content(plain, "key"))
            data = row["value"]["data"]
            statuses.add(data["transactionStatus"])
            last[name] = data["transactionStatus"]
        empty, ongoing, complete_commit, complete_abort = 0, 1, 4, 5  # Kafka's numbers
        self.assertEqual(last.pop("open"), ongoing)
        self.assertLessEqual(set(last.values()), {empty, complete_commit, complete_abort})
        self.assertGreaterEqual(statuses, {0, 1, 2, 3, 4, 5})

    def test_metadata(self):
        rows = self.dump("--records", *self.logs("__cluster_metadata-0"))
        self.assertEqual([row["controlType"] for row in rows if row["controlType"]], ["LEADER_CHANGE"] * 2)
        snapshot, = glob.glob(os.path.join(DATA, "__cluster_metadata-0", "*.checkpoint"))
        kinds = [row["controlType"] for row in self.dump("--records", snapshot)]
        self.assertEqual((kinds[0], kinds[-1]), ("SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"))
        self.assertEqual(set(kinds[1:-1]), {None})
        names = [content(row, "value") for row in rows]
        for topic in (b"compacted", b"transactions", b"segments"):
            self.assertTrue(any(topic in name for name in names))
        for name in ("bootstrap.checkpoint", "meta.properties", "cleaner-offset-checkpoint", "replication-offset-checkpoint"):
            self.assertGreater(len(self.dump(os.path.join(DATA, name))), 0)


if __name__ == "__main__":
    harness.main()
