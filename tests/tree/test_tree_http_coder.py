"""A search whose four roles are models behind HTTP: they see the files in their prompts, and answer with edits."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kit.answering import AnsweringServer, QuestionHandler, answering
from kit.project import Project
from kit.searches import TESTED, Search

IDEA = "IDEA: More gain.\n\nRATIONALE: r\n\nREQUIRED_CHANGES:\n- plus/start: raise it\n"
WRONG = "plus/start\n<<<<<<< SEARCH\nnothing\n=======\ngain=12\n>>>>>>> REPLACE\n"
RIGHT = "plus/start\n<<<<<<< SEARCH\n:\n=======\ngain=12\n>>>>>>> REPLACE\n\nplus/more\n```\nrisk=4\n```\n"


class Models(AnsweringServer):
    """Answers by what the prompt asks for; keeps the prompts."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.code = [WRONG, RIGHT]
        super().__init__()

    def answer(self, handler: QuestionHandler, asked: Any) -> None:
        message = {"role": "assistant", "content": self.text_for(asked["messages"][0]["content"])}
        body = json.dumps({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}).encode()
        handler.begin(200, {"Content-Length": str(len(body))})
        handler.wfile.write(body)

    def text_for(self, prompt: str) -> str:
        self.prompts.append(prompt)
        if prompt.startswith("You propose"):
            return IDEA
        if prompt.startswith("Implement"):
            coded = [each for each in self.prompts if each.startswith("Implement")]
            return self.code[min(len(coded), len(self.code)) - 1]
        return "APPROVE" if prompt.startswith("Review") else "1. Raise it."


@pytest.fixture
def models() -> Iterator[Models]:
    with answering(Models()) as made:
        yield made


def searched(project: Project, models: Models, code: int = 0, **keys: Any) -> Search:
    role = {"backend": "openai", "url": f"http://127.0.0.1:{models.server_address[1]}/v1", "model": "m"}
    roles = {name: {**role, **keys.pop(name, {})} for name in ("ideas", "planner", "coder", "reviewer")}
    search = Search(project, {}, roles=roles, **{"ideas_per_node": 1, **TESTED, **keys})
    search.build(code=code)
    return search


def test_half_of_a_pair_in_an_answer_is_no_fault_of_the_tool(project: Project, models: Models) -> None:
    """JSON may escape what no text holds."""
    models.code = ["plus/start\n```\ngain=12 # \ud800\n```\n"]
    search = searched(project, models)
    assert search.why("d0.n0.i0") == "d1.n0"
    assert "gain=12 # \ufffd" in project.read("runs/x/eval/d0.n0.i0/change.patch")


def test_an_edit_that_misses_is_said_to_the_model_and_the_corrected_one_is_measured(
    project: Project, models: Models
) -> None:
    project.write("repo/.env", "TOKEN=hidden\n")
    search = searched(project, models, max_depth=2, constraints="Be brief.", max_total_idea_evals=2)
    assert search.why("d0.n0.i0") == "d1.n0"
    idea, _, first, second, review, later = models.prompts[:6]
    for known in ("Primary metric: gain, more is better", "risk, less is better", "At the start: gain 11, risk 5."):
        assert known in idea
    assert "Left of the budget before this step: 2 evals." in idea
    assert "### plus/start\n\n```\n:\n```" in first
    assert "<<<<<<< SEARCH" in first
    assert ".env" in first
    assert "hidden" not in "".join(models.prompts)
    assert str(project.root) not in "".join(models.prompts)
    assert "the SEARCH text of 1 line is not there" in second
    assert "+gain=12" in review
    assert "### plus/more\n\n```\nrisk=4\n```" in review
    assert "It became d1.n0: rank" in later
    assert "With the code as it is: gain 13, risk 4." in later
    patch = project.read("runs/x/eval/d0.n0.i0/change.patch")
    assert "+gain=12" in patch
    assert "+risk=4" in patch


ESCAPES = {
    "outside": "../out\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n",
    "absolute": "/tmp/out\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n",
    "git": ".git/hooks/post-checkout\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n",
    "a folder": "plus\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n",
    "a file as a folder": "README/x\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n",
    "by half": RIGHT + WRONG,
    "protected": "README\n<<<<<<< SEARCH\nA model.\n=======\nx\n>>>>>>> REPLACE\n",
    "no change": "I cannot do that.\n",
    "a diff outside": "--- /dev/null\n+++ b/../out\n@@ -0,0 +1 @@\n+x\n",
}


@pytest.mark.parametrize("name", ESCAPES)
def test_an_answer_that_cannot_be_used_is_the_candidates_failure_and_writes_nothing(
    project: Project, models: Models, name: str
) -> None:
    models.code = [ESCAPES[name]]
    search = searched(project, models, coder={"max_repairs": 1}, protect=["README"])
    assert search.why("d0.n0.i0").startswith("failed: ")
    assert len([each for each in models.prompts if each.startswith("Implement")]) == 2
    assert "could not be used, and nothing of it was applied" in models.prompts[3]
    assert not [*search.root.rglob("out")] or not [path for path in search.root.rglob("out") if path.is_file()]
    assert project.read("runs/x/eval/d0.n0.i0/change.patch") == ""
