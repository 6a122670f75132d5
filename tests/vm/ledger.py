"""What was written and acknowledged, and what is stored, read by the independent reader of tests/system."""

import functools
import struct
import sys

from machines import HERE, Failed, expect

sys.path.append(f"{HERE}/../system")
from segments import Damage, read_batch, read_partition, segment_names  # noqa: E402

HEADER_SIZE = 61
LENGTH_FROM = 12  # what batchLength counts


@functools.lru_cache(maxsize=None)
def decode(batch):
    """The values of a batch, or None if the batch is not valid. Batches of earlier looks are not decoded again."""
    try:
        records = read_batch(batch, 0).records
    except Damage:
        return None
    expect(records and all(record.key is None and not record.headers for record in records), "a batch that nobody wrote")
    return [record.value for record in records]


class Log:
    """A partition as it stands: every whole valid batch from offset 0 on in one chain, and what lies behind it."""

    def __init__(self, directory):
        self.values = []
        self.batches = 0
        self.unread_bytes = 0     # behind the end: a torn tail, segments behind a gap
        self.unread_segments = 0  # the latter
        names = segment_names(directory)
        self.segments = len(names)
        whole = True
        for name in names:
            with open(f"{directory}/{name}", "rb") as file:
                data = file.read()
            position = 0
            if whole and int(name.removesuffix(".log")) == len(self.values):
                position = self._walk(data)
            else:
                self.unread_segments += 1
            whole = whole and position == len(data)
            self.unread_bytes += len(data) - position

    def _walk(self, data):
        position = 0
        while position + HEADER_SIZE <= len(data):
            base, length = struct.unpack_from(">qi", data, position)
            after = position + LENGTH_FROM + length
            if base != len(self.values) or length < HEADER_SIZE - LENGTH_FROM or after > len(data):
                break
            values = decode(data[position:after])
            if values is None:
                break
            self.values += values
            self.batches += 1
            position = after
        return position

    @property
    def end(self):
        return len(self.values)


def expect_whole(directory):
    """Nothing but whole batches, and indexes that point at them."""
    try:
        read_partition(directory)
    except Damage as damage:
        raise Failed(f"the partition is not whole: {damage}") from damage


def value_of(tag, number):
    """What guest-feed prints as its line `number`."""
    return f"{tag} {number} {chr(97 + number % 26) * (number * 37 % 200)}".encode()


class Writer:
    """The outside record of one `produce --report` fed by guest-feed: its acknowledgements, in their order."""

    def __init__(self, tag, lines, topic):
        self.tag, self.lines, self.topic = tag, lines, topic
        self.records = 0
        self.batches = 0

    def new_acknowledgements(self):
        for line in self.lines.new():
            fields = line.split(b"\t")
            expect(len(fields) == 6 and fields[0] == self.topic.encode(), f"{self.tag} reported {line!r}")
            partition, first, last, records = map(int, fields[1:5])
            expect(partition == 0 and last - first == records - self.records - 1, f"{self.tag} reported {line!r} after {self.records}")
            yield from zip(range(first, last + 1), range(self.records, records))
            self.records = records
            self.batches += 1


class Ledger:
    """All that was acknowledged in one partition, by whichever writer, and all that was ever seen in it."""

    def __init__(self):
        self.acknowledged = {}  # offset: value
        self.seen = []          # values of the last look, which the next one must begin with

    def note(self, writer):
        """Takes in what the writer acknowledged meanwhile; returns how many records."""
        count = 0
        for offset, number in writer.new_acknowledgements():
            value = value_of(writer.tag, number)
            earlier = self.acknowledged.setdefault(offset, value)
            expect(earlier == value, f"offset {offset} acknowledged twice: {earlier[:40]!r} and {value[:40]!r}")
            count += 1
        return count

    @property
    def highest(self):
        return max(self.acknowledged, default=-1)

    def check(self, values):
        """Nothing acknowledged is missing, nothing is there that was not written, each writer's records are in order."""
        next_number = {}
        for offset, value in enumerate(values):
            words = (value or b"").split(b" ")
            expect(len(words) == 3 and words[1].isdigit(), f"offset {offset} is no written record: {value!r}")
            tag, number = words[0].decode(), int(words[1])
            expect(value == value_of(tag, number), f"offset {offset} is no written record: {value!r}")
            expected = next_number.get(tag, 0)
            expect(number == expected, f"offset {offset} is record {number} of {tag}, but {expected} comes next")
            next_number[tag] = number + 1
        for offset, value in self.acknowledged.items():
            expect(offset < len(values), f"acknowledged offset {offset} ({value[:40]!r}) is missing, the log ends at {len(values)}")
            expect(values[offset] == value, f"acknowledged offset {offset} is {values[offset][:40]!r} and was {value[:40]!r}")
        expect(values[: len(self.seen)] == self.seen, "records that were seen before have changed or gone")
        self.seen = list(values)


def expect_refusal(ledger, values):
    """The check itself must be able to fail: a lost acknowledged record, a changed and a doubled one are found."""
    last = ledger.highest
    for spoilt in (values[:last], values[:last] + [values[last][:-1] + b"?"] + values[last + 1:], values + values[-1:]):
        judge = Ledger()
        judge.acknowledged = ledger.acknowledged
        try:
            judge.check(spoilt)
        except Failed:
            continue
        raise Failed("the check accepts a spoilt log")


def parse_shown(text):
    """The output of `consume -f '%o %s\\n'`: offset and value of each whole line."""
    shown = []
    for line in text.split(b"\n")[:-1]:
        offset, _, value = line.partition(b" ")
        expect(offset.isdigit(), f"the reader showed {line!r}")
        shown.append((int(offset), value))
    return shown
