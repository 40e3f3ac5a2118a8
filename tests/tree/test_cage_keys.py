"""The keys of cages in a search: which command gets which, what they make anew, and that a role's cage holds."""

import json
import socket
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from kit.project import Project
from kit.searches import Search, stage, told

from pipeline.build.project import load
from pipeline.core.cages import CAGE, CAGES, FULL, ISOLATED, LANDLOCK, LOCAL, NO_NETWORK, PLAIN, CageKeys
from pipeline.machine.grades import lacking

CODER = "echo gain=12 > plus/mine"
MEASURED = ("test", "checks", "sweep")
ASKED = ("idea", "implement")


def coded(project: Project, line: str = CODER, **spec: Any) -> Search:
    """A search whose coder is a line of shell, and whose commands stay in their checkouts."""
    roles = {"ideas": {"backend": "patches", "folder": "ideas"}, "coder": coder(line)}
    checks = {"fine": {"run": "test -d plus"}}
    return Search(
        project, {"1one": ":"}, **{"sandbox": None, "roles": roles, "tests": {"run": "true"}, "checks": checks, **spec}
    )


def coder(line: str = CODER, **keys: Any) -> dict[str, Any]:
    return {"backend": "command", "run": ["sh", "-c", line], **keys}


def with_coder(search: Search, line: str = CODER, **keys: Any) -> dict[str, Any]:
    return {**search.keys["roles"], "coder": coder(line, **keys)}


def test_what_a_command_says_counts_before_what_is_said_around_it() -> None:
    outer = CageKeys(ISOLATED, NO_NETWORK, {"cpu": 60.0, "files": 100}, ("a", "b"), 3)
    assert CageKeys().within(outer) == outer
    assert outer.within(CageKeys()) == outer
    inner = CageKeys(LANDLOCK, FULL, {"cpu": 5.0}, ("b", "c"), 9)
    assert inner.within(outer) == CageKeys(LANDLOCK, FULL, {"cpu": 5.0, "files": 100}, ("a", "b", "c"), 9)
    assert CageKeys(limits={"log": 1}).within(outer).line == 3, "the line is that of the grade"
    assert CageKeys(network=FULL, line=9).within(outer) == outer._replace(network=FULL, line=9)


@pytest.mark.parametrize(
    ("keys", "counts"),
    [
        (CageKeys(), {}),
        (CageKeys("auto", limits={"cpu": 1.0}, visible=("a",), line=7), {}),
        (CageKeys(PLAIN, FULL), {"sandbox": PLAIN}),
        (CageKeys(ISOLATED), {"sandbox": ISOLATED}),
        (CageKeys("auto", LOCAL), {"network": LOCAL}),
        (CageKeys(LANDLOCK, NO_NETWORK), {"sandbox": LANDLOCK, "network": NO_NETWORK}),
    ],
    ids=["nothing", "how it runs", "plain", "grade", "network", "both"],
)
def test_of_a_cage_only_what_results_depend_on_counts(keys: CageKeys, counts: dict[str, str]) -> None:
    assert keys.recipe() == counts


def test_what_holds_without_a_word_needs_none_in_a_recipe() -> None:
    """So it is for steps, which are plain unless they say otherwise."""
    assert CageKeys(PLAIN, FULL).recipe(unnamed=PLAIN) == CageKeys("auto").recipe(unnamed=PLAIN) == {}
    assert CageKeys(ISOLATED).recipe(unnamed=PLAIN) == {"sandbox": ISOLATED}


def planned(search: Search, monkeypatch: pytest.MonkeyPatch) -> dict[str, Mapping[str, Any]]:
    """The parameters of a target of each stage."""
    monkeypatch.chdir(search.root)
    return {target.stage: target.params for target in load(["x"], keep=False)["x"].targets}


