"""System calls of Linux by which a thread limits itself and all that it starts: Landlock, seccomp, capabilities.

None of them can be taken back.  So each is done in a thread of its own, which starts the command and ends.  Where the
system has none of this, `landlock_version` is 0 and `filter_program` empty.  ctypes is imported with the first call:
who only asks what is going to be done makes none."""

from __future__ import annotations

import os
import platform
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache, partial
from struct import pack
from subprocess import PIPE, Popen
from threading import Lock, Thread
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pipeline.machine.process import children_of, set_variables

if TYPE_CHECKING:
    import ctypes

T = TypeVar("T")

# --- Landlock: rules allow what is below a folder; what no rule allows is refused.  Numbers are the same everywhere.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION, _BENEATH = 1, 1
_LEAST = 2  # before that nothing could be renamed from folder to folder
_WITH_TRUNCATE, _WITH_SCOPES = 3, 6
_EXECUTE, _WRITE_FILE, _READ_FILE, LIST, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_IN_FOLDERS = 0b1_1111_1111_0000  # making, removing and moving files, folders, links, pipes, sockets, devices
_LINK_ELSEWHERE = 1 << 13
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1  # only to whoever is restricted by the same rules, or started by such
READ = _EXECUTE | _READ_FILE | LIST
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE


@lru_cache(maxsize=1)
def landlock_version() -> int:
    """Version of Landlock; 0 when there is none that would do."""
    if sys.platform != "linux":
        return 0
    found = _call(_CREATE, None, 0, _ASK_VERSION)
    return found if found >= _LEAST else 0


def write_access() -> int:
    """Rights to read and change anything, as far as this kernel can restrict them."""
    truncate = _TRUNCATE if landlock_version() >= _WITH_TRUNCATE else 0
    return READ | _WRITE_FILE | _IN_FOLDERS | _LINK_ELSEWHERE | truncate


def open_ruleset(rules: Mapping[str, int]) -> int:
    """Open a ruleset: below each path what is allowed there, and nothing anywhere else.

    Where the kernel can tell, other processes cannot be sent signals, nor reached by abstract sockets."""
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if landlock_version() >= _WITH_SCOPES else 0
    what = pack("=QQQ", write_access(), 0, scopes) if scopes else pack("=Q", write_access())
    fd = _syscall(_CREATE, what, len(what), 0)
    try:
        for path, access in rules.items():
            _allow(fd, path, access)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return  # gone meanwhile, or nothing that it could see
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= _OF_FILES
        if _adding()(_ADD, ruleset, _BENEATH, pack("=Qi", access, fd), 0):
            raise _error("Landlock")
    finally:
        os.close(fd)


# --- seccomp: a program of the kernel's packet filter says of each system call whether it is refused.
class _Machine(NamedTuple):
    """Number of a kind of processor in the kernel's audit, and numbers of system calls there."""

    audit: int
    numbers: Mapping[str, int]


