#!/usr/bin/env python3
"""Every #include against the layers of the house: they point downwards only, and third-party headers stay behind their fences.

usage: test_includes.py [TREE]
"""

import os
import re
import sys

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

# What each layer of lib/ may include beside itself and the public headers.
LAYERS = {
    "base": [],
    "os": ["base"],
    "format": ["base"],
    "log": ["base", "os", "format"],
    "store": ["base", "os", "format", "log"],
    "group": ["base", "os", "format", "log", "store"],
    "inspect": ["base", "os", "format", "log"],
    "replica": ["base", "os", "format", "log", "store"],
    "kafka": ["base", "os", "format", "log", "store", "group", "replica"],
}
# Third-party headers, and who may include them.
FENCES = [
    (r"boost/", "os"),
    (r"(zstd|lz4\w*|snappy[\w-]*|zlib)\.h", "format"),
    (r"isa-l[./]|crc\.h", "base"),
    (r"librdkafka/", "kafka"),
    (r"CLI/", "cmd"),
    (r"rapidjson/", "cmd"),
    (r"(gtest|gmock)/", "tests"),
]
# C and system headers are for os/, whose interface all system calls go through, and for cmd/; but these are no system calls.
PURE = {"immintrin.h", "x86intrin.h", "nmmintrin.h"}


def sources():
    for top in ("lib", "cmd", "tests"):
        for directory, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith((".h", ".cpp", ".c")):
                    yield os.path.relpath(os.path.join(directory, name), ROOT)


def layer_of(path):
    parts = path.split("/")
    if parts[0] != "lib":
        return parts[0]
    return "public" if parts[1] == "include" else parts[1]


def fault(path, layer, quote, name):
    for pattern, owner in FENCES:
        if re.match(pattern, name):
            return None if layer in (owner, "tests") else "%s is for %s/ only" % (name, owner)
    if layer == "tests":
        return None
    if quote == "<":
        system = name.endswith(".h") and name not in PURE
        return "%s: system headers are for os/ and cmd/ only" % name if system and layer not in ("os", "cmd") else None
    if name.startswith("partlog/"):
        return None
    if layer == "public":
        return "%s: public headers include public headers only" % name
    first = name.split("/")[0] if "/" in name else None
    if layer == "cmd":
        return None if first is None else "%s: cmd/ includes the public headers of lib/ only" % name
    if first is None:
        return "%s: write it with its directory" % name
    if first != layer and first not in LAYERS[layer]:
        return "%s: %s/ may include %s only" % (name, layer, ", ".join(d + "/" for d in LAYERS[layer]) or "itself")
    return None


def main():
    count = failed = 0
    for path in sources():
        layer = layer_of(path)
        if layer not in LAYERS and layer not in ("public", "cmd", "tests"):
            print("%s: no such layer" % path)
            failed += 1
            continue
        with open(os.path.join(ROOT, path), errors="replace") as f:
            for number, line in enumerate(f, 1):
                include = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
                if include is None:
                    continue
                count += 1
                wrong = fault(path, layer, *include.groups())
                if wrong:
                    print("%s:%d: %s" % (path, number, wrong))
                    failed += 1
    print("%d includes, %d against the layers" % (count, failed))
    return 1 if failed or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
