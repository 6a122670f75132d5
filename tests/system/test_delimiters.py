"""Where records begin and end does not depend on how the input arrives."""

import os
import statistics
import time

import harness


def split(data, delimiter):
    parts = data.split(delimiter)
    if parts[-1] == b"":
        parts.pop()
    return parts


class Chunks(harness.Test):
    def produced_in(self, pieces, topic, *options, pace=0.0):
        self.create(topic)
        process = self.start("produce", topic, *options)
        harness.feed(process, pieces, pace)
        result = harness.finish(process)
        self.assertEqual(result.status, 0, result.text)
        return [(r.key, r.value) for r in self.records(topic)]

    def same_for_all_chunkings(self, data, expected, *options):
        chance = harness.new_random(self.id().rsplit(".", 1)[-1])
        chunkings = {
            "whole": [data],
            "bytes": [data[i:i + 1] for i in range(len(data))],
            "twos": [data[i:i + 2] for i in range(0, len(data), 2)],
            "threes": [data[i:i + 3] for i in range(0, len(data), 3)],
        }
        for n in range(harness.scaled(5)):
            cuts = sorted(chance.randrange(len(data) + 1) for _ in range(12))
            pieces = [data[a:b] for a, b in zip([0] + cuts, cuts + [len(data)])]
            chunkings["random-%d" % n] = [p for p in pieces if p]
        for name, pieces in chunkings.items():
            with self.subTest(chunking=name):
                self.assertEqual(self.produced_in(pieces, name, *options), expected)
        with self.subTest(chunking="one byte every 2 ms"):
            self.assertEqual(self.produced_in(chunkings["bytes"], "slow", *options, pace=0.002), expected)

    def test_record_and_key_delimiter_of_several_bytes(self):
        data = b"k1::v1<>\r\n::<>\r\nk::a::b<<>>\r<>\n<>\r\nx:::y<>\r\r\n<>\r\nlast::no end<>\r"
        expected = [tuple(r.split(b"::", 1)) for r in split(data, b"<>\r\n")]
        self.same_for_all_chunkings(data, expected, "-D", "<>\\r\\n", "-K", "::")

    def test_delimiter_in_two_reads_behind_a_record_of_the_limit(self):
        """The record makes a batch of 100 bytes, or just fails to."""
        self.create("t", max_message_bytes=100)
        for length in range(25, 110):
            for delimiter in (b"ab", b"abc", b"aab"):
                for cut in range(1, len(delimiter)):
                    record = b"/" * length
                    process = self.start("produce", "t", "-D", delimiter.decode())
                    harness.feed(process, [record + delimiter[:cut], delimiter[cut:]], 0.001)
                    result = harness.finish(process)
                    self.assertEqual(result.status, 0 if length <= 32 else 1, result.text)
        self.assertEqual([r.value for r in self.records("t")], [b"/" * n for n in range(25, 33) for _ in range(5)])

    def test_delimiter_that_overlaps_itself(self):
        data = b"aaab" + b"aab" + b"aaaab" + b"aaaaaa" + b"b" + b"aa"
        self.same_for_all_chunkings(data, [(None, r) for r in split(data, b"aab")], "-D", "aab")

    def test_nul(self):
        data = b"a\nb\0\0c\r\n\0last"
        self.same_for_all_chunkings(data, [(None, b"a\nb"), (None, b""), (None, b"c\r\n"), (None, b"last")], "-0")

    def test_newlines(self):
        data = b"a\r\n\nb\r\r\n\r\nlast\r"
        self.same_for_all_chunkings(data, [(None, r) for r in (b"a\r", b"", b"b\r\r", b"\r", b"last\r")])

    def test_crlf(self):
        data = b"a\r\n\nb\r\r\n\r\nc\rd\nlast"
        self.same_for_all_chunkings(data, [(None, r) for r in (b"a", b"", b"b\r", b"", b"c\rd", b"last")], "--crlf")

    def test_json_lines(self):
        data = b'{"value":"a\\nb"}\n{"key":"k","value":"\\u00fc"}\n{"value":null}'
        self.same_for_all_chunkings(data, [(None, b"a\nb"), (b"k", "\u00fc".encode()), (None, None)], "-J")

    def test_delimiter_at_every_place_of_a_large_buffer(self):
        """Lines whose ends wander over every alignment of whatever buffers there are."""
        lines = [b"x" * (n % 257) + b"%d" % n for n in range(20000)]
        for delimiter, option in ((b"\n", "\\n"), (b"<!>", "<!>")):
            topic = "t%d" % len(delimiter)
            self.create(topic)
            self.produce(delimiter.join(lines) + delimiter, "-D", option, topic=topic)
            self.assertEqual(self.values(topic, checksum=False), lines)
            self.assertEqual(self.consume("-D", option, topic=topic).out, delimiter.join(lines) + delimiter)

    def test_delimiters_on_the_way_out(self):
        self.create()
        self.produce(b"k:v\n:\n", "-K:")
        self.assertEqual(self.consume("-K", "=\\t", "-D", "\\x00|").out, b"k=\tv\0|=\t\0|")
        self.assertEqual(self.consume("-0").out, b"v\0\0")
        self.assertEqual(self.consume("-K", ":", "-0").out, b"k:v\0:\0")

    def test_files(self):
        """Each file's last record ends with the file; `-` is stdin; a file that cannot be opened stores nothing."""
        self.create()
        for name, data in (("one", b"1\n2"), ("two", b""), ("three", b"3\n")):
            with open(os.path.join(self.directory, name), "wb") as f:
                f.write(data)
        one, two, three = (os.path.join(self.directory, n) for n in ("one", "two", "three"))
        self.produce(b"in", one, two, "-", three)
        self.assertEqual(self.values(), [b"1", b"2", b"in", b"3"])
        self.refused("produce", "t", one, os.path.join(self.directory, "absent"), status=1, names=["absent", "No such file"])
        self.create("whole")
        self.produce(b"", "--file-as-record", one, three, topic="whole")
        self.assertEqual(self.values("whole"), [b"1\n2", b"3\n"])


