"""What can happen while a project is built."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.fuzz.action import EVERY
from benchmarks.fuzz.operations import code, edit
from benchmarks.fuzz.specs import edit_spec
from benchmarks.fuzz.start import Start
from benchmarks.fuzz.world import World

LOCKED = 75


class Moment(NamedTuple):
    weight: int
    do: Callable[[World], None]


def undisturbed(world: World) -> None:
    Start(world, world.tool.words(world.rng)).end(0)


def partial(world: World) -> None:
    """Single targets, by name or by the path of an output; or one run."""
    now = world.truths()
    names = world.rng.sample([*now], min(len(now), world.rng.randint(1, 2)))
    words = [world.rng.choice((world.tool.target(*name.split(":")), now[name].target.outputs[0])) for name in names]
    if world.tool.name == "coppice" and world.rng.random() < 0.3:
        words = [world.rng.choice(world.project.runs).name]
    start = Start(world, words)
    start.end(0)
    for name in names if ":" in words[0] or "/" in words[0] else ():
        if not world.intact(start.states[0][name]):
            world.find("wrong state", f"{name} was asked for")


def killed(world: World) -> None:
    _interrupted(world, signal.SIGKILL, (-signal.SIGKILL, 0))


def terminated(world: World) -> None:
    _interrupted(world, signal.SIGTERM, (128 + signal.SIGTERM, -signal.SIGTERM, 0))


def stopped(world: World) -> None:
    _interrupted(world, signal.SIGINT, (128 + signal.SIGINT, -signal.SIGINT, 0))


def give_work(world: World) -> None:
    """Edits, until there are a few targets to execute: most moments need a build that takes a while."""
    for _ in range(6):
        now = world.truths()
        if len({now[name].identity for name in world.tool.allowed(world, now)}) > 2:
            break
        name, change = world.rng.choice((("edit", edit), ("edit", edit), ("edit code", code), ("edit spec", edit_spec)))
        world.begin(name)
        world.log(f"{name}: {change(world)}")


def _interrupted(world: World, number: signal.Signals, codes: tuple[int, ...]) -> None:
    """While one target is held back, so that the build cannot be over yet; or at any moment."""
    rng = world.rng
    if rng.random() < 0.85:
        give_work(world)
    world.tell("hold", EVERY)
    start = Start(world, world.tool.words(rng))
    to_do = start.to_do()
    held = start.marks(rng.choice(to_do[1:])) if len(to_do) > 1 and rng.random() < 0.6 else set[str]()
    world.tell("hold", *held)
    if held:
        start.until(lambda: start.one_of(held))
    elif to_do:
        some = rng.randrange(len(to_do))
        start.until(lambda: len(start.ran()) > some)
    time.sleep(rng.uniform(0, 0.06) if to_do else rng.uniform(0, 0.3))
    _signal(world, start, number)
    _after(world, start, number, codes)


def _signal(world: World, start: Start, number: signal.Signals) -> None:
    """Only Coppice is hit: its children are its own affair.  doit is spared that, its whole group goes."""
    if start.process.poll() is None:
        (os.kill if world.tool.name == "coppice" else os.killpg)(start.process.pid, number)


def _after(world: World, start: Start, number: signal.Signals, codes: tuple[int, ...]) -> None:
    finished = start.end(*codes)
    interrupted = start.process.returncode != 0
    unfinished = sum(not world.intact(truth) for truth in start.states[0].values())
    world.counts[f"{number.name} that came too late"] += not interrupted
    world.counts[f"{number.name} in the middle of a build"] += bool(interrupted and finished and unfinished)
    if number == signal.SIGKILL and world.rng.random() < 0.5:
        world.stragglers = start.unfinished()
    else:
        world.all_gone()  # also those that are held
    world.tell("hold")


def concurrent(world: World) -> None:
    """A second start while the first cannot be over yet."""
    give_work(world)
    world.tell("hold", EVERY)
    first = Start(world, world.tool.words(world.rng))
    to_do = first.to_do()
    if not to_do or world.tool.name == "doit":
        world.tell("hold")
        second = Start(world, world.tool.words(world.rng))
        second.end(0, LOCKED)
        first.end(0, LOCKED)
        return
    held = first.marks(world.rng.choice(to_do))
    world.tell("hold", *held)
    if first.until(lambda: first.one_of(held)):
        _turned_away(world, first)
    world.tell("hold")
    first.end(0)


def _turned_away(world: World, first: Start) -> None:
    second = Start(world, world.tool.words(world.rng), idle=True)
    code, output = second.wait(), second.log.read_text()
    world.log(f"meanwhile {second.words} -> {code}")
    if code != LOCKED or f"process {first.process.pid} " not in output:
        world.find("lock", f"second start: exit code {code}, {output}")


def failing(world: World) -> None:
    """One target fails; what does not need it is none the worse.

    If it is asked at all: what was made while sources were edited, of old ones and new ones, may be just what it is to
    give now, and is recalled."""
    give_work(world)
    words = world.rng.choice(([], ["--continue"]))
    now = world.truths()
    to_do = sorted({now[name].identity for name in world.tool.allowed(world, now)})
    bad = set(world.rng.sample(to_do, min(1, len(to_do))))
    marks = {truth.target.mark for truth in now.values() if truth.identity in bad}
    world.tell("fail", *marks)
    start = Start(world, ["run", *words])
    start.wait()
    start.end(1 if start.one_of(marks) else 0)
    world.tell("fail")


MOMENTS = {
    "undisturbed build": Moment(3, undisturbed),
    "part of a build": Moment(3, partial),
    "SIGKILL": Moment(6, killed),
    "SIGTERM": Moment(3, terminated),
    "SIGINT": Moment(1, stopped),
    "two starts": Moment(2, concurrent),
    "failing target": Moment(2, failing),
}
