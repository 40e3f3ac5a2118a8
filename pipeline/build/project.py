"""Specs of a project and the graphs they make, planned once and frozen until something changes.

A plan is frozen into the state folder of its run with the signatures of all that decided it: the spec, this package,
and further files that the spec names.  An installed package is one file, the installer's record; a checkout is all of
its source files.  When a signature differs, or the frozen file is damaged, the plan is made anew; only then is YAML
imported."""

from __future__ import annotations

import marshal
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline import kinds
from pipeline.build.names import RESERVED
from pipeline.core.graph import MOST_ORDERS, THREADS, CycleError, Graph, Limits, Target
from pipeline.errors import SpecError, did_you_mean
from pipeline.store import noop, state
from pipeline.store.files import write_whole
from pipeline.store.folders import restore_run
from pipeline.store.secret import is_signed, load_key, signature

if TYPE_CHECKING:
    from pipeline.spec import Item

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = (".py", ".lean", ".js")
_RECORDED = re.compile(r"coppice-.*\.dist-info")
GRAPH_FORMAT = "coppice-graph-5 " + sys.version
DEFAULT_STORE = ("runs/.store", False)
_SIGNED = 64  # bytes of the signature before a frozen plan
NO_SIGNATURE = 0  # stands for the signature of what is in no file
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class RunPlan(NamedTuple):
    """Plan of one run: its targets in order, and what the kernel needs to know of its spec."""

    run: str
    kind: str
    spec: str
    store: str
    signed: bool  # of the store only what this user has signed is believed
    rooms: dict[str, int]
    at_once: int  # targets that may run at the same time however few CPUs there are
    needs: tuple[str, ...]  # other runs whose outputs this one reads
    refusal: str  # why nothing of it is built
    engine: dict[str, Any]  # where its targets are made, and how that is asked for (`spec_engines`)
    sources: tuple[str, ...]  # the files that decide the plan: the spec, this package, and what else the spec says
    signatures: tuple[int, ...]  # of the sources, before they were read
    targets: list[Target]

    @property
    def engine_name(self) -> str:
        return str(self.engine.get("engine", THREADS))

    @property
    def orders_at_once(self) -> int:
        """How many targets an engine may be asked for at the same time."""
        return 0 if self.engine_name == THREADS else int(self.engine[self.engine_name].get("jobs", MOST_ORDERS))


def spec_paths() -> dict[str, str]:
    """Map each run to the path of its spec."""
    try:
        names = _spec_files("specs")
    except (FileNotFoundError, NotADirectoryError):
        raise SpecError(f"there is no folder specs/ here; {_project_hint()}") from None
    found: dict[str, str] = {}
    for name in names:
        run, spec = name.rpartition(".")[0], f"specs/{name}"
        if run in found:
            raise SpecError(f"{spec}:1: {found[run]} is run '{run}' too; remove one of the two")
        found[run] = spec
    if not found:
        raise SpecError("there is no spec in specs/; `coppice init` writes a first one, specs/hello.yaml")
    return found


def _spec_files(specs: str) -> list[str]:
    return sorted(name for name in os.listdir(specs) if name.endswith((".yaml", ".yml")) and name[0] != ".")


def _project_hint() -> str:
    """Hint where a project is, or how to make one."""
    place = os.getcwd()
    while place != (place := os.path.dirname(place)):
        if os.path.isdir(f"{place}/specs") and _spec_files(f"{place}/specs"):
            return f"this is inside the project {place}; run it there"
    return "`coppice init` makes one with a first spec"


def check_run_name(run: str, spec: str) -> None:
    if run in RESERVED:
        raise SpecError(f"{spec}:1: '{run}' {RESERVED[run]}; rename the file, the run is called after it")
    if not RUN_NAME.fullmatch(run):
        raise SpecError(f"{spec}:1: '{run}' is not a name for a run; use letters, digits, _ . and - in the file's name")


