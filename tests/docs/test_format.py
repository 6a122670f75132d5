#!/usr/bin/env python3
"""The batch that partlog-format(5) decodes by hand: its tables name every byte of the dump once, in order, and the checksum is right.
(That the program writes this dump is the matter of test_examples.py.)"""

import os
import re
import sys

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "man", "partlog-format.5")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def main():
    with open(PAGE) as f:
        text = f.read()
    dump = bytes.fromhex(" ".join(re.findall(r"^\d{7} ((?:[0-9a-f]{2} ?)+)$", text, re.M)))
    rows = re.findall(r"^\.It (\d+) Ta ((?:[0-9a-f]{2} ?)+) Ta ", text, re.M)
    at = 0
    for position, digits in rows:
        piece = bytes.fromhex(digits)
        if int(position) != at or dump[at : at + len(piece)] != piece:
            sys.exit("at byte %d of the dump the table says %s: %s" % (at, position, digits))
        at += len(piece)
    if not dump or at != len(dump):
        sys.exit("the tables end at byte %d of %d" % (at, len(dump)))
    if crc32c(dump[21:]) != int.from_bytes(dump[17:21], "big"):
        sys.exit("the checksum is %08x" % crc32c(dump[21:]))
    print("%d bytes in %d rows" % (at, len(rows)))


if __name__ == "__main__":
    main()
