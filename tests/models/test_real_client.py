"""A real client as a coder, from the registry, against a server that answers by a script."""

import os
from pathlib import Path

import pytest
from kit.project import PATIENCE, ROOT
from kit.scripted_models import PRICES, ScriptedModels, knob_file, serving

from benchmarks.clients.installed import CannotInstall, install
from benchmarks.clients.recipes import RECIPES, environment_with, role
from benchmarks.clients.searched import Search

CLIENT = "claude"  # of the five the one that is smallest, and soonest ready
ROLES = ("ideas", "planner", "coder", "reviewer")


@pytest.fixture(scope="module")
def client() -> Path:
    """Installed once a checkout, in a folder of its own."""
    try:
        return install(CLIENT, ROOT / ".venv/clients")
    except CannotInstall as problem:
        pytest.skip(f"{CLIENT} cannot be installed: {problem}")


def plain(url: str) -> dict[str, object]:
    price = {"input": PRICES["scripted"].input, "output": PRICES["scripted"].output}
    return {"backend": "openai", "url": f"{url}/v1", "model": "scripted", "price": price}


def test_it_changes_what_the_idea_says_and_leaves_nothing_behind(client: Path, tmp_path: Path) -> None:
    with serving(ScriptedModels()) as models:
        search = Search(tmp_path, {"ideas": plain(models.url), "coder": role(CLIENT)}, ideas_per_node=1)
        search.write_home(RECIPES[CLIENT].files(models.url))
        before = search.files()
        code, printed = search.build(PATIENCE, **environment_with(client, CLIENT, models.url))
        assert code == 0, printed
        outcome, left = search.outcome(), search.left_since(before)
    assert outcome.failures == {}
    assert [*outcome.nodes] == ["d0.n0", "d1.n0", "d2.n0"]
    assert not left.keys() & {"repository", "candidates"}, left
    ideas = [entry.idea for entry in models.answers() if entry.role == "ideas"]
    for path, line in (knob_file(*map(int, idea.split("="))) for idea in ideas):
        assert (search.run / "wt/d2.n0" / path).read_text() == f"{line}\n"
    assert len({entry.key for entry in models.log}) == len(models.log), "each question is asked once"
    told = [call["usage"] for call in search.calls() if call["role"] == "coder"]
    true = [entry for entry in models.answers() if entry.role != "ideas"]
    assert len(told) == len(ideas) == 2
    assert sum(usage["input_tokens"] for usage in told) == sum(entry.tokens.input for entry in true) > 0
    assert sum(usage["output_tokens"] for usage in told) == sum(entry.tokens.output for entry in true) > 0
    assert outcome.usd == pytest.approx(models.bill(), rel=1e-9)
    assert sum(usage["usd"] for usage in told) == pytest.approx(sum(entry.usd for entry in true), rel=1e-9)


def test_the_bill_of_a_model_behind_http_is_exact(tmp_path: Path) -> None:
    with serving(ScriptedModels()) as models:
        search = Search(tmp_path, dict.fromkeys(ROLES, plain(models.url)), max_parallel_evals=4)
        code, printed = search.build(PATIENCE, PATH=os.environ["PATH"])
        assert code == 0, printed
    assert len(models.log) == 4 * len(ROLES)
    assert search.outcome().usd == pytest.approx(models.bill(), rel=1e-12)
    assert models.bill() > 0