def test_folders_in_home_are_found_there(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    search = coded(project)
    monkeypatch.setenv("HOME", str(project.root))
    search.spec(repo="~/repo", roles={**search.keys["roles"], "ideas": {"backend": "patches", "folder": "~/ideas"}})
    params = planned(search, monkeypatch)
    assert params["root"]["repo"] == f"{project.root}/repo"
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"


def test_each_command_has_its_own_cage_within_that_of_the_search(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {"sandbox": ISOLATED, "network": NO_NETWORK, "limits": {"cpu": 60}, "visible": "models"}
    search = coded(project, **keys)
    search.spec(
        tests={"run": "true", "sandbox": PLAIN, "network": FULL},
        checks={"fine": {"run": "true", "network": LOCAL}, "same": {"run": "true"}},
        sweep={**search.keys["sweep"], "limits": {"memory": "1 GB"}},
        roles=with_coder(search, limits={"files": 64}),
    )
    params = planned(search, monkeypatch)
    limits = {name: each["limits"] for name, each in params.items() if "limits" in each}
    held = {"sandbox": ISOLATED, "network": NO_NETWORK}
    assert params["test"][CAGE] == {"sandbox": PLAIN}, "without a word it would be in a cage"
    assert params["sweep"][CAGE] == held
    assert {check["name"]: check[CAGE] for check in params["checks"]["checks"]} == {
        "fine": {**held, "network": LOCAL},
        "same": held,
    }
    assert (limits["test"][CAGE]["sandbox"], limits["test"][CAGE]["network"]) == (PLAIN, FULL)
    assert limits["sweep"][CAGE]["limits"] == {"cpu": 60.0, "memory": 1 << 30}
    assert {name: cage["network"] for name, cage in limits["checks"][CAGES].items()} == {
        "fine": LOCAL,
        "same": NO_NETWORK,
    }
    coders = limits["implement"]["coder"][CAGE]
    assert (coders["sandbox"], coders["limits"]) == (ISOLATED, {"cpu": 60.0, "files": 64})
    assert not {"network", "visible"} & {*coders}, "these are for what measures"
    assert "cage" not in json.dumps(params["implement"]["roles"]), "no key of a cage asks a role again"


def redone(search: Search, **keys: Any) -> list[str]:
    """What is measured or asked anew after an edit; the spec is as it was afterwards."""
    before = dict(search.keys)
    search.spec(**keys)
    found = stage(told(search.build(), "built"), *MEASURED, *ASKED)
    search.keys = before
    return sorted({name.rpartition(".")[2] for name in found})


def test_which_of_the_keys_measure_anew_and_none_asks_anyone_again(project: Project) -> None:
    if why := lacking(CageKeys(ISOLATED)):
        pytest.skip(why)
    search = coded(project)
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    for keys in (
        {"sandbox": "auto"},
        {"limits": {"memory": "2 GB", "log": "1 MB"}},
        {"visible": ["data"]},
        {"sweep": {**search.keys["sweep"], "sandbox": "auto", "limits": {"files": 500}}},
        {"roles": with_coder(search, sandbox=ISOLATED, network=NO_NETWORK, limits={"cpu": 50}, visible="a")},
    ):
        assert redone(search, **keys) == [], keys
    assert redone(search, sweep={**search.keys["sweep"], "sandbox": ISOLATED}) == ["sweep"]
    assert redone(search, tests={"run": "true", "network": NO_NETWORK}) == ["test"]
    assert redone(search, sandbox=ISOLATED) == ["checks", "test"], "the sweep has been measured so"
    assert redone(search, sandbox=PLAIN) == ["checks", "sweep", "test"], "what was made in no cage is believed by none"
    assert redone(search) == []


OUTSIDE = "echo bad > ../../../../bad; echo bad > {project}/bad"


@pytest.mark.parametrize("sandbox", [PLAIN, LANDLOCK, ISOLATED])
def test_a_coder_writes_outside_its_checkout_exactly_in_no_cage(project: Project, sandbox: str) -> None:
    if why := lacking(CageKeys(sandbox)):
        pytest.skip(why)
    search = coded(project)
    search.spec(roles=with_coder(search, f"{CODER}; {OUTSIDE}; cat {{project}}/sweep.sh; true", sandbox=sandbox))
    search.build()
    assert search.why("d0.n0.i0") == "d1.n0"
    assert (search.root / "bad").exists() == (sandbox == PLAIN)


CONNECT = "import socket; socket.create_connection(('127.0.0.1', {port}), 5); open('plus/mine', 'w').write('gain=12')"


@pytest.mark.parametrize("network", [NO_NETWORK, FULL, None])
def test_a_role_has_the_network_of_the_machine_unless_it_is_taken(
    project: Project, grade: str, network: str | None
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = CONNECT.format(port=server.getsockname()[1])
        keys = {"sandbox": grade, **({"network": network} if network else {})}
        search = coded(project)
        role = {"backend": "command", "run": [sys.executable, "-c", line], **keys}
        search.spec(roles={**search.keys["roles"], "coder": role})
        search.build()
    assert (search.why("d0.n0.i0") == "d1.n0") == (network != NO_NETWORK)
