#!/usr/bin/env python3
"""Help, manual pages and the completions of bash, zsh and fish name the same commands and options, each in both directions.

usage: test_options.py      PARTLOG names the program
The completions are asked in their shells; a shell that is not installed is passed over, and the status is 77 then.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get("PARTLOG") or shutil.which("partlog") or "partlog")
failures = []


def run(*command, **more):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=60, **more).stdout


def compare(what, got, expected):
    for name in sorted(expected - got):
        failures.append("%s: %s is missing" % (what, name))
    for name in sorted(got - expected):
        failures.append("%s: %s is not known to the program" % (what, name))


def options_in_help(command):
    """The first column of `partlog X --help`."""
    text = run(PROGRAM, *([command] if command else []), "--help")
    names = set()
    for line in text.splitlines():
        left = re.match(r" {2,6}(-[-\w]+)(?:, (--[-\w]+))?", line)
        if left:
            names.update(filter(None, left.groups()))
    return names


def options_in_manual(page):
    """Names in the `.It Fl` lines."""
    names = set()
    with open(os.path.join(ROOT, "man", page)) as f:
        for line in f:
            if line.startswith(".It Fl "):
                names.update("-" + name for name in re.findall(r"Fl (\S+)", line) if name != "Ns")
    return names


class Bash:
    SCRIPT = r'source "$1"; COMP_LINE=$2; COMP_POINT=${#2}; _partlog; printf "%s\n" "${COMPREPLY[@]}"'

    def complete(self, line):
        return set(run("bash", "--norc", "-c", self.SCRIPT, "bash", ROOT + "/completions/partlog.bash", line).splitlines())

    def commands(self):
        return self.complete("partlog ")

    def options(self, command):
        return self.complete("partlog %s -" % command if command else "partlog -")


class Fish:
    def complete(self, line):
        out = run("fish", "--no-config", "-c", 'source $argv[1]; complete -C $argv[2]', ROOT + "/completions/partlog.fish", line)
        return {item.split("\t")[0] for item in out.splitlines()}

    def commands(self):
        return self.complete("partlog ")

    def options(self, command):
        prefix = "partlog %s " % command if command else "partlog "
        return {o for o in self.complete(prefix + "-") | self.complete(prefix + "--") if o.startswith("-")}


class Zsh:
    # What _arguments is told, in place of what it would do with it.
    SCRIPT = r"""
        compdef() { }
        _describe() { eval "print -rl -- \"\${$2[@]}\"" }
        _arguments() {
          [[ $1 == -C ]] && [[ -n $command ]] && { state=operands; words=($command ''); return 1 }
          print -rl -- "$@"
        }
        command=$2 words=(partlog $2 '')
        source $1
        [[ $command == commands ]] && _partlog_commands || _partlog
        true
    """

    def ask(self, command):
        return run("zsh", "-f", "-c", self.SCRIPT, "zsh", ROOT + "/completions/_partlog", command).splitlines()

    def commands(self):
        return {line.split(":")[0] for line in self.ask("commands")}

    def options(self, command):
        names = set()
        for spec in self.ask(command):
            spec = re.sub(r"^(\([^)]*\))?\*?", "", spec)
            if spec.startswith("-") and "[" in spec:
                names.add(re.sub(r"[+=]$", "", spec.split("[")[0]))
        return names


def check_values(bash, fish):
    """A topic where one may stand, values of enumerations."""
    with tempfile.TemporaryDirectory() as scratch:
        store = os.path.join(scratch, "store")
        os.environ["PARTLOG_DIR"] = os.path.join(scratch, "other")
        run(PROGRAM, "-d", store, "create-topic", "orders", "payments")
        run(PROGRAM, "-d", store, "commit", "-g", "billing", "orders:0:0")
        for shell in filter(None, (bash, fish)):
            name = type(shell).__name__
            for line, expected in (("partlog -d %s consume " % store, {"orders", "payments"}),
                                   ("partlog consume --dir=%s ord" % store, {"orders"}),
                                   ("partlog -d %s delete-topic -n pay" % store, {"payments"}),
                                   ("partlog -d %s describe-group " % store, {"billing"}),
                                   ("partlog -d %s commit -g b" % store, {"billing"}),
                                   ("partlog -d %s reset-offset --to-group " % store, {"billing"}),
                                   ("partlog produce x --sync ", {"end", "batch", "none"}),
                                   ("partlog produce x -z z", {"zstd"}),
                                   ("partlog consume x --reset ", {"earliest", "latest", "fail"})):
                got = shell.complete(line)
                if got != expected:
                    failures.append("%s: completes '%s' with %s" % (name, line, sorted(got)))
        if bash and bash.complete("partlog consume x --reset=l") != {"latest"}:
            failures.append("Bash: --reset=l is not completed with latest")


def check_generated():
    with tempfile.TemporaryDirectory() as scratch:
        run(sys.executable, "-B", ROOT + "/completions/generate", scratch, env=dict(os.environ, PARTLOG=PROGRAM))
        for name in sorted(os.listdir(scratch)):
            with open(os.path.join(scratch, name)) as new, open(os.path.join(ROOT, "completions", name)) as old:
                if new.read() != old.read():
                    failures.append("completions/%s is not what completions/generate writes: run it" % name)


def main():
    if not os.access(PROGRAM, os.X_OK):
        sys.exit("no program: set PARTLOG to its path")
    with tempfile.TemporaryDirectory() as directory:
        os.symlink(PROGRAM, os.path.join(directory, "partlog"))
        os.environ["PATH"] = directory + ":" + os.environ["PATH"]
        return check_all()


def check_all():
    rows = [line.split("\t") for line in run(PROGRAM, "help", "--list").splitlines()]
    commands = {row[0] for row in rows}
    pages = {m.group(1) for m in (re.fullmatch(r"partlog-(.*)\.1", name) for name in os.listdir(ROOT + "/man")) if m}
    compare("manual pages", pages, commands)

    shells = [shell for name, shell in (("bash", Bash()), ("zsh", Zsh()), ("fish", Fish())) if shutil.which(name)]
    for shell in shells:
        compare(type(shell).__name__ + " completes commands", shell.commands(), commands)
    for command in [""] + sorted(commands):
        expected = {n for row in rows if row[0] == command for n in row[1:3] if n}
        if command:
            compare("partlog %s --help against help --list" % command, options_in_help(command), expected)
        else:
            expected = options_in_help("")
        if command == "" or command in pages:
            page = "partlog-%s.1" % command if command else "partlog.1"
            compare(page, options_in_manual(page), expected)
        for shell in shells:
            compare("%s completes 'partlog %s'" % (type(shell).__name__, command), shell.options(command), expected)
    check_generated()
    check_values(*(next((s for s in shells if isinstance(s, kind)), None) for kind in (Bash, Fish)))

    for failure in failures[:40]:
        print(failure)
    missing = [name for name in ("bash", "zsh", "fish") if not shutil.which(name)]
    if missing:
        print("not installed, so not asked: " + ", ".join(missing))
    print("%d commands, %d differences" % (len(commands), len(failures)))
    return 1 if failures else 77 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