def load(runs: Iterable[str], keep: bool = True) -> dict[str, RunPlan]:
    """Load the plans of `runs` and of the runs they read from.  `keep`: freeze new plans, where that is possible."""
    known, package = spec_paths(), package_files()
    plans: dict[str, RunPlan] = {}
    pending = sorted(runs, reverse=True)
    while pending:
        run = pending.pop()
        if run not in plans:
            if run not in known:
                raise SpecError(f"there is no run '{run}': no specs/{run}.yaml{did_you_mean(run, known)}")
            check_run_name(run, known[run])
            restore_run(run)
            sources = (known[run], *package)
            signatures = [state.signature(path) for path in sources]
            plan = _load_frozen(run, sources, signatures) or _plan_anew(run, known[run], sources, signatures, keep)
            plans[run] = plan._replace(needs=tuple(need for need in plan.needs if need in known))
            pending += plans[run].needs
    return plans


def graph(plans: dict[str, RunPlan], aside: Sequence[Target] = ()) -> Graph:
    """Make the graph of these plans.  `aside`: targets that no plan has, which read what these make."""
    targets = [*(t for plan in plans.values() for t in plan.targets), *aside]
    try:
        made = Graph(targets, in_order=len(plans) == 1)
    except CycleError as error:
        raise _cycle_error(error, {plan.run: plan.spec for plan in plans.values()}) from None
    for plan in plans.values():  # files of other runs are written there: a folder would be read at some chance moment
        others = tuple(f"runs/{run}/" for run in plan.needs)
        for target in plan.targets if others else ():
            for path in target.inputs:
                if f"{path}/".startswith(others) and path not in made.writer:
                    what = f"reads: no step writes {path}{did_you_mean(path, made.writer)}; name the files"
                    raise SpecError(f"{plan.spec}:{target.line}: {what}")
    return made


def last_kind(run: str) -> str:
    """The kind of the plan that was frozen last, whatever has changed since; empty if there is none."""
    frozen = _read_frozen(run) if RUN_NAME.fullmatch(run) else None
    return str(frozen[0][3][1]) if frozen else ""


def _read_frozen(run: str) -> tuple[Any, Any] | None:
    """The frozen plan, if this user has signed it: what is in it would be executed, and `marshal` trusts its bytes."""
    try:
        content = noop.read_cache(f"{noop.folder(run)}/graph")
        claimed, content = content[:_SIGNED], content[_SIGNED:]
        if not is_signed(load_key(), GRAPH_FORMAT, content, claimed):
            return None
        head, rows = marshal.loads(content)
    except (SpecError, *noop.DAMAGE):
        return None
    return (head, rows) if head[0] == GRAPH_FORMAT else None


def _load_frozen(run: str, sources: Sequence[str], signatures: list[int]) -> RunPlan | None:
    frozen = _read_frozen(run)
    if frozen is None:
        return None
    head, rows = frozen
    if head[1][: len(sources)] != list(sources):
        return None
    signatures = [*signatures, *(state.signature(path) for path in head[1][len(sources) :])]
    if head[2] != signatures:
        return None
    limits = [Limits(*row) for row in head[4]]
    new = Target._make
    targets = [new((*row[:5], limits[row[5]], row[6])) for row in rows]
    return RunPlan._make([*head[3], tuple(head[1]), tuple(signatures), targets])


def read_spec(run: str, spec: str) -> Any:
    """Read the spec itself, for what is no part of its plan."""
    item = parse_spec(spec)
    return kinds.read(kinds.kind_of(item), item, run)


def parse_spec(spec: str) -> Item:
    from pipeline.spec import parse  # YAML is needed for this alone

    if os.path.exists(spec) and not os.path.isfile(spec):
        raise SpecError(f"{spec}: is not a file")
    return parse(file_content(spec), spec)


