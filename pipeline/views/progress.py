"""Progress of a build: what ended, what runs, what is left, and how long that will take.

The estimate goes by how long targets took the last time, or others of their step: the longest of all work shared by the
jobs, of the work in each room, and of steps that wait for each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pipeline.core.graph import Target, step_of
from pipeline.core.outcome import BUILT, FAILED, Outcome
from pipeline.views.events import Build

# Receipts looked up for it: enough for good means, few enough to be read within some hundredths of a second.
SAMPLES = 1000
SIBLINGS = 20


class Eta:
    """Estimate of the rest of a build, from what is still to be done and what has ended."""

    def __init__(self, jobs: int, rooms: Mapping[str, int]) -> None:
        self.jobs, self.rooms = jobs, rooms
        # Targets that have not ended yet: step, rooms, and seconds if it has a time of its own.
        self.left: dict[str, tuple[str, tuple[str, ...], float | None]] = {}
        self.above: dict[str, set[str]] = {}  # step -> the steps it reads from; in an order that has those first
        self._took: dict[str, tuple[float, int]] = {}  # step -> sum and number of the times seen
        self._steps: dict[str, str] = {}  # of targets in other groups than their step

    def step(self, name: str) -> str:
        return self._steps.get(name) or step_of(name)

    def expect(self, name: str, rooms: tuple[str, ...], seconds: float | None, step: str = "") -> None:
        if step:
            self._steps[name] = step
        self.left[name] = (self.step(name), rooms, seconds)
        if seconds is not None:
            self.learn(name, seconds)

    def _is_unknown(self, name: str) -> bool:
        step, _, own = self.left.get(name, (self.step(name), (), None))
        return own is None and step not in self._took

    def learn(self, name: str, seconds: float, step: str = "") -> None:
        if step:
            self._steps[name] = step
        took, count = self._took.get(step := self.step(name), (0.0, 0))
        self._took[step] = (took + seconds, count + 1)

    def usual(self, step: str) -> float | None:
        took, count = self._took.get(step, (0.0, 0))
        return took / count if count else None

    def seconds(self, running: Mapping[str, float]) -> float | None:
        """Seconds for the rest of the build; `running` are the targets that run, and for how long already.

        A step nothing is known of counts like the mean of the others; None as long as nothing is known at all, or of a
        target that runs."""
        if not self._took or any(self._is_unknown(name) for name in running):
            return None
        alone = 0.0  # one after another
        work: dict[str, float] = {}
        longest: dict[str, float] = {}
        usual = {step: took / count for step, (took, count) in self._took.items()}
        overall = sum(usual.values()) / len(usual)
        for name, (step, rooms, own) in self.left.items():
            rest = max(0.0, (usual.get(step, overall) if own is None else own) - running.get(name, 0.0))
            alone += rest
            for room in rooms:
                work[room] = work.get(room, 0.0) + rest
            longest[step] = max(longest.get(step, 0.0), rest)
        until: dict[str, float] = {}  # of steps that wait for each other, one after the other, however many jobs
        for step, above in self.above.items():
            until[step] = longest.get(step, 0.0) + max((until.get(a, 0.0) for a in above), default=0.0)
        in_rooms = (work.get(room, 0.0) / places for room, places in self.rooms.items())
        return max(alone / self.jobs, *until.values(), *in_rooms)


def _step_seconds(build: Build, target: Target) -> float | None:
    """Seconds a target took to make, which the receipt of a recalled result does not tell."""
    receipt = build.receipt(target)
    return (receipt.end - receipt.start if receipt and receipt.how == BUILT else None) or build.seconds(target)


def eta_of_build(build: Build) -> Eta:
    """Make the estimate: of large steps a sample is looked up, and the rest counts as its mean."""
    eta = Eta(build.jobs, build.rooms)
    todo: dict[str, list[int]] = {}
    for i in sorted(build.todo):
        todo.setdefault(build.group(build.targets[i]), []).append(i)
    each = max(1, SAMPLES // max(1, len(todo)))
    for step, own in todo.items():
        eta.above[step] = {build.group(build.targets[j]) for j in build.above(own[0])} & {*eta.above}
        sampled = {*own[:: -(-len(own) // each)]}
        for i in own:
            target = build.targets[i]
            seconds = _step_seconds(build, target) if i in sampled else None
            eta.expect(target.name, build.rooms_of(target), seconds, step)
    # The time of a step whose targets here were never built is that of others of it that were.
    asked = {step: SIBLINGS for step in eta.above if eta.usual(step) is None}
    for i, target in enumerate(build.targets if asked else ()):
        if asked.get(step := build.group(target), 0) and i not in build.todo:
            asked[step] -= 1
            if (seconds := _step_seconds(build, target)) is not None:
                eta.learn(target.name, seconds, step)
    return eta


# With more targets than this only what is out of the ordinary is worth a line.
FEW = 50
LONG, OUTLIER, NOTICED = 60.0, 3.0, 1.0


class TargetAtWork(NamedTuple):
    name: str
    rooms: tuple[str, ...]
    since: float
    says: str = ""


class Progress:
    """Progress of a build, updated by its events; `now` is any clock that only goes forward."""

    def __init__(self, build: Build, now: float) -> None:
        self.begun, self.total, self.jobs, self._rooms_of = now, len(build.todo), build.jobs, build.rooms_of
        used = {room for i in build.todo for room in build.rooms_of(build.targets[i])}
        self.rooms = {room: places for room, places in build.rooms.items() if room in used}
        self.counts: dict[str, int] = {}
        self.running: dict[str, TargetAtWork] = {}
        self.stopping = ""
        self._eta = eta_of_build(build)
        self._judged, self._rest = now, self._eta.seconds({})

    @property
    def done_count(self) -> int:
        return sum(self.counts.values())

    def target_started(self, target: Target, now: float) -> None:
        self.running[target.name] = TargetAtWork(target.name, self._rooms_of(target), now)

    def target_progress(self, target: Target, line: str) -> None:
        if target.name in self.running:
            self.running[target.name] = self.running[target.name]._replace(says=line)

    def target_ended(self, target: Target, outcome: Outcome) -> None:
        self.counts[outcome.status] = self.counts.get(outcome.status, 0) + 1
        self.running.pop(target.name, None)
        self._eta.left.pop(target.name, None)
        if outcome.status == BUILT:
            self._eta.learn(target.name, outcome.seconds)

    def worth_a_line(self, target: Target, outcome: Outcome) -> bool:
        """Check, before `target_ended`, if an outcome is worth a line among so many."""
        if self.total <= FEW or outcome.status == FAILED:
            return True
        usual = self._eta.usual(self._eta.step(target.name))
        outlier = usual is not None and outcome.seconds > max(NOTICED, OUTLIER * usual)
        return outcome.status == BUILT and (outlier or outcome.seconds > LONG)

    def places_taken(self) -> dict[str, int]:
        """Map rooms to places taken.  An end is heard of a moment late, so more may seem taken than there are."""
        taken = dict.fromkeys(self.rooms, 0)
        for room in (room for target in self.running.values() for room in target.rooms if room in taken):
            taken[room] = min(taken[room] + 1, self.rooms[room])
        return taken

    def rest(self, now: float) -> float | None:
        """Seconds still to go.  Estimated anew only now and then: that looks at every target left."""
        if now - self._judged > max(1.0, len(self._eta.left) / 5000):
            self._judged = now
            self._rest = self._eta.seconds({r.name: now - r.since for r in self.running.values()})
        return None if self._rest is None or self._is_late(now) else self._rest - (now - self._judged)

    def _is_late(self, now: float) -> bool:
        """True when a target runs so much longer than usual that nobody knows how long it still will."""
        for each in self.running.values():
            usual = self._eta.usual(self._eta.step(each.name)) or 0.0
            if now - each.since > max(NOTICED, OUTLIER * usual):
                return True
        return False
