#!/usr/bin/env python3
"""Runs the examples of the manual pages and of README.md, and compares what they print.

usage: test_examples.py [FILE...]      PARTLOG names the program

An example is a literal block (`.Bd -literal` in a page, ``` console in README.md) with lines that begin with `$ `; a line that
begins with `> ` goes on with the command, the lines up to the next command are what it prints, on standard output and error as on a
terminal. `[...]` in them stands for anything in a line, and alone in a line for any number of lines. The blocks of one file run in
one shell, in an empty directory. Blocks without `$ ` are not run. The blocks of a page must also be what mandoc shows the reader of it,
where that is installed.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MARK = "=== partlog example %d ==="


def literal_blocks_of_page(text):
    for block in re.findall(r"^\.Bd -literal.*\n((?:.*\n)*?)\.Ed$", text, re.M):
        yield block.replace("\\e", "\\").replace("\\-", "-").replace("\\&", "")


def rendered(path):
    """The lines of a page as they are shown, without indentation; what white space there is does not count."""
    shown = subprocess.run(["mandoc", "-T", "utf8", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [" ".join(line.split()) for line in re.sub(".\x08", "", shown).splitlines()]


def differently_rendered(path):
    """Lines of the literal blocks that the rendered page does not have, in their order."""
    with open(path) as f:
        text = f.read()
    shown = iter(rendered(path))
    for block in literal_blocks_of_page(text):
        for line in filter(None, (" ".join(line.split()) for line in block.splitlines())):
            if line not in shown:  # moves on behind it
                yield line
                return


def literal_blocks_of_readme(text):
    yield from re.findall(r"^```console\n((?:.*\n)*?)```$", text, re.M)


def examples_in(path):
    """Pairs of a command and the lines it prints."""
    with open(path) as f:
        text = f.read()
    examples = []
    for block in (literal_blocks_of_readme if path.endswith(".md") else literal_blocks_of_page)(text):
        if not block.startswith("$ "):
            continue
        printed = None
        for line in block.splitlines():
            if line.startswith("$ "):
                printed = []
                examples.append([line[2:], printed])
            elif line.startswith("> ") and not printed:
                examples[-1][0] += "\n" + line[2:]
            else:
                printed.append(line)
    return examples


def run(examples, program):
    """What each of the commands printed."""
    with tempfile.TemporaryDirectory(prefix="partlog-docs-") as scratch:
        programs, home = os.path.join(scratch, "bin"), os.path.join(scratch, "home")
        os.mkdir(programs)
        os.mkdir(home)
        os.symlink(program, os.path.join(programs, "partlog"))
        script = "shopt -s expand_aliases\nexec 2>&1\n"
        for number, (command, _) in enumerate(examples):
            script += "%s\nprintf '\\n%s\\n'\n" % (command, MARK % number)
        environment = {"PATH": programs + ":" + os.environ["PATH"], "HOME": home, "TZ": "UTC", "LC_ALL": "C.UTF-8", "TMPDIR": scratch,
                       "PARTLOG_SOURCE": ROOT}
        done = subprocess.run(["bash", "-c", script], cwd=home, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              timeout=300)
    rest = done.stdout.decode("utf-8", "backslashreplace")
    printed = []
    for number in range(len(examples)):
        text, _, rest = rest.partition("\n%s\n" % (MARK % number))
        printed.append(text.removesuffix("\n").split("\n") if text else [])
    return printed


def matches(expected, got):
    pattern = "\n".join("\0" if line == "[...]" else line for line in expected)
    pattern = re.escape(pattern).replace(re.escape("[...]"), ".*").replace(re.escape("\0"), "[^\0]*")
    return re.fullmatch(pattern, "\n".join(got)) is not None


def main(arguments):
    program = os.path.abspath(os.environ.get("PARTLOG") or shutil.which("partlog") or "partlog")
    if not os.access(program, os.X_OK):
        sys.exit("no program: set PARTLOG to its path")
    pages = sorted(os.path.join(ROOT, "man", name) for name in os.listdir(os.path.join(ROOT, "man")))
    failed = count = 0
    for path in [os.path.abspath(a) for a in arguments] or pages + [os.path.join(ROOT, "README.md")]:
        examples = examples_in(path)
        name = os.path.relpath(path, ROOT)
        if not examples:
            print("%s: no example" % name)
            failed += 1
            continue
        count += len(examples)
        if shutil.which("mandoc") and not path.endswith(".md"):
            for line in differently_rendered(path):
                failed += 1
                print("%s: mandoc shows it otherwise: %s" % (name, line))
        for (command, expected), got in zip(examples, run(examples, program)):
            if not matches(expected, got):
                failed += 1
                print("%s: $ %s" % (name, command))
                print("\n".join("    " + line for line in list(difflib.unified_diff(expected, got, lineterm=""))[3:][:40]))
    print("%d examples, %d failed" % (count, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