def plan_without_spec(run: str, kind: str, path: str, spec: Any, targets: Sequence[Target]) -> RunPlan:
    """Make a plan that no file in specs/ has; it has no signature to compare with."""
    return _run_plan(run, kind, path, spec, {path: NO_SIGNATURE}, Graph(targets).targets)


def _run_plan(run: str, kind: str, path: str, spec: Any, sources: Mapping[str, int], targets: list[Target]) -> RunPlan:
    own = f"runs/{run}/"
    reads = {path for t in targets for _, group in t.reads for path in group if not path.startswith(own)}
    needs = tuple(sorted({path.split("/")[1] for path in reads if path.startswith("runs/")} - {run}))
    (store, signed), signatures = spec.store or DEFAULT_STORE, tuple(sources.values())
    head = (run, kind, path, os.path.expanduser(store), signed, spec.rooms, spec.at_once, needs, spec.refusal)
    decides = ({**spec.engine}, tuple(sources), signatures)
    return RunPlan(*head, *decides, targets)


def _plan_anew(run: str, spec: str, sources: Sequence[str], signatures: list[int], keep: bool) -> RunPlan:
    item = parse_spec(spec)
    kind = kinds.kind_of(item)
    try:
        declared = kinds.read(kind, item, run)
        targets = Graph(kinds.plan(kind, declared)).targets
    except CycleError as error:
        raise _cycle_error(error, {run: spec}) from None
    except RecursionError:
        item.wrong("nested too deeply, or an alias inside what it stands for")
    decide = {**dict(zip(sources, signatures, strict=True)), **declared.sources}
    plan = _run_plan(run, kind, spec, declared, decide, targets)
    if keep:
        _freeze(plan)
    return plan


def _freeze(plan: RunPlan) -> None:
    """Freeze a plan: a cache, and signed.  Where nothing can be written, as in another's checkout, it is planned each
    time; so it is without a key to sign with."""
    limits: dict[Limits, int] = {}
    rows = [(*t[:5], limits.setdefault(t.limits, len(limits)), t.line) for t in plan.targets]
    head = [GRAPH_FORMAT, [*plan.sources], [*plan.signatures], plan[:10], [tuple(limit) for limit in limits]]
    content, folder = marshal.dumps((head, rows)), noop.folder(plan.run)
    with suppress(OSError, SpecError):
        claim = signature(load_key(), GRAPH_FORMAT, content).encode()
        os.makedirs(folder, exist_ok=True)
        write_whole(f"{folder}/graph", claim + content, durable=False)


def line_of_path(spec: str, path: str, near: int) -> int:
    """The line of a spec that names a path: the nearest to `near`, which it is if the spec does not have it so."""
    if not (spec.endswith((".yaml", ".yml")) and os.path.isfile(spec)):  # the plan of a command's options
        return near
    named = [line for line, word in parse_spec(spec).words() if os.path.normpath(word.strip() or ".") == path]
    return min(named, key=lambda line: (abs(line - near), line), default=near)


def file_content(path: str) -> bytes:
    """Content of a file that the user named."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error


def _cycle_error(error: CycleError, spec_of: dict[str, str]) -> SpecError:
    first = error.targets[0]
    round_ = " -> ".join(t.name for t in reversed(error.targets))
    return SpecError(f"{spec_of[first.run]}:{first.line}: a cycle, each makes what the next one reads: {round_}")


def package_files() -> list[str]:
    """Files of the package: plans, and the code of stages, depend on them.

    An installer writes its record last: an installed package changes only when it is installed again."""
    beside = os.path.dirname(PACKAGE)
    records = (f"{beside}/{name}/RECORD" for name in sorted(os.listdir(beside)) if _RECORDED.fullmatch(name))
    if out := [record for record in records if os.path.isfile(record)]:
        return out
    for folder, inner, names in os.walk(PACKAGE):
        inner[:] = sorted(n for n in inner if n != "__pycache__")
        out += (f"{folder}/{n}" for n in sorted(names) if n.endswith(SOURCES))
    return out
