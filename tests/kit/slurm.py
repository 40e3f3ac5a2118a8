"""A Slurm of three nodes on this machine: real daemons with ports and folders of their own, ended with the test.

Run as a script it stays until it is interrupted, and says which variable makes Slurm's commands ask it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel")
NODES = ("n1", "n2", "n3")
WITH_US = ("setpriv", "--pdeathsig", "KILL")  # daemons end with the tests, also when these are killed
PATIENCE = 60.0
CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout=5
KillWait=2
MinJobAge=60
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
{nodes}
PartitionName=all Nodes={names} Default=YES MaxTime=INFINITE State=UP
"""


def missing_programs() -> str:
    """Programs of Slurm that this machine lacks, for the reason of a skip."""
    where = f"{os.environ.get('PATH', '')}:/usr/sbin"
    return ", ".join(name for name in PROGRAMS if not shutil.which(name, path=where))


class Cluster:
    """Controller and nodes, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.daemons = folder, dict[str, subprocess.Popen[bytes]]()
        self.env = {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

    def start(self) -> None:
        ports = _free_ports(1 + len(NODES))
        host, user = socket.gethostname(), psutil.Process().username()
        named = zip(NODES, ports[1:], strict=True)
        nodes = "\n".join(f"NodeName={n} NodeHostname={host} NodeAddr=127.0.0.1 Port={p} CPUs=2" for n, p in named)
        conf = CONF.format(
            host=host, user=user, folder=self.folder, controller=ports[0], nodes=nodes, names=",".join(NODES)
        )
        (self.folder / "slurm.conf").write_text(conf)
        (self.folder / "state").mkdir()
        self.folder.chmod(0o755)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        files = {name: self.folder / f"munge.{name}" for name in ("socket", "pid", "log", "seed")}
        options = [f"--{'pid-file' if n == 'pid' else 'log-file' if n == 'log' else n + '-file' * (n == 'seed')}={p}"
                   for n, p in files.items()]  # fmt: skip
        self._run("munge", ["munged", "--force", "--foreground", f"--key-file={key}", *options])
        _wait_for(files["socket"].exists, "munge has no socket")
        self._run("controller", ["slurmctld", "-D"])
        for node in NODES:
            self.start_node(node)
        _wait_for(lambda: self.command("sinfo", "-h", "-o", "%D %t") == "3 idle", "the nodes are not idle")

    def _run(self, name: str, words: list[str]) -> None:
        with open(self.folder / f"{name}.out", "ab") as out:
            self.daemons[name] = subprocess.Popen(
                [*WITH_US, *words], env={**os.environ, **self.env}, stdout=out, stderr=out, start_new_session=True
            )

    def start_node(self, node: str) -> None:
        self._run(node, ["slurmd", "-D", "-N", node])

    def command(self, *words: str) -> str:
        """What a command of Slurm's prints; empty where it fails."""
        env = {**os.environ, **self.env}
        return subprocess.run(words, env=env, capture_output=True, text=True, check=False).stdout.strip()

    def processes_of(self, node: str) -> list[psutil.Process]:
        """The daemon of a node, and the daemons of the jobs there, which are no children of it."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            is_step = bool(words) and words[0].startswith("slurmstepd") and _node_of(process) == node
            if process.pid == self.daemons[node].pid or is_step:
                found.append(process)
        return found

    def kill_node(self, node: str) -> None:
        """End a node as a power cut would: its daemons and all that they have started, at once."""
        for daemon in self.processes_of(node):
            with suppress(psutil.Error):
                for process in [*daemon.children(recursive=True), daemon]:
                    with suppress(psutil.Error):
                        process.kill()
        self.daemons[node].wait()

    def cut_off(self, node: str) -> list[psutil.Process]:
        """Let the daemons of a node hear and say nothing, while its jobs go on; those that are to be continued."""
        daemons = self.processes_of(node)
        for daemon in daemons:
            with suppress(psutil.Error):
                daemon.suspend()
        return daemons

    def stop(self) -> None:
        self.command("scancel", "--me")
        for name in reversed([*self.daemons]):
            daemon = self.daemons[name]
            with suppress(ProcessLookupError):
                os.killpg(daemon.pid, signal.SIGKILL if name in NODES else signal.SIGTERM)
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(daemon.pid, signal.SIGKILL)
                daemon.wait()


def _node_of(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        for child in process.children(recursive=True):
            with suppress(psutil.Error):
                if node := child.environ().get("SLURMD_NODENAME"):
                    return str(node)
    return ""


def _free_ports(count: int) -> list[int]:
    with_sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in with_sockets]
    for each in with_sockets:
        each.close()
    return ports


def _wait_for(is_so: Callable[[], bool], problem: str) -> None:
    until = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > until:
            raise RuntimeError(problem)
        time.sleep(0.1)


@contextmanager
def cluster() -> Iterator[Cluster]:
    # short: the path of a socket has no room for more
    with tempfile.TemporaryDirectory(prefix="slurm-", dir="/tmp") as folder:
        made = Cluster(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.stop()


if __name__ == "__main__":
    with cluster() as running:
        print(f"SLURM_CONF={running.env['SLURM_CONF']}", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()
    sys.exit(0)
