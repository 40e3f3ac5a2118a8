"""The key tables in docs/ are those of the code: `PYTHONPATH=. python tests/house/test_key_pages.py` renews them."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import pipeline
from pipeline.commands.flags import long_name
from pipeline.lean.backends.keys import lean_table
from pipeline.lean.model import LeanKeys
from pipeline.mcts import read as mcts
from pipeline.mcts.spec import model
from pipeline.proof import read as proof
from pipeline.spec_engines import SLURM_KEYS
from pipeline.spec_fields import Field
from pipeline.steps import read as steps
from pipeline.tree import read as tree
from pipeline.tree.spec import score, sweep
from pipeline.tree.spec.roles import BACKENDS, CODER_FIELDS, PROMPT_FIELDS

DOCS = Path(pipeline.__file__).parent.parent / "docs"


def meaning_of_absence(field: Field) -> str:
    if field.without or field.needed:
        return field.without or "needed"
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    if isinstance(field.default, int | float):
        return f"{field.default:g}"
    return f"`{field.default}`" if isinstance(field.default, str) and field.default else ""


def cell(text: str) -> str:
    return text.replace("|", r"\|")


def key_rows(fields: Iterable[Field]) -> list[str]:
    rows = [f"| `{each.key}` | {meaning_of_absence(each)} | {cell(each.help)} |" for each in fields]
    return ["| key | | meaning |", "|---|---|---|", *(row.replace("|  |", "| |") for row in rows)]


def flag_rows(fields: Iterable[Field]) -> list[str]:
    rows = []
    for each in fields:
        name = long_name(each.key)
        words = [f"`--{name}{f' {each.value}' if each.value else ''}`", *([f"`--no-{name}`"] if each.inverse else [])]
        default = "" if each.default is None or each.default is False else f"; {meaning_of_absence(each)}"
        rows.append(f"| {', '.join(words)} | `{each.key}`: {cell(each.help)}{default} |")
    return ["| flag | key of the spec |", "|---|---|", *rows]


def backend(name: str) -> list[str]:
    return key_rows(each for each in BACKENDS[name] if each not in PROMPT_FIELDS and each.key != "backend")


TABLES = {
    "steps.md": {"## Keys of the spec": key_rows(steps.SPEC), "## Keys of a step": key_rows(steps.STEP)},
    "tree.md": {
        "## Keys of the spec": key_rows(tree.SPEC),
        "## Keys of `tests` and `sweep`": key_rows(sweep.SWEEP),
        "## Keys of `blocks`": key_rows(score.BLOCKS),
        "## Keys of a check": key_rows(sweep.CANARY_FIELDS),
        "## Keys of `cascade`": key_rows(sweep.CASCADE),
        "## Keys of `holdout`": key_rows(sweep.HOLDOUT),
        "## Keys of a metric": key_rows(score.METRIC),
        "## Keys of `score`": key_rows(score.SCORE),
        "## Keys of `budget`": key_rows(tree.BUDGET),
        "## Keys of `leave_out`": key_rows(tree.LEAVE_OUT),
    },
    "cluster.md": {"## Keys": key_rows(SLURM_KEYS)},
    "tree-command.md": {"## Flags": flag_rows(tree.SPEC.flags)},
    "backends.md": {
        "## Prompts": key_rows(PROMPT_FIELDS),
        "## Keys of a coder": key_rows(CODER_FIELDS),
        **{f"## `{name}`": backend(name) for name in BACKENDS if name != "none"},
    },
    "proof-keys.md": {
        "## Keys of the spec": key_rows(proof.SPEC),
        "## Keys of a strategy": key_rows(proof.STRATEGY),
        "## Keys of `lean`": key_rows(lean_table(LeanKeys())),
    },
    "mcts-keys.md": {
        "## Keys of the spec": key_rows(each for each in mcts.SPEC if each.key not in model.SCENARIO.fields),
        "## Keys of a scenario": key_rows(model.SCENARIO),
        **{f"### Keys of `{name}`": key_rows(group) for name, group in model.GROUPS.items()},
    },
}


def with_tables(page: str) -> str:
    """The page, the first table below each heading being that of the code."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for title, rows in TABLES[page].items():
        start = text.index(f"\n{title}\n")
        found = re.compile(r"(?<=\n)\| (?:key|flag) \|.*\n(?:\|.*\n)+").search(text, start)
        assert found, title
        text = text[: found.start()] + "\n".join(rows) + "\n" + text[found.end() :]
    return text


@pytest.mark.parametrize("page", TABLES)
def test_the_tables_of_keys_are_those_of_the_code(page: str) -> None:
    """`PYTHONPATH=. python tests/house/test_key_pages.py` renews them."""
    assert (DOCS / page).read_text(encoding="utf-8") == with_tables(page)


if __name__ == "__main__":
    for each in TABLES:
        (DOCS / each).write_text(with_tables(each), encoding="utf-8")
