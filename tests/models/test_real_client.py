"""A real client as a coder: aider from the registry, against a server that answers by a script."""

import os
from pathlib import Path
from typing import Any

import pytest
from kit.project import PATIENCE, ROOT
from kit.scripted_models import PRICES, Entry, ScriptedModels, knob_file, serving

from benchmarks.clients.installed import CannotInstall, install
from benchmarks.clients.recipes import environment_with, role
from benchmarks.clients.searched import Search

ROLES = ("ideas", "planner", "coder", "reviewer")


@pytest.fixture(scope="module")
def aider() -> Path:
    """Installed once a checkout, in a folder of its own: it needs other versions of what we need."""
    try:
        return install("aider", ROOT / ".venv/clients")
    except CannotInstall as problem:
        pytest.skip(f"aider cannot be installed: {problem}")


def plain(url: str) -> dict[str, object]:
    price = {"input": PRICES["scripted"].input, "output": PRICES["scripted"].output}
    return {"backend": "openai", "url": f"{url}/v1", "model": "scripted", "price": price}


def test_aider_changes_what_the_idea_says_and_leaves_nothing_behind(aider: Path, tmp_path: Path) -> None:
    with serving(ScriptedModels()) as models:
        search = Search(tmp_path, {"ideas": plain(models.url), "coder": role("aider")}, ideas_per_node=1)
        before = search.files()
        code, printed = search.build(PATIENCE, **environment_with(aider, "aider", models.url))
        assert code == 0, printed
        outcome, left = search.outcome(), search.left_since(before)
    assert outcome.failures == {}
    assert [*outcome.nodes] == ["d0.n0", "d1.n0", "d2.n0"]
    assert not left.keys() & {"repository", "candidates"}, left
    ideas = [entry.idea for entry in models.answers() if entry.role == "coder"]
    for path, line in (knob_file(*map(int, idea.split("="))) for idea in ideas):
        assert (search.run / "wt/d2.n0" / path).read_text() == f"{line}\n"
    assert len({entry.key for entry in models.log}) == len(models.log) == 4, "each question is asked once"
    for call, truth in coders_calls(search, models):
        told, true = call["usage"], truth.tokens
        assert told["input_tokens"] == pytest.approx(true.input, rel=0.02, abs=100), "aider rounds to hundreds"
        assert told["output_tokens"] == pytest.approx(true.output, rel=0.02, abs=100)
        assert told["usd"] == pytest.approx(truth.usd, rel=0.01), "aider rounds to two digits"
    assert outcome.usd == pytest.approx(models.bill(), rel=0.01)


def coders_calls(search: Search, models: ScriptedModels) -> list[tuple[dict[str, Any], Entry]]:
    """Each recorded call of the coder with what the server answered to it, one depth after the other."""
    calls = [call for call in search.calls() if call["role"] == "coder"]
    answers = [entry for entry in models.answers() if entry.role == "coder"]
    ideas = ["Set knob {} to {}".format(*answer.idea.split("=")) for answer in answers]
    pairs = [
        (call, answer) for idea, answer in zip(ideas, answers, strict=True) for call in calls if idea in call["prompt"]
    ]
    assert len(pairs) == len(calls) == len(answers) == 2
    return pairs


def test_the_bill_of_a_model_behind_http_is_exact(tmp_path: Path) -> None:
    with serving(ScriptedModels()) as models:
        search = Search(tmp_path, dict.fromkeys(ROLES, plain(models.url)), max_parallel_evals=4)
        code, printed = search.build(PATIENCE, PATH=os.environ["PATH"])
        assert code == 0, printed
    assert len(models.log) == 4 * len(ROLES)
    assert search.outcome().usd == pytest.approx(models.bill(), rel=1e-12)
    assert models.bill() > 0
