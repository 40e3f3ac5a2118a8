"""Plans, records and possibly changed files of a project, loaded once."""

from __future__ import annotations

import fnmatch
import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from math import ceil

from pipeline import kinds
from pipeline.build import project
from pipeline.build.make import Maker
from pipeline.core.cages import CageKeys
from pipeline.core.graph import ALONE, HERE, THREADS, Graph, Target, rooms_of, step_of
from pipeline.core.outcome import FAILED
from pipeline.core.text import printable_line
from pipeline.errors import SpecError, did_you_mean
from pipeline.store import noop, state
from pipeline.store.files import Files, is_pattern, write_whole
from pipeline.store.folders import delete_tree, restore_outputs, restore_ways
from pipeline.store.receipts import Receipts
from pipeline.store.steering import SteeringLog

# In a message.
LONGEST_PATH = 120


class BuildSession:
    """Look at a project: loads what is asked for and no more; read-only until `prepare`.

    `aside`: targets that are no part of a build of their run, but made and stored like any when they are asked for."""

    def __init__(
        self,
        plans: Mapping[str, project.RunPlan],
        locks: Sequence[int] = (),
        always: bool = False,
        aside: Sequence[Target] = (),
    ) -> None:
        self.plans = dict(plans)
        self.graph: Graph = project.graph(self.plans, aside)
        self.suspects: set[int] = set()
        self.watched: dict[str, list[str]] = {}
        self.listed_files: dict[str, list[str]] = {}  # files of a run's state that are still the right ones
        self.steering = {run: SteeringLog(run) for run, plan in self.plans.items() if plan.kind in kinds.STEER.kinds}
        self.requests_before = {run: len(log.requests()) for run, log in self.steering.items()}
        self.costs_nothing: set[str] = set()  # targets that are in doubt, and known to be fresh
        self.maker = Maker(self.plans, self.graph, self._load_files(), locks, always)
        self.aside = {self.graph.index[target.name] for target in aside}
        self.suspects |= self.aside  # no state tells of them
        if always:
            self.suspects = set(range(len(self.graph.targets)))

    def _load_files(self) -> Files:
        """Load what is known from the last builds, and mark the targets that this leaves in doubt."""
        known: dict[str, tuple[int, str]] = {}
        between: set[str] = set()  # changed after the look at one run, and before another was built and looked at
        for run, plan in self.plans.items():
            loaded = state.load_state(run)
            if loaded is None:
                restore_outputs(run)
                self._doubt_run(run)
                continue
            seen, more, written = loaded
            looked, found = noop.LAST_LOOK.get(run, (None, []))  # the look that led to this build
            changed = {*(found if looked == written else noop.changed_files(seen.files, seen.signatures))}
            restore_ways(changed)  # a change of the mode is one
            rows = zip(seen.files, seen.signatures, more.contents, strict=True)
            fresh = {path: (sign, content) for path, sign, content in rows if content and path not in changed}
            between |= {path for path in known.keys() & fresh.keys() if known[path][0] != fresh[path][0]}
            known |= fresh
            self.watched |= more.watched
            files, signatures = _deciding_files(plan)  # anew: the look may be older than the plan, and than our lock
            same = (files, signatures) == (seen.files[: len(files)], seen.signatures[: len(files)])
            if same and project.NO_SIGNATURE not in plan.signatures:
                self._doubt_paths(with_patterns_behind(changed, more.watched))
                self.suspects.update(self.graph.index[name] for name in more.suspects if name in self.graph.index)
                self.listed_files[run] = seen.files[len(files) :]
            else:
                self._doubt_run(run)
        self._doubt_paths(with_patterns_behind(between, self.watched))
        return Files(known)

    def _doubt_run(self, run: str) -> None:
        self.suspects.update(i for i, t in enumerate(self.graph.targets) if t.run == run)

    def _doubt_paths(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.suspects.update(self.graph.touching(path))

    def select(self, words: Iterable[str]) -> set[int]:
        """Select targets by name, run, step, path of an output, or pattern of names or paths; all for no words."""
        chosen = [self._select_word(word) for word in words]
        return set().union(*chosen) if chosen else set(range(len(self.graph.targets)))

    def _select_word(self, word: str) -> set[int]:
        if word in self.graph.index:
            return {self.graph.index[word]}
        if word in self.plans:
            return {i for i, t in enumerate(self.graph.targets) if t.run == word}
        path = os.path.normpath(word)
        if path in self.graph.writer:
            return {self.graph.writer[path]}
        named = self.graph.writer if "/" in word else self.graph.index
        of_step = {i for name, i in self.graph.index.items() if step_of(name) == word}
        if found := of_step or {named[name] for name in fnmatch.filter(named, word)}:
            return found
        steps = dict.fromkeys(map(step_of, self.graph.index))
        closest = did_you_mean(word, [*steps, *named], steps)
        raise SpecError(f"there is no target '{word}'{closest}; `coppice list --all` shows all")

    def room_places(self) -> dict[str, int]:
        """Collect the places of all rooms, by `run:room`."""
        own = {f"{run}:{room}": places for run, plan in self.plans.items() for room, places in plan.rooms.items()}
        if elsewhere := [run for run, plan in self.plans.items() if plan.engine_name != THREADS]:
            from pipeline.machine.usage import usable_cpus  # here: hardly any build has an engine

            own |= dict.fromkeys([f"{run}:{HERE}" for run in elsewhere], ceil(usable_cpus()))
        return {**own, ALONE: 1}

    def rooms_of(self, target: Target) -> tuple[str, ...]:
        """The rooms in which a target needs a place.  Under an engine that is elsewhere, what is made here has as many
        places as there are CPUs; what is not is alone on its own machine, if it wants to be."""
        own = rooms_of(target)
        if self.plans[target.run].engine_name == THREADS:
            return own
        is_here = not self.maker.is_ordered(target)
        return (*own, f"{target.run}:{HERE}") if is_here else tuple(room for room in own if room != ALONE)

    def stale(self, wanted: Iterable[int]) -> set[int]:
        """Find, in what `wanted` needs, the targets that are in doubt or made from such."""
        needed = self.graph.upstream(wanted)
        return self.graph.downstream(self.suspects & needed) & needed

    def is_paused(self, target: Target) -> bool:
        """Check if a target costs something and its run is paused."""
        log = self.steering.get(target.run) if target.name not in self.costs_nothing else None
        return log is not None and self.maker.stage(target).paid and log.pause() is not None

    def check_sources(self, todo: Collection[int]) -> None:
        """Check, before anything runs, that specs may be built, and that every file is there that no target makes."""
        for run in sorted({self.graph.targets[i].run for i in todo}):
            if self.plans[run].refusal:
                raise SpecError(self.plans[run].refusal)
        self._check_cages(todo)
        asked: dict[str, Target] = {}
        for i in todo:
            target = self.graph.targets[i]
            for path in target.inputs:
                if path not in self.graph.writer:
                    asked.setdefault(path, target)
        for path, target in asked.items():
            with suppress(OSError):  # there, but not to be read, in which its target fails
                if not os.path.exists(path) and self.maker.files.content(path) is None:
                    raise self._missing_error(path, target)
        self._check_folders(todo)

    def cages(self, todo: Iterable[int]) -> dict[str, list[CageKeys]]:
        """The cages of what is to be run, by run."""
        found: dict[str, dict[str, CageKeys]] = defaultdict(dict)
        for target in map(self.graph.targets.__getitem__, todo):
            for keys in self.maker.stage(target).cages(target):
                found[target.run][repr(keys)] = keys
        return {run: [*keys.values()] for run, keys in found.items()}

    def _check_cages(self, todo: Collection[int]) -> None:
        """Check that every cage that a spec names can be had on this machine: it is never less."""
        for run, cages in self.cages(todo).items():
            for keys in (each for each in cages if each.is_named or each.network):
                from pipeline.machine.grades import lacking  # here: it loads what few builds need

                if why := lacking(keys):
                    raise SpecError(f"{self.plans[run].spec}:{keys.line}: {why}")

    def _missing_error(self, path: str, target: Target) -> SpecError:
        hint = "a pattern that no file matches" if is_pattern(path) else "create it, or correct the path"
        if os.path.islink(path):
            hint = "it is a symbolic link that leads nowhere"
        missing = f"{printable_line(path, LONGEST_PATH)} is missing, which {target.name} reads"
        spec = self.plans[target.run].spec
        return SpecError(f"{spec}:{project.line_of_path(spec, path, target.line)}: {missing}; {hint}")

    def _check_folders(self, todo: Collection[int]) -> None:
        """Check that no output leaves the run's folder through a symbolic link."""
        targets = [self.graph.targets[i] for i in todo]
        for target in targets:
            for path in filter(os.path.isdir, target.outputs):
                raise SpecError(f"{path} is a folder, where {target.name} writes a file; remove the folder")
        for folder, target in {os.path.dirname(path): t for t in targets for path in t.outputs}.items():
            inside = os.path.realpath(f"runs/{target.run}")
            if os.path.commonpath([inside, os.path.realpath(folder)]) != inside:
                spec = self.plans[target.run].spec
                where = f"{spec}:{target.line}: {folder}"
                raise SpecError(f"{where} leads outside runs/{target.run} by a symbolic link; remove it")

    def prepare(self) -> None:
        """Clear what a killed build may have left half done."""
        for run in self.plans:
            for name in os.listdir(noop.folder(run)):
                if name.endswith(".draft") and not _is_running(int(name.split(".")[-2])):
                    os.unlink(f"{noop.folder(run)}/{name}")
            with suppress(OSError):  # what something still writes to: it is in nobody's way
                delete_tree(f"{noop.folder(run)}/stage")
            for part in ("stage", "logs"):
                os.makedirs(f"{noop.folder(run)}/{part}", exist_ok=True)

    def save(self, statuses: Mapping[int, str]) -> None:
        """Remember signatures and contents, so that the next look costs a stat a file."""
        ok = {i for i, status in statuses.items() if status != FAILED}
        files = self.maker.files
        moved = with_patterns_behind(files.unstable, {**self.watched, **files.watched})
        self.suspects = self.graph.downstream(self.suspects) - ok
        self._doubt_paths(moved)
        for run, plan in self.plans.items():
            self.maker.receipts[run].compact(len(plan.targets))
            self._save_run(run, plan)

    def _save_run(self, run: str, plan: project.RunPlan) -> None:
        watched = {**self.watched, **self.maker.files.watched}
        if run in self.listed_files and not self.maker.files.watched:
            listed = self.listed_files[run]
        else:
            paths = dict.fromkeys(path for t in plan.targets for path in (*t.inputs, *t.outputs))
            watched = {path: behind for path, behind in watched.items() if path in paths}
            plain = [path for path in paths if path not in watched]
            behind_watched = [path for behind in watched.values() for path in behind]
            listed = sorted(dict.fromkeys([*plain, *behind_watched]), key=state.folder_of)
        signatures, contents = self.maker.files.signatures(listed)
        doubted = [self.graph.targets[i] for i in sorted(self.suspects - self.aside)]
        suspects = [target.name for target in doubted if target.run == run]
        deciding, signed = _deciding_files(plan)
        files = [*deciding, *listed]
        seen = state.StateHead(not suspects, len(plan.targets), plan.needs, files, [*signed, *signatures])
        known = state.StateDetails([""] * len(deciding) + contents, suspects, watched)
        write_whole(f"{noop.folder(run)}/state", state.dump_state(seen, known), durable=False)

    def sync_receipts(self) -> None:
        for receipts in self.maker.receipts.values():
            receipts.sync()

    def close(self) -> None:
        self.maker.kept.close()
        self.maker.processes.close()
        for run, receipts in self.maker.receipts.items():
            receipts.close()
            self.maker.stores[run].close()


def _deciding_files(plan: project.RunPlan) -> tuple[list[str], list[int]]:
    """Files that decide on every target of a run (what makes its plan, and its receipts), and their signatures."""
    receipts = Receipts.path_of(plan.run)
    return [*plan.sources, receipts], [*plan.signatures, state.signature(receipts)]


def with_patterns_behind(changed: Collection[str], watched: Mapping[str, list[str]]) -> set[str]:
    """Add to `changed` the folders and patterns that one of them is behind."""
    changed = {*changed}
    return changed | {pattern for pattern, behind in watched.items() if not changed.isdisjoint(behind)}


def _is_running(pid: int) -> bool:
    try:
        with suppress(PermissionError):  # somebody else's
            os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