class Sizes(harness.Test):
    def test_a_long_line(self):
        self.create()
        line = b"0123456789" * 7000
        self.produce(line + b"\nshort\n")
        self.assertEqual(self.values(), [line, b"short"])

    def test_a_line_that_cannot_fit(self):
        self.create(max_message_bytes=2000)
        lines = [b"one", b"two", b"3" * 5000, b"four", b"five"]
        result = self.produce(b"\n".join(lines) + b"\n", status=1)
        self.assertRegex(result.text, r"\b3\b")
        self.assertIn("2000", result.text)
        self.assertRegex(result.text, r"\b5\d\d\d\b")
        self.assertEqual(self.values(), [b"one", b"two"])
        self.assertEqual(self.stored_count(result), 2)

    def test_the_largest_that_fits(self):
        """A batch may have max.message.bytes bytes and not one more."""
        self.create(max_message_bytes=1000)
        low, high = 1, 1000
        while low + 1 < high:
            middle = (low + high) // 2
            if self.produce(b"x" * middle, status=None).status == 0:
                low = middle
            else:
                high = middle
        self.assertEqual(self.produce(b"x" * high, status=1).out, b"")
        largest = max(b.size for b in harness.segments.read_partition(self.partition()))
        self.assertLessEqual(largest, 1000)
        self.assertGreaterEqual(largest, 999)


class Linger(harness.Test):
    def test_a_record_is_readable_soon(self):
        """The pipe stays open; from the write of a line to its being in the log as another process sees it."""
        self.create()
        producer = self.start("produce", "t", "--sync", "none")
        consumer = self.start("consume", "t", "-F")
        lines = harness.Lines(consumer.stdout)
        os.write(producer.stdin.fileno(), b"first\n")
        self.assertEqual(lines.next(), b"first")
        took = []
        for n in range(100):
            began = time.monotonic()
            os.write(producer.stdin.fileno(), b"%d\n" % n)
            self.assertEqual(lines.next(), b"%d" % n)
            took.append(time.monotonic() - began)
        consumer.terminate()
        self.assertEqual(harness.finish(consumer).status, 143)
        self.assertEqual(harness.finish(producer).status, 0)
        harness.say("readable after %.2f ms (median of 100, linger 5 ms); longest %.2f ms" %
                    (statistics.median(took) * 1000, max(took) * 1000))
        self.assertLess(statistics.median(took), 0.05)

    def test_longer_linger_gathers(self):
        """A pause shorter than the linger time does not end a batch; the linger time does."""
        self.create()
        process = self.start("produce", "t", "--linger", "60000", "--report", "--sync", "none")
        harness.feed(process, [b"a\n", b"b\n", b"c\n"])
        self.assertEqual(self.values(), [])
        self.assertEqual(harness.finish(process).out.split(b"\t")[:5], [b"t", b"0", b"0", b"2", b"3"])
        self.assertEqual(len(harness.segments.read_partition(self.partition())), 1)


if __name__ == "__main__":
    harness.main()
