"""Running a command of the spec in a clean checkout, with retries.

Order of one attempt: checkout, tripwire and watch, command, then check whether anything was read or changed that must
not be (`void: ...`, which is never tried again), collect the results, tidy up.  A root that cannot be measured is no
result: its target fails, and the next build tries it again."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from hashlib import sha256
from typing import NamedTuple

from pipeline.core.cages import ISOLATED, PLAIN, TRUSTED, cage_in
from pipeline.core.outcome import KILLED_FROM_OUTSIDE, PROGRAM_MISSING
from pipeline.core.recipe import LIMITS, compact_json
from pipeline.core.templates import fill_argv, fill_shell_line
from pipeline.core.text import printable_line
from pipeline.git.objects import tree_hash
from pipeline.git.worktrees import Worktree
from pipeline.machine.cage import Cage
from pipeline.machine.cage_words import refusing_limit
from pipeline.machine.failures import (
    FROM_OUTSIDE,
    NOT_FOUND,
    DiskUse,
    describe_exit,
    describe_start_failure,
    find_outage,
    full_disk,
    signal_of,
    watch_room,
)
from pipeline.machine.grades import resolve_grade, resolve_network
from pipeline.machine.job import Job, NoRoom, StageFailed, StageOutage
from pipeline.machine.limits import default_limits, make_limits
from pipeline.machine.patience import Pauses
from pipeline.machine.process import BuildStopping, Exit
from pipeline.machine.suspects import DIED_TWICE, CommandRecord, Suspects
from pipeline.machine.visibility import visible_path
from pipeline.store.files import read_bytes
from pipeline.store.folders import delete_tree, disarm_repository, make_removable
from pipeline.tree.rules.positions import EvalSlot, NodePlace
from pipeline.tree.rules.prompts import without_run_details
from pipeline.tree.rules.protection import VOID
from pipeline.tree.rules.sheet import LONGEST_LINE, SheetRoom, sheet_room, take_sheet
from pipeline.tree.run.answers import answers_folder
from pipeline.tree.run.protect import start_watch, tamper_reason, tree_void_reason
from pipeline.tree.run.records import CommandCost, read_text, write
from pipeline.tree.run.run_repo import RunRepo
from pipeline.tree.run.seal import arm_tripwire, sealed_paths, tripwire_reason
from pipeline.tree.spec.model import ANSWERS

# Words at the start of a shell line that are no programs.
_SHELL_WORDS = frozenset(
    ("cd", "command", "eval", "exec", "export", "for", "if", "set", "trap", "ulimit", "until", "while")
)
_PROGRAM = re.compile(r"[\w./+-]+")


class CheckoutRun(NamedTuple):
    """The last attempt of a command.  `why` is empty when it ended well; `results`: the bytes that it wrote, if any.

    `sandbox` and `network`: the grade of its cage and what it could reach; None of what never ran.
    `outage`: why its failure says nothing of the candidate; `full`: the disk that was full while it ran."""

    why: str
    exit: int
    results: bytes
    seconds: float
    attempts: int
    sandbox: str | None = None
    network: str | None = None
    outage: str = ""
    full: str = ""

    @property
    def ok(self) -> bool:
        return not self.why

    @property
    def void(self) -> bool:
        return self.why.startswith(VOID)

    @property
    def cost(self) -> CommandCost:
        return CommandCost(round(self.seconds, 3), self.attempts, self.exit, self.sandbox, self.network)


_OWN_NAMES = ("tree", "output", "results", "configs", "answers")
NOTHING_RAN = CheckoutRun("", 0, b"", 0.0, 0)


class CommandRequest(NamedTuple):
    """A command to run in a checkout of the commit at `where`; `wants`: it must write its results.

    `code`: the position whose files are checked out, where it is another one.  `values` stand for names in braces;
    `configs` is for a file, if it wants one.  `answers`: it writes answers for a judge into a folder of its output.
    `room`: for its results."""

    where: EvalSlot | NodePlace
    checkout: str
    output: str
    values: Mapping[str, str]
    log: str
    wants: bool
    keep_checkout: bool = False
    configs: bytes = b""
    code: EvalSlot | NodePlace | None = None
    answers: bool = False
    room: SheetRoom = sheet_room()


def run_command(job: Job, request: CommandRequest) -> CheckoutRun:
    """Run a command, again as often as the spec allows; a changed record fails the target, an outage keeps it back."""
    repo = RunRepo(job.target.run)
    commit = repo.commit(request.code or request.where)
    tree = tree_hash(repo.path, commit)
    if read_text(job.reads["tree"][0]).strip() != tree:  # a changed record must not choose the code
        raise StageFailed(f"the records of {job.target.name} name different files: one was changed; build again", 1)
    return run_on_commit(job, request, repo, commit)


def run_on_commit(job: Job, request: CommandRequest, repo: RunRepo, commit: str) -> CheckoutRun:
    """Run a command on a commit that is there, whatever the records say of its position."""
    if why := tree_void_reason(job, tree_hash(repo.path, commit)):
        return NOTHING_RAN._replace(why=why)
    # a root that cannot be measured is no result: its target fails, and the next build tries it again
    retries = job.target.limits.retries if isinstance(request.where, EvalSlot) else 0
    seconds, attempt, outages = 0.0, 0, CommandOutages(job.target.limits.patience or 0.0)
    while True:
        with _at_work(job, request, commit) as record:
            if record.condemned:
                note_in_log(request.log, DIED_TWICE)
                return NOTHING_RAN._replace(why=DIED_TWICE, exit=128 + signal.SIGKILL)
            begun = time.monotonic()
            with repo.checkout(request.checkout, commit, request.keep_checkout) as worktree:
                once = _run_once(job, request, worktree)
            took = time.monotonic() - begun
            if once.outage and _was_killed(once) and not job.processes.stopping:
                record.note_kill()
        if why := _outage_reason(once, request, outages):
            keep_printed(job, request.log)
            delete_tree(request.output)
            try:
                outages.check(job, once, why)
            except StageOutage:
                if not record.is_to_blame or not isinstance(request.where, EvalSlot):
                    raise
                blamed = once._replace(why=f"{once.why}, as at each try; others were not", outage="")
                return blamed._replace(seconds=seconds + took, attempts=attempt + 1)
            note_in_log(job.log, f"{why}; run again")
            write(request.log, b"")  # what the next run prints is all that counts
            continue
        attempt, seconds = attempt + 1, seconds + took
        if once.ok or once.void or attempt > retries or job.processes.stopping:
            return once._replace(seconds=seconds, attempts=attempt)
        note_in_log(request.log, f"attempt {attempt} failed: {once.why}")


def _at_work(job: Job, request: CommandRequest, commit: str) -> AbstractContextManager[CommandRecord]:
    """Let a command run for the block, alone if a build may have died of it; by name it is the work on this code."""
    params = job.target.params
    work = sha256(compact_json([job.target.name, request.output, commit, params]).encode()).hexdigest()[:16]
    grade = resolve_grade(cage_in(params.get(LIMITS, {})).sandbox)
    return job.shared.get(Suspects, Suspects).at_work(job, work, may_kill=grade not in (ISOLATED, TRUSTED))


def _was_killed(once: CheckoutRun) -> bool:
    return signal_of(Exit(once.exit)) in FROM_OUTSIDE


# So often is a command that was killed from outside, or had no room, run again in one build.
MOST_OUTAGES = 3


class CommandOutages:
    """Counts commands of one target that were killed from outside, or had no room for a while."""

    def __init__(self, patience: float) -> None:
        self._count, self._pauses = 0, Pauses(patience)

    @property
    def are_exhausted(self) -> bool:
        return self._count >= MOST_OUTAGES

    def check(self, job: Job, once: CheckoutRun, why: str) -> None:
        """Wait before the command is run again; raise StageOutage where that does not help, or not any more."""
        if job.processes.stopping:
            raise BuildStopping
        if not once.outage and full_disk([job.log]):
            raise NoRoom(why)
        if not once.outage:
            self.wait(job, why, NoRoom(why))
            return
        reason = KILLED_FROM_OUTSIDE if _was_killed(once) else PROGRAM_MISSING
        self.wait(job, why, StageOutage(f"{why}; build again", reason))

    def wait(self, job: Job, why: str, end: StageOutage) -> None:
        """Wait, as long as that may help; else raise `end`."""
        if end.reason == PROGRAM_MISSING:
            raise end
        self._count += 1
        kind = "killed" if end.reason == KILLED_FROM_OUTSIDE else "disk full"
        is_last = self._count > MOST_OUTAGES
        if is_last or not self._pauses.wait(job.processes, job.say, job.target.stage, kind, why):
            raise end


def _outage_reason(once: CheckoutRun, request: CommandRequest, outages: CommandOutages) -> str:
    """Reason why a run says nothing of the candidate; empty if it does.

    If there is room each time that it has ended, it is at last taken for what fills the disk."""
    if once.outage:
        return f"{once.why}: {once.outage}, which says nothing of the candidate"
    if once.void or (once.ok and not (request.wants and once.full)):  # a shell may end well after half a write
        return ""
    full = full_disk([request.output, request.log]) or ("" if outages.are_exhausted else once.full)
    return f"{once.why or 'it ended well'}: {full}" if full else ""


def keep_printed(job: Job, log: str) -> None:
    """Copy the output of a failing target into its log, as nothing else of it is kept."""
    with open(job.log, "ab") as file:
        file.write(read_bytes(log) if os.path.exists(log) else b"")


def _run_once(job: Job, request: CommandRequest, worktree: Worktree) -> CheckoutRun:
    folder, params, timeout = worktree.path, job.target.params, job.target.limits.timeout
    output = os.path.abspath(request.output)
    delete_tree(output)
    os.makedirs(output)
    results, names = f"{output}/results.csv", _brace_names(job, request, folder, output)
    fixed = {name: " ".join(fill_argv([text], names)) for name, text in params["env"].items()}
    fixed |= {"AGENTIC_OUTPUT_DIR": output, **({} if request.answers else {"AGENTIC_RESULTS_CSV": results})}
    shell = "argv" not in params
    words = ["/bin/sh", "-c", fill_shell_line(params["shell"], names)] if shell else fill_argv(params["argv"], names)
    env = job.processes.environment(job.target.run, fixed, params["pass"])
    cage = command_cage(job, request, folder, names)
    cage = cage._replace(visible=(*cage.visible, worktree.lender))  # for git in the checkout
    watched = start_watch(job, worktree.repo, folder, cage.is_walled)
    # not on the store, which is hidden too: we ourselves write to it meanwhile
    wire = arm_tripwire(sealed_paths(job, cage.is_walled), hidden=cage.is_walled)
    full: list[str] = []
    room = DiskUse([folder, output])
    try:
        with watch_room([output, request.log]) as full:
            ended = job.processes.run(words, env, request.log, timeout, cwd=folder, cage=cage)
        why = describe_exit(ended, timeout)[0]
        why = refusing_limit(why, request.log, cage.limits) if ended.code > 0 and not ended.limit else why
    except OSError as error:
        why, status = describe_start_failure(error, words[0])
        if not _is_inside(words[0], folder):
            raise (StageOutage(why, PROGRAM_MISSING) if status == NOT_FOUND else StageFailed(why, status)) from error
        ended = Exit(status)
    foul = tripwire_reason(wire, hidden=cage.is_walled) or (tamper_reason(watched) if watched else "")
    lacks = ended.code == NOT_FOUND and shell and _program_is_missing(words[-1], folder, env.variables)
    outage = None if foul else find_outage(ended, missing=lacks)
    content, lacking = read_results(results, request.room) if request.wants and not foul else (b"", "")
    filled = room.filled() if full and (why or lacking) and not foul else ""
    if filled:  # its files are of no use, and others need the room
        delete_tree(output)
        return CheckoutRun(f"{why or lacking}: {filled}", ended.code, b"", 0.0, 0, cage.grade, cage.network)
    _tidy_output(output, results)
    held, out = (cage.grade, cage.network), outage.why if outage else ""
    return CheckoutRun(foul or why or lacking, ended.code, content, 0.0, 0, *held, out, "".join(full))


def command_cage(job: Job, request: CommandRequest, folder: str, names: Mapping[str, Sequence[str]]) -> Cage:
    """The cage of a command in a checkout: it sees what it is given, and writes there and to its output."""
    keys = cage_in(job.target.params.get(LIMITS, {}))
    grade = resolve_grade(keys.sandbox, judged=request.answers or request.code is not None)
    walled, output = grade != PLAIN, os.path.abspath(request.output)
    given = [path for name, paths in names.items() if name not in ("project", *_OWN_NAMES) for path in paths]
    visible = [path for path in given if os.path.isabs(path)]
    visible += [visible_path(path, job.project) for path in keys.visible]
    limits = make_limits(keys.limits, default_limits())
    network = resolve_network(keys.network, grade)
    hidden = (*sealed_paths(job, walled), *filter(None, [job.store if walled else ""]))
    cage = Cage(grade, network, limits, folder, (folder, output), tuple(visible), hidden)
    return cage._replace(project=os.path.abspath(job.project))


def _brace_names(job: Job, request: CommandRequest, folder: str, output: str) -> dict[str, Sequence[str]]:
    """The values of the names in braces; writes the configs, if the command wants them."""
    ports = {name.removeprefix("in."): group for name, group in job.reads.items() if name.startswith("in.")}
    names = {name: [os.path.abspath(path) for path in group] for name, group in ports.items()}
    names |= {"project": [os.path.abspath(job.project)], **{name: [value] for name, value in request.values.items()}}
    if request.configs:
        names["configs"] = [f"{output}/configs.json"]
        write(f"{output}/configs.json", request.configs)
    if request.answers:
        names[ANSWERS] = [answers_folder(output)]
        os.mkdir(answers_folder(output))
    return {**names, "tree": [folder], "output": [output], "results": [f"{output}/results.csv"]}


def _is_inside(program: str, folder: str) -> bool:
    """True for a program of the candidate; for another one the candidate is not to blame."""
    path = os.path.realpath(os.path.join(folder, program))
    return "/" in program and path.startswith(f"{os.path.realpath(folder)}/")


def _program_is_missing(line: str, folder: str, env: Mapping[str, str]) -> bool:
    """True when the first program of a shell line that ended with "not found" is gone.

    A program that the candidate's own files do not find is the candidate's failure."""
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # the shell reads it otherwise
        return False
    program = next((word for word in words if "=" not in word), "")
    if not _PROGRAM.fullmatch(program) or program in _SHELL_WORDS or _is_inside(program, folder):
        return False
    return shutil.which(os.path.join(folder, program) if "/" in program else program, path=env.get("PATH")) is None


def read_results(path: str, room: SheetRoom) -> tuple[bytes, str]:
    """The results that a command wrote, and what is wrong with them: they may be anything, and of any size."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b"", "it ended without writing its results to {results}, $AGENTIC_RESULTS_CSV"
    except OSError as error:
        return b"", f"its results cannot be read: {error.strerror}"
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b"", "its results are no plain file"
        with open(fd, "rb", closefd=False) as file:
            return take_sheet(iter(partial(file.readline, LONGEST_LINE + 1), b""), room)
    finally:
        os.close(fd)


