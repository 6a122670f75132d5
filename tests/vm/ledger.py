"""What was written and acknowledged, and an independent reader of what is stored: record batches v2 decoded field by field."""

import functools
import os
import struct

from machines import Failed, expect

# baseOffset batchLength partitionLeaderEpoch magic crc | attributes lastOffsetDelta baseTimestamp maxTimestamp producerId
# producerEpoch baseSequence recordsCount
HEADER = struct.Struct(">qiibI" + "hiqqqhii")
CRC_FROM = 21
LENGTH_FROM = 12


def crc32c_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC_TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def varint(data, position):
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1), position


def nullable_bytes(data, position):
    length, position = varint(data, position)
    if length < 0:
        return None, position
    return data[position:position + length], position + length


@functools.lru_cache(maxsize=None)
def decode(batch):
    """The values of an uncompressed batch, or None if the batch is not valid. Batches of earlier looks are not decoded again."""
    (_, length, _, magic, crc, attributes, last_delta, _, _, _, _, _, count) = HEADER.unpack_from(batch)
    if magic != 2 or length != len(batch) - LENGTH_FROM or crc != crc32c(batch[CRC_FROM:]):
        return None
    expect(attributes & 7 == 0, "a compressed batch where none was written")
    expect(count == last_delta + 1 and count > 0, f"{count} records with last offset delta {last_delta}")
    values, position = [], HEADER.size
    for number in range(count):
        size, position = varint(batch, position)
        end = position + size
        position += 1  # attributes
        _, position = varint(batch, position)  # timestamp delta
        offset_delta, position = varint(batch, position)
        expect(offset_delta == number, f"offset delta {offset_delta} in record {number} of a batch")
        key, position = nullable_bytes(batch, position)
        value, position = nullable_bytes(batch, position)
        headers, position = varint(batch, position)
        expect(key is None and headers == 0, "a key or headers that nobody wrote")
        expect(position == end, f"record {number} of a batch does not end where its length says")
        values.append(value)
    expect(position == len(batch), "bytes behind the last record of a batch")
    return values


class Log:
    """A partition as it stands: every whole valid batch from offset 0 on in one chain, and what lies behind it."""

    def __init__(self, directory):
        self.values = []
        self.batches = 0
        self.unread_bytes = 0  # behind the end: a torn tail, segments behind it
        names = sorted(name for name in os.listdir(directory) if name.endswith(".log"))
        self.segments = len(names)
        whole = True
        for name in names:
            with open(f"{directory}/{name}", "rb") as file:
                data = file.read()
            position = 0
            if whole and int(name.removesuffix(".log")) == len(self.values):
                position = self._walk(data)
            whole = whole and position == len(data)
            self.unread_bytes += len(data) - position

    def _walk(self, data):
        position = 0
        while position + HEADER.size <= len(data):
            base, length = struct.unpack_from(">qi", data, position)
            after = position + LENGTH_FROM + length
            if base != len(self.values) or length < HEADER.size - LENGTH_FROM or after > len(data):
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