_EVERYWHERE = {"pidfd_getfd": 438, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427}
_EVERYWHERE |= {"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433}
_EVERYWHERE |= {"clone3": 435, "mount_setattr": 442, "openat2": 437, "fchmodat2": 452}
_X86 = {"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "keyctl": 250, "add_key": 248}
_X86 |= {"request_key": 249, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "kexec_load": 246}
_X86 |= {"kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176, "syslog": 103}
_X86 |= {"open_by_handle_at": 304, "fanotify_init": 300, "mount": 165, "umount2": 166, "pivot_root": 155}
_X86 |= {"unshare": 272, "setns": 308, "chroot": 161, "clone": 56, "ioctl": 16, "socket": 41, "shmget": 29}
_X86 |= {"msgget": 68, "semget": 64, "mq_open": 240, "iopl": 172, "ioperm": 173, "modify_ldt": 154, "prlimit64": 302}
_X86 |= {
    "chmod": 90,
    "fchmod": 91,
    "fchmodat": 268,
    "creat": 85,
    "open": 2,
    "openat": 257,
    "mknod": 133,
    "mknodat": 259,
}
_ARM = {"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "keyctl": 219, "add_key": 217}
_ARM |= {"request_key": 218, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "kexec_load": 104}
_ARM |= {"kexec_file_load": 294, "init_module": 105, "finit_module": 273, "delete_module": 106, "syslog": 116}
_ARM |= {"open_by_handle_at": 265, "fanotify_init": 262, "mount": 40, "umount2": 39, "pivot_root": 41}
_ARM |= {"unshare": 97, "setns": 268, "chroot": 51, "clone": 220, "ioctl": 29, "socket": 198, "shmget": 194}
_ARM |= {"msgget": 186, "semget": 190, "mq_open": 180, "prlimit64": 261}
_ARM |= {"fchmod": 52, "fchmodat": 53, "openat": 56, "mknodat": 33}
_MACHINES = {
    "x86_64": _Machine(0xC000003E, {**_X86, **_EVERYWHERE}),
    "aarch64": _Machine(0xC00000B7, {**_ARM, **_EVERYWHERE}),
}
# Ways into other processes and into the kernel that no search needs.
_REFUSED = "ptrace process_vm_readv process_vm_writev kcmp pidfd_getfd keyctl add_key request_key bpf perf_event_open"
_REFUSED += " userfaultfd io_uring_setup io_uring_enter io_uring_register kexec_load kexec_file_load init_module"
_REFUSED += " finit_module delete_module syslog open_by_handle_at fanotify_init iopl ioperm modify_ldt"
# Namespaces of one's own, by which programs that bring a sandbox make it.
_NAMESPACES = "mount umount2 pivot_root unshare setns chroot open_tree move_mount fsopen fsconfig fsmount fspick"
_NAMESPACES += " mount_setattr"
# Memory that outlives its processes, where no namespace ends with them.
_LASTING = "shmget msgget semget mq_open"
# Calls that give a file its mode, and which of their arguments it is; of some, where the flags are that say so.
_MODES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "open": 2, "openat": 3, "mknod": 1}
_MODES |= {"mknodat": 2}
_FLAGS = {"open": 1, "openat": 2}
_CREATING, _AS_OTHERS = 0o100 | 0o20000000, 0o6000  # with O_TMPFILE; set-user-ID and set-group-ID
_X32 = 0x40000000  # another numbering of the same calls
_NEW_NAMESPACE, _NEW_CGROUPS = 0x7E020000, 0x02000000  # flags of clone
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # ioctls that type into the terminal
_EPERM, _EACCES, _ENOSYS = 1, 13, 38
UNIX, INET, INET6, _NETLINK = 1, 2, 10, 16  # families of sockets
# Of the packet filter: load a word, jump if equal, if at least, if a bit is set, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_NUMBER, _AUDIT, _FIRST_ARGUMENT = 0, 4, 16  # places in what is told of a call


@lru_cache(maxsize=16)
def filter_program(families: tuple[int, ...], nested: bool = False, lasting: bool = True) -> bytes:
    """The filter of a command that may open sockets of these families; empty for a processor that we do not know.

    `nested`: it may make namespaces of its own; `lasting`: memory that outlives its processes, and limits for other
    processes, which it only sees where it has no namespaces."""
    machine = _MACHINES.get(platform.machine()) if sys.platform == "linux" else None
    if machine is None:
        return b""
    refused = f"{_REFUSED} {'' if nested else _NAMESPACES} {'' if lasting else _LASTING}".split()
    code = [_step(_LOAD, _AUDIT), _step(_EQUAL, machine.audit, 1, 0), _fail(_EPERM), _step(_LOAD, _NUMBER)]
    code += [_step(_AT_LEAST, _X32, 0, 1), _fail(_EPERM)]
    for number in sorted(machine.numbers[name] for name in refused if name in machine.numbers):
        code += [_step(_EQUAL, number, 0, 1), _fail(_EPERM)]
    # flags of clone3 are out of the filter's sight: without it, programs use clone
    code += [_step(_EQUAL, machine.numbers["clone3"], 0, 1), _fail(_ENOSYS)]
    # who has a namespace of control groups of its own may mount them, and root writes to those of the machine
    kinds = _NEW_CGROUPS if nested else _NEW_NAMESPACE
    code += _of_call(machine.numbers["clone"], [_argument(0), _step(_ANY_BIT, kinds, 0, 1), _fail(_EPERM)])
    if nested:
        code += _of_call(machine.numbers["unshare"], [_argument(0), _step(_ANY_BIT, kinds, 0, 1), _fail(_EPERM)])
    for name, place in _MODES.items():
        if name in machine.numbers:
            code += _of_call(machine.numbers[name], _mode_steps(place, _FLAGS.get(name)))
    code += _of_call(machine.numbers["openat2"], [_fail(_ENOSYS)])  # whose mode is out of sight: programs use openat
    if not lasting:
        others = [_argument(0), _step(_EQUAL, 0, 1, 0), _fail(_EPERM)]
        code += _of_call(machine.numbers["prlimit64"], others)
    typing = [_argument(1), _step(_EQUAL, _TIOCSTI, 1, 0), _step(_EQUAL, _TIOCLINUX, 0, 1), _fail(_EPERM)]
    code += _of_call(machine.numbers["ioctl"], typing)
    code += _of_call(machine.numbers["socket"], _socket_steps({*families}))
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _socket_steps(families: set[int]) -> list[bytes]:
    """Steps for `socket`: of netlink, which tells of one's own network, the plain protocol alone."""
    steps = [_argument(0)]
    for family in sorted(families):
        steps += [_step(_EQUAL, family, 0, 1), _step(_RETURN, _ALLOW)]
    if INET in families:
        steps += [_step(_EQUAL, _NETLINK, 0, 3), _argument(2), _step(_EQUAL, 0, 0, 1), _step(_RETURN, _ALLOW)]
    return [*steps, _fail(_EACCES)]


def _mode_steps(mode: int, flags: int | None) -> list[bytes]:
    """Steps for a call that gives a file a mode: no program that runs as its owner, whoever starts it."""
    steps = [_argument(mode), _step(_ANY_BIT, _AS_OTHERS, 0, 1), _fail(_EPERM)]
    if flags is None:
        return steps
    return [_argument(flags), _step(_ANY_BIT, _CREATING, 0, len(steps)), *steps]


def _of_call(number: int, steps: list[bytes]) -> list[bytes]:
    """Steps for one call alone, which is allowed at their end."""
    return [_step(_EQUAL, number, 0, len(steps) + 1), *steps, _step(_RETURN, _ALLOW)]


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return pack("=HBBI", code, then, otherwise, value)


def _argument(n: int) -> bytes:
    """Load the low half of an argument: both kinds of processor have it first."""
    return _step(_LOAD, _FIRST_ARGUMENT + 8 * n)


def _fail(number: int) -> bytes:
    return _step(_RETURN, _ERROR | number)


# --- Processes and capabilities.
_DUMPABLE, _NO_NEW_PRIVILEGES, _SECCOMP, _DROP_CAPABILITY, _SUBREAPER = 4, 38, 22, 24, 36
_FILTER = 2
# Capabilities by which root looks into other processes or takes the machine over; and all of them.
PEEKING = (2, 16, 17, 19, 21, 22, 32, 33, 34, 38, 39, 40)
ALL = tuple(range(41))


def guard_process() -> None:
    """Let nobody look into this process, whose environment holds keys; what its children leave becomes its child."""
    if sys.platform == "linux":
        _prctl(_DUMPABLE, 0)
        _prctl(_SUBREAPER, 1)


def is_root() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0


def run_limited(
    do: Callable[[], T], ruleset: int | None = None, program: bytes = b"", capabilities: Iterable[int] = ()
) -> T:
    """Run in a thread of its own, which alone is limited: it loses capabilities, then what it may reach."""

    ended: list[T] = []
    failed: list[BaseException] = []

    def limited() -> T:
        for each in capabilities:
            _prctl(_DROP_CAPABILITY, each, ignored=True)  # a kernel may know fewer, and few may drop any
        if ruleset is not None or program:
            _prctl(_NO_NEW_PRIVILEGES, 1)
        if ruleset is not None:
            _syscall(_RESTRICT, ruleset, 0)
        if program:
            _install_filter(program)
        return do()

    def run() -> None:
        try:
            ended.append(limited())
        except BaseException as error:  # noqa: BLE001 - for whoever asked
            failed.append(error)

    alone = Thread(target=run)
    alone.start()
    alone.join()
    if failed:
        raise failed[0]
    return ended[0]


class LastingThread:
    """A thread that does one thing after another, as long as this process lives: what ends with its starter is safe.

    `disowned`: a folder in which nothing is ours, as it and what it starts see that; empty if there is none."""

    def __init__(self, name: str) -> None:
        from concurrent.futures import ThreadPoolExecutor  # here: most builds have no cages

        self._executor, self.disowned = ThreadPoolExecutor(1, name), ""

    def run(self, do: Callable[[], T]) -> T:
        return self._executor.submit(do).result()

    def disown(self, folder: str, shut: Iterable[str], bubblewrap: str) -> None:
        """Have a folder be nobody's and these in it empty, if this system can; the kernel's own lose their mounts."""
        # whoever has this number alone owns no file, and so nothing in the folder has an owner
        words = [bubblewrap, "--unshare-user", "--uid", _NO_OWNER, "--gid", _NO_OWNER, "--dev-bind", "/", "/", "--"]
        line = ["/bin/sh", "-c", "echo; exec cat"]
        with Popen([*words, *line], bufsize=0, stdin=PIPE, stdout=PIPE, env=set_variables(["PATH"])) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdout.read(1)  # now it has its namespace, or none was to be had
            for inner in children_of(child.pid):
                with open(f"/proc/{inner}/ns/user", "rb") as namespace:
                    self.disowned = folder if self.run(partial(_disown, folder, shut, namespace.fileno())) else ""
            child.stdin.close()


_making = Lock()


def lasting_thread(bubblewrap: str, disowned: str, shut: tuple[str, ...]) -> LastingThread:
    """The thread of this process that starts bubblewrap; as root, it may be one to which a folder is nobody's."""
    with _making:
        return _lasting_thread(os.getpid(), bubblewrap, disowned if is_root() else "", shut)


@cache  # none is ever forgotten: with it would end what it has started
def _lasting_thread(process: int, bubblewrap: str, disowned: str, shut: tuple[str, ...]) -> LastingThread:
    thread = LastingThread(f"starter of {process}")
    if disowned:
        thread.disown(disowned, shut, bubblewrap)
    return thread


_NO_OWNER = "2000000000"
# Numbers and flags of calls for mounts.
_OPEN_TREE, _MOVE_MOUNT, _SET_ATTRIBUTES = 428, 429, 442
_HERE, _EMPTY_PATH, _RECURSIVE = -100, 0x1000, 0x8000
_CLONE, _FROM_FILE, _DETACH = 1, 4, 2
_OWN_MOUNTS, _TO_US_ALONE = 0x20000, 0x4000 | 1 << 19
_READ_ONLY, _MAPPED = 0b111, 0x100000  # no set-user-ID, no devices
# Below these a cage has nothing of ours: bubblewrap would read of their mounts at each mount that it makes.
_OF_KERNEL = (b"/sys/", b"/proc/", b"/dev/")
_MEMORY = b"/dev/shm"  # but here somebody may have files


def _disown(folder: str, shut: Iterable[str], namespace: int) -> bool:
    try:
        if _libc().unshare(_OWN_MOUNTS):
            raise _error("unshare")
        _mount(None, "/", _TO_US_ALONE)
        with open("/proc/thread-self/mountinfo", "rb") as file:
            mounted = [line.split()[4] for line in file]
        for path in reversed(mounted):
            if path.startswith(_OF_KERNEL) and not path.startswith(_MEMORY):
                _libc().umount2(path, _DETACH)  # what stays costs time alone
        where = os.fsencode(folder)
        tree = _syscall(_OPEN_TREE, _HERE, where, _CLONE | os.O_CLOEXEC | _RECURSIVE)
        try:
            attributes = pack("=QQQQ", _READ_ONLY | _MAPPED, 0, 0, namespace)
            _syscall(_SET_ATTRIBUTES, tree, b"", _EMPTY_PATH | _RECURSIVE, attributes, len(attributes))
            _syscall(_MOVE_MOUNT, tree, b"", _HERE, where, _FROM_FILE)
        finally:
            os.close(tree)
        for each in shut:
            _mount(b"tmpfs", each, _READ_ONLY)
    except OSError:  # a file system that cannot do it, or root of a container
        return False
    return os.stat(folder).st_uid != os.geteuid()


def _mount(kind: bytes | None, path: str, flags: int) -> None:
    if _libc().mount(kind, os.fsencode(path), kind, *_arguments(flags), None):
        raise _error("mount")


def _install_filter(program: bytes) -> None:
    import ctypes

    steps = ctypes.create_string_buffer(program, len(program))
    address = pack("@HP", len(program) // 8, ctypes.addressof(steps))
    _prctl(_SECCOMP, _FILTER, address)


def _prctl(option: int, value: int, more: bytes | int = 0, ignored: bool = False) -> None:
    if _libc().prctl(*_arguments(option, value, more, 0, 0)) and not ignored:
        raise _error("prctl")


def _syscall(call: int, *words: bytes | int | None) -> int:
    found = _call(call, *words)
    if found < 0:
        raise _error("Landlock")
    return found


def _call(call: int, *words: bytes | int | None) -> int:
    """The result of a system call; below 0 if it failed."""
    return int(_libc().syscall(*_arguments(call, *words)))


def _arguments(*words: bytes | int | None) -> list[object]:
    """Arguments of a C function that takes any: each number is as wide as a register."""
    import ctypes

    return [ctypes.c_long(word) if isinstance(word, int) else word for word in words]


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


@lru_cache(maxsize=1)
def _adding() -> Callable[[int, int, int, bytes, int], int]:
    """The call that adds a rule; there are many, and it is quicker where the types of its arguments are known."""
    import ctypes

    call = _libc()["syscall"]  # of its own: what it is told of types holds for it alone
    call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_long
    return call


def _error(what: str) -> OSError:
    import ctypes

    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
