"""Does the attacks in a cage of one grade, and says as JSON what came of each: `attacking.py GRADE FOLDER`.

It is a coordinator in small: it has a key, commands of its own and a guard, and around it is what a user has: a home,
a project, services, other processes.  Whatever an attack says, it counts what is found outside afterwards."""

import ctypes
import json
import os
import pty
import resource
import selectors
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from subprocess import DEVNULL, Popen
from threading import Event, Thread
from typing import Any, NamedTuple

from kit import attacks
from kit.attacks import ATTACKS, CONTAINED, HARM, MB, OPEN, REFUSED
from pipeline.core.cages import FULL, PLAIN, CageKeys
from pipeline.machine.cage import Cage
from pipeline.machine.grades import lacking, resolve_network
from pipeline.machine.limits import CageLimits
from pipeline.machine.process import Exit, Processes, children_of
from pipeline.store.folders import delete_tree

KEY = "ATTACK_KEY"
NO_LIMITS = CageLimits()
# What each attack that runs into a limit runs into.
LIMITS = {
    "memory": CageLimits(memory=48 * MB),
    "processes": CageLimits(processes=40),
    "file_size": CageLimits(file_size=2 * MB),
    "output": CageLimits(output=2 * MB),
    "log": CageLimits(log=MB),
    "cpu": CageLimits(cpu=0.3),
    "files": CageLimits(files=100),
    "-": NO_LIMITS,
}
FILES = {
    "home": (".bashrc", ".ssh/authorized_keys", ".ssh/id", ".netrc", ".config/systemd/user/y.service"),
    "venv": ("lib/python3/site-packages/y.pth", "bin/tool"),
    "project": (".git/hooks/post-commit", ".git/config", ".env", "specs/x.yaml", "dodo.py"),
    "project/runs": (".store/aa/entry", "x/artifacts/d0.n0.csv", "x/eval/secret", "x/calls/secret"),
    "project/runs/x": ("repo.git/config", "repo.git/coppice.lock"),
    "checkouts/other": ("model.py", "secret"),
    "data": ("prices", "open/x", "sealed/truth"),
}
# Attacks on a process, each of which has one of its own.
ON_PROCESSES = (
    *("bystander_environ", "bystander_memory", "process_vm_readv", "bystander_files", "pidfd_getfd", "ptrace"),
    *("command_lines", "by_working_folder", "kill_process", "stop_process", "pidfd_signal", "limit_coordinator"),
    *("slow_process", "bind_process", "sacrifice_process", "move_process", "setns"),
)


class Result(NamedTuple):
    """What came of an attack, and by what one sees it."""

    word: str
    detail: str


# --- The world.


