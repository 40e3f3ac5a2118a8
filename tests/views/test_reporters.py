"""What `coppice run` says where nobody watches: a line an event, and which reporter says what."""

import json
import re
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unicodedata import bidirectional, category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.building import demo_of, fine_and_bad
from kit.project import Project
from kit.tree_runs import small_search

from pipeline.commands.exits import OUTPUT_CLOSED
from pipeline.core.graph import Target
from pipeline.core.outcome import BUILT, FAILED, FRESH, IGNORED, RECALLED, SKIPPED, Outcome, Wait
from pipeline.core.text import duration, visible_text
from pipeline.views.events import Build
from pipeline.views.lines import TAIL_BYTES, TAIL_LINES, clean_line, failure_lines, log_tail, outcome_line, summary_line
from pipeline.views.reporters import Console, ReporterGroup

SPEC = fine_and_bad("seq 1 30", retries=1)
# Of Unicode, what turns the direction of a text.
DIRECTIONS = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}


@pytest.fixture
def demo(project: Project) -> Project:
    return demo_of(project, SPEC, {"in.txt": "one"})


def lines(printed: str) -> list[str]:
    """Without times and without logs, in the order of names: the order of events is the machine's."""
    told = [line for line in re.sub(r"\d+\.\d s", "T", printed).split("\n") if not line.startswith("    ")]
    return [*sorted(told[:-2]), *told[-2:]]


def test_every_event_is_a_line_and_the_last_line_counts_them(demo: Project) -> None:
    failed = ["failed demo:bad (exit status 3, 2 attempts, T)", "skipped demo:after (needs demo:bad)"]
    first = lines(demo.call("run", "--continue").out)
    assert first == [
        "built demo:fine.1  T", "built demo:fine.2  T", *failed,
        "4 targets: 2 built, 0 recalled, 0 fresh, 1 failed, 1 not run in T", "",
    ]  # fmt: skip
    demo.write("in.txt", "two")
    demo.call("run", "demo:fine.1")
    demo.write("in.txt", "one")
    counted = "4 targets: 0 built, 1 recalled, 1 fresh, 1 failed, 1 not run in T"
    again = lines(demo.call("run", "--continue").out)
    assert again == [failed[0], "recalled demo:fine.1", failed[1], counted, ""]


def test_a_target_that_needed_several_attempts_says_so(project: Project) -> None:
    flaky = "[ -e tried ] || {{ touch tried; exit 1; }}; touch {out}"
    project.spec("demo", f"kind: steps\nsteps: {{a: {{run: '{flaky}', retries: 3, writes: a}}}}\n")
    assert lines(project.call().out)[0] == "built demo:a  T (2 attempts)"


def test_what_a_failure_keeps_from_running_is_told_after_it(demo: Project) -> None:
    printed = demo.call("run", "--continue").out
    assert printed.index("failed demo:bad") < printed.index("skipped demo:after")


def test_a_failure_shows_the_end_of_its_log_and_where_it_is(demo: Project) -> None:
    printed = demo.call("run", "demo:after").out
    shown = "".join(f"    {n}\n" for n in range(11, 31))
    assert f"T)\n{shown}    log: runs/demo/.coppice/logs/bad.log\n" in re.sub(r"\d+\.\d s", "T", printed)


def test_with_nothing_to_do_it_says_the_same_as_the_fast_path(demo: Project) -> None:
    assert demo.call("run", "demo:fine.1", "demo:fine.2").code == 0
    fast = demo.spec("demo", "kind: steps\nsteps:\n  a:\n    run: 'touch {out}'\n    writes: a.txt\n")
    assert demo.coppice().returncode == 0, fast
    assert demo.coppice().stdout == demo.coppice("-n", "1").stdout == "up to date: 1 target\n"


def test_ignored_targets_are_told_as_such(demo: Project) -> None:
    demo.call("ignore", "demo:bad")
    printed = demo.call("run").out
    assert {"ignored demo:bad", "ignored demo:after"} <= {*printed.split("\n")}
    assert "2 built, 0 recalled, 0 fresh, 0 failed, 2 ignored in" in printed


def test_a_line_can_be_read_while_the_build_goes_on(project: Project) -> None:
    waits = "for i in $(seq 200); do [ -e go ] || sleep 0.05; done; [ -e go ] && touch {out}"
    project.spec(
        "demo",
        f"""kind: steps\nsteps:
  first: {{run: "touch {{out}}", writes: first.txt}}
  second: {{run: "{waits}", writes: second.txt, reads: runs/demo/first.txt}}
""",
    )
    with project.popen(PYTHONUNBUFFERED="") as build:
        assert build.stdout
        assert build.stdout.readline().startswith("built demo:first  ")
        assert not (project.root / "runs/demo/second.txt").exists()
        project.write("go", "")
        assert build.stdout.readline().startswith("built demo:second  ")


