"""Bytes are bytes: what goes in comes out, in every form, and null, empty and missing stay three different things."""

import base64
import json
import os
import re
import shutil

import harness


def envelope(name, data):
    """A field as `consume -J` must write it."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {name + "_b64": base64.b64encode(data).decode("ascii")}


def unwrap(fields, name):
    if name + "_b64" in fields:
        return base64.b64decode(fields[name + "_b64"], validate=True)
    return None if fields[name] is None else fields[name].encode("utf-8")


def content(line):
    """Key, value, headers and timestamp of a line of `consume -J`."""
    headers = [(unwrap(h, "name"), unwrap(h, "value")) for h in line["headers"]]
    return unwrap(line, "key"), unwrap(line, "value"), headers, line["timestamp"]


def hard_records(chance):
    keys = [bytes([n]) for n in range(256)]
    keys += [None, b"", b"\xff\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", "\u00fc\U0001f600".encode(), b"\x00\x00"]
    keys += [chance.randbytes(chance.randrange(1, 40)) for _ in range(300 - len(keys))]
    spices = [b"\x00", b"\r", b"\n", b"\r\n", b"\x0c", b"\xff", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\x80", b'"', b"\\", b"\x7f",
              "\u2028".encode(), "\ufffe".encode(), "\U0010ffff".encode(), b"plain"]
    header_sets = [
        [],
        [(b"twice", b"one"), (b"twice", b"two")],
        [(b"null", None), (b"empty", b"")],
        [(b"binary", b"\x00\xff\xfe"), (b"\xff\x00name", b"value")],
        [(b"", b"no name")],
    ]
    records = []
    for n, key in enumerate(keys):
        value = b"".join(chance.choice(spices) for _ in range(chance.randrange(0, 12)))
        if n % 50 == 7:
            value = None
        if n == 137:
            value = b"\xff" * (1 << 20)
        records.append((key, value, header_sets[n % len(header_sets)], 1_600_000_000_000 + n * 1009 - (n % 3) * 5000))
    return records


def as_input(record):
    key, value, headers, timestamp = record
    line = {"timestamp": timestamp}
    line["headers"] = [{**envelope("name", n), **envelope("value", v)} for n, v in headers]
    line.update(envelope("key", key))
    line.update(envelope("value", value))
    return json.dumps(line).encode() + b"\n"


class RoundTrip(harness.Test):
    FIELDS = ["topic", "partition", "offset", "timestamp", "tstype", "epoch", "headers", "key", "value"]

    def check_line(self, line, topic):
        """One line of `consume -J`: strict UTF-8, strict JSON, all fields in their order, each of its type."""
        pairs = json.loads(line.decode("utf-8", "strict"), object_pairs_hook=list)
        names = [n.removesuffix("_b64") if n in ("key_b64", "value_b64") else n for n, _ in pairs]
        self.assertEqual(names, self.FIELDS)
        fields = dict(pairs)
        self.assertEqual(fields["topic"], topic)
        for name in ("partition", "offset", "timestamp", "epoch"):
            self.assertIs(type(fields[name]), int, name)
        self.assertIn(fields["tstype"], ("create", "logappend", "none"))
        for header in fields["headers"]:
            self.assertEqual([n.removesuffix("_b64") for n, _ in header], ["name", "value"])
        for name in ("key", "value"):
            if name in fields:
                self.assertTrue(fields[name] is None or isinstance(fields[name], str))
            else:
                data = base64.b64decode(fields[name + "_b64"], validate=True)
                with self.assertRaises(UnicodeDecodeError, msg="%s is UTF-8 and needs no base64" % name):
                    data.decode("utf-8")

    def round_trip(self, partitions, *options):
        records = hard_records(harness.new_random(self.id().rsplit(".", 1)[-1]))
        for topic in ("a", "b"):
            self.create(topic, "-p", str(partitions), max_message_bytes=3 << 20)
        self.produce(b"".join(map(as_input, records)), "-J", *options, topic="a")
        first = self.consume("-J", topic="a").out
        self.produce(first, "-J", "--keep-partition", *options, topic="b")
        second = self.consume("-J", topic="b").out
        for topic, out in (("a", first), ("b", second)):
            lines = out.split(b"\n")
            self.assertEqual(lines.pop(), b"")
            for line in lines:
                self.check_line(line, topic)
            came_out = [content(json.loads(line)) for line in lines]
            self.assertEqual(len(came_out), len(records))
            key = repr if partitions > 1 else lambda r: 0
            self.assertEqual(sorted(came_out, key=key), sorted(records, key=key))
        same = [[{k: v for k, v in json.loads(line).items() if k not in ("topic",)} for line in out.splitlines()]
                for out in (first, second)]
        self.assertEqual(*same)
        return records

    def test_one_partition_and_an_independent_reader(self):
        records = self.round_trip(1)
        for topic in ("a", "b"):
            stored = [(r.key, r.value, r.headers, r.timestamp) for r in self.records(topic)]
            self.assertEqual(stored, records)

    def test_four_partitions(self):
        self.round_trip(4)

    def test_compressed(self):
        for n, codec in enumerate(("gzip", "snappy", "lz4", "zstd", "zstd:9")):
            with self.subTest(codec=codec):
                self.store = self.environment["PARTLOG_DIR"] = "%s/store-%d" % (self.directory, n)
                self.round_trip(1, "-z", codec)

    def test_network_rules(self):
        self.environment["PARTLOG_FILESYSTEM"] = "network"
        self.round_trip(2)

    def test_kcat_lines(self):
        self.create()
        lines = [
            b'{"topic":"x","partition":0,"offset":7,"tstype":"create","ts":1690000000123,"broker":1,'
            b'"headers":["a","1","a","2","n",null],"key":"k","payload":"v"}',
            b'{"topic":"x","partition":3,"offset":8,"tstype":"create","ts":1690000000124,"broker":1,"key":null,"payload":null}',
            b'{"topic":"x","partition":3,"offset":9,"tstype":"logappend","ts":1690000000125,"broker":1,"headers":[],"key":"",'
            b'"payload":"\\u00fc\\n"}',
        ]
        self.produce(b"\n".join(lines) + b"\n", "-J")
        self.assertEqual([(r.key, r.value, r.headers, r.timestamp) for r in self.records()], [
            (b"k", b"v", [(b"a", b"1"), (b"a", b"2"), (b"n", None)], 1690000000123),
            (None, None, [], 1690000000124),
            (b"", "\u00fc\n".encode(), [], 1690000000125),
        ])

    def test_json_in_many_shapes(self):
        """Only the value is needed; blanks, escapes and the order of fields are the writer's business."""
        self.create()
        self.produce(b'{"value":"a"}\n  { "value" : "b\\u0000\\ud83d\\ude00\\/" , "key":null}\r\n{"key":"k","value":null}\n'
                     b'{"value_b64":"/w==","key_b64":"AA==","timestamp":5,"headers":[{"name_b64":"/w==","value":null}]}', "-J")
        got = [(r.key, r.value, r.headers) for r in self.records()]
        self.assertEqual(got, [(None, b"a", []), (None, "b\0\U0001f600/".encode(), []), (b"k", None, []),
                               (b"\0", b"\xff", [(b"\xff", None)])])
        self.assertEqual(self.records()[3].timestamp, 5)

    def test_text_form_keeps_every_byte(self):
        self.create()
        values = [bytes(range(256)).replace(b"\n", b""), b"\xff" * 70000, b"", b"\0", b"a\rb\x0c", b"\r"]
        self.produce(b"\n".join(values) + b"\n")
        self.assertEqual(self.values(), values)
        self.assertEqual(self.consume().out, b"\n".join(values) + b"\n")


