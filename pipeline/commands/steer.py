"""Commands that steer a search while it is built, from another terminal: pause, resume, idea, answer.

They write no record of the build: each leaves a request, which the build heeds and makes an event of."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from doit.exceptions import InvalidCommand

from pipeline import kinds
from pipeline.build import project
from pipeline.build.project import RunPlan
from pipeline.commands.command import NewCommand, OneRunCommand, opt_json, option, print_result
from pipeline.commands.selection import ability_of
from pipeline.errors import SpecError, did_you_mean
from pipeline.kinds import SteerModule
from pipeline.machine.lock import is_locked, lock_runs
from pipeline.store.steering import PAUSED, RESUMED, SteeringLog, append_request

NOT_STEERED = "cannot be steered while it is built; only a search over code can"


def steered_plan(command: str, run: str) -> tuple[RunPlan, SteerModule]:
    """The plan of a run that can be steered, and the module by which it can."""
    specs = project.spec_paths()
    if run not in specs:
        raise SpecError(f"{command}: '{run}' is no run{did_you_mean(run, specs)}")
    plan = project.load([run])[run]
    return plan, ability_of(plan, kinds.STEER, NOT_STEERED)


def steered_run(command: str, run: str) -> str:
    """Check that a run can be steered: by its last plan where its spec cannot be read, which may be under edit."""
    try:
        return steered_plan(command, run)[0].run
    except SpecError:
        if project.last_kind(run) not in kinds.STEER.kinds:
            raise
        return run


def build_phrase(run: str, building: bool | None) -> str:
    """The build that heeds a request, in words: the one that runs, or the next."""
    return "the build that runs" if building else f"no build of {run} runs; the next one"


def pause_run(run: str) -> str:
    """Pause a run that can be steered; what that does."""
    if SteeringLog(run).pause() is not None:
        return f"{run} is paused already; `coppice resume {run}` lets it go on"
    append_request(run, PAUSED)
    does = "waits once what it has started has ended" if is_locked(run) else "says so and starts nothing"
    return f"{run} is paused: {build_phrase(run, is_locked(run))} {does}; `coppice resume {run}` lets it go on"


def resume_run(run: str) -> str:
    if SteeringLog(run).pause() is None:
        return f"{run} is not paused"
    append_request(run, RESUMED)
    return f"{run} goes on" if is_locked(run) else f"{run} is not paused any more; `coppice {run}` builds it"


class PauseCommand(OneRunCommand):
    name = "pause"
    doc_purpose = "let a search that is being built start nothing more that costs, until `coppice resume`"
    doc_description = (
        "What runs ends and is kept; the build waits. Nothing is decided otherwise. While no build runs, the next one"
        " says that the run is paused and ends with 75."
    )

    def on_specs(self, params: Any, args: list[str]) -> int:
        print(pause_run(steered_run(self.name, args[0])))
        return 0


class ResumeCommand(OneRunCommand):
    name = "resume"
    doc_purpose = "let a search go on that was paused"

    def on_specs(self, params: Any, args: list[str]) -> int:
        print(resume_run(steered_run(self.name, args[0])))
        return 0


class IdeaCommand(NewCommand):
    name = "idea"
    doc_usage = "RUN FILE [--depth N | --node NODE]"
    doc_purpose = "give a search an idea of your own, for the next slot whose idea was not asked for yet"
    doc_description = (
        "FILE, or - for standard input, has the sections IDEA:, RATIONALE: and REQUIRED_CHANGES:. The idea takes the"
        " place of one that a model would be asked for; a build that runs tries it as well. It stands in"
        " runs/RUN/given/SLOT.md from then on; without that file, the model is asked after all."
    )
    cmd_options = (
        option("depth", "at this depth, 0 being the first", "", "N"),
        option("node", "on this node, such as d1.n0", "", "NODE"),
        opt_json,
    )
    takes = (2, 2, "name a run and a file with the idea")

    def on_specs(self, params: Any, args: list[str]) -> int:
        if params["depth"] and params["node"]:
            raise InvalidCommand("idea: give --depth or --node, not both: a node has a depth")
        plan, kind = steered_plan(self.name, args[0])
        text, where = read_words(args[1]).decode(errors="replace"), params["depth"] or params["node"]
        given = kind.give(plan.run, plan.targets, text, args[1], where)
        tries = f"{build_phrase(plan.run, is_locked(plan.run))} tries it"
        print_result(given, [f"{plan.run}:{given['slot']} gets the idea: {tries} ({given['path']})"], params["json"])
        return 0


class AnswerCommand(NewCommand):
    name = "answer"
    doc_usage = "RUN [SLOT [FILE]]"
    doc_purpose = "answer in place of a role with `backend: manual`: an idea, or a change as a patch"
    doc_description = (
        "FILE, or - for standard input, is put where the search awaits it, once it was checked; an empty one says that"
        " there is no idea, or gives the idea up. Without FILE it shows what is awaited. With --give-up it ends the"
        " question of any role that was asked for SLOT and never answered, such as a program that runs out of its time"
        " again and again: the idea has failed then."
    )
    cmd_options = (option("give_up", "give up the idea of SLOT, whose question is never answered"), opt_json)
    takes = (1, 3, "name a run, a slot such as d0.n0.i0, and a file")

    def on_specs(self, params: Any, args: list[str]) -> int:
        plan, kind = steered_plan(self.name, args[0])
        if params["give_up"]:
            if len(args) != 2:
                raise InvalidCommand("answer: --give-up goes with a run and a slot such as d0.n0.i0, and no file")
            with lock_runs([plan.run]):
                put = kind.give_up(plan.run, plan.targets, args[1])
            print_result(put, [f"{plan.run}:{args[1]}: given up; `coppice {plan.run}` goes on"], params["json"])
            return 0
        if len(args) < 3:
            waiting = kind.awaited(plan.run, plan.targets, "".join(args[1:]))
            record = {"run": plan.run, "awaited": [*waiting]}
            print_result(record, [*awaited_lines(plan.run, waiting)], params["json"])
            return 0
        put = kind.answer(plan.run, plan.targets, args[1], read_words(args[2]), args[2])
        line = f"{plan.run}:{args[1]}: the {put['what']} is in {put['path']}; `coppice {plan.run}` goes on with it"
        print_result(put, [line], params["json"])
        return 0


def read_words(path: str) -> bytes:
    """The content of a file that the user named, or what is typed in."""
    return sys.stdin.buffer.read() if path == "-" else project.file_content(path)


def awaited_lines(run: str, waiting: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not waiting:
        yield f"nothing is awaited; `coppice {run}` goes on"
    for each in waiting:
        where = f", made in {each['worktree']}" if each["worktree"] else ""
        yield f"{each['slot']}: awaits {'an' if each['what'] == 'idea' else 'a'} {each['what']}: {each['path']}{where}"
        yield from (f"    {line}" for line in each["idea"].splitlines())
        yield f"    coppice answer {run} {each['slot']} FILE"