def test_a_log_that_the_stream_cannot_hold_does_not_end_the_build(demo: Project) -> None:
    prints = r"printf 'gr\\303\\274n \\377\\n'; false {out}"
    demo.spec("demo", f'kind: steps\nsteps:\n  a:\n    run: "{prints}"\n    writes: a\n')
    done = demo.coppice(PYTHONIOENCODING="ascii")
    assert done.returncode == 1
    assert "    gr\\xfcn \\ufffd\n" in done.stdout


def test_a_stream_that_nobody_reads_ends_the_build_in_order(demo: Project) -> None:
    """As with every tool that is piped into `head`: what was finished is kept, nothing is left running."""
    with demo.popen("demo:fine.1", "demo:fine.2", "-n", "1") as build:
        assert build.stdout
        assert build.stderr
        build.stdout.close()
        assert build.stderr.read() == ""
    assert build.returncode == OUTPUT_CLOSED
    assert demo.coppice("demo:fine.1").stdout == "up to date: 1 target\n"


def test_o_writes_the_lines_into_a_file(demo: Project) -> None:
    assert demo.call("run", "-o", "said.txt", "demo:fine.1").out == ""
    assert demo.read("said.txt").startswith("built demo:fine.1  ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["zero", "--continue"], ""),
        (["error-only"], "taskid:demo:bad - TaskFailed\nexit status 3\n\n"),
        (["executed-only", "--continue"], "failed demo:bad (exit status 3, 2 attempts, T)\nthe last line\n"),
    ],
)
def test_reporters_of_doit_work(demo: Project, words: list[str], expected: str) -> None:
    said = demo.call("run", "demo:after", "--reporter", *words)
    assert said.code == 1
    told = re.sub(r"^    .*\n", "", re.sub(r"\d+\.\d s", "T", said.out), flags=re.MULTILINE)
    assert re.sub("2 targets: .*", "the last line", told) == expected


PLUGIN = """\
from doit.reporter import ZeroReporter
class Loud(ZeroReporter):
    desc = "shouts"
    def complete_run(self):
        self.outstream.write("DONE\\n")
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is installed and brings doit a reporter."""
    described = tmp_path / "packages/loud-1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[doit.REPORTER]\nloud = loud_reporter:Loud\n")
    (tmp_path / "packages/loud_reporter.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path / "packages")


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("words", ["--reporter loud", "--reporter=loud", "-r loud", "-rloud", "-vr loud"])
def test_a_reporter_of_a_plugin_is_found_however_it_is_asked_for(project: Project, words: str) -> None:
    project.spec("x", "kind: steps\nsteps: {s: {run: 'echo > {out}', writes: s}}\n")
    said = project.call("run", *words.split())
    assert (said.code, said.out, said.err) == (0, "DONE\n", "")


@pytest.mark.usefixtures("plugin")
def test_reporters_of_plugins_are_listed_to_who_mistypes_one(project: Project) -> None:
    assert "'loud'" in project.call("run", "--reporter", "quiet").err


def test_every_reporter_gets_to_its_end_even_if_one_cannot() -> None:
    ended: list[str] = []

    def broken() -> None:
        raise OSError("disk full")

    fine = [SimpleNamespace(complete_run=lambda name=name: ended.append(name)) for name in ("display", "file")]
    reporters = ReporterGroup([fine[0], SimpleNamespace(complete_run=broken), fine[1]])
    with pytest.raises(OSError, match="disk full"):
        reporters.complete_run()
    assert sorted(ended) == ["display", "file"]


@pytest.mark.parametrize("options", [(), ("--reporter", "json"), ("--junit", "junit.xml")])
def test_an_error_before_a_reporter_has_started_is_told_as_it_is(project: Project, options: tuple[str, ...]) -> None:
    small_search(project, "sandbox: plain\n")
    (project.root / "runs/x/events.jsonl").mkdir(parents=True)
    said = project.call("run", *options, "x")
    assert (said.code, said.err) == (1, "coppice: runs/x/events.jsonl: Is a directory\n")
    if "json" in options:
        assert {task["status"] for task in json.loads(said.out)["tasks"]} == {SKIPPED}
    else:
        assert re.match(r"\d+ targets: 0 built", said.out)


def outcome(status: str) -> Outcome:
    return Outcome(status, why="why", attempts=1, start=1.0, end=2.0)


def target(name: str) -> Target:
    return Target(name, "run", (), (), {})


def console(names: list[str], receipt: Any = None) -> tuple[Console, StringIO]:
    stream = StringIO()
    reporter = Console(stream, {})
    todo = range(len(names))
    reporter.begin(Build([target(n) for n in names], lambda i: [], todo, todo, 1, {}, receipt))
    reporter.initialize({}, [])
    return reporter, stream


def test_where_nobody_watches_no_receipt_is_read() -> None:
    def read(target: Target) -> None:
        raise AssertionError(f"the receipt of {target.name} was read")

    reporter, stream = console(["demo:a", "demo:b"], read)
    for name in ("demo:a", "demo:b"):
        reporter.target_started(target(name))
        reporter.target_ended(target(name), outcome(BUILT))
    reporter.complete_run()
    assert "2 built" in stream.getvalue()


@pytest.mark.parametrize(("after", "named"), [(20, 1), (21, 2)])
def test_a_failure_that_has_scrolled_away_is_named_again_at_the_end(after: int, named: int) -> None:
    names = [f"demo:{n}" for n in range(after + 1)]
    reporter, stream = console(names)
    reporter.target_ended(target(names[0]), outcome(FAILED))
    for name in names[1:]:
        reporter.target_ended(target(name), outcome(BUILT))
    reporter.complete_run()
    assert stream.getvalue().count("failed demo:0 (why, 1.0 s)\n") == named


COUNTS = st.dictionaries(st.sampled_from([BUILT, RECALLED, FAILED, FRESH, SKIPPED, IGNORED]), st.integers(0, 3))


@given(COUNTS, st.integers(0, 3))
def test_the_numbers_of_the_last_line_add_up(counts: dict[str, int], untouched: int) -> None:
    total = sum(counts.values()) + untouched
    text = summary_line(total, counts, 1.25)
    first, *parts = map(int, re.findall(r"\d+(?= )", text.partition(" in ")[0]))
    assert (first, sum(parts) or total) == (total, total)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-0.1, "0.0 s"), (0.04, "0.0 s"), (59.94, "59.9 s"), (59.96, "1 min 00 s"), (200, "3 min 20 s"),
        (3599.6, "1 h 00 min"), (3600 * 2 + 60 * 5, "2 h 05 min"), (3600 * 30, "30 h 00 min"),
    ],
)  # fmt: skip
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_a_failure_before_the_first_attempt_has_no_time() -> None:
    assert (
        outcome_line("demo:a", Outcome(FAILED, why="in.txt is missing", exit=2)) == "failed demo:a (in.txt is missing)"
    )