class NullEmptyMissing(harness.Test):
    def pairs(self, topic="t"):
        return [(r.key, r.value) for r in self.records(topic)]

    def test_key_delimiter(self):
        self.create()
        self.produce(b"k:v\n:v\nk:\n:\na:b:c\n", "-K:")
        self.assertEqual(self.pairs(), [(b"k", b"v"), (b"", b"v"), (b"k", b""), (b"", b""), (b"a", b"b:c")])
        self.assertEqual(self.consume("-K:").out, b"k:v\n:v\nk:\n:\na:b:c\n")
        self.assertEqual(self.consume("-f", "%K,%S;").out, b"1,1;0,1;1,0;0,0;1,3;")

    def test_null_on_the_way_in(self):
        self.create()
        self.produce(b"k:v\n:v\nk:\n:\n", "-K:", "-Z")
        self.assertEqual(self.pairs(), [(b"k", b"v"), (None, b"v"), (b"k", None), (None, None)])
        self.create("plain")
        self.produce(b"\nx\n", "-Z", topic="plain")
        self.assertEqual(self.pairs("plain"), [(None, None), (None, b"x")])
        self.create("marked")
        self.produce(b"NUL:NUL\n:\nNULL:xNUL\n", "-K:", "--null-marker", "NUL", topic="marked")
        self.assertEqual(self.pairs("marked"), [(None, None), (b"", b""), (b"NULL", b"xNUL")])

    def test_null_on_the_way_out(self):
        self.create()
        self.produce(b'{"key":null,"value":null}\n{"key":"","value":""}\n{"key":"k","value":"v"}\n', "-J")
        self.assertEqual(self.consume("-K:").out, b":\n:\nk:v\n")
        self.assertEqual(self.consume("-K:", "-Z").out, b"NULL:NULL\n:\nk:v\n")
        self.assertEqual(self.consume("-K:", "--null-marker", "\\x00-").out, b"\0-:\0-\n:\nk:v\n")
        self.assertEqual(self.consume("-f", "%K %S\\n").out, b"-1 -1\n0 0\n1 1\n")
        self.assertEqual([(r["key"], r["value"]) for r in self.consume_json()], [(None, None), ("", ""), ("k", "v")])

    def test_blank_lines(self):
        self.create()
        self.produce(b"a\n\n\nb\n")
        self.assertEqual(self.values(), [b"a", b"", b"", b"b"])
        self.create("skipped")
        self.produce(b"a\n\n\nb\n", "--skip-empty", topic="skipped")
        self.assertEqual(self.values("skipped"), [b"a", b"b"])

    def test_missing_delimiter(self):
        self.create()
        result = self.produce(b"a:1\nb:2\nnone\nd:4\n", "-K:", status=1)
        self.assertRegex(result.text, r"\b3\b")
        self.assertEqual(self.pairs(), [(b"a", b"1"), (b"b", b"2")])
        self.assertEqual(self.stored_count(result), 2)
        self.create("lenient")
        self.produce(b"a:1\nb:2\nnone\nd:4\n\n", "-K:", "--lenient", topic="lenient")
        self.assertEqual(self.pairs("lenient"), [(b"a", b"1"), (b"b", b"2"), (None, b"none"), (b"d", b"4"), (None, b"")])

    def test_missing_delimiter_far_down(self):
        self.create()
        result = self.produce(b"".join(b"k:%d\n" % n for n in range(20000)) + b"bad\nk:after\n", "-K:", status=1)
        self.assertIn("20001", result.text.replace(",", ""))
        self.assertEqual(self.values(), [b"%d" % n for n in range(20000)])

    def test_one_key_for_all_and_who_wins(self):
        self.create()
        self.produce(b"v\nw\n", "-k", "K")
        self.produce(b"a:v\nnone\n", "-k", "K", "-K:", "--lenient")
        self.produce(b'{"key":"j","value":"v"}\n', "-J", "-k", "K")
        self.assertEqual(self.pairs()[:3], [(b"K", b"v"), (b"K", b"w"), (b"a", b"v")])
        self.assertEqual(self.pairs()[4], (b"j", b"v"))

    def test_headers_given_on_the_command_line(self):
        self.create()
        self.produce(b"v\n", "-H", "a=1", "-H", "a=2", "-H", "null", "-H", "empty=", "-H", "eq=a=b")
        self.assertEqual(self.records()[0].headers,
                         [(b"a", b"1"), (b"a", b"2"), (b"null", None), (b"empty", b""), (b"eq", b"a=b")])

    def test_empty_input(self):
        self.create()
        self.produce(b"")
        self.assertEqual(self.values(), [])
        self.assertEqual(self.consume().out, b"")


