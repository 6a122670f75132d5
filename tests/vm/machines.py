"""Small virtual machines with a Debian kernel each, an NFSv4.2 server on loopback for them, and disks whose power can be cut.

Needs root and Debian's packages, which are installed if missing; no KVM: guests run emulated, so times measured inside mean
nothing. Scratch ends every process it started, whatever happens, and takes its mounts and files with it (but for the files if
PARTLOG_VM_KEEP is set).
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = ["qemu-system-x86", "busybox-static", "cpio", "kmod", "gcc", "libc6-dev", "e2fsprogs", "mount"]
NFS_PACKAGES = ["nfs-ganesha", "nfs-ganesha-vfs", "rpcbind", "iproute2"]
MODULES = ["virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "ext4", "nfsv3", "nfsv4"]
LIBC = ctypes.CDLL(None, use_errno=True)
SKIPPED = 77


class Failed(Exception):
    """Something that the tests demand did not hold."""


class Impossible(Exception):
    """The surroundings cannot run these tests."""


def expect(condition, message):
    if not condition:
        raise Failed(message)


def note(text):
    print(text, flush=True)


def run(*command, **options):
    return subprocess.run(command, check=True, stdin=subprocess.DEVNULL, **options)


def wait_until(condition, seconds, what, interval=0.05):
    """Polls until condition() is true, returns its value and fails after `seconds`. The other side is a guest: polling it is."""
    limit = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        expect(time.monotonic() < limit, f"waited {seconds:.0f} s for {what}")
        time.sleep(interval)


def repeat_for(seconds, action, interval=0.05):
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        action()
        time.sleep(interval)


def run_test(name, body):
    """The frame of a test program: status 0, 1, or 77 with a line saying what was left out and why."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if os.geteuid() != 0:
            raise Impossible("needs root")
        program = os.environ.get("PARTLOG")
        expect(program and os.access(program, os.X_OK), "PARTLOG must name the program")
        while not has_run(body, program):
            pass
    except Impossible as reason:
        note(f"SKIPPED {name}: {reason}")
        sys.exit(SKIPPED)
    except Failed as reason:
        note(f"FAILED {name}: {reason}")
        sys.exit(1)
    note(f"passed {name}")


def has_run(body, program):
    """False if a process that the guests lean on, as the NFS server, crashed meanwhile: that says nothing of what is tested."""
    with Scratch(program) as scratch:
        try:
            body(scratch)
        except Failed as reason:
            crashed = [process for process in scratch.processes if process.poll() in (-signal.SIGSEGV, -signal.SIGABRT)]
            if not crashed:
                scratch.show_consoles()
                raise
            note(f"once more, as {crashed[0].args[0]} crashed with signal {-crashed[0].returncode}: {reason}")
            return False
    return True


def die_with_parent():
    LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def private_namespaces():
    """Mounts and a network of our own: what is mounted is gone with this process, and there is only a loopback address."""
    if LIBC.unshare(0x00020000 | 0x40000000) != 0:  # CLONE_NEWNS | CLONE_NEWNET
        raise Impossible("no mount and network namespaces of our own")
    run("mount", "--make-rprivate", "/")
    run("ip", "link", "set", "lo", "up")


