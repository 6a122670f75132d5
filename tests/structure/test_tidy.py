#!/usr/bin/env python3
"""clang-format and clang-tidy (version 19) have nothing to say: the formatter over the whole tree, the linter over lib/ and cmd/.

usage: test_tidy.py format | lint BUILD_DIRECTORY      status 77 where the tool is not installed
"""

import concurrent.futures
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def tool(name):
    path = shutil.which(name + "-19")
    if path is None:
        print(name + "-19 is not installed")
        sys.exit(77)
    return path


def sources(*tops):
    for top in tops:
        for directory, _, names in os.walk(os.path.join(ROOT, top)):
            yield from (os.path.join(directory, name) for name in sorted(names) if name.endswith((".cpp", ".h", ".c")))


def check_format():
    return subprocess.run([tool("clang-format"), "--dry-run", "-Werror", *sources("lib", "cmd", "tests")]).returncode


def check_lint(build):
    program = tool("clang-tidy")
    with open(os.path.join(build, "compile_commands.json")) as f:
        compiled = {os.path.abspath(os.path.join(c["directory"], c["file"])) for c in json.load(f)}
    files = sorted(path for path in sources("lib", "cmd") if path in compiled)

    def lint(path):
        # Warnings are the business of the compiler that builds; this one has others.
        done = subprocess.run([program, "--quiet", "-p", build, "--extra-arg=-Wno-everything", path], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        return done.returncode, done.stdout

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for status, output in pool.map(lint, files):
            if status != 0:
                failed += 1
                print(output, end="")
    print("%d files, %d with findings" % (len(files), failed))
    return 1 if failed or not files else 0


if __name__ == "__main__":
    sys.exit(check_format() if sys.argv[1] == "format" else check_lint(sys.argv[2]))
