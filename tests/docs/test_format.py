#!/usr/bin/env python3
"""What partlog-format(5) says is so. PARTLOG names the program.

The batch that it decodes by hand: its tables name every byte of the dump once, in order, and the checksum is right. (That the
program writes this dump is the matter of test_examples.py.) The layout: each file of a store is in it. The files of a group:
the page has the keys that stand in them, each, and no others."""

import os
import re
import subprocess
import sys
import tempfile

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "man", "partlog-format.5")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def check_batch(text):
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


NAMES = {"TOPIC": "[a-zA-Z0-9._-]+", "GROUP": "[a-zA-Z0-9._-]+", "MEMBER": "[a-zA-Z0-9._-]+", "PARTITION": "(0|[1-9][0-9]*)",
         "BASE": "[0-9]{20}", "POSITION": "[0-9]+"}


def pattern(name):
    return re.sub("[A-Z]+", lambda word: NAMES.get(word.group(), word.group()), re.escape(name))


def layout(text):
    """Names of files as the page has them, with the directories before them."""
    lines = re.search(r"^\.Ss Layout\n\.Bd .*\n((?:.*\n)*?)\.Ed$", text, re.M).group(1).splitlines()
    directories = []  # pairs of an indentation and a name
    for line in lines:
        indentation = len(line) - len(line.lstrip())
        while directories and directories[-1][0] >= indentation:
            directories.pop()
        name = line.split()[0]
        if name.endswith("/"):
            directories.append((indentation, name))
        else:
            yield "".join(directory for _, directory in directories) + name


def keys_of(section, introduction):
    """The entries of the list that follows the words."""
    return re.findall(r"^\.It Li (\S+)$", section[section.index(introduction):].split(".El\n")[0], re.M)


def check_keys(what, lines, keys):
    """Each line begins with one of the keys, and each key is there."""
    missing = set(keys)
    for line in lines:
        key = next((key for key in keys if re.fullmatch(pattern(key), line.split("=")[0])), None)
        if key is None:
            sys.exit("%s has a line that the page does not know: %s" % (what, line))
        missing.discard(key)
    if missing:
        sys.exit("%s has no %s" % (what, ", ".join(sorted(missing))))
    print("%d lines of %s" % (len(lines), what))


def read_lines(*path):
    with open(os.path.join(*path)) as f:
        return f.read().splitlines()


def check_store(text, store):
    """A topic of two partitions, of which a group has a position in one, and a member that has both."""

    def partlog(*args, **how):
        return subprocess.run([os.environ["PARTLOG"], *args, "-q", "-d", store], check=True, **how)

    partlog("create-topic", "t", "-p", "2")
    partlog("produce", "t", "-p", "0", input=b"1\n2\n")
    partlog("commit", "-g", "g.x", "t:0:1", "--metadata", "tab\t, \\, end\n, \x01")
    group = os.path.join(store, "groups", "g.x")
    position = read_lines(group, "offsets", "t", "0")
    if "metadata=tab\\t, \\\\, end\\n, \\x01" not in position:
        sys.exit("the metadata are %s" % position)
    section = text[text.index(".Ss Groups\n"):].split("\n.Ss ")[0]
    keys = keys_of(section, "offsets/TOPIC/PARTITION\nsays")
    check_keys("a position", position, keys)

    member = subprocess.Popen([os.environ["PARTLOG"], "consume", "t", "-d", store, "-g", "g.x", "-F", "--commit", "none"],
                              stdout=subprocess.PIPE)
    with member:
        try:
            member.stdout.readline()  # it has joined and taken the first partition; the second in the same step
            check_keys("the table of members", read_lines(group, "group.properties"), keys_of(section, "group.properties\nsays"))
            check_keys("a partition that was taken", read_lines(group, "offsets", "t", "1"),
                       [key for key in keys if key not in ("offset", "committed_at", "path_synced")])
            patterns = {name: pattern(name) for name in layout(text)}
            files = [os.path.relpath(os.path.join(path, name), store) for path, _, names in os.walk(store) for name in names]
            found = set()
            for file in files:
                matching = [name for name, expression in patterns.items() if re.fullmatch(expression, file)]
                if len(matching) != 1:
                    sys.exit("%s is in the layout %d times" % (file, len(matching)))
                found.add(matching[0])
                if file.endswith(".lock") and os.path.getsize(os.path.join(store, file)) != 0:
                    sys.exit(file + " is not empty")
            missing = [name for name in patterns if name.startswith("groups/") and name not in found]
            if missing:
                sys.exit("a group has no " + ", ".join(missing))
            print("%d files of a store" % len(files))
        finally:
            member.kill()


def main():
    with open(PAGE) as f:
        text = f.read()
    check_batch(text)
    with tempfile.TemporaryDirectory() as directory:
        check_store(text, os.path.join(directory, "store"))


if __name__ == "__main__":
    main()
