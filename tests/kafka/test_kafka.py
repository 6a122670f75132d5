"""Kafka agrees: its tools, its segment code, its Java clients and its broker read what partlog writes, and the other way round.

Needs bash, Maven, a JDK from 17 on, and the network the first time. Without them nothing is run and the status is 77, unless
PARTLOG_KAFKA_REQUIRED is set: then that is a failure.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[1] / "system")]

import beside  # noqa: E402
import harness  # noqa: E402
from test_dump import content as content_of, milliseconds  # noqa: E402

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
T0 = 1_700_000_000_000
FIXTURES = Path(__file__).resolve().parents[1] / "segments"
BROKER_FILES = Path(__file__).resolve().parents[1] / "broker"
DEFAULT_INTERVAL = 4096
UNDECODED = range(9, 16)  # types of records in __consumer_offsets: those of share groups
HEADERS = [(b"h", b"1"), (b"h", None), (b"h", b""), (b"", b"\x00\xff"), ("größe".encode(), b"x")]


def mixed_records(rng, count, longest=900):
    """(key, value, headers, timestamp) of every kind: null, empty, binary, long, with and without headers, times out of order."""
    records = []
    for i in range(count):
        key = rng.choice([None, b"", b"key %d" % (i % 50), rng.randbytes(rng.randrange(1, 20))])
        value = rng.choice([None, b"", b"text %d " % i * rng.randrange(1, 30), rng.randbytes(rng.randrange(1, longest))])
        headers = rng.sample(HEADERS, rng.randrange(len(HEADERS))) if rng.random() < 0.3 else []
        records.append((key, value, headers, T0 + rng.randrange(100_000) + i))
    records[count // 2] = (b"large", b"large value " * 9000, [], T0)  # several blocks in every codec
    records[count // 2 + 1] = (b"large", rng.randbytes(100_000), [], T0)
    return records


def as_input(records):
    return "".join(beside.json_line(*record) + "\n" for record in records).encode()


def content(record):
    return (record["key"], record["value"], record["headers"], record["timestamp"])


def segments_of(directory):
    """The .log files of a partition, oldest first: all but the last are rolled."""
    return sorted(Path(directory).glob("*.log"))


def with_indexes(logs):
    return [log.with_suffix(suffix) for log in logs for suffix in (".index", ".timeindex")]


class KafkaTest(harness.Test):
    def consumed(self, topic, partition=None, **how):
        words = [] if partition is None else ["-p", str(partition)]
        out = self.consume("-J", *words, topic=topic, **how).out
        return [beside.parse_json_line(line) for line in out.decode().split("\n") if line]

    def assert_records(self, got, expected, what):
        """Like assertEqual for long lists, but says only where they part."""
        for at, (one, other) in enumerate(zip(got, expected)):
            if one != other:
                self.fail(f"{what}: item {at} is {str(one)[:600]}\n instead of {str(other)[:600]}")
        self.assertEqual(len(got), len(expected), what)

    def assert_no_complaint(self, directories):
        """Kafka's dump tool on all segments of partitions: batches, records, and both indexes."""
        logs = [log for directory in directories for log in segments_of(directory)]
        for at in range(0, len(logs), 500):  # as many as fit on a command line
            part = logs[at:at + 500]
            self.assertEqual(beside.dump_records(part)[2], [])
            self.assertEqual(beside.check_indexes(with_indexes(part)), [])

    def assert_indexed_as_a_broker_does(self, partitions):
        """`.index` and `.timeindex` of (directory, index.interval.bytes) against Kafka's own, byte for byte.

        The active segment's time index may still lack the entry that a segment gets last, at its roll.
        Returns the number of rolled segments.
        """
        jobs = [(log, Path(self.directory) / "again" / str(number) / log.stem, interval)
                for number, (directory, interval) in enumerate(partitions) for log in segments_of(directory)]
        beside.reindex(jobs)
        last = {segments_of(directory)[-1] for directory, _ in partitions}
        unequal = []
        for log, again, interval in jobs:
            for ours in with_indexes([log]):
                have, want = ours.read_bytes() if ours.exists() else None, (again / ours.name).read_bytes()
                open_end = log in last and ours.suffix == ".timeindex" and have == want[:-12]
                if have != want and not open_end:
                    sizes = f"{'none' if have is None else len(have)} bytes, Kafka's {len(want)}"
                    unequal.append(f"{ours} (index.interval.bytes {interval}, {'active' if log in last else 'rolled'}): {sizes}")
        self.assertEqual(unequal, [], f"{len(unequal)} of {2 * len(jobs)} index files differ from Kafka's")
        return len(jobs) - len(last)


    def compare_dumps(self, logs):
        """All batches and records of files against Kafka's dump tool, line by line; the number of batches."""
        plain = beside.dump_lines(logs, "--print-data-log", "--key-decoder-class", "HexDecoder", "--value-decoder-class", "HexDecoder")
        batches = records = 0
        for log in logs:
            theirs = plain[str(log)]
            ours = self.run_program("dump", str(log), "--json").json_lines()
            want = [line for line in theirs if line.startswith(("baseOffset: ", "offset: "))]
            self.assert_records([beside.batch_as_kafka_has_it(row, milliseconds) for row in ours], want, f"{log}: batches")
            magic = [row["magic"] for row in ours for _ in range(row["count"])]
            rows = self.run_program("dump", str(log), "--json", "--records").json_lines()
            self.assertEqual(len(rows), len(magic))
            got = [beside.record_as_kafka_has_it(row, content_of, milliseconds, m) for row, m in zip(rows, magic)]
            want = [beside.without_what_kafka_adds(line) for line in theirs if line.startswith("|")]
            self.assert_records(got, want, f"{log}: records")
            batches, records = batches + len(ours), records + len(rows)
        beside.say(f"dump: {batches} batches and {records} records of {len(logs)} files are the same lines")
        return batches

    def compare_side_files(self, files):
        """All entries of indexes, transaction indexes and producer snapshots against Kafka's dump tool; how many there were."""
        theirs = beside.dump_lines(files)
        entries = 0
        for path in files:
            rows = self.run_program("dump", str(path), "--json").json_lines()
            want = [line for line in theirs[str(path)] if not line.endswith(" is empty.")]
            self.assert_records([beside.side_row_as_kafka_has_it(row, milliseconds) for row in rows], want, str(path))
            entries += len(rows)
        return entries

    def compare_decoded(self, directories):
        """What --decode shows of the coordinators' topics in brokers' directories against Kafka's decoders; the number of records."""
        count = 0
        for topic, option in (("__consumer_offsets", "--offsets-decoder"), ("__transaction_state", "--transaction-log-decoder")):
            logs = [log for directory in directories for log in sorted(directory.glob(f"{topic}-*/*.log")) if log.stat().st_size]
            theirs = beside.dump_lines(logs, option)
            for log in logs:
                rows = self.run_program("dump", str(log), "--json", "--records", "--decode").json_lines()
                lines = [line for line in theirs[str(log)] if line.startswith("|")]
                self.assertEqual(len(rows), len(lines))
                for row, line in zip(rows, lines):
                    if row["controlType"]:
                        continue
                    key, value = re.search(r" key: (.*?)(?: payload: (.*))?$", line).groups()
                    key = json.loads(key)
                    if topic == "__consumer_offsets" and int(key["type"]) in UNDECODED:
                        self.assertEqual(content_of(row, "key")[:2], int(key["type"]).to_bytes(2, "big"))
                        continue
                    self.assertEqual(row["key"], key, line)
                    self.assertEqual(row["value"], None if row["value"] is None else json.loads(value), line)
                    count += 1
        return count