def unescaped(field):
    """The bytes of a field of a listing; what it shows must be harmless on a terminal."""
    text = field.decode("utf-8")
    assert not re.search("[\0-\x1f\x7f-\x9f]", text), field
    return re.sub(rb"\\(x..|.)", lambda m: {b"t": b"\t", b"n": b"\n", b"\\": b"\\"}.get(m[1]) or bytes.fromhex(m[1][1:].decode()), field)


class OnATerminal(harness.Test):
    """What is no visible character is escaped wherever people read: C1 control characters, too, raw or in UTF-8."""

    def test_listings_show_any_bytes_and_hide_none(self):
        chance = harness.new_random("listings")
        pieces = [bytes([n]) for n in range(128, 256)] + [b"\xc2" + bytes([n]) for n in range(128, 160)]
        pieces += ["\u00fc\u20ac\U0001f600".encode(), b"\xed\xa0\x80", b"\xe2\x82", b"\\", b"\x1b", b"\x7f", b"plain text of some length"]
        values = pieces + [b"".join(chance.choice(pieces) for _ in range(chance.randrange(100))) for _ in range(harness.scaled(200))]
        values += ["\u20ac".encode() * 9000, b"x" + "\u20ac".encode() * 9000, b"xy" + "\u20ac".encode() * 9000, b"\x9b" * 20000]
        self.create()
        self.produce(b"\0\0".join(values) + b"\0\0", "-D", "\\0\\0")
        rows = self.run_program("dump", "--records", "--tsv", "--no-header", "t").out.splitlines()
        self.assertEqual([unescaped(row.split(b"\t")[-1]) for row in rows], values)
        table = self.run_program("dump", "--records", "t").out.splitlines()[-len(values):]
        for row, value in zip(table, values, strict=True):
            self.assertTrue(unescaped(row).endswith(value), row)
        self.assertIn(" \\x9b31m \u00fc\\xc2\\x9b".encode(), self.shown_header())

    def shown_header(self):
        self.create("h")
        self.produce(b"v\n", "-k", b"\x9b31m \xc3\xbc\xc2\x9b", "-H", b"\x9b\xc2\x9d=\x9c", topic="h")
        shown = self.run_program("dump", "--records", "h").out
        self.assertIn(b"\\x9b\\xc2\\x9d=\\x9c ", shown)
        return shown

    def test_names_of_files(self):
        self.create()
        self.produce(b"v\n")
        base = os.fsencode(self.directory) + b"/\x9b2J\xc2\x9b \xc3\xbc\x1b"
        shown = b"/\\x9b2J\\xc2\\x9b \xc3\xbc\\x1b"
        shutil.copytree(os.fsencode(self.store), base)
        part = base + b"/topics/t/0"
        for *args, status in (("verify", part, 0), ("verify", "--tsv", part, 0), ("dump", "--tsv", part, 0), ("dump", base + b"/none", 1),
                              ("verify", base + b"/none", 1), ("disk-usage", base + b"/none", 2), ("list-topics", "-d", base + b"/none", 1),
                              ("consume", "--files", base + b"/none", 1), ("diff", base + b"/none", base, 1),
                              ("produce", "t", base + b"/none", 1), ("create-topic", "-n", "-d", base + b"2", "t", 0),
                              ("verify", b"\x9bnone", 2)):
            with self.subTest(args=args):
                result = self.run_program(*args, status=status)
                for line in (result.out + result.err).splitlines():
                    unescaped(line.replace(b"\t", b""))
                self.assertIn(shown if args[-1] != b"\x9bnone" else b"\\x9bnone", result.out + result.err)


if __name__ == "__main__":
    harness.main()
