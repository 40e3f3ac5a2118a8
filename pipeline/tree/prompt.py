"""Prompts of one evaluation: those that a role was sent, or the one that it would get now.

    fresh      -> all that were sent, from the calls that the target has published
    broken off -> all that were sent, from its journal, if the next build would ask the same
    otherwise  -> the first that would be sent, by the records as they are

Nobody is asked, and nothing is run or written.  Answers of others that are not there yet stand in brackets."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from pipeline.core.graph import Target
from pipeline.core.text import join_names
from pipeline.errors import SpecError, did_you_mean, not_built
from pipeline.git.command import GitProblem
from pipeline.machine.job import StageFailed
from pipeline.models.calls import CALLS_FILE, Call, read_calls
from pipeline.store.files import read_bytes
from pipeline.store.noop import folder
from pipeline.tree.accounts import slot_by_name
from pipeline.tree.rules.positions import EvalSlot, RunLayout, own_name
from pipeline.tree.run.prompting import FIRST_REVIEW, NO_PLAN, PromptValues, fill_template
from pipeline.tree.run.records import Record, SlotTask, load, load_as, read_text
from pipeline.tree.run.run_repo import open_as_is
from pipeline.tree.spec.model import DRY, FOLDER_BACKENDS, GIVEN, NONE, PATCHES, ROLES

# Stand-ins for what others have not answered yet.
PLAN_TO_COME, DIFF_TO_COME, REPORT_TO_COME = "[the plan]", "[the diff of the change]", "[the report of the coder]"


def role_prompts(run: str, targets: Sequence[Target], word: str, role: str, is_fresh: Callable[[str], bool]) -> Record:
    """The prompts of a role for the evaluation that `word` names.  SpecError where nobody is asked."""
    if role not in ROLES:
        raise SpecError(f"--role {role} is unknown{did_you_mean(role, ROLES)}")
    slot = slot_by_name(run, targets, word)
    target = _asking_target(run, targets, slot, role)
    questions = _Questions(run, slot, target)
    lacks: list[str] = []
    if sent := is_fresh(target.name):
        prompts = _prompts_to(role, _calls(questions.published))
        if not prompts:
            raise SpecError(f"{run}:{slot}: the role {role} was not asked{_reason(run, slot, role)}")
    else:
        text, lacks = questions.first(role)
        prompts = _prompts_to(role, questions.journal())
        sent = text in prompts
        prompts = prompts if sent else [text]
    return {"evaluation": f"{run}:{slot}", "role": role, "sent": sent, "lacks": lacks, "prompts": prompts}


def prompt_lines(record: Record) -> list[str]:
    """The text alone where there is one; otherwise each below a line with its number."""
    prompts = record["prompts"]
    if len(prompts) == 1:
        return [prompts[0]]
    return [
        line
        for number, text in enumerate(prompts, 1)
        for line in (f"---- {record['role']}: question {number} of {len(prompts)} ----", text)
    ]


def prompt_note(record: Record) -> str:
    """A remark for people about the prompts."""
    if record["sent"]:
        return f"{record['evaluation']}: sent to the role {record['role']}"
    lacks = f"; not there yet, and in brackets: {join_names(record['lacks'])}" if record["lacks"] else ""
    return f"{record['evaluation']}: not sent; the first that the role {record['role']} would get now{lacks}"


def _asking_target(run: str, targets: Sequence[Target], slot: EvalSlot, role: str) -> Target:
    name = f"{run}:{slot}.{'idea' if role == 'ideas' else 'implement'}"
    target = next((each for each in targets if each.name == name), None)
    backend = _roles(target)[role]["backend"] if target else PATCHES  # ideas of a folder are one target together
    if target is None or backend in (*FOLDER_BACKENDS, NONE, DRY, GIVEN):
        raise SpecError(f"{run}:{slot}: nobody is asked as {role}: its backend is {backend}")
    return target


def _roles(target: Target) -> Mapping[str, Mapping[str, object]]:
    roles: Mapping[str, Mapping[str, object]] = target.params.get("roles") or {"ideas": target.params["role"]}
    return roles


def _calls(path: str) -> list[Call]:
    return [*read_calls(path)] if os.path.exists(path) else []


def _prompts_to(role: str, calls: Sequence[Call]) -> list[str]:
    """The prompts of a role in their order; one that was sent again in a row counts once."""
    texts = [call.prompt for call in calls if call.role == role]
    return [text for n, text in enumerate(texts) if n == 0 or text != texts[n - 1]]


def _reason(run: str, slot: EvalSlot, role: str) -> str:
    at = RunLayout(run)
    why = load(at.idea(slot, "json") if role == "ideas" else at.of_eval(slot, "candidate.json"))["why"]
    return f": {why}" if why else ""


class _Questions:
    """The first question to each role of one target, by the records as they are."""

    def __init__(self, run: str, slot: EvalSlot, target: Target) -> None:
        self.run, self.slot, self.target, self.at = run, slot, target, RunLayout(run)
        self.reads = dict(target.reads)
        self.published = dict(target.writes)["calls"][0]

    def journal(self) -> list[Call]:
        """Calls of a time that was broken off, which the next build uses."""
        path = f"{folder(self.run)}/calls/{own_name(self.target.name)}/{CALLS_FILE}"
        ended = all(map(os.path.exists, (path, self.published))) and read_bytes(path) == read_bytes(self.published)
        return [] if ended else _calls(path)

    def first(self, role: str) -> tuple[str, list[str]]:
        """The text, and what it lacks."""
        try:
            return self._idea_prompt() if role == "ideas" else self._prompt(role)
        except FileNotFoundError as error:
            start = f"`coppice {self.run}:{self.slot.place}.node` builds that, and asks no model"
            is_start = self.slot.depth == 0 and not os.path.exists(self.at.of_node(self.slot.place, "code.json"))
            what = f"what the role {role} is told, such as {error.filename},"
            raise not_built(self.run, what, start if is_start else "") from error
        except GitProblem as problem:
            raise SpecError(f"{problem}; `coppice {self.run}` makes it again") from problem
        except StageFailed as mistake:  # in a template
            raise SpecError(str(mistake)) from mistake

    def _known(self) -> PromptValues:
        repo = open_as_is(self.run, load(self.at.of_node(self.slot.place, "code.json")))
        return PromptValues(self.run, repo, self.slot.place, self.target.params["limits"]["brief"], _roles(self.target))

    def _idea_prompt(self) -> tuple[str, list[str]]:
        context = load(self.reads["context"][0])
        if context["closed"]:
            raise SpecError(f"{self.run}:{self.slot}: no idea is asked for: {context['closed']}")
        before = [read_text(path) for path in self.reads["before"]]
        values = self._known().for_ideas(context, before, self.target.params)
        return fill_template(self.reads, "ideas", values), []

    def _prompt(self, role: str) -> tuple[str, list[str]]:
        task, known = load_as(SlotTask, self.reads["task"][0]), self._known()
        if task.empty:
            raise SpecError(f"{self.run}:{self.slot} has no idea: {task.why}")
        tree = str(load(self.at.of_node(self.slot.place, "code.json"))["tree"])
        if role == "planner":
            return self._planner_prompt(known, tree, task.idea), []
        values = {"idea": task.idea, "plan": self._plan(known, tree, task.idea)}
        if role == "coder":
            values["review"] = FIRST_REVIEW
        else:
            values |= {"diff": DIFF_TO_COME, "report": REPORT_TO_COME}
        lacks = [text.strip("[]") for text in (PLAN_TO_COME, DIFF_TO_COME, REPORT_TO_COME) if text in values.values()]
        return fill_template(self.reads, role, known.of_role(role, tree, values)), lacks

    def _planner_prompt(self, known: PromptValues, tree: str, idea: str) -> str:
        values = known.for_planner(tree, idea, load(self.reads["context"][0]))
        return fill_template(self.reads, "planner", values)

    def _plan(self, known: PromptValues, tree: str, idea: str) -> str:
        if _roles(self.target)["planner"]["backend"] == NONE:
            return NO_PLAN
        asked = self._planner_prompt(known, tree, idea)
        plans = [call.text for call in self.journal() if (call.role, call.prompt, call.exit) == ("planner", asked, 0)]
        return plans[-1] if plans else PLAN_TO_COME
