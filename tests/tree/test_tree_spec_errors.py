"""A mistake in the spec of a search is one message: where, what is wrong, what would be right; nothing is executed."""

from pathlib import Path

import pytest
from kit.mistakes import Mistake, good_spec, read_mistakes, refused_mistake
from kit.project import Project
from kit.searches import START

FILE = Path(__file__).with_name("bad_specs.txt")
MISTAKES = read_mistakes(FILE)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("errors") / "project")
    for path, text in START.items():
        project.write(f"repo/{path}", text)
    project.write("ideas/1/idea.md", "An idea.\n")
    project.write("data.csv", "config_id,status,gain,risk\n0,ok,1,1\n")
    return project


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_one_message_with_file_and_line(ready: Project, mistake: Mistake) -> None:
    refused_mistake(ready, mistake)


def test_the_spec_without_a_mistake_is_planned(ready: Project) -> None:
    ready.spec("x", good_spec(FILE))
    said = ready.call("list", "--all", "x")
    assert said.code == 0, said
    assert "x:d1.n1.i1.score" in said.out