class Around:
    """All that is outside of the cage; `key` is what nobody may learn."""

    def __init__(self, base: str, key: str) -> None:
        self.base, self.key = base, key
        self.token = f"9{os.getpid():07d}"
        self.signals = 0
        self.victims: dict[str, Popen[bytes]] = {}
        self.before: dict[str, Any] = {}
        self._write_files()
        self._start_victims()
        self._serve()
        self.master, self.terminal = pty.openpty()
        os.set_blocking(self.master, False)
        self.file = os.open(f"{base}/home/.ssh/id", os.O_RDONLY)
        signal.signal(signal.SIGUSR1, self._count_signal)

    def _count_signal(self, *_: object) -> None:
        self.signals += 1

    def _write_files(self) -> None:
        for folder, names in FILES.items():
            for name in names:
                self._write(f"{folder}/{name}")
        for name in ATTACKS:
            self._write(f"outside/{name}/file")
        for name in ("checkouts/own", "output"):
            os.makedirs(f"{self.base}/{name}")
        with open(f"{self.base}/data/pages", "wb") as file:
            file.write(b"x" * 64 * 4096)
            os.fsync(file.fileno())

    def _write(self, path: str) -> None:
        file = Path(self.base, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{self.key}\n")
        os.utime(file, (1e9, 1e9))

    def _start_victims(self) -> None:
        for name in ON_PROCESSES:
            words = ["tail", "-f", "/dev/null", *([self.key] if name == "command_lines" else [])]
            with open(f"{self.base}/home/.ssh/id", "rb") as secret:
                self.victims[name] = Popen(
                    words,
                    env={"KEY": self.key, "PATH": os.environ["PATH"]},
                    cwd=f"{self.base}/outside",
                    stdin=secret,
                    stdout=DEVNULL,
                    stderr=DEVNULL,
                    start_new_session=True,
                )
        self.before = {name: state_of(child.pid) for name, child in self.victims.items()}

    def _serve(self) -> None:
        """Services that tell the key to everybody who asks."""
        names = selectors.DefaultSelector()
        self.ports: dict[str, int] = {"tcp6": 1}
        for name, family, kind, at in (
            ("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            ("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("path", socket.AF_UNIX, socket.SOCK_STREAM, f"{self.base}/agent"),
            ("abstract", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.token}"),
            ("file", socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.token}.file"),
        ):
            with suppress(OSError):  # a machine may lack IPv6
                server = socket.socket(family, kind)
                server.bind(at)
                self.ports[name] = server.getsockname()[1] if family in (socket.AF_INET, socket.AF_INET6) else 0
                if kind == socket.SOCK_STREAM:
                    server.listen()
                names.register(server, selectors.EVENT_READ, name)
        Thread(target=self._answer, args=[names], daemon=True).start()

    def _answer(self, names: selectors.BaseSelector) -> None:
        while True:
            for ready, _ in names.select():
                server: Any = ready.fileobj
                if ready.data == "udp":
                    _, who = server.recvfrom(16)
                    server.sendto(self.key.encode(), who)
                    continue
                asking, _ = server.accept()
                with asking, suppress(OSError):
                    if ready.data == "file":
                        socket.send_fds(asking, [b"x"], [self.file])
                    else:
                        asking.sendall(self.key.encode())

    def told(self, guard: int, sibling: int, times: int) -> dict[str, Any]:
        """All that an attacker could wish to know, but the key."""
        base = self.base
        return {
            "base": base,
            "outside": f"{base}/outside",
            "data": f"{base}/data",
            "checkout": f"{base}/checkouts/own",
            "times": times,
            "root_program": f"{base}/root-program",
            "output": f"{base}/output",
            "package": sys.modules["pipeline"].__file__,
            "coordinator": os.getpid(),
            "coordinator_file": self.file,
            "coordinator_environ": environ_address(os.getpid()),
            "guard": guard,
            "sibling": sibling,
            "victims": {name: child.pid for name, child in self.victims.items()},
            "environs": {name: environ_address(child.pid) for name, child in self.victims.items()},
            **{name: self.ports.get(name, 1) for name in ("tcp", "tcp6", "udp")},
            "terminal": os.ttyname(self.terminal),
            "token": self.token,
            "ipc_key": int(self.token),
            "handle": handle_of(f"{base}/home/.ssh/id"),
            "disk": disk(),
        }

    def close(self) -> None:
        for child in self.victims.values():
            child.kill()
            child.wait()
        for folder in ("/tmp", "/var/tmp", "/dev/shm"):
            for name in (self.token, f"{self.token}.large"):
                Path(folder, name).unlink(missing_ok=True)
        remove_memory(self.token)


def state_of(pid: int) -> dict[str, Any]:
    """What others can change of a process."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        stopped = file.read().rpartition(") ")[2][0] in "Tt"
    return {
        "stopped": stopped,
        "priority": os.getpriority(os.PRIO_PROCESS, pid),
        "processors": len(os.sched_getaffinity(pid)),
        "limit": resource.prlimit(pid, resource.RLIMIT_FSIZE),
        "score": Path(f"/proc/{pid}/oom_score_adj").read_text(),
        "groups": Path(f"/proc/{pid}/cgroup").read_text(),
    }


def environ_address(pid: int) -> int:
    """Where in its memory a process has its environment."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(words[47])


def handle_of(path: str) -> str:
    """The handle of a file, by which who may can open it without a path."""
    handle = ctypes.create_string_buffer(136)
    handle[0:4] = (128).to_bytes(4, sys.byteorder)
    mount = ctypes.c_int()
    done = ctypes.CDLL(None).name_to_handle_at(-100, os.fsencode(path), handle, ctypes.byref(mount), 0)
    return "" if done else handle.raw.hex()


def disk() -> str:
    """A disk of this machine."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device = line.split()[0]
        if device.startswith("/dev/") and os.path.exists(device) and stat.S_ISBLK(os.stat(device).st_mode):
            return device
    return "/no-disk"


def remove_memory(token: str) -> None:
    """Remove what attacks of the kind `memory` have left."""
    libc = ctypes.CDLL(None)
    for get, control, words in (
        ("shmget", "shmctl", (0, 0)),
        ("msgget", "msgctl", (0,)),
        ("semget", "semctl", (0, 0)),
    ):
        made = getattr(libc, get)(int(token), *words)
        if made >= 0:
            getattr(libc, control)(made, *([0] if get == "semget" else []), 0, None)
    with suppress(OSError):
        attacks.call(241, token.encode() + b"\0")


# --- What is found outside.


def snapshot(base: str) -> dict[str, tuple[object, ...]]:
    """All files outside of the cage: mode, time, names, attributes, content."""
    found: dict[str, tuple[object, ...]] = {}
    for top in ("home", "venv", "project", "checkouts/other", "data", "outside"):
        for folder, inner, names in os.walk(f"{base}/{top}"):
            for path in (f"{folder}/{name}" for name in (*inner, *names)):
                found[path.removeprefix(f"{base}/")] = _look_at(path)
    return found


def _look_at(path: str) -> tuple[object, ...]:
    status = os.lstat(path)
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode,)
    content = ""
    if stat.S_ISREG(status.st_mode):
        with suppress(PermissionError):
            content = sha256(Path(path).read_bytes()).hexdigest()
    attributes = os.listxattr(path, follow_symlinks=False)
    return status.st_mode, status.st_mtime_ns, status.st_nlink, tuple(attributes), content


def changed(before: dict[str, tuple[object, ...]], after: dict[str, tuple[object, ...]]) -> set[str]:
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def descendants() -> Iterator[int]:
    left = children_of(os.getpid())
    while left:
        pid = left.pop()
        yield pid
        left.extend(children_of(pid))


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    return False


def daemons(token: str) -> list[str]:
    """Which daemons of the attacks live: the number at the end of each."""
    found = []
    for pid in descendants():
        with suppress(OSError):
            text = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            found += [text.partition(f"sleep({token}.")[2][0]] if f"sleep({token}." in text and is_alive(pid) else []
    return sorted(found)


# --- The attacks.

_STATES: dict[str, Callable[[dict[str, Any], dict[str, Any]], bool]] = {
    "stop_process": lambda old, new: new["stopped"],
    "slow_process": lambda old, new: old["priority"] != new["priority"],
    "bind_process": lambda old, new: old["processors"] != new["processors"],
    "limit_coordinator": lambda old, new: old["limit"] != new["limit"],
    "sacrifice_process": lambda old, new: old["score"] != new["score"],
    "move_process": lambda old, new: old["groups"] != new["groups"],
}


class Trial:
    """All attacks in one grade."""

    def __init__(self, grade: str, base: str) -> None:
        self.grade, self.base = grade, base
        self.around = Around(base, os.environ[KEY])
        self.checkout, self.log = f"{base}/checkouts/own", f"{base}/project/runs/x/eval/sweep.log"
        self.results: dict[str, Result] = {}
        os.chdir(f"{base}/project")
        self.processes = Processes(["x"])

    def cage(self, limits: CageLimits, network: str = "") -> Cage:
        if self.grade == PLAIN:
            return Cage(PLAIN)
        data, network = f"{self.base}/data", resolve_network(network, self.grade)
        hidden = (f"{self.base}/project/runs/.store", f"{data}/sealed")
        places = (self.checkout, f"{self.base}/output")
        return Cage(self.grade, network, limits, self.checkout, places, (data,), hidden)

    def run(
        self,
        names: Sequence[str],
        number: int = 1,
        limits: CageLimits = NO_LIMITS,
        network: str = "",
        nested: bool = False,
    ) -> Exit:
        """Try attacks in one command; what they say is in a file of the checkout."""
        words = [sys.executable, "-I", "-S", "-B", "attacks.py", "world.json", str(number), *names]
        env = self.processes.environment("x", {}, [])
        cage = self.cage(limits, network)._replace(nested=nested)
        return self.processes.run(words, env, self.log, 120, cwd=self.checkout, cage=cage)

    def said(self) -> dict[str, dict[str, Any]]:
        path = Path(self.checkout, "said")
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return {line["name"]: line for line in map(json.loads, lines)}

    def try_all(self) -> None:
        """First those beside another command, then a second round to remember in, then each that is alone."""
        together = [name for name, each in ATTACKS.items() if not each.alone]
        twice, full, coder = (
            [name for name in together if getattr(ATTACKS[name], which)] for which in ("twice", "full", "coder")
        )
        with self._beside() as sibling:
            guard = self.processes._guard
            self._prepare(guard.pid if guard else 0, sibling)
            before = snapshot(self.base)
            exited = self.run([name for name in together if name not in (*full, *coder)])
            self.run(full, network=FULL)
            self.run(coder, nested=True)
            first, left = self.said(), daemons(self.around.token)
            self.run(twice, 2)
            again, after = self.said(), changed(before, snapshot(self.base))
        if lost := set(together) - first.keys():
            raise RuntimeError(f"{sorted(lost)} said nothing: {exited}\n{Path(self.log).read_text()[-2000:]}")
        for name in together:
            self._weigh(name, first[name], again.get(name), after, left)
        if strange := {path for path in after if not self._owner(path)}:
            raise RuntimeError(f"nobody's work: {sorted(strange)}")
        for name in (name for name, each in ATTACKS.items() if each.alone):
            self._try_alone(name)
        self._remove_checkout()

    def _beside(self) -> "_Sibling":
        return _Sibling(self)

    def _prepare(self, guard: int, sibling: int) -> None:
        shutil.copy(attacks.__file__, f"{self.checkout}/attacks.py")
        Path(self.checkout, "world.json").write_text(
            json.dumps(self.around.told(guard, sibling, 1 if self.grade == PLAIN else 15))
        )

    def _owner(self, path: str) -> str:
        """The attack that would change this."""
        top, _, rest = path.partition("/")
        if top == "outside":
            return rest.partition("/")[0]
        if path.endswith("eval/sweep.log"):
            return "own_log"
        if path.startswith("home/.cache-"):
            return "memory_home"
        named = {"data/prices": "write_data", **{each.path: name for name, each in PLACES.items()}}
        return named.get(path, "")

    def _weigh(
        self, name: str, said: dict[str, Any], again: dict[str, Any] | None, after: set[str], left: list[str]
    ) -> None:
        if mistake := said.get("mistake") or (again or {}).get("mistake"):
            raise RuntimeError(f"{name}: {mistake}")
        last = said if again is None else again
        got = last.get("got") or ""
        mine = sorted(path for path in after if self._owner(path) == name and name != "own_log")
        evidence = [
            *([got] if got == HARM else []),
            *(["it has the key"] if self.around.key in got else []),
            *mine,
            *self._evidence_of(name, left),
        ]
        if evidence:
            self.results[name] = Result(OPEN, "; ".join(evidence))
        elif "error" in said:
            self.results[name] = Result(REFUSED, said["error"])
        else:
            self.results[name] = Result(CONTAINED, str(last))

    def _evidence_of(self, name: str, left: list[str]) -> list[str]:
        found = []
        if child := self.around.victims.get(name):
            if child.poll() is not None:
                found.append(f"ended: {child.returncode}")
            elif name in _STATES and _STATES[name](self.around.before[name], state_of(child.pid)):
                found.append("its state is another")
        if name == "signal_coordinator" and self.around.signals:
            found.append("signalled")
        if name == "own_log" and "hostile" in Path(self.log).read_text():
            found.append("the log is another")
        if name == "leave_setuid" and any(
            each.stat().st_mode & stat.S_ISUID for each in Path(self.base, "output").iterdir()
        ):
            found.append("it is there")
        if name == "daemon_beside" and "1" in left:
            found.append("a daemon lives")
        if name == "terminal":
            with suppress(BlockingIOError):
                found += ["printed"] if self.around.token in os.read(self.around.master, 4096).decode() else []
        return found

    def _try_alone(self, name: str) -> None:
        limits = LIMITS[ATTACKS[name].alone]
        ended = self.run([name], 1, limits)
        said, left = self.said().get(name, {}), daemons(self.around.token)
        if "mistake" in said:
            raise RuntimeError(f"{name}: {said['mistake']}")
        detail = f"{ended} {said} {left}"
        if left or (said.get("got") == HARM and not ended.limit):
            self.results[name] = Result(OPEN, detail)
        elif "error" in said:
            self.results[name] = Result(REFUSED, detail)
        elif ended.limit or ATTACKS[name].alone == "-":
            self.results[name] = Result(CONTAINED, detail)
        else:
            raise RuntimeError(f"{name}: it ended without a limit that is named: {detail}")

    def _remove_checkout(self) -> None:
        """What cannot be removed is harm of those who left it."""
        for folder, name in (("deep", "deep_folders"), ("shut", "shut_folders"), ("strange", "strange_names")):
            delete_tree(f"{self.checkout}/{folder}")
            if os.path.lexists(f"{self.checkout}/{folder}"):
                self.results[name] = Result(OPEN, "it cannot be removed")

    def close(self) -> list[str]:
        """End all; what is alive still."""
        self.processes.close()
        self.around.close()
        names = [(pid, Path(f"/proc/{pid}/cmdline").read_bytes()) for pid in descendants() if is_alive(pid)]
        return [f"{pid}: {line!r}" for pid, line in names]


class _Sibling:
    """Another command of the same build, which has a key; for the block, its process."""

    def __init__(self, trial: Trial) -> None:
        self._trial, self._started, self._pid = trial, Event(), 0

    def _note(self, pid: int) -> None:
        self._pid = self._pid or pid
        self._started.set()

    def _run(self) -> None:
        trial = self._trial
        env = trial.processes.environment("x", {}, [KEY])
        cage = trial.cage(CageLimits())
        trial.processes.run(["sleep", "1000"], env, f"{trial.base}/sibling.log", cwd=trial.checkout, cage=cage)

    def __enter__(self) -> int:
        self._trial.processes.started = self._note
        self._thread = Thread(target=self._run)
        self._thread.start()
        if not self._started.wait(60):
            raise RuntimeError("the other command did not start")
        return self._pid

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        self._thread.join()


PLACES = {name: each.attempt for name, each in ATTACKS.items() if hasattr(each.attempt, "path")}


def main() -> None:
    grade, base = sys.argv[1:]
    if why := lacking(CageKeys(grade)):
        print(json.dumps({"lacking": why}))
        return
    trial = Trial(grade, base)
    try:
        trial.try_all()
    finally:
        left = trial.close()
    print(json.dumps({"results": {name: [*each] for name, each in trial.results.items()}, "left": left}))


if __name__ == "__main__":
    main()
