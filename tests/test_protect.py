"""What a spec protects is the root's whenever a command runs, and a candidate that touches it is void."""

from typing import Any

from conftest import Project
from searches import Search

HARNESS = 'echo config_id,status,gain,risk > "$1"; for i in 0 1 2; do echo "$i,ok,$(cat gain),1" >> "$1"; done\n'
GAIN = "--- a/gain\n+++ b/gain\n@@ -1 +1 @@\n-10\n+12\n"


def protecting(project: Project, *paths: str, patch: str = GAIN, **spec: Any) -> Search:
    """One idea, a patch; what measures is in the repo, and is protected."""
    search = Search(project, {})
    project.write("repo/sweep.sh", HARNESS)
    project.write("repo/gain", "10\n")
    project.write("ideas/a/idea.md", "IDEA: a\n\nRATIONALE: b\n\nREQUIRED_CHANGES:\n- c\n")
    project.write("ideas/a/change.patch", patch)
    sweep = {"run": ["sh", "sweep.sh", "{results}"]}
    search.spec(**{"sweep": sweep, "protect": [*paths] or ["sweep.sh"], **spec})
    return search


def test_a_candidate_that_leaves_it_alone_is_promoted(project: Project) -> None:
    search = protecting(project, "sweep.sh", "plus/**")
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    record = search.record("protected.json")
    assert {*record["files"]} == {"sweep.sh", "plus/start"}


def test_a_candidate_that_edits_it_is_void(project: Project) -> None:
    patch = f"--- a/sweep.sh\n+++ b/sweep.sh\n@@ -1 +1 @@\n-{HARNESS}+{HARNESS.replace('ok,', 'ok,9')}"
    search = protecting(project, patch=patch)
    search.build()
    assert search.why("d0.n0.i0") == "failed: sweep: void: sweep.sh is protected and was changed"
    assert search.summary("d0.n0.i0")["status"] == "failed"