class Files(KafkaTest):
    """What needs no broker: Kafka's dump tool and segment code."""

    def test_dump_tool_reads_what_we_wrote_with_every_codec(self):
        rng = harness.new_random("codecs")
        written = {}
        for codec in CODECS:
            for stamp in ("CreateTime", "LogAppendTime"):
                topic = f"{codec}-{stamp}"
                written[topic] = mixed_records(rng, 700)
                self.create(topic, segment_bytes=150_000, message_timestamp_type=stamp, index_interval_bytes=2000)
                self.produce(as_input(written[topic]), "-J", "-z", codec, "--batch-size", "3000", topic=topic)
        logs = {topic: segments_of(self.partition(topic)) for topic in written}
        batches, dumped, complaints = beside.dump_records([log for of_topic in logs.values() for log in of_topic])
        self.assertEqual(complaints, [])
        at = 0
        for topic, records in written.items():
            codec, stamp = topic.split("-")
            self.assertGreaterEqual(len(logs[topic]), 2, f"{topic}: no segment was rolled")
            ours = self.consumed(topic)
            times = [r[3] for r in records] if stamp == "CreateTime" else [r["timestamp"] for r in ours]
            self.assert_records([content(r) for r in ours], [r[:3] + (t,) for r, t in zip(records, times)], f"{topic}: consume -J")
            expected = [(offset, stamp, t, ",".join(name.decode() for name, _ in headers), key, value)
                        for offset, (t, (key, value, headers, _)) in enumerate(zip(times, records))]
            self.assert_records(dumped[at:at + len(records)], expected, f"{topic}: Kafka's dump")
            at += len(records)
            for log in logs[topic]:
                self.assertGreater(log.stat().st_size, 0)
        self.assertEqual(len(dumped), at)
        for codec in CODECS:
            self.assertGreater(sum(batch[3] == codec for batch in batches), 20, f"too few batches with {codec} to show anything")
        indexes = with_indexes([log for of_topic in logs.values() for log in of_topic])
        self.assertEqual(beside.check_indexes(indexes), [])
        self.assertTrue(all(any(log.with_suffix(".index").stat().st_size for log in logs[topic]) for topic in logs), "no index entry to check")
        rolled = self.assert_indexed_as_a_broker_does([(self.partition(topic), 2000) for topic in written])
        beside.say(f"dump tool: {len(dumped)} records in {len(batches)} batches of 5 codecs, 2 kinds of timestamp; {rolled} rolled segments")

    def test_indexes_equal_a_brokers_whoever_wrote_them(self):
        rng = harness.new_random("indexes")
        partitions, killed = [], 0
        source = Path(self.directory) / "input"
        source.write_bytes(as_input([(None, rng.randbytes(rng.randrange(1, 300)), [], T0 + rng.randrange(1000) * (i % 7)) for i in range(2500)]))
        for interval in (1, 100, DEFAULT_INTERVAL):
            config = {} if interval == DEFAULT_INTERVAL else {"index_interval_bytes": interval}
            for writers in ("one", "many"):
                topic = f"{writers}-{interval}"
                self.create(topic, segment_bytes=40_000, **config)
                if writers == "one":
                    self.run_program("produce", topic, str(source), "-J", "--batch-size", "1500")
                else:
                    killed += self.many_writers(topic, source, rng)
                partitions.append((self.partition(topic), interval))
        rolled = self.assert_indexed_as_a_broker_does(partitions)
        self.assertGreater(rolled, 100, "too few segments to show anything")
        self.assert_no_complaint([directory for directory, _ in partitions])
        beside.say(f"indexes: {rolled} rolled segments equal, {killed} writers killed meanwhile")

    def test_fixtures_of_every_format_are_what_kafka_makes(self):
        again = Path(self.directory) / "again"
        subprocess.run([FIXTURES / "make", again], check=True)
        made = {path.relative_to(again): path.read_bytes() for path in sorted(again.glob("*/*"))}
        kept = {path.relative_to(FIXTURES): path.read_bytes() for path in sorted(FIXTURES.glob("*/*"))}
        self.assertGreater(len(kept), 60)
        self.assertEqual(made.keys(), kept.keys())
        self.assertEqual([str(path) for path in kept if made[path] != kept[path]], [])

    def test_indexes_of_old_messages_equal_a_brokers(self):
        self.expect_sound = False  # the reader that checks stores knows format v2 alone
        partitions = []
        for form in sorted(FIXTURES.glob("*/")):
            for interval in (1, 150):
                topic = f"{form.name}-{interval}"
                self.create(topic, index_interval_bytes=interval)
                for old in segments_of(self.partition(topic)):
                    old.unlink()
                for log in form.glob("*.log"):
                    shutil.copy(log, self.partition(topic))
                self.produce(b"behind\n", topic=topic)
                partitions.append((self.partition(topic), interval))
        self.assert_indexed_as_a_broker_does(partitions)

    def test_dump_says_of_every_file_what_kafkas_tool_says(self):
        self.expect_sound = False  # the reader that checks stores knows format v2 alone
        rng = harness.new_random("dump")
        for codec in CODECS:
            self.create(codec, segment_bytes=150_000)
            self.produce(as_input(mixed_records(rng, 300)), "-J", "-z", codec, "--batch-size", "3000", topic=codec)
        logs = [log for form in sorted(FIXTURES.glob("*/")) if form.name != "v2-tail" for log in form.glob("*.log")]  # zeros end their tool
        logs += [log for codec in CODECS for log in segments_of(self.partition(codec))]
        where = os.environ.get("PARTLOG_SEGMENTS")
        if where:
            logs += [log for log in sorted(Path(where).glob("*/*/*.log")) if log.stat().st_size and "invalid_crc" not in str(log)]
            logs += sorted(Path(where).glob("*/*/*.checkpoint"))
        self.assertGreater(self.compare_dumps(logs), 200)

    def test_dump_says_of_indexes_what_kafkas_tool_says(self):
        rng = harness.new_random("indexes of ours")
        self.create(segment_bytes=30_000, index_interval_bytes=100)
        self.produce(as_input(mixed_records(rng, 2000, 200)[:990]), "-J", "--batch-size", "1000")
        self.assertGreater(self.compare_side_files(with_indexes(segments_of(self.partition()))), 50)

    def test_dump_decodes_what_kafkas_tool_decodes(self):
        where = os.environ.get("PARTLOG_SEGMENTS")
        if not where:
            self.left_out("PARTLOG_SEGMENTS does not name a directory of segments that brokers wrote")
        self.assertGreater(self.compare_decoded(sorted(Path(where).glob("*/"))), 100)

    def test_dump_decodes_every_version_that_kafka_writes(self):
        lines = [line.split("\t") for line in beside.kafka("run", "CoordinatorRecords")[0].splitlines()]
        self.assertGreater(len(lines), 30)
        for topic in ("__consumer_offsets", "__transaction_state"):
            self.create(topic)
            mine = [line for line in lines if line[0] == topic]
            self.produce(as_input([(bytes.fromhex(key), bytes.fromhex(value), [], T0) for _, _, key, _, _, value, _ in mine]), "-J", topic=topic)
            rows = self.run_program("dump", topic, "--json", "--records", "--decode").json_lines()
            self.assertEqual(len(rows), len(mine))
            for row, (_, kind, _, key, version, value, value_json) in zip(rows, mine):
                with self.subTest(topic=topic, type=kind, version=version, bytes=value):
                    self.assertEqual(row["key"], {"type": kind, "data": json.loads(key)})
                    self.assertEqual(row["value"], {"version": version, "data": json.loads(value_json)})

    def test_index_interval_is_counted_to_the_byte(self):
        one = [as_input([(None, b"v" * 40, [], T0 + n % 5)]) for n in range(30)]
        self.create("measure")
        self.produce(one[0], "-J", topic="measure")
        size = segments_of(self.partition("measure"))[0].stat().st_size
        partitions = []
        for interval in (size - 1, size, size + 1, 2 * size, 3 * size - 1):
            topic = f"interval-{interval}"
            self.create(topic, segment_bytes=10 * size, index_interval_bytes=interval)
            for record in one:  # each its own process, hence its own batch
                self.produce(record, "-J", "--sync", "none", topic=topic)
            self.assertEqual([log.stat().st_size for log in segments_of(self.partition(topic))], [10 * size] * 3)
            partitions.append((self.partition(topic), interval))
        self.assert_indexed_as_a_broker_does(partitions)
        entries = [segments_of(directory)[0].with_suffix(".index").stat().st_size // 8 for directory, _ in partitions]
        self.assertEqual(entries, [9, 4, 4, 3, 3])

    def test_a_writer_killed_at_the_roll_leaves_no_trace_in_the_time_index(self):
        # It had written the entry that a time index gets last, and not made the next segment yet; the next batch still fits in.
        def batches(first, last):  # one batch each, the timestamps rising
            return [as_input([(None, b"v" * 100, [], T0 + n)]) for n in range(first, last)]

        self.create(segment_bytes=4000, index_interval_bytes=400)
        for record in batches(0, 11):
            self.produce(record, "-J", "--sync", "none")
        log = segments_of(self.partition())[0]
        beside.reindex([(log, Path(self.directory) / "closed", 400)])
        closed = (Path(self.directory) / "closed" / log.name).with_suffix(".timeindex").read_bytes()
        before = log.with_suffix(".timeindex").read_bytes()
        self.assertEqual(before, closed[:-12])  # else this shows nothing
        log.with_suffix(".timeindex").write_bytes(closed)
        for record in batches(11, 60):
            self.produce(record, "-J", "--sync", "none")
        self.assertGreater(self.assert_indexed_as_a_broker_does([(self.partition(), 400)]), 1)
        self.assert_no_complaint([self.partition()])

    def test_a_writer_that_slept_through_several_rolls_leaves_their_indexes_as_they_were(self):
        intervals = (400, 5000)  # with 5000 a segment has nothing in its .index, and one entry in its .timeindex
        for interval in intervals:
            topic = f"interval-{interval}"
            self.create(topic, segment_bytes=4000, index_interval_bytes=interval)
            sleeper = self.start("produce", topic, "-J", "-q", "--linger", "0", "--report", "--sync", "none")
            reports = harness.Lines(sleeper.stdout)
            for n in range(3):
                harness.feed(sleeper, [as_input([(None, b"sleeper", [], T0 + 1000 * n)])])
                self.assertIsNotNone(reports.next())
                for m in range(60):  # one batch each, the timestamps rising: two rolls
                    self.produce(as_input([(None, b"v" * 100, [], T0 + 1000 * n + m + 1)]), "-J", "--sync", "none", topic=topic)
            self.assertEqual(harness.finish(sleeper).status, 0)
        rolled = self.assert_indexed_as_a_broker_does([(self.partition(f"interval-{interval}"), interval) for interval in intervals])
        self.assertGreater(rolled, 12)

    def many_writers(self, topic, source, rng):
        """Three writers that finish beside writers killed while they write, in rounds; then one more that tidies up."""
        killed = 0
        for _ in range(harness.scaled(3)):
            before = len(segments_of(self.partition(topic)))
            victims = [self.endless_writer(topic, source) for _ in range(3)]
            finishing = [self.start("produce", topic, str(source), "-J", "-q", "--batch-size", str(size), stdin=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL) for size in (700, 1500, 5000)]
            harness.wait_until(lambda: len(segments_of(self.partition(topic))) >= before + 5, f"segments of {topic} to roll")
            for victim in victims:
                time.sleep(rng.random() * 0.03)  # not to wait for anything: only to spread the kills
                self.assertIsNone(victim.poll(), "a writer ended by itself")
                victim.send_signal(signal.SIGKILL)
                self.assertEqual(victim.wait(), -signal.SIGKILL)
                killed += 1
            for writer in finishing:
                self.assertEqual(writer.wait(harness.DEADLINE), 0)
        self.produce(b"the last record\n", topic=topic)
        return killed

    def endless_writer(self, topic, source):
        feeder = subprocess.Popen(["sh", "-c", 'while cat "$0" 2>/dev/null; do :; done', source], stdout=subprocess.PIPE)
        self.processes.append(feeder)
        writer = self.start("produce", topic, "-J", "-q", "--batch-size", "1500", "--sync", "none", stdin=feeder.stdout, stderr=subprocess.DEVNULL)
        feeder.stdout.close()  # or the feeder outlives its writer
        return writer


class FilesOfBroker(KafkaTest):
    """tests/broker as it stands, and as its script makes it today."""

    @classmethod
    def setUpClass(cls):
        cls.again = Path(harness.tempfile.mkdtemp(prefix="partlog-kafka-"))
        cls.addClassCleanup(shutil.rmtree, cls.again)
        subprocess.run([BROKER_FILES / "make", cls.again], check=True, timeout=300)
        cls.data = [BROKER_FILES / "data", cls.again / "data"]

    def find(self, *patterns):
        return [path for data in self.data for pattern in patterns for path in sorted(data.glob(pattern)) if path.stat().st_size]

    def test_what_is_made_today_is_as_good(self):
        test = Path(harness.__file__).with_name("test_broker_files.py")
        done = subprocess.run([sys.executable, "-B", test], env={**os.environ, "PARTLOG_BROKER_FILES": str(self.again)}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_dump_says_of_every_file_what_kafkas_tool_says(self):
        self.assertGreater(self.compare_dumps(self.find("*/*.log", "*.checkpoint", "*/*.checkpoint")), 600)

    def test_dump_says_of_side_files_what_kafkas_tool_says(self):
        for suffix in ("index", "timeindex", "txnindex", "snapshot"):
            with self.subTest(suffix):
                self.assertGreater(self.compare_side_files(self.find(f"*/*.{suffix}")), 10)

    def test_dump_decodes_what_kafkas_tool_decodes(self):
        self.assertGreater(self.compare_decoded(self.data), 300)


class BesideBroker(KafkaTest):
    """What needs a broker: one for the whole class, started anew only where its files are exchanged."""

    @classmethod
    def setUpClass(cls):
        cls.home = Path(harness.tempfile.mkdtemp(prefix="partlog-kafka-"))
        cls.addClassCleanup(shutil.rmtree, cls.home)
        cls.broker = beside.Broker(cls.home / "broker")
        cls.addClassCleanup(cls.broker.stop)
        cls.restart()

    @classmethod
    def restart(cls):
        cls.broker.start("log.retention.ms=-1")  # the records of the tests bear old timestamps

    def test_keys_land_where_the_java_producer_puts_them(self):
        rng = harness.new_random("keys")
        keys = [b"", b"\x00", b"\xff" * 3, "schlüssel".encode(), b"k" * 100_000] + [bytes([n]) for n in range(256)]
        keys += [b"user-%06d" % n for n in range(1500)] + [rng.randbytes(rng.randrange(1, 64)) for _ in range(1500)]
        keys += [rng.randbytes(n) for n in range(64, 3000, 9)]
        for partitions in (12, 5):
            topic = f"keys-{partitions}"
            self.broker.create_topic(topic, partitions)
            # An idempotent producer may never get through to a topic whose partitions are still being given their leader.
            places = self.broker.produce(topic, [(key, b"%d" % n) for n, key in enumerate(keys)], "enable.idempotence=false")
            theirs = [partition for partition, _ in places]
            self.assertEqual(len(theirs), len(keys))
            self.create(topic, "-p", str(partitions))
            self.produce(as_input([(key, b"%d" % n, [], None) for n, key in enumerate(keys)]), "-J", topic=topic)
            ours = {int(r["value"]): r["partition"] for r in self.consumed(topic)}
            self.assertEqual(len(ours), len(keys))
            elsewhere = [f"{keys[n][:40]!r} ({len(keys[n])} bytes): {ours[n]}, Kafka {theirs[n]}" for n in range(len(keys)) if ours[n] != theirs[n]]
            self.assertEqual(elsewhere[:20], [], f"{len(elsewhere)} of {len(keys)} keys land elsewhere among {partitions} partitions")
            self.assertEqual(len(set(theirs)), partitions)
            if partitions == 12:  # the same through -K
                plain = {n: key for n, key in enumerate(keys) if b"\n" not in key and b"\t" not in key}
                self.create("text-keys", "-p", str(partitions))
                self.produce(b"".join(key + b"\t%d\n" % n for n, key in plain.items()), "-K", "\\t", topic="text-keys")
                got = {int(r["value"]): (r["key"], r["partition"]) for r in self.consumed("text-keys")}
                self.assertEqual(got, {n: (key, theirs[n]) for n, key in plain.items()})
        beside.say(f"partitioner: {len(keys)} keys over 12 and over 5 partitions land alike")

    def test_offsets_are_reset_as_kafkas_tool_does_it(self):
        """The same plan for every target, and either tool reads what the other exported."""
        topics = ("plan", "a-name-that-is-longer-than-24-characters")  # the tool puts names in quotes if they are that long
        times = (1000, 2000, 2000, 2000, 3000)
        for topic in topics:
            self.broker.create_topic(topic, 1)
            places = self.broker.produce(topic, [(None, b"%d" % t, t) for t in times], "enable.idempotence=false")
            self.assertEqual(places, [(0, offset) for offset in range(len(times))])
            self.create(topic)
            self.produce(as_input([(None, b"%d" % t, [], t) for t in times]), "-J", topic=topic)
        self.broker.reset_offsets("g", "--topic", "plan", "--to-offset", "2", "--execute")
        self.reset_offsets("plan", "--to-offset", "2", "--execute")
        for target in (["--to-earliest"], ["--to-current"], ["--to-offset", "77"], ["--shift-by", "2"], ["--shift-by", "-77"],
                       ["--to-datetime", "1970-01-01T00:00:02.000"], ["--to-datetime", "1970-01-01T02:00:02.001+02:00"],
                       ["--to-datetime", "1970-01-01T00:00:03.001"], ["--by-duration", "P1DT2H"]):
            theirs = self.broker.reset_offsets("g", "--topic", "plan", *target, "--dry-run")
            self.assertEqual(self.reset_offsets("plan", *target, "--dry-run"), theirs, target)
        # Without a position the tool takes the end for it.
        theirs = self.broker.reset_offsets("new", "--topic", "plan", "--to-current", "--dry-run")
        self.assertEqual(self.reset_offsets("plan", "--to-current", "--dry-run", group="new"), theirs)

        self.broker.reset_offsets("g", "--topic", topics[1], "--to-offset", "3", "--execute")
        self.broker.reset_offsets("h", "--topic", "plan", "--to-offset", "1", "--execute")
        ours = {("plan", 0): 2, (topics[1], 0): 3}
        exported = Path(self.directory) / "exported.csv"
        for groups in (["--group", "g"], ["--group", "g", "--group", "h"]):  # the latter with the group in front
            exported.write_text(self.broker.export_offsets(*groups, "--all-topics", "--to-current"))
            self.reset_offsets(*topics, "--to-latest", "--execute")
            self.assertEqual(self.reset_offsets("--from-file", str(exported), "--execute"), ours)
            self.assertEqual(self.reset_offsets("--all-topics", "--to-current", "--dry-run"), ours)
        self.reset_offsets(*topics, "--shift-by", "1", "--execute")
        exported.write_bytes(self.run_program("reset-offset", "-g", "g", "--all-topics", "--to-current", "--export").out)
        self.assertEqual(self.broker.reset_offsets("g", "--from-file", exported, "--execute"), {("plan", 0): 3, (topics[1], 0): 4})

    def reset_offsets(self, *arguments, group="g"):
        rows = self.run_program("reset-offset", "-g", group, *arguments, "--json").json()
        return {(row["topic"], row["partition"]): row["new"] for row in rows}

    def test_partitions_move_to_a_broker_and_back(self):
        rng = harness.new_random("moves")
        self.expect_sound = False  # the reader of the harness takes nothing but what we write; here Kafka's tool checks
        written = self.write_what_will_move(rng)
        for topic, stamp in (("moved", "CreateTime"), ("stamped", "LogAppendTime")):
            self.broker.create_topic(topic, written[topic], f"message.timestamp.type={stamp}")
        self.broker.stop()
        for topic, partitions in written.items():
            for number in range(partitions):
                self.replace_partition_files(self.broker.partition(topic, number), self.partition(topic, number))
        self.restart()
        held = {}
        for topic, partitions in written.items():
            with self.subTest(f"the broker serves {topic} record for record, and adds to it"):
                served = self.compare_with_broker(topic, partitions)
                new = [(rng.choice([None, b"", rng.randbytes(9)]), b"from the broker %d" % n) for n in range(2000)]
                held[topic] = self.produce_through_broker(topic, new, served)
        self.broker.stop()
        self.check_files_of_broker(written)

        # Cleanly stopped: the whole directory comes back, the files that only we know among it.
        for topic, partitions in written.items():
            for number in range(partitions):
                directory = Path(self.partition(topic, number))
                shutil.rmtree(directory)
                shutil.copytree(self.broker.partition(topic, number), directory)
        self.go_on_in_our_store(written, held, "the directory as a stopped broker left it")

        # Killed: indexes of their full preallocated size, and only the broker's own files come back. This is the last thing that
        # happens to the broker, since a start after a kill takes 10 s.
        self.restart()
        for topic in written:
            new = [(b"%d" % n, b"before the kill %d" % n) for n in range(300)]
            held[topic] = self.produce_through_broker(topic, new, held[topic])
        self.broker.stop("--kill")
        for topic, partitions in written.items():
            for number in range(partitions):
                directory = Path(self.partition(topic, number))
                shutil.rmtree(directory)
                directory.mkdir()
                for name in self.broker_files(self.broker.partition(topic, number)):
                    shutil.copy2(name, directory)
        self.go_on_in_our_store(written, held, "the directory as a killed broker left it")
        beside.say(f"broker: {sum(len(records) for of_topic in held.values() for records in of_topic.values())} records there and back")

    def write_what_will_move(self, rng):
        """Two topics in our store; the number of partitions of each. The last partition of `moved` stays empty."""
        self.create("moved", "-p", "3", segment_bytes=150_000)
        self.create("stamped", segment_bytes=150_000, message_timestamp_type="LogAppendTime")
        for codec in CODECS:
            for topic, partition in (("moved", "0"), ("moved", "1"), ("stamped", "0")):
                self.produce(as_input(mixed_records(rng, 300)), "-J", "-p", partition, "-z", codec, "--batch-size", "4000", topic=topic)
        for topic, partition in (("moved", 0), ("moved", 1), ("stamped", 0)):
            self.assertGreater(len(segments_of(self.partition(topic, partition))), 3)
        return {"moved": 3, "stamped": 1}

    def replace_partition_files(self, of_broker, ours):
        """Exchanges all files of a stopped broker's partition but the one with its topic id."""
        for name in of_broker.iterdir():
            if name.name != "partition.metadata":
                name.unlink()
        for name in Path(ours).iterdir():
            if name.name != "partition.metadata":
                shutil.copy2(name, of_broker)

    def compare_with_broker(self, topic, partitions):
        ranges, served = self.broker.consume(topic)
        for number in range(partitions):
            ours = self.consumed(topic, number)
            self.assert_records(served[number], ours, f"{topic}-{number} as the broker serves it")
            self.assertEqual(ranges[number], (0, len(ours)))
        self.assertEqual(self.broker.complaints(topic), [])
        return served

    def produce_through_broker(self, topic, new, before):
        """Sends records and returns all that the topic now holds, which must be what it held before with the new ones behind."""
        places = self.broker.produce(topic, new)
        ranges, after = self.broker.consume(topic)
        expected = {(partition, offset): pair for (partition, offset), pair in zip(places, new)}
        self.assertEqual(len(expected), len(new), "an offset was given twice")
        for number, records in after.items():
            self.assert_records(records[:len(before[number])], before[number], f"{topic}-{number}")
            self.assertEqual([r["offset"] for r in records], list(range(ranges[number][1])))
            for record in records[len(before[number]):]:
                self.assertEqual((record["key"], record["value"]), expected.pop((number, record["offset"])))
        self.assertEqual(expected, {}, "records that the broker took and does not serve")
        self.assertEqual(self.broker.complaints(topic), [])
        return after

    def check_files_of_broker(self, written):
        """Our files are still there in the broker's directories, and its own tool finds nothing wrong."""
        directories = [self.broker.partition(topic, number) for topic in written for number in range(written[topic])]
        for topic, partitions in written.items():
            for number in range(partitions):
                for name in Path(self.partition(topic, number)).iterdir():
                    self.assertTrue((self.broker.partition(topic, number) / name.name).exists(), f"{topic}-{number}: the broker removed {name.name}")
        self.assert_no_complaint(directories)

    def broker_files(self, directory):
        """The files of a partition that a broker writes itself."""
        own = {".log", ".index", ".timeindex", ".snapshot", ".txnindex"}
        return [name for name in directory.iterdir() if name.suffix in own or name.name in ("partition.metadata", "leader-epoch-checkpoint")]

    def go_on_in_our_store(self, written, held, what):
        for topic, partitions in written.items():
            with self.subTest(f"{topic}: {what}"):
                for number in range(partitions):
                    self.assert_records(self.consumed(topic, number), held[topic][number], f"{topic}-{number} read by us: {what}")
                new = [(b"%d" % n, b"ours again %d" % n, [], T0 + n) for n in range(500)]
                for number in range(partitions):
                    self.produce(as_input(new), "-J", "-p", str(number), "--batch-size", "4000", topic=topic)
                    now = self.consumed(topic, number)
                    old = held[topic][number]
                    self.assert_records(now[:len(old)], old, f"{topic}-{number} after appending: {what}")
                    epochs = [r["epoch"] for r in now]
                    self.assertEqual(epochs, sorted(epochs), f"{topic}-{number}: an epoch below an earlier one")
                    self.assert_records([(r["offset"], r["key"], r["value"]) for r in now[len(old):]],
                                        [(len(old) + n, key, value) for n, (key, value, _, _) in enumerate(new)], f"{topic}-{number}: {what}")
        self.assert_no_complaint([Path(self.partition(topic, number)) for topic in written for number in range(written[topic])])


def main():
    missing = beside.why_missing()
    if missing:
        beside.say(f"NOT RUN: all of {Path(__file__).name} (dump tool, indexes, partitioner, broker): {missing}")
        sys.exit(1 if os.environ.get("PARTLOG_KAFKA_REQUIRED") else 77)
    if not os.access(harness.PROGRAM, os.X_OK):
        sys.exit("no program: set PARTLOG to its path")
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
