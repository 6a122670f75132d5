#!/usr/bin/env python3
"""Installs into a temporary prefix; builds the C++ example of README.md against it with pkg-config and with CMake, and runs both;
compares what the shared library exports with what the public headers declare.

usage: test_install.py BUILD_DIRECTORY      CXX and CMAKE name the compiler and cmake
"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CMAKE = os.environ.get("CMAKE", "cmake")
CXX = os.environ.get("CXX", "c++")
INSTALLED = ["bin/partlog", "include/partlog/store.h", "share/man/man1/partlog.1", "share/man/man1/partlog-produce.1",
             "share/man/man5/partlog-format.5", "share/man/man7/partlog-groups.7",
             "share/bash-completion/completions/partlog", "share/zsh/site-functions/_partlog",
             "share/fish/vendor_completions.d/partlog.fish"]


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **more)
    if done.returncode != 0:
        sys.exit("%s: status %d\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


def examples():
    with open(os.path.join(ROOT, "README.md")) as f:
        text = f.read()
    source = re.search(r"```cpp\n(.*?)```", text, re.S).group(1)
    project = re.search(r"```cmake\n(.*?)```", text, re.S).group(1)
    return source, "cmake_minimum_required(VERSION 3.25)\nproject(example CXX)\n" + project


def find(prefix, suffix):
    for directory, _, names in os.walk(prefix):
        for name in names:
            path = os.path.join(directory, name)
            if path.endswith(suffix):
                return path
    sys.exit("not installed: " + suffix)


def check_example(prefix, scratch):
    source, project = examples()
    for name, text in (("example.cpp", source), ("CMakeLists.txt", project)):
        with open(os.path.join(scratch, name), "w") as f:
            f.write(text)
    libraries = os.path.dirname(find(prefix, "/libpartlog.so"))
    package_config = os.path.dirname(find(prefix, "/partlog.pc"))
    environment = dict(os.environ, PKG_CONFIG_PATH=package_config, LD_LIBRARY_PATH=libraries)

    flags = run("pkg-config", "--cflags", "--libs", "partlog", env=environment).split()
    run(CXX, "-std=c++20", "-Wall", "-Werror", "example.cpp", *flags, "-o", "by-pkg-config", cwd=scratch)
    run(CMAKE, "-S", ".", "-B", "build", "-DCMAKE_PREFIX_PATH=" + prefix, "-DCMAKE_CXX_COMPILER=" + CXX, cwd=scratch)
    run(CMAKE, "--build", "build", cwd=scratch)
    outputs = [run(program, cwd=scratch, env=environment) for program in ("./by-pkg-config", "build/example")]
    if outputs != ["0 book\n", "0 book\n1 book\n"]:
        sys.exit("the example printed %s" % outputs)
    store = os.path.join(scratch, "library-demo")
    if run(os.path.join(prefix, "bin/partlog"), "-d", store, "consume", "orders", "-K:") != "alice:book\nalice:book\n":
        sys.exit("the installed program does not read what the example stored")
    return libraries


def declarations(text):
    """(scopes, declaration) for all in a header that ends with a semicolon, and for the heads of classes; scopes are heads, too.
    Functions with a body are left out."""
    text = re.sub(r"//[^\n]*|#[^\n]*", "", text)
    scopes, piece, skipped = [], "", 0
    for c in text:
        if skipped:
            skipped += (c == "{") - (c == "}")
            if not skipped and "(" in piece and "=" not in piece.split(")")[-1]:
                piece = ""  # that was the body of a function, not an initializer
        elif c == "{":
            head = re.sub(r"^(public|private|protected) *: *", "", " ".join(piece.split()))
            if re.match(r"(template ?<[^>]*> )?(namespace|class|struct)\b", head):
                yield list(scopes), head
                scopes.append(head)
                piece = ""
            else:
                skipped = 1
        elif c == "}":
            scopes.pop()
            piece = ""
        elif c == ";":
            yield list(scopes), re.sub(r"^(public|private|protected) *: *", "", " ".join(piece.split()))
            piece = ""
        else:
            piece += c


def name_of(head):
    return re.match(r".*?(?:namespace|class|struct) (?:PARTLOG_EXPORT )?(\w+)", head).group(1)


def declared():
    """Qualified names of all functions that the headers mark as exported and do not define, and of classes with type information."""
    names = set()
    directory = os.path.join(ROOT, "lib/include/partlog")
    for header in sorted(os.listdir(directory)):
        with open(os.path.join(directory, header)) as f:
            text = f.read()
        for scopes, piece in declarations(text):
            is_class = re.match(r"(template ?<[^>]*> )?(class|struct)\b", piece)
            if is_class and "PARTLOG_EXPORT" in piece and ": public" in piece:
                names.add("typeinfo of " + name_of(piece))
            visible = "PARTLOG_EXPORT" in piece or (scopes and "PARTLOG_EXPORT" in scopes[-1])
            function = re.search(r"(~?\w+|operator[^\s\w(]+) ?\(", piece.replace("PARTLOG_EXPORT ", ""))
            if visible and function and not is_class and not re.search(r"= (delete|default)$", piece):
                names.add("::".join([name_of(scope) for scope in scopes] + [function.group(1)]))
    return names


def exported(library):
    names = set()
    for line in run("nm", "-D", "--defined-only", "-C", "--without-symbol-versions", library).splitlines():
        kind, name = line[17:].split(" ", 1)
        if kind == "A":
            continue
        special = re.match(r"(typeinfo name|typeinfo|vtable) for (.*)", name)
        if special:
            names.add("typeinfo of " + special.group(2).split("::")[-1])
            continue
        name = re.sub(r"\[abi:\w+\]", "", name)
        names.add(re.match(r"((?:\w+::)*(?:operator[^\s\w(]+|[~\w]+))\(", name).group(1) if "(" in name else name)
    return names


def main(build):
    with tempfile.TemporaryDirectory(prefix="partlog-install-") as scratch:
        prefix = os.path.join(scratch, "prefix")
        run(CMAKE, "--install", build, "--prefix", prefix)
        for path in INSTALLED:
            find(prefix, path)
        library = os.path.join(check_example(prefix, scratch), "libpartlog.so")
        want, got = declared(), exported(library)
    for name in sorted(want - got):
        print("declared in a public header, but not exported: " + name)
    for name in sorted(got - want):
        print("exported, but not declared in a public header: " + name)
    print("%d names exported" % len(got))
    return 1 if want != got or not want else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