def _tidy_output(output: str, results: str) -> None:
    """Remove the results, which are an artifact now; other files stay for people to read, an empty folder does not.

    The command may have left no folder at all, or something else in its place."""
    if os.path.islink(output) or not os.path.isdir(output):
        delete_tree(output)
        return
    os.chmod(output, 0o700)
    make_removable(output, look=disarm_repository)
    if not os.path.isdir(results) or os.path.islink(results):
        delete_tree(results)
    if not os.listdir(output):
        os.rmdir(output)


# A line that says what went wrong: of an exception of Python, of pytest's summary, of a compiler.
_TELLING = re.compile(
    r"(?:E +)?[\w.]*(?:Error|Exception): \S.*|(?:E +)?AssertionError|KeyboardInterrupt|FAILED \S+::\S.*"
    r"|(?:[\w./+-]+:\d+:(?:\d+:)? )?(?:fatal )?error(?:\[\w+\])?: \S.*"
)
_TAIL, LONGEST_REASON = 64 << 10, 160


def add_printed_reason(done: CheckoutRun, log: str, project: str) -> CheckoutRun:
    """A failed run whose reason has the last line that it printed which says why; unchanged if there is none.

    What differs from run to run is left out."""
    if done.ok or done.void or not os.path.exists(log):
        return done
    lines = read_bytes(log)[-_TAIL:].decode(errors="replace").rpartition(NOTE_MARK)[2].splitlines()
    found = next((line for line in map(str.strip, reversed(lines)) if _TELLING.fullmatch(line)), "")
    text = without_run_details(found.removeprefix("E "), {os.path.abspath(project): ".", os.getcwd(): "."}).strip()
    return done._replace(why=f"{done.why}: {printable_line(text, LONGEST_REASON)}") if text else done


NOTE_MARK = " ----\n"


def note_in_log(log: str, text: str) -> None:
    with open(log, "ab") as file:
        file.write(f"---- {text}{NOTE_MARK}".encode(errors="backslashreplace"))


_LIMIT = re.compile(r"\blimit: (\w+)")


def note_cure(job: Job, done: CheckoutRun) -> None:
    """Say at the end of the log which keys would let a command of the root do what its cage kept it from."""
    if limit := _LIMIT.search(done.why):
        note_in_log(job.log, f"it passed a limit: `limits: {{{limit[1]}: …}}` allows more")
    elif done.sandbox not in (None, PLAIN) and not done.void:
        note_in_log(job.log, f"it ran in a cage ({done.sandbox}), which may lack something:")
        note_in_log(job.log, "`visible:` lets it read more, `network:` reach more, `sandbox: plain` does without")
