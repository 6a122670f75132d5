"""A real Kafka beside ours: what the tests ask of the script `kafka`, and the two forms of a record they compare."""

import base64
import json
import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "kafka"


def why_missing():
    """None where Kafka can be run, else one line that says what the machine lacks. Downloads Kafka the first time."""
    try:
        done = subprocess.run([SCRIPT, "fetch"], capture_output=True, text=True)
    except OSError as error:
        return str(error)
    if done.returncode == 0:
        return None
    said = (done.stdout + done.stderr).strip()
    if done.returncode not in (77, 126, 127):
        sys.exit(said)
    return said.splitlines()[-1].removeprefix("kafka: ")


def kafka(*args, lines=()):
    """Runs one of Kafka's tools; its (stdout, stderr). A failure of the tool itself is an error of the test."""
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run([SCRIPT, *map(str, args)], input=text, capture_output=True, text=True, errors="surrogateescape", timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"kafka {args[0]}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout, done.stderr


class Broker:
    """A one-node broker in a directory. It dies with this process, whatever ends this process."""

    def __init__(self, directory):
        self.directory = Path(directory)
        self.data = self.directory / "data"
        self.address = None
        self._watchdog = None

    def start(self, *properties):
        self.address = kafka("start", self.directory, *properties)[0].strip()
        pid = (self.directory / "pid").read_text().strip()
        # Reads until our end of the pipe closes, which the kernel does even for kill -9; then ends exactly this broker.
        self._watchdog = subprocess.Popen(["sh", "-c", f"read _; kill -9 {pid} 2>/dev/null"], stdin=subprocess.PIPE, start_new_session=True)

    def stop(self, *options):
        if self.address is None:
            return
        self.address = None
        try:
            kafka("stop", self.directory, *options)
        finally:
            self._watchdog.kill()
            self._watchdog.communicate()

    def partition(self, topic, number):
        return self.data / f"{topic}-{number}"

    def create_topic(self, name, partitions, *configs):
        options = [word for config in configs for word in ("--config", config)]
        kafka("topics", "--bootstrap-server", self.address, "--create", "--topic", name, "--partitions", partitions, *options)

    def produce(self, topic, records, *properties):
        """Sends (key, value) or (key, value, timestamp) through the Java producer; the (partition, offset) of each."""
        lines = [" ".join(["-" if key is None else key.hex(), "-" if value is None else value.hex(), *map(str, timestamp)])
                 for key, value, *timestamp in records]
        out, _ = kafka("run", "ProduceHex", self.address, topic, *properties, lines=lines)
        return [tuple(map(int, line.split())) for line in out.splitlines()]

    def reset_offsets(self, group, *arguments):
        """The plan of Kafka's tool: {(topic, partition): new offset}."""
        out, _ = kafka("groups", "--bootstrap-server", self.address, "--reset-offsets", "--group", group, *arguments)
        rows = [line.split() for line in out.splitlines()]
        return {(row[1], int(row[2])): int(row[3]) for row in rows if len(row) == 4 and row[0] == group}

    def export_offsets(self, *arguments):
        return kafka("groups", "--bootstrap-server", self.address, "--reset-offsets", *arguments, "--export", "--dry-run")[0]

    def consume(self, topic):
        """What the Java consumer gets: ({partition: (start, end)}, {partition: [Record as a dict]})."""
        ranges, records = {}, {}
        for line in kafka("run", "ConsumeHex", self.address, topic)[0].splitlines():
            if line.startswith("range "):
                partition, start, end = map(int, line.split()[1:])
                ranges[partition] = (start, end)
                records[partition] = []
            else:
                record = json.loads(line)
                record["key"] = unhex(record["key"])
                record["value"] = unhex(record["value"])
                record["headers"] = [(unhex(name), unhex(value)) for name, value in record["headers"]]
                record["tstype"] = {"CreateTime": "create", "LogAppendTime": "logappend", "NoTimestampType": "none"}[record["tstype"]]
                records[record["partition"]].append(record)
        return ranges, records

    def complaints(self, topic):
        """Warnings and errors in the broker's own log about a topic's partitions, or about the loading of logs at all."""
        text = (self.directory / "broker.out").read_text(errors="replace")
        trouble = re.compile(r"\b(WARN|ERROR|FATAL)\b|[Cc]orrupt")
        return [line for line in text.splitlines() if trouble.search(line) and (f"{topic}-" in line or "LogLoader" in line or "LogManager" in line)]


def unhex(text):
    return None if text is None else bytes.fromhex(text)


def parse_json_line(line):
    """A line of `consume -J` in the form in which Broker.consume gives records."""
    fields = json.loads(line)

    def value_of(container, name):
        coded = container.get(f"{name}_b64")
        if coded is not None:
            return base64.b64decode(coded, validate=True)
        return None if container[name] is None else container[name].encode()

    record = {name: fields[name] for name in ("partition", "offset", "timestamp", "tstype", "epoch")}
    record["headers"] = [(value_of(header, "name"), value_of(header, "value")) for header in fields["headers"]]
    record["key"] = value_of(fields, "key")
    record["value"] = value_of(fields, "value")
    return record


def json_line(key, value, headers=(), timestamp=None):
    """The same record as a line for `produce -J`."""
    def put(container, name, content):
        if content is None:
            container[name] = None
            return
        try:
            container[name] = content.decode()
        except UnicodeDecodeError:
            container[f"{name}_b64"] = base64.b64encode(content).decode()

    record = {"headers": []}
    if timestamp is not None:
        record["timestamp"] = timestamp
    for name, content in headers:
        header = {}
        put(header, "name", name)
        put(header, "value", content)
        record["headers"].append(header)
    put(record, "key", key)
    put(record, "value", value)
    return json.dumps(record)


DUMPED_BATCH = re.compile(r"baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* compresscodec: (\w+) .* isvalid: (\w+)")
DUMPED_RECORD = re.compile(r"\| offset: (\d+) (\w+): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: -?\d+ headerKeys: \[(.*?)\]"
                           r"(?: key: ([0-9a-f]*))?(?: payload: ([0-9a-f]*))?$")


def dump_records(files):
    """What Kafka's dump tool prints of segments: (batches as tuples of text, records as tuples, complaints).

    A record is (offset, kind of timestamp, timestamp, header names joined by commas, key, value).
    """
    out, err = kafka("dump", "--deep-iteration", "--print-data-log", "--key-decoder-class", "HexDecoder", "--value-decoder-class", "HexDecoder",
                     "--files", ",".join(map(str, files)))
    batches, records, odd = [], [], []
    for line in out.splitlines():
        if found := DUMPED_RECORD.match(line):
            offset, kind, timestamp, key_size, value_size, names, key, value = found.groups()
            key = None if key_size == "-1" else bytes.fromhex(key or "")
            value = None if value_size == "-1" else bytes.fromhex(value or "")
            records.append((int(offset), kind, int(timestamp), names, key, value))
        elif found := DUMPED_BATCH.match(line):
            batches.append(found.groups())
            if found.group(5) != "true":
                odd.append(line)
        elif not line.startswith(("Dumping ", "Log starting offset: ")):
            odd.append(line)
    return batches, records, odd + dump_complaints(err)


def dump_complaints(stderr):
    """The tool's complaints. It counts from -1 in each file, so that every file that does not begin at 0 "has a gap" there."""
    lines = [line for line in stderr.splitlines() if line.strip() and not re.match(r" *-1 is followed by \d+$", line)]
    headings = "Non-consecutive offsets in "
    return [line for at, line in enumerate(lines)
            if not line.startswith(headings) or (at + 1 < len(lines) and lines[at + 1].startswith(" "))]


def dump_lines(files, *options):
    """{file: the lines that Kafka's dump tool prints of it}, but those about the file as a whole. A file that ends the tool ends this."""
    out, _ = kafka("dump", *options, "--files", ",".join(map(str, files)))
    lines, current = {}, None
    for line in out.splitlines():
        if line.startswith("Dumping "):
            current = lines.setdefault(line.removeprefix("Dumping "), [])
        elif not line.startswith(("Log starting offset: ", "Snapshot end offset: ")):
            current.append(line)
    return lines


def _kafkas(value):
    """A field of our dump as Kafka's tool writes it; null is -1 there."""
    return "-1" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


# Of each control record of KRaft the tool prints the name and then what is in it, which our dump has as bytes.
KAFKAS_CONTROL = {"LEADER_CHANGE": "LeaderChange", "SNAPSHOT_HEADER": "SnapshotHeader", "SNAPSHOT_FOOTER": "SnapshotFooter",
                  "KRAFT_VERSION": "KRaftVersion", "KRAFT_VOTERS": "KRaftVoters"}


def without_what_kafka_adds(line):
    """A record's line of Kafka's tool without the contents of a control record of KRaft, and the checksum of a message of the old formats."""
    line = re.sub(r" (%s):? .*" % "|".join(KAFKAS_CONTROL.values()), r" \1", line)
    return re.sub(r"(isValid: \w+) crc: \d+", r"\1", line)


KAFKAS_TSTYPE = {"create": "CreateTime", "logappend": "LogAppendTime", "none": "NoTimestampType"}


def batch_as_kafka_has_it(row, milliseconds):
    """A line of `dump --json` as the line that Kafka's tool prints of the same batch."""
    if row["magic"] < 2:
        head = ["offset: %d" % row["lastOffset"]]
    else:
        names = ("baseOffset", "lastOffset", "count", "baseSequence", "lastSequence", "producerId", "producerEpoch", "partitionLeaderEpoch",
                 "isTransactional", "isControl")
        head = ["%s: %s" % (name, _kafkas(row[name])) for name in names]
        horizon = row["deleteHorizonMs"]
        head.append("deleteHorizonMs: " + ("OptionalLong.empty" if horizon is None else "OptionalLong[%d]" % milliseconds(horizon)))
    tail = ["position: %d" % row["position"], "%s: %d" % (KAFKAS_TSTYPE[row["tstype"]], milliseconds(row["timestamp"]))]
    tail += ["%s: %s" % (name, _kafkas(row[name])) for name in ("size", "magic", "compresscodec", "crc", "isvalid")]
    return " ".join(head + tail)


def record_as_kafka_has_it(row, content, milliseconds, magic):
    """A line of `dump --records --json` as the line of Kafka's tool, with HexDecoder for key and value."""
    key, value = content(row, "key"), content(row, "value")
    sizes = ["-1" if part is None else str(len(part)) for part in (key, value)]
    line = "| offset: %d %s: %d keySize: %s valueSize: %s" % (row["offset"], KAFKAS_TSTYPE[row["tstype"]], milliseconds(row["timestamp"]), *sizes)
    if magic < 2:
        line += " isValid: true"
    else:
        line += " sequence: %s headerKeys: [%s]" % (_kafkas(row["sequence"]), ",".join(h["name"] for h in row["headers"]))
    if row["controlType"] in ("ABORT", "COMMIT"):
        return line + " endTxnMarker: %s coordinatorEpoch: %d" % (row["controlType"], row["coordinatorEpoch"])
    if row["controlType"]:
        return line + " " + KAFKAS_CONTROL[row["controlType"]]
    return line + ("" if key is None else " key: " + key.hex()) + ("" if value is None else " payload: " + value.hex())


def side_row_as_kafka_has_it(row, milliseconds):
    """A line of `dump --json` of an index, a transaction index or a producer snapshot as the line of Kafka's tool."""
    row = {name: milliseconds(value) if name.lower().endswith("timestamp") else value for name, value in row.items() if name != "file"}
    if "currentTxnFirstOffset" in row:
        open_since = row["currentTxnFirstOffset"]
        row["currentTxnFirstOffset"] = "OptionalLong.empty" if open_since is None else "OptionalLong[%d]" % open_since
        if row["lastOffset"] is None:  # the last batch was a marker: the tool ends here
            row = {name: row[name] for name in ("producerId", "producerEpoch", "coordinatorEpoch", "currentTxnFirstOffset", "lastTimestamp")}
        else:
            row["timestamp"] = row["lastTimestamp"]
    return " ".join("%s: %s" % (name, _kafkas(value)) for name, value in row.items())


def check_indexes(files):
    """Complaints of the dump tool about .index and .timeindex files: the check a broker makes at start, then every entry."""
    names = ",".join(map(str, files))
    complaints = []
    for option in ("--index-sanity-check", "--verify-index-only"):
        out, err = kafka("dump", option, "--files", names)
        complaints += [line for line in out.splitlines() if not re.match(r"Dumping |.* (passed sanity check|is empty)\.$", line)]
        complaints += dump_complaints(err)
    return complaints


def reindex(jobs):
    """Has Kafka's own segment class index (FILE.log, OUTDIR, index.interval.bytes) again, all in one run."""
    kafka("run", "Reindex", lines=["\t".join(map(str, job)) for job in jobs])


def say(text):
    print(f"kafka: {text}", file=sys.stderr, flush=True)
