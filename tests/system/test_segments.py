"""The reader that judges the program is itself shown to see what is wrong: every flipped bit, holes, leftovers, wrong indexes."""

import os
import struct
import tempfile
import unittest

import segments


def varint(n):
    n = (n << 1) ^ (n >> 63)
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def batch(base, values):
    body = b""
    for n, value in enumerate(values):
        record = b"\0" + varint(n) + varint(n) + varint(-1) + varint(len(value)) + value + varint(1) + varint(1) + b"h" + varint(-1)
        body += varint(len(record)) + record
    rest = struct.pack(">hiqqqhii", 0, len(values) - 1, 1000, 1000 + len(values) - 1, -1, -1, -1, len(values)) + body
    return struct.pack(">qiibI", base, len(rest) + 9, 0, 2, segments.crc32c(rest)) + rest


class Reader(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="partlog-test-")
        self.addCleanup(scratch.cleanup)
        self.directory = scratch.name
        self.data = batch(0, [b"a", b"bb", b""]) + batch(3, [b"c" * 300])

    def write(self, data, base=0, suffix=".log"):
        with open(os.path.join(self.directory, "%020d%s" % (base, suffix)), "wb") as f:
            f.write(data)

    def faulty(self):
        with self.assertRaises(segments.Damage):
            segments.read_partition(self.directory)

    def test_reads(self):
        self.write(self.data)
        self.write(batch(4, [b"d"]), 4)
        records = segments.records_of(self.directory)
        self.assertEqual([(r.offset, r.timestamp, r.value) for r in records],
                         [(0, 1000, b"a"), (1, 1001, b"bb"), (2, 1002, b""), (3, 1000, b"c" * 300), (4, 1000, b"d")])
        self.assertEqual((records[0].key, records[0].headers), (None, [(b"h", None)]))

    def test_every_flipped_bit(self):
        for position in range(len(self.data)):
            size = len(batch(0, [b"a", b"bb", b""]))
            if position % size in range(12, 16) and position < 2 * size:
                continue  # the leader epoch stands outside the checksum; any is valid
            for bit in (0, 7):
                flipped = bytearray(self.data)
                flipped[position] ^= 1 << bit
                self.write(flipped)
                self.faulty()

    def test_every_cut(self):
        boundary = len(batch(0, [b"a", b"bb", b""]))
        for length in range(1, len(self.data)):
            if length != boundary:
                self.write(self.data[:length])
                self.faulty()

    def test_holes_repeats_and_leftovers(self):
        for data in (batch(0, [b"a"]) + batch(2, [b"b"]), batch(0, [b"a", b"b"]) + batch(1, [b"b"]), batch(1, [b"a"]), self.data + b"\0",
                     self.data + bytes(61)):
            self.write(data)
            self.faulty()
        self.write(self.data)
        self.write(batch(5, [b"d"]), 5)
        self.faulty()

    def test_indexes(self):
        self.write(self.data)
        second = len(batch(0, [b"a", b"bb", b""]))
        for suffix, good, bad in ((".index", [struct.pack(">ii", 3, second)], [struct.pack(">ii", 2, second), struct.pack(">ii", 3, 1), b"\0" * 7]),
                                  (".timeindex", [struct.pack(">qi", 1002, 2)], [struct.pack(">qi", 1002, 9), b"\0" * 24])):
            for data in good:
                self.write(data, suffix=suffix)
                segments.read_partition(self.directory)
            for data in bad:
                self.write(data, suffix=suffix)
                self.faulty()
            self.write(b"", suffix=suffix)


if __name__ == "__main__":
    unittest.main(verbosity=2)
