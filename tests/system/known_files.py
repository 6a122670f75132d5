"""Segment files that others wrote: of every message format, made with Kafka's own classes (tests/segments), and those of real brokers,
in the directory that PARTLOG_SEGMENTS names, with what is known of them."""

import glob
import json
import os
import re
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TESTS, "kafka"))

from beside import parse_json_line, unhex  # noqa: E402,F401

FORMS = sorted(glob.glob(os.path.join(TESTS, "segments", "*", "")))  # a directory each, with the records in expected.jsonl
TIMESTAMP_TYPES = {"CreateTime": "create", "LogAppendTime": "logappend", "NoTimestampType": "none"}


def expected_records(path):
    """The lines of an expected.jsonl."""
    with open(path, encoding="utf-8") as f:
        for line in f:
            r = json.loads(line)
            yield {"offset": r["offset"], "timestamp": r["timestamp"], "tstype": TIMESTAMP_TYPES[r["tstype"]],
                   "epoch": r["epoch"] if r["epoch"] >= 0 else None, "key": unhex(r["key_hex"]),
                   "value": unhex(r["value_hex"]),
                   "headers": [(h["name"].encode(), unhex(h["hex"])) for h in r["headers"]],
                   **({"committed": r["committed"]} if "committed" in r else {})}


def is_shown_as(content, shown):
    """Whether bytes are what facts.json shows of them: null, "text"(size) or hex:…(size), long ones cut off."""
    if shown == "null":
        return content is None
    found = re.fullmatch(r'(?:hex:([0-9a-f]*)(…?)|"(.*?)(…?)")\((\d+)\)', shown, re.S)
    hex_digits, hex_more, text, text_more, size = found.groups()
    want, more = (bytes.fromhex(hex_digits), hex_more) if hex_digits is not None else (text.encode(), text_more)
    return content is not None and len(content) == int(size) and (content.startswith(want) if more else content == want)


def of_brokers(test):
    """The directory, and what facts.json says of each .log in it."""
    where = os.environ.get("PARTLOG_SEGMENTS")
    if not where:
        test.left_out("PARTLOG_SEGMENTS does not name a directory of segments that brokers wrote")
    with open(os.path.join(where, "facts.json"), encoding="utf-8") as f:
        return where, dict(sorted(json.load(f)["logs"].items()))
