"""What was written and acknowledged, what is stored, read by the independent reader of tests/system, and what the members of a group
delivered."""

import collections
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
        self.highest = -1  # offset it was told of

    def new_acknowledgements(self):
        for line in self.lines.new():
            fields = line.split(b"\t")
            expect(len(fields) == 6 and fields[0] == self.topic.encode(), f"{self.tag} reported {line!r}")
            partition, first, last, records = map(int, fields[1:5])
            expect(partition == 0 and last - first == records - self.records - 1, f"{self.tag} reported {line!r} after {self.records}")
            yield from zip(range(first, last + 1), range(self.records, records))
            self.records = records
            self.batches += 1
            self.highest = last


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


def committed_offset(store, group, topic, partition):
    """What the position file says; 0 where nothing is committed."""
    try:
        with open(f"{store}/groups/{group}/offsets/{topic}/{partition}", encoding="utf-8") as file:
            fields = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    except FileNotFoundError:
        return 0
    expect("topic_id" in fields, f"the position file of partition {partition} holds {fields}")
    return int(fields.get("offset", 0))


Delivery = collections.namedtuple("Delivery", "when member offset value")


class Turn:
    """Records of one partition that a member delivered one after another."""

    def __init__(self, delivery):
        self.member, self.first, self.last = delivery.member, delivery.offset, delivery.offset
        self.began = self.ended = delivery.when

    def __repr__(self):
        return f"{self.member} {self.first} to {self.last}"


class Deliveries:
    """Every record that the members of a group wrote out, with the member and the time at which it was seen."""

    SEEN_WITHIN_S = 0.5  # between the looks at two members' output

    def __init__(self):
        self.of = collections.defaultdict(list)  # partition: its deliveries
        self.losses = []                         # (when, member, positions before it)

    def note(self, member, lines, when):
        """Takes in lines of `consume -f '%p %o %s\\n'`."""
        for line in lines:
            partition, offset, value = line.split(b" ", 2)
            self.of[int(partition)].append(Delivery(when, member, int(offset), value))

    def note_loss(self, member, when, positions):
        """Whoever comes after the member begins at no less than these positions."""
        self.losses.append((when, member, dict(positions)))

    def holders(self, since):
        """Which members delivered from each partition lately."""
        return {partition: {d.member for d in rows if d.when >= since} for partition, rows in self.of.items()}

    def first_after(self, partition, moment, members):
        """What one of these members first delivered from the partition after the moment."""
        return next((d for d in self.of[partition] if d.when > moment and d.member in members), None)

    def last_before(self, partition, moment, member):
        """The last offset that the member delivered until then."""
        return max((d.offset for d in self.of[partition] if d.member == member and d.when <= moment), default=-1)

    def longest_pause(self, partition, begin, end):
        times = [begin, *(d.when for d in self.of[partition] if begin <= d.when <= end), end]
        return max(after - before for before, after in zip(times, times[1:]))

    def set_aside(self, partition, moment, member):
        """Takes out what a member that was stopped until then still wrote out of what it had in hand; returns how many records."""
        kept, next_offset = [], self.last_before(partition, moment, member) + 1
        first = next_offset
        for d in self.of[partition]:
            if d.member == member and d.when > moment and d.offset == next_offset:
                next_offset += 1
            else:
                kept.append(d)
        self.of[partition] = kept
        return next_offset - first

    def turns(self, partition):
        """In the order of their first offsets. Members are told apart, so it does not matter in which order their output was seen.

        A member's turn ends, too, where it delivers what one that was lost had delivered: it may have gone on where it had stopped.
        """
        latest, turns = {}, []
        for d in self.of[partition]:
            turn = latest.get(d.member)
            if turn is None or d.offset != turn.last + 1 or self._repeats_a_lost_one(partition, turn, d):
                turn = latest[d.member] = Turn(d)
                turns.append(turn)
            turn.last, turn.ended = d.offset, d.when
        return sorted(turns, key=lambda turn: (turn.first, turn.began))

    def _repeats_a_lost_one(self, partition, turn, d):
        return any(turn.began < when <= d.when and any(e.member == member and e.offset == d.offset for e in self.of[partition])
                   for when, member, _ in self.losses if member != d.member)

    def check(self, partition, values):
        """Every stored record was delivered as it is stored; each turn begins where the one before it ended, or, if that one ended by
        the loss of its member, not before the position that stood then; no two members had the partition at the same time."""
        for d in self.of[partition]:
            expect(d.offset < len(values) and values[d.offset] == d.value,
                   f"{d.member} delivered {d.value[:40]!r} as offset {d.offset} of partition {partition}")
        reached, before = 0, None
        for turn in self.turns(partition):
            expect(turn.first <= reached, f"partition {partition}: nobody was given {reached} to {turn.first - 1}, then came {turn}")
            if turn.first < reached:
                self._expect_repeated_after_loss(partition, turn, before)
            if before is not None and before.member != turn.member:
                expect(turn.began >= before.ended - self.SEEN_WITHIN_S, f"partition {partition} had two members at once: {before}, {turn}")
            reached, before = max(reached, turn.last + 1), turn
        expect(reached == len(values), f"partition {partition}: nobody was given {reached} to {len(values) - 1}")

    def _expect_repeated_after_loss(self, partition, turn, before):
        for when, member, positions in self.losses:
            if before.member == member and turn.began >= when and turn.first >= positions.get(partition, 0):
                return
        raise Failed(f"partition {partition}: {turn.first} to {before.last} were delivered twice, by {before}, then by {turn}")


def expect_delivery_refusal(deliveries, partition, values):
    """The check itself must be able to fail: a record that nobody was given, one that two were given, one that is another."""
    rows = deliveries.of[partition]
    middle = len(rows) // 2
    for spoilt in (rows[:middle] + rows[middle + 1:], rows[:-1], rows + [rows[middle]._replace(member="another", when=rows[-1].when)],
                   rows[:-1] + [rows[-1]._replace(value=rows[-1].value + b"?")]):
        judge = Deliveries()
        judge.losses = deliveries.losses
        judge.of[partition] = spoilt
        try:
            judge.check(partition, values)
        except Failed:
            continue
        raise Failed("the check accepts spoilt deliveries")