@given(st.text(alphabet="a\x1b[]m\r\t\x07\x00;1\x9b\u202e\u200b", max_size=30))
def test_no_log_can_move_the_cursor_or_turn_the_line(line: str) -> None:
    assert clean_line(line).isprintable() or not clean_line(line)


def test_whatever_unicode_calls_a_control_is_taken_out() -> None:
    """But for signs before numbers in some scripts, which can be seen."""
    everything = "".join(map(chr, range(0x110000)))
    seen = visible_text(everything, "")
    hidden = {char for char in seen if category(char) in ("Cc", "Cs", "Zl", "Zp") or bidirectional(char) in DIRECTIONS}
    assert hidden == {"\t", "\n"}
    assert visible_text("a b\tü ☃\n日") == "a b\tü ☃\n日"
    assert {char for char in everything if category(char) == "Lo"} - {*seen} == {*"\u115f\u1160\u3164\uffa0"}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b[1;31merror\x1b[0m: no", "error: no"), ("10%\r50%\r100%", "100%"), ("done\r", "done"),
        ("\x1b]0;title\x07text", "text"), ("a\tb", "a       b"), ("ü ☃", "ü ☃"),
    ],
)  # fmt: skip
def test_of_a_line_of_a_log_the_text_is_shown(line: str, shown: str) -> None:
    assert clean_line(line) == shown


def test_of_a_huge_log_only_the_end_is_read(tmp_path: Any) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"x" * (TAIL_BYTES + 1) + b"\n\n")
    assert log_tail(str(log)) == ["..." + "x" * (TAIL_BYTES - 2)]
    log.write_text("\n".join(map(str, range(99999))))
    assert log_tail(str(log)) == [str(n) for n in range(99999 - TAIL_LINES, 99999)]


def test_a_log_somebody_removed_ends_no_build() -> None:
    assert failure_lines(Outcome(FAILED, log="gone.log")) == ["    log: gone.log"]


def test_of_an_outage_the_terminal_gets_a_line_and_not_what_the_model_wrote(tmp_path: Any) -> None:
    log = tmp_path / "log"
    log.write_text("def code():\n" * 20)
    failed = Outcome(FAILED, log=str(log))
    assert len(failure_lines(failed)) == 21
    assert failure_lines(failed._replace(outage="model_unavailable")) == [f"    log: {log}"]
    assert Wait("coder", "network", "coder: http://a: no", 2.0).line == "coder: http://a: no; tried again in 2.0 s"