def install(packages):
    def missing():
        return subprocess.run(["dpkg", "-s", *packages], capture_output=True, check=False).returncode != 0

    try:
        if missing():
            environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
            run("apt-get", "update", "-q", capture_output=True)
            run("apt-get", "install", "-y", "-q", "--no-install-recommends", *packages, env=environment, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Impossible(f"Debian packages {' '.join(packages)} are missing and could not be installed ({error})") from error


def kernel(cache):
    """Downloads the newest Debian cloud kernel once; vmlinuz, modules/ and their order of loading are left in `cache`."""
    with contextlib.suppress(FileNotFoundError), open(f"{cache}/complete", encoding="ascii") as file:
        if file.read().split() == MODULES:
            return
    unpacked = f"{cache}/unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    shutil.rmtree(f"{cache}/modules", ignore_errors=True)
    os.makedirs(f"{cache}/modules")
    try:
        depends = run("apt-cache", "depends", "linux-image-cloud-amd64", capture_output=True, text=True).stdout
        package = next(line.split()[-1] for line in depends.splitlines() if "Depends:" in line)
        run("apt-get", "download", "-q", package, cwd=cache, capture_output=True)
    except (OSError, StopIteration, subprocess.CalledProcessError) as error:
        raise Impossible(f"a Debian kernel could not be downloaded ({error})") from error
    archive = next(f"{cache}/{name}" for name in os.listdir(cache) if name.startswith(package))
    run("dpkg-deb", "-x", archive, unpacked)
    os.remove(archive)
    version = package.removeprefix("linux-image-")
    run("depmod", "-b", unpacked, version)
    order = []
    for module in MODULES:
        lines = run("modprobe", "-d", unpacked, "-S", version, "--show-depends", module, capture_output=True, text=True).stdout
        for words in map(str.split, lines.splitlines()):
            if words[0] == "insmod" and words[1] not in order:
                order.append(words[1])
    for path in order:
        shutil.copy(path, f"{cache}/modules/")
    with open(f"{cache}/modules/order", "w", encoding="ascii") as file:
        file.writelines(os.path.basename(path) + "\n" for path in order)
    shutil.copy(f"{unpacked}/boot/vmlinuz-{version}", f"{cache}/vmlinuz")
    shutil.rmtree(unpacked)
    with open(f"{cache}/complete", "w", encoding="ascii") as file:
        file.write(" ".join(MODULES))


def libraries(program):
    """The files besides itself that a program needs to start: its loader and its shared libraries."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return sorted({word for line in listed.splitlines() for word in line.split() if word.startswith("/")})


def initrd(cache, program, out):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(out)) as root:
        for name in ("bin", "modules", "proc", "sys", "dev", "tmp", "mnt"):
            os.mkdir(f"{root}/{name}")
        shutil.copytree(f"{cache}/modules", f"{root}/modules", dirs_exist_ok=True)
        run("gcc", "-static", "-O1", f"{HERE}/mount-nfs.c", "-o", f"{root}/bin/mount-nfs")
        for source, name in (("/bin/busybox", "bin/busybox"), (program, "bin/partlog"), (f"{HERE}/guest-init", "init"),
                             (f"{HERE}/guest-feed", "bin/guest-feed"), (f"{HERE}/guest-out-of-turn", "bin/guest-out-of-turn")):
            shutil.copy(source, f"{root}/{name}")
            os.chmod(f"{root}/{name}", 0o755)
        for path in libraries(program):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, root + path)
        with open(out, "wb") as file:
            run("sh", "-c", "find . | cpio -o -H newc --quiet", cwd=root, stdout=file)


class Lines:
    """Follows a file that is being written: whole lines only, each given once."""

    def __init__(self, path):
        self.path = path
        self.position = 0

    def new(self):
        with open(self.path, "rb") as file:
            file.seek(self.position)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self.position += len(data)
        return data.split(b"\n")[:-1]


class Job:
    """A command that a machine was told to run. Its standard error is in the machine's console."""

    def __init__(self, machine, number, command):
        self.machine, self.number, self.command = machine, number, command

    def status(self):
        """None while it runs."""
        return self.machine.statuses().get(self.number)

    def wait(self, seconds):
        def finished():
            expect(self.machine.alive(), f"{self.machine.name} died during: {self.command}")
            return self.status() is not None

        wait_until(finished, seconds, f"the end on {self.machine.name} of: {self.command}")
        return self.status()


class Machine:
    """A running guest. Each of `ports` is a character device /dev/PORT there; what is written to it is in the file path(PORT)."""

    def __init__(self, scratch, name, ports, options=()):
        self.name = name
        self.directory = scratch.path(name)
        os.mkdir(self.directory)
        self.sent = 0
        self.ended = {}
        command = ["qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "384", "-nodefaults", "-no-reboot",
                   "-display", "none", "-serial", f"file:{self.directory}/console", "-kernel", f"{scratch.cache}/vmlinuz",
                   "-initrd", scratch.initrd, "-append", f"console=ttyS0 quiet panic=1 guest={name}",
                   "-device", "virtio-serial-pci", "-chardev", "stdio,id=control,signal=off",
                   "-device", "virtserialport,chardev=control,name=control", *options]
        for port in ports:
            command += ["-chardev", f"file,id={port},path={self.path(port)}", "-device", f"virtserialport,chardev={port},name={port}"]
        with open(self.path("control"), "wb") as out, open(self.path("qemu-errors"), "wb") as errors:
            self.process = scratch.start(command, stdin=subprocess.PIPE, stdout=out, stderr=errors)
        self.replies = Lines(self.path("control"))

    def path(self, name):
        return f"{self.directory}/{name}"

    def alive(self):
        return self.process.poll() is None

    def wait_up(self):
        def up():
            expect(self.alive(), f"{self.name} did not boot: {self.text('qemu-errors')} {self.text('console')}")
            return self.text("control")

        wait_until(up, 120, f"the boot of {self.name}")

    def text(self, name):
        with contextlib.suppress(FileNotFoundError), open(self.path(name), "rb") as file:
            return file.read().decode("utf-8", "replace").replace("\r", "")
        return ""

    def start(self, command):
        self.sent += 1
        self.process.stdin.write(f"{self.sent} {command}\n".encode())
        self.process.stdin.flush()
        return Job(self, self.sent, command)

    def run(self, command, seconds=60):
        return self.start(command).wait(seconds)

    def check(self, command, seconds=60):
        status = self.run(command, seconds)
        expect(status == 0, f"status {status} on {self.name} from: {command}")

    def statuses(self):
        for words in map(bytes.split, self.replies.new()):
            if words[0] == b"done":
                self.ended[int(words[1])] = int(words[2])
        return self.ended

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def cut_power(self):
        self.process.kill()
        self.process.wait()


class Scratch:
    """A directory for one test run, with the guests' kernel and initrd; ends, unmounts and removes everything."""

    def __init__(self, program):
        self.program = program
        self.machines = []

    def __enter__(self):
        install(PACKAGES + NFS_PACKAGES)
        self.cache = os.environ.get("PARTLOG_VM_CACHE") or f"{tempfile.gettempdir()}/partlog-tests-vm-kernel"
        os.makedirs(self.cache, exist_ok=True)
        with open(f"{self.cache}/lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kernel(self.cache)
        private_namespaces()
        self.directory = tempfile.mkdtemp(prefix="partlog-vm-")
        self.processes, self.mounts = [], []
        self.initrd = self.path("initrd")
        initrd(self.cache, self.program, self.initrd)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for directory in list(self.mounts):
            self.unmount(directory)
        if os.environ.get("PARTLOG_VM_KEEP"):
            note(f"kept: {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return f"{self.directory}/{name}"

    def start(self, command, **options):
        process = subprocess.Popen(command, preexec_fn=die_with_parent, **options)
        self.processes.append(process)
        return process

    def boot(self, name, ports, options=()):
        machine = Machine(self, name, ports, options)
        self.machines.append(machine)
        return machine

    def mount_image(self, image, directory):
        """Mounts a disk, replaying its journal, and makes it read-only."""
        os.makedirs(directory, exist_ok=True)
        try:
            run("mount", "-o", "loop", image, directory, capture_output=True)
        except subprocess.CalledProcessError as error:
            raise Impossible(f"a disk image cannot be mounted ({error.stderr.decode().strip()})") from error
        self.mounts.append(directory)
        run("mount", "-o", "remount,ro", directory)

    def unmount(self, directory):
        run("umount", directory)
        self.mounts.remove(directory)

    def show_consoles(self):
        for machine in self.machines[-3:]:
            lines = machine.text("console").splitlines()[-25:]
            note("\n".join([f"--- the console of {machine.name} ended with", *lines, "---"]))


class NfsServer:
    """An NFSv4.2 server on loopback that exports `directory`; NFSv3 too, for mounts whose locks reach nobody."""

    NETWORK = ("-netdev", "user,id=n", "-device", "virtio-net-pci,netdev=n")
    PORT, MOUNT_PORT = 2049, 20048

    def __init__(self, scratch, directory, lease_s):
        for state in ("/run", "/var/lib/nfs"):  # of a server that may run on this machine
            os.makedirs(state, exist_ok=True)
            run("mount", "-t", "tmpfs", "tmpfs", state)
        os.makedirs("/run/ganesha")
        os.makedirs("/run/rpcbind")
        os.makedirs("/var/lib/nfs/ganesha")
        os.makedirs("/var/run/ganesha", exist_ok=True)
        os.makedirs(directory, exist_ok=True)
        configuration = scratch.path("ganesha.conf")
        with open(configuration, "w", encoding="ascii") as file:
            file.write(f"""
NFS_CORE_PARAM {{ Protocols = 3,4; NFS_Port = {self.PORT}; MNT_Port = {self.MOUNT_PORT};
  Enable_UDP = false; Enable_NLM = false; Enable_RQUOTA = false; }}
NFSV4 {{ Graceless = true; RecoveryBackend = fs; Minor_Versions = 1,2; Only_Numeric_Owners = true; Lease_Lifetime = {lease_s}; }}
EXPORT {{ Export_Id = 1; Path = {directory}; Pseudo = /export; Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
  Protocols = 3,4; Transports = TCP; FSAL {{ Name = VFS; }} }}
""")
        self._serve(scratch, "rpcbind", ["rpcbind", "-f"], 111)
        self._serve(scratch, "ganesha", ["ganesha.nfsd", "-F", "-f", configuration, "-L", scratch.path("ganesha.log"),
                                         "-p", scratch.path("ganesha.pid")], self.PORT)

    def _serve(self, scratch, name, command, port):
        with open(scratch.path(f"{name}.out"), "wb") as out:
            process = scratch.start(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

        def listening():
            expect(process.poll() is None, f"{name} did not start")
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", port)) == 0

        wait_until(listening, 30, f"{name} to listen")

    def mount_command(self, directory):
        options = f"vers=4.2,addr=10.0.2.2,clientaddr=10.0.2.15,proto=tcp,port={self.PORT}"
        return f"mkdir -p {directory} && mount-nfs nfs4 10.0.2.2:/export {directory} {options}"

    def mount_without_locks_command(self, exported, directory):
        options = f"vers=3,addr=10.0.2.2,proto=tcp,port={self.PORT},mountproto=tcp,mountport={self.MOUNT_PORT},nolock"
        return f"mkdir -p {directory} && mount-nfs nfs 10.0.2.2:{exported} {directory} {options}"
