"""A reader of partition directories that shares nothing with the program: written from Kafka's description of message format
v2, one field after the other, with its own CRC-32C. It is strict: every byte of every file must be accounted for."""

import os
import re
import struct
import zlib
from dataclasses import dataclass, field


class Damage(Exception):
    """Bytes that are not a whole valid batch, or a log that is not dense."""


def _tables():
    byte = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
        byte.append(n)
    pair = []
    for n in range(65536):
        first = byte[n & 255]
        pair.append(byte[(first ^ (n >> 8)) & 255] ^ (first >> 8))
    return byte, pair


_BYTE, _PAIR = _tables()


def crc32c(data):
    """Castagnoli, reflected; two bytes a step."""
    crc = 0xFFFFFFFF
    even = len(data) & ~1
    pair = _PAIR
    for (word,) in struct.iter_unpack("<H", data[:even]):
        crc = pair[(crc ^ word) & 0xFFFF] ^ (crc >> 16)
    if even < len(data):
        crc = _BYTE[(crc ^ data[even]) & 255] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


@dataclass
class Record:
    offset: int
    timestamp: int
    key: bytes
    value: bytes
    headers: list


@dataclass
class Batch:
    position: int
    size: int
    base_offset: int
    leader_epoch: int
    attributes: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    count: int
    codec: str
    records: list = field(default_factory=list)  # empty where the standard library has no such codec


CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
_HEADER = struct.Struct(">qiibIhiqqqhii")  # what stands before the records of a batch
assert _HEADER.size == 61


def _varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Damage("varint runs out of the record")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at


def _bytes(data, at, nullable):
    size, at = _varint(data, at)
    if size == -1 and nullable:
        return None, at
    if size < 0 or at + size > len(data):
        raise Damage("length %d leaves the record" % size)
    return data[at:at + size], at + size


def _records(block, batch):
    at = 0
    for n in range(batch.count):
        size, at = _varint(block, at)
        end = at + size
        if size < 0 or end > len(block):
            raise Damage("record %d leaves its batch" % n)
        if block[at] != 0:
            raise Damage("record attributes %d" % block[at])
        timestamp, at = _varint(block, at + 1)
        delta, at = _varint(block, at)
        key, at = _bytes(block, at, True)
        value, at = _bytes(block, at, True)
        count, at = _varint(block, at)
        headers = []
        for _ in range(count):
            name, at = _bytes(block, at, False)
            text, at = _bytes(block, at, True)
            headers.append((name, text))
        if at != end:
            raise Damage("record %d: %d bytes left over" % (n, end - at))
        if delta != n:
            raise Damage("record %d has offset delta %d" % (n, delta))
        when = batch.max_timestamp if batch.attributes & 8 else batch.base_timestamp + timestamp
        batch.records.append(Record(batch.base_offset + delta, when, key, value, headers))
    if at != len(block):
        raise Damage("%d bytes behind the last record" % (len(block) - at))


def read_batch(data, position, checksum=True):
    """The batch at `position`; Damage says what is wrong with it."""
    if position + _HEADER.size > len(data):
        raise Damage("position %d: header cut short" % position)
    (base, length, epoch, magic, crc, attributes, last_delta, first_time, max_time, producer, producer_epoch, sequence,
     count) = _HEADER.unpack_from(data, position)
    size = 12 + length
    if magic != 2:
        raise Damage("position %d: magic %d" % (position, magic))
    if length < 49 or position + size > len(data):
        raise Damage("position %d: batch length %d" % (position, length))
    if checksum and crc32c(data[position + 21:position + size]) != crc:
        raise Damage("position %d: checksum" % position)
    if attributes & ~15 or attributes & 7 > 4:
        raise Damage("position %d: attributes %d" % (position, attributes))
    if (producer, producer_epoch, sequence) != (-1, -1, -1):
        raise Damage("position %d: a producer state that nobody has" % position)
    if count < 1 or last_delta != count - 1:
        raise Damage("position %d: %d records, last offset delta %d" % (position, count, last_delta))
    batch = Batch(position, size, base, epoch, attributes, base + last_delta, first_time, max_time, count,
                  CODECS[attributes & 7])
    block = data[position + _HEADER.size:position + size]
    if batch.codec == "gzip":
        block = zlib.decompress(block, wbits=31)
    if batch.codec in ("none", "gzip"):
        _records(block, batch)
        stamps = [r.timestamp for r in batch.records]
        if max(stamps) != max_time:
            raise Damage("position %d: largest timestamp %d, header says %d" % (position, max(stamps), max_time))
    return batch


def read_file(path, checksum=True):
    """All batches of a segment file, which must end with a batch."""
    with open(path, "rb") as f:
        data = f.read()
    batches = []
    position = 0
    while position < len(data):
        batches.append(read_batch(data, position, checksum))
        position += batches[-1].size
    return batches


def segment_names(directory, suffix=".log"):
    return sorted(n for n in os.listdir(directory) if re.fullmatch(r"\d{20}" + re.escape(suffix), n))


def _check_index(directory, base, batches):
    """Every entry must point at a batch; how many there are is for the program to choose."""
    ends = {b.position: b.last_offset for b in batches}
    largest = {}
    highest = -1
    for b in batches:
        highest = max(highest, b.max_timestamp)
        largest[b.last_offset] = highest
    stem = os.path.join(directory, "%020d" % base)
    for suffix, layout in ((".index", ">ii"), (".timeindex", ">qi")):
        path = stem + suffix
        if not os.path.exists(path):
            continue
        with open(path, "rb") as f:
            data = f.read()
        if len(data) % struct.calcsize(layout):
            raise Damage("%s: %d bytes" % (path, len(data)))
        previous = (-1, -1)
        for entry in struct.iter_unpack(layout, data):
            if entry <= previous:
                raise Damage("%s: %s behind %s" % (path, entry, previous))
            previous = entry
            if suffix == ".index" and ends.get(entry[1]) != base + entry[0]:
                raise Damage("%s: %s points at no batch" % (path, entry))
            if suffix == ".timeindex" and base + entry[1] not in range(base, batches[-1].last_offset + 1 if batches else base):
                raise Damage("%s: %s names no offset of the segment" % (path, entry))


def read_partition(directory, checksum=True, indexes=True):
    """All batches of a partition in order, dense in their offsets, over all segments; every file whole."""
    names = segment_names(directory)
    batches = []
    following = None
    for name in names:
        base = int(name[:20])
        if following is not None and base != following:
            raise Damage("%s: expected a segment at %d" % (name, following))
        following = base
        here = read_file(os.path.join(directory, name), checksum)
        for b in here:
            if b.base_offset != following:
                raise Damage("%s: position %d has base offset %d instead of %d" % (name, b.position, b.base_offset, following))
            following = b.last_offset + 1
        if indexes:
            _check_index(directory, base, here)
        batches += here
    return batches


def records_of(directory, **how):
    return [r for b in read_partition(directory, **how) for r in b.records]
