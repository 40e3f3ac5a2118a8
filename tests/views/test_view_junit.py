"""`--junit FILE`: what CI reads of a build, besides what any reporter prints."""

import signal
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.building import demo_of, fine_and_bad
from kit.project import Project

from pipeline.core.outcome import FAILED, SKIPPED, Outcome
from pipeline.views.junit import junit_document, xml_text

SPEC = fine_and_bad("printf 'a\\\\000b\\\\033[31mc\\\\014d <&>'")


@pytest.fixture
def demo(project: Project) -> Project:
    return demo_of(project, SPEC, {"in.txt": "one"})


def suite(project: Project) -> ElementTree.Element:
    (found,) = ElementTree.fromstring(project.read("out/junit.xml"))
    return found


def case(project: Project, name: str) -> ElementTree.Element:
    (found,) = suite(project).findall(f"testcase[@name='{name}']")
    return found


def run(project: Project, *words: str) -> int:
    return project.call("run", "--junit", "out/junit.xml", *words).code


def test_a_run_is_a_suite_and_a_target_a_case(demo: Project) -> None:
    assert run(demo, "--continue") == 1
    found = suite(demo)
    counts = {n: found.get(n) for n in ("name", "tests", "failures", "errors", "skipped")}
    assert counts == {"name": "demo", "tests": "4", "failures": "1", "errors": "0", "skipped": "1"}
    names = [(c.get("name"), c.get("classname")) for c in found.findall("testcase")]
    steps = {"demo:fine.1": "demo.fine", "demo:fine.2": "demo.fine", "demo:bad": "demo.bad", "demo:after": "demo.after"}
    assert dict(names) == steps
    times = [float(c.get("time", "")) for c in found.findall("testcase")]
    assert times[0] > 0
    assert float(found.get("time", "")) == pytest.approx(sum(times), abs=0.01)


def test_a_failure_has_its_message_and_the_end_of_its_log(demo: Project) -> None:
    run(demo, "--continue")
    failure = case(demo, "demo:bad").find("failure")
    assert failure is not None
    assert failure.get("message") == "exit status 3"
    assert failure.text == "abcd <&>\nlog: runs/demo/.coppice/logs/bad.log"


@pytest.mark.parametrize("words", [["--continue"], ["-n", "1"]])
def test_what_a_failure_kept_from_running_is_skipped(demo: Project, words: list[str]) -> None:
    run(demo, *words)
    skipped = case(demo, "demo:after").find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "needs demo:bad"


def test_recalled_and_fresh_targets_are_passed_and_say_so(demo: Project) -> None:
    run(demo, "--continue")
    (demo.root / "runs/demo/1.txt").unlink()
    run(demo, "--continue")
    for name, status in (("demo:fine.1", "recalled"), ("demo:fine.2", "fresh")):
        (properties,) = case(demo, name)
        assert [p.attrib for p in properties] == [{"name": "status", "value": status}]


def test_it_is_written_when_nothing_was_to_do(demo: Project) -> None:
    for _ in range(2):
        assert run(demo, "demo:fine.1") == 0
    assert suite(demo).get("tests") == "1"


def test_it_is_written_when_the_build_is_interrupted(demo: Project) -> None:
    waits = "touch runs.on; while :; do sleep 0.05; done; touch {out}"
    demo.spec("demo", SPEC + f'  slow:\n    run: "{waits}"\n    reads: [runs/demo/1.txt]\n    writes: slow.txt\n')
    with demo.popen("--junit", "out/junit.xml", "-r", "zero", "-n", "1", "demo:slow") as build:
        while not (demo.root / "runs.on").exists():
            assert build.poll() is None
        build.send_signal(signal.SIGTERM)
        assert build.communicate() == ("", "coppice: interrupted by signal 15; what was finished is kept\n")
    assert [p.attrib["value"] for p in suite(demo).iter("property")] == ["interrupted by signal 15"]
    assert len(case(demo, "demo:fine.1")) == 0, "built before"
    skipped = case(demo, "demo:slow").find("skipped")
    assert skipped is not None
    assert skipped.get("message") == "stopped while it ran: interrupted by signal 15"


def test_a_place_that_cannot_be_written_is_told_before_anything_runs(demo: Project) -> None:
    done = demo.call("run", "--junit", "in.txt/junit.xml")
    assert done.code != 0
    assert "in.txt" in done.err
    assert not (demo.root / "runs/demo/1.txt").exists()


@given(st.lists(st.tuples(st.sampled_from([FAILED, SKIPPED]), st.text())))
def test_it_is_xml_whatever_a_message_holds(told: list[tuple[str, str]]) -> None:
    ended = [(f"demo:{n}", Outcome(status, why=why)) for n, (status, why) in enumerate(told)]
    written = junit_document(ended, datetime.now(UTC), "a \x00 b")
    assert len(list(ElementTree.fromstring(written).iter("testcase"))) == len(told)


def test_nothing_in_it_turns_the_direction_of_a_line() -> None:
    assert xml_text("a\u202eb\u200b\x1b[31m\tc\nd") == "ab[31m\tc\nd"
