"""coppice why: fresh, or stale and exactly why."""

import os
import re
import time
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.building import demo_of
from kit.project import Project

from pipeline.core.freshness import Causes, Reason
from pipeline.core.graph import Graph, Target

DEMO = """
kind: steps
steps:
  a:
    for: {i: {range: 3}}
    run: [sh, -c, 'cat "$0" > "$1"; echo end >> "$1"', "{in}", "{out}"]
    reads: src/{i}.txt
    writes: a/{i}.txt
    env: {SEED: "1"}
  b:
    for: {i: {range: 3}}
    run: tr a-z A-Z < {in} > {out}
    reads: a/{i}.txt
    writes: b/{i}.txt
  sum:
    run: [sort, "{in}", -o, "{out}"]
    reads: [{step: b}]
    writes: sum.txt
"""


@pytest.fixture
def demo(project: Project) -> Project:
    demo_of(project, DEMO, {f"src/{i}.txt": f"hello {i}\n" for i in range(3)})
    assert project.call("run").code == 0
    return project


def short(content: str) -> str:
    return f"{sha256(content.encode()).hexdigest()[:8]}…"


def why(project: Project, *words: str) -> str:
    """What it says of something stale."""
    said = project.call("why", *words)
    assert (said.code, said.err) == (1, "")
    return said.out


def test_a_fresh_target_is_called_fresh_with_exit_code_0(demo: Project) -> None:
    said = demo.call("why", "demo:sum", "demo:a.1")
    assert (said.code, said.out) == (0, "demo:sum is fresh\ndemo:a.1 is fresh\n")


def test_an_edited_input_is_named_with_its_old_and_new_contents(demo: Project) -> None:
    demo.write("src/2.txt", "jello 2, longer\n")
    said = demo.call("why", "demo:a.2")
    change = f"{short('hello 2' + chr(10))} -> {short('jello 2, longer' + chr(10))}"
    assert said.out == (
        f"demo:a.2 is stale\n  because input changed src/2.txt: {change} (now 16 bytes)\n  it would run\n"
    )
    assert said.code == 1


def test_a_target_below_gets_the_whole_chain_up_to_the_cause(demo: Project) -> None:
    demo.write("src/2.txt", "j\n")
    assert why(demo, "demo:sum") == (
        "demo:sum is stale\n"
        "  because demo:b.2 is stale, whose output runs/demo/b/2.txt it reads\n"
        "  because demo:a.2 is stale, whose output runs/demo/a/2.txt it reads\n"
        f"  because input changed src/2.txt: {short('hello 2' + chr(10))} -> {short('j' + chr(10))} (now 2 bytes)\n"
        "  it is redone only if the outputs above come out different\n"
    )


def test_a_changed_recipe_is_named_by_the_path_of_its_key(demo: Project) -> None:
    demo.spec("demo", DEMO.replace("echo end", "echo END").replace('SEED: "1"', 'SEED: "2"'))
    said = why(demo, "demo:a.0")
    assert 'and recipe changed run[2]: cat "$0" > "$1"; echo end >> "$1" -> cat "$0" > "$1"; echo END >>' in said
    assert "because recipe changed env.SEED: 1 -> 2\n" in said


def test_an_environment_variable_that_is_new_or_gone_is_said_to_be_nothing_before_or_after(demo: Project) -> None:
    demo.spec("demo", DEMO.replace('SEED: "1"', 'WEED: "1"'))
    said = why(demo, "demo:a.0")
    assert "recipe changed env.SEED: 1 -> nothing\n" in said
    assert "recipe changed env.WEED: nothing -> 1\n" in said


def test_long_values_are_shown_from_where_they_part(project: Project) -> None:
    spec = "kind: steps\nsteps:\n  a:\n    run: 'echo {} > {{out}}'\n    writes: a.txt\n"
    project.spec("demo", spec.format("x" * 300 + "old" + "y" * 300))
    project.call()
    project.spec("demo", spec.format("x" * 300 + "new" + "y" * 300))
    line = next(line for line in why(project, "demo:a").splitlines() if "recipe" in line)
    assert "xold" in line
    assert "xnew" in line
    assert len(line) < 200


def test_a_value_that_only_changes_its_type_is_shown_with_quotes(project: Project) -> None:
    project.write("f.py", "def f(reads, writes, n):\n    open(writes[0], 'w').write(repr(n))\n")
    spec = "kind: steps\nsteps:\n  a:\n    call: f.py:f\n    with: {{n: {}}}\n    writes: [a.txt]\n"
    project.spec("demo", spec.format("3"))
    project.call("run")
    project.spec("demo", spec.format("'3'"))
    assert "recipe changed with.n: 3 -> '3'\n" in why(project, "demo:a")


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_a_tampered_output_is_told_with_the_first_byte_that_differs(project: Project, size: int) -> None:
    """Small outputs lie inside the stored result, large ones beside it."""
    project.spec("demo", f"kind: steps\nsteps:\n  a:\n    run: head -c {size} /dev/zero > {{out}}\n    writes: a.bin\n")
    project.call("run")
    project.write("runs/demo/a.bin", bytes(size - 60) + b"x" + bytes(9))
    said = why(project, "runs/demo/a.bin")
    assert f"because output changed runs/demo/a.bin: {sha256(bytes(size)).hexdigest()[:8]}… -> " in said
    assert f"({size} -> {size - 50} bytes, first differing byte {size - 59})\n" in said
    assert said.endswith("  its result is in the store: it would be recalled\n")


def test_a_truncated_output_differs_from_its_first_missing_byte(demo: Project) -> None:
    demo.write("runs/demo/a/1.txt", "hello")
    assert "(12 -> 5 bytes, first differing byte 6)" in why(demo, "demo:a.1")


def test_a_missing_output_is_told(demo: Project) -> None:
    (demo.root / "runs/demo/a/1.txt").unlink()
    assert "because output missing runs/demo/a/1.txt\n" in why(demo, "demo:a.1")


def test_what_reads_a_tampered_output_is_said_to_be_left_alone_once_that_is_back(demo: Project) -> None:
    demo.write("runs/demo/a/1.txt", "hullo 1\nend\n")
    said = why(demo, "demo:b.1")
    assert "because demo:a.1 is stale, whose output runs/demo/a/1.txt it reads\n" in said
    assert said.endswith("  nothing is to be redone once the targets above are as they were\n")
    built = demo.call().out
    assert "recalled demo:a.1\n" in built
    assert "demo:b.1" not in built


def test_an_undone_edit_is_said_to_be_recalled_down_to_the_last_target(demo: Project) -> None:
    demo.write("src/2.txt", "jello\n")
    demo.call()
    demo.write("src/2.txt", "hello 2\n")
    for target in ("demo:a.2", "demo:b.2", "demo:sum"):
        assert why(demo, target).endswith("  its result is in the store: it would be recalled\n")


def test_an_input_that_was_made_anew_is_a_reason_of_its_own(demo: Project) -> None:
    demo.write("src/2.txt", "jello\n")
    demo.call("demo:a.2")
    assert re.fullmatch(
        r"demo:b\.2 is stale\n  because input changed runs/demo/a/2\.txt: \w{8}… -> \w{8}… \(now 10 bytes\)\n"
        r"  it would run\n",
        why(demo, "demo:b.2"),
    )


def test_a_failure_is_told_with_its_exit_its_time_and_its_log(project: Project) -> None:
    project.spec("demo", "kind: steps\nsteps:\n  a:\n    run: echo oh; exit 3; {out}\n    writes: a.txt\n")
    began = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    project.call("run")
    said = why(project, "demo:a")
    told = re.search(
        r"demo:a failed last at (\S+ \S+) UTC: exit status 3; its log is runs/demo/\.coppice/logs/a\.log\n", said
    )
    assert told
    assert began <= told[1] <= time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    assert (project.root / "runs/demo/.coppice/logs/a.log").read_text() == "oh\n"


def test_the_failure_of_a_target_above_is_told_too(project: Project) -> None:
    spec = "kind: steps\nsteps:\n  a:\n    run: {} > {{out}}\n    writes: a.txt\n"
    spec += "  b:\n    run: cat {{in}} > {{out}}\n    reads: a.txt\n    writes: b.txt\n"
    project.spec("demo", spec.format("true"))
    project.call("run")
    project.spec("demo", spec.format("false"))
    project.call("run")
    said = why(project, "demo:b")
    assert "because recipe changed run: true > {out} -> false > {out}\n  demo:a failed last at" in said


def test_an_ignored_target_and_what_lies_below_are_said_to_be_left_out(demo: Project) -> None:
    demo.call("ignore", "demo:a.1")
    left_out = "left out: demo:a.1 is ignored until `coppice forget demo:a.1`\n"
    for target in ("demo:a.1", "demo:b.1", "demo:sum"):
        assert why(demo, target) == f"{target} is {left_out}"
    assert why(demo, "demo") == "demo: 4 of 7 targets fresh\n  3 targets left out: demo:a.1 is ignored\n"
    demo.write("src/1.txt", "x\n")
    said = why(demo, "demo:sum")
    assert said.startswith("demo:sum is stale\n  because demo:b.1 is stale, ")
    assert said.endswith(f"  {left_out}")
    demo.write("src/2.txt", "x\n")
    said = why(demo, "demo")
    assert said.startswith("demo is stale: 2 of 7 targets\n  demo:a.2 is stale\n")
    assert said.endswith("\n  3 targets left out: demo:a.1 is ignored\n")


def test_a_forgotten_target_is_not_said_to_be_recalled(demo: Project) -> None:
    demo.call("forget", "demo:a.1")
    assert why(demo, "demo:a.1") == "demo:a.1 is stale\n  because it was forgotten\n  it would run\n"


FAILING = """
kind: steps
steps:
  a:
    for: {i: {range: 8}}
    run: echo oh; [ {i} = 0 ] || exit {i}; touch {out}
    writes: "{i}.txt"
  after:
    run: cat {in} > {out}
    reads: [{step: a}]
    writes: after.txt
"""


def test_what_failed_is_told_apart_from_what_was_never_built(project: Project) -> None:
    project.spec("demo", FAILING)
    project.call("run", "-c")
    assert why(project, "demo:a.3").startswith("demo:a.3 is stale\n  because it failed\n  demo:a.3 failed last at ")
    said = why(project, "demo")
    assert "  demo:a.1, demo:a.2, demo:a.3 and 4 more are stale\n    because they failed\n" in said
    assert "  demo:after is stale\n    because it was never built\n" in said


def test_all_that_failed_above_is_named_each_with_its_log(project: Project) -> None:
    project.spec("demo", FAILING.replace("range: 8", "range: 4"))
    project.call("run", "-c")
    for word in ("demo:after", "demo:a", "demo"):
        said = why(project, word)
        for i in (1, 2, 3):
            log = f"exit status {i}; its log is runs/demo/.coppice/logs/a.{i}.log\n"
            assert re.search(rf"  demo:a\.{i} failed last at \S+ \S+ UTC: {re.escape(log)}", said), said
    project.spec("demo", FAILING)
    project.call("run", "-c")
    said = why(project, "demo:after")
    assert said.count("failed last") == 5
    assert "  and 2 more failed\n" in said


LISTS = """
kind: steps
steps:
  a: {for: {x: [1, 2]}, run: "echo {x} > {out}", writes: "{x}.txt"}
  all: {run: "cat {in} > {out}", reads: [{step: a}], writes: all.txt}
  copy: {run: [cp, "{in}", "{out}"], reads: all.txt, writes: copy.txt}
  call: {call: "f.py:f", with: {n: 1, m: 1, l: [1]}, writes: [call.txt]}
"""


def changed(project: Project, *edits: tuple[str, str]) -> str:
    """What is said of the run after edits of its spec."""
    project.write("f.py", "def f(reads, writes, **more):\n    open(writes[0], 'w').close()\n")
    project.spec("demo", LISTS)
    assert project.call().code == 0
    spec = LISTS
    for old, new in edits:
        assert old in spec
        spec = spec.replace(old, new)
    project.spec("demo", spec)
    return why(project, "demo")


def test_what_is_read_more_or_less_is_told_once_and_by_name(project: Project) -> None:
    said = changed(project, ("[1, 2]}", "[2, 3, 4]}"))
    other = "reads other files: - runs/demo/1.txt, + runs/demo/3.txt and 1 more\n"
    assert f"  demo:all is stale\n    because {other}  " in said
    assert "recipe" not in said
    assert why(project, "demo:all") == f"demo:all is stale\n  because {other}  it would run\n"
    assert f"  demo:all    0.0 s  {other}" in re.sub(r"0\.\d\d s", "0.0 s", project.call("plan").out)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[cp, ", "[cp, -p, ", 'run: ["cp", "{in}", "{out}"] -> ["cp", "-p", "{in}", "{out}"]'),
        ('[cp, "{in}", "{out}"]', '"cp {in} {out}"', 'run: ["cp", "{in}", "{out}"] -> cp {in} {out}'),
        ("l: [1]", "l: [1, 2]", "with.l: [1] -> [1, 2]"),
        ("l: [1]", "l: {a: [1]}", 'with.l: [1] -> {"a": [1]}'),
        ("n: 1", "n: 1, k: [1, {b: 2}]", 'with.k: nothing -> [1, {"b": 2}]'),
        ("n: 1", "n: 1, k: ", "with.k: nothing -> null"),
        ("n: 1", "n: true", "with.n: 1 -> True"),
        ("n: 1", "n: 1.0", "with.n: 1 -> 1.0"),
    ],
)
def test_lists_mappings_and_types_in_a_recipe_are_told_as_a_spec_has_them(
    project: Project, old: str, new: str, told: str
) -> None:
    assert f"because recipe changed {told}\n" in changed(project, (old, new))


def test_files_that_are_read_in_another_way_are_told(project: Project) -> None:
    said = changed(project, ('"{in}", "{out}"], reads: all.txt', '"{p}", "{out}"], reads: {p: all.txt}'))
    assert "reads the same files by other names or in another order\n" in said
    said = changed(project, ("reads: all.txt", "by_content: true, reads: all.txt"))
    assert "because the paths of what it reads count now, or no longer\n" in said


@pytest.mark.parametrize("words", [["demo:a"], ["demo:a.*"], ["demo:a.[012]"], ["runs/demo/a/*.txt"], ["d*:a.*"]])
def test_a_step_or_a_pattern_is_told_of_together(demo: Project, words: list[str]) -> None:
    assert demo.call("why", *words).out == f"{words[0]} is fresh: 3 targets\n"
    demo.write("src/1.txt", "x\n")
    said = why(demo, *words)
    assert said.startswith(f"{words[0]} is stale: 1 of 3 targets\n  demo:a.1 is stale\n    because input changed src/1")


def test_an_input_edited_while_its_target_ran_is_told(project: Project) -> None:
    project.write("src.txt", "1\n")
    project.spec(
        "demo",
        "kind: steps\nsteps:\n  a:\n    run: cat {in} > {out}; echo 2 >> {in}\n    reads: src.txt\n    writes: a.txt\n",
    )
    project.call("run")
    assert "because input changed while it ran src.txt\n  and input changed src.txt: " in why(project, "demo:a")


def test_a_missing_input_is_what_the_target_waits_for(demo: Project) -> None:
    (demo.root / "src/1.txt").unlink()
    for target in ("demo:a.1", "demo:b.1"):
        assert why(demo, target).endswith("  because input missing src/1.txt\n  it waits for src/1.txt\n")


def test_the_files_of_a_folder_that_changed_are_named(project: Project) -> None:
    for name in "abc":
        project.write(f"src/{name}.py", name)
    project.spec(
        "demo",
        "kind: steps\nsteps:\n  a:\n    run: cat src/*.py > {out}\n    reads: [src/, 'src/*.py']\n    writes: a.txt\n",
    )
    project.call("run")
    project.write("src/a.py", "A")
    (project.root / "src/b.py").unlink()
    project.write("src/d.py", "d")
    said = why(project, "demo:a")
    files = f"(src/a.py {short('a')} -> {short('A')}, src/b.py is gone, src/d.py is new)\n"
    assert said.count(files) == 2
    assert "input changed src/*.py: " in said


def test_targets_that_are_stale_for_the_same_reason_are_told_once(project: Project) -> None:
    project.write("bt.sh", "echo $1\n")
    project.spec(
        "demo",
        """
kind: steps
steps:
  bt:
    for: {i: {range: 30}}
    run: sh {code} {i} > {out}
    reads: {code: bt.sh}
    writes: bt/{i}.txt
  all:
    run: cat {in} > {out}
    reads: [{step: bt}]
    writes: all.txt
""",
    )
    project.call("run")
    project.write("bt.sh", "echo x$1\n")
    said = why(project, "demo:all")
    assert said.count("input changed bt.sh") == 1
    assert "(so are 29 more of the targets above, for the same reason)\n" in said
    summary = why(project, "demo")
    assert summary.startswith(
        "demo is stale: 31 of 31 targets\n  demo:bt.0, demo:bt.1, demo:bt.2 and 27 more are stale\n"
    )
    assert summary.endswith("  1 target below, redone only if what they read comes out different\n")


def test_of_many_targets_that_differ_alike_the_first_is_shown(project: Project) -> None:
    step = "for: {{i: {{range: {}}}}}\n    run: echo{} {{i}} > {{out}}\n    writes: '{{i}}'\n"
    spec = f"kind: steps\nsteps:\n  s:\n    {step}"
    for number in (5, 6):
        project.spec("demo", spec.format(number, ""))
        assert project.call().code == 0
        project.spec("demo", spec.format(number, " -n"))
        said = why(project, "demo")
        assert said.count("recipe changed") == (5 if number == 5 else 1)
    assert said == (
        "demo is stale: 6 of 6 targets\n"
        "  demo:s.0, demo:s.1, demo:s.2 and 3 more are stale\n"
        "    because recipe changed run: echo 0 > {out} -> echo -n 0 > {out}\n"
        "    (that is the first of them; the others are stale in the same way)\n"
    )


def test_different_causes_are_all_told_nearest_first(demo: Project) -> None:
    demo.write("src/0.txt", "x\n")
    (demo.root / "runs/demo/b/2.txt").unlink()
    said = why(demo, "demo:sum")
    first, second = (
        said.index("because output missing runs/demo/b/2.txt"),
        said.index("because input changed src/0.txt"),
    )
    assert first < second
    assert "  also because demo:b.0 is stale" in said


def test_a_run_is_fresh_when_all_its_targets_are(demo: Project) -> None:
    said = demo.call("why", "demo")
    assert (said.code, said.out) == (0, "demo is fresh: 7 targets\n")


def test_an_unknown_target_is_refused_with_exit_code_2(demo: Project) -> None:
    for word in ("demo:nothing", "nothing", "runs/demo/nothing.txt"):
        said = demo.call("why", "demo:sum", word)
        assert (said.code, said.out) == (2, "")
        assert "nothing" in said.err
        assert len(said.err.splitlines()) == 1


def test_files_that_a_target_does_not_need_are_not_read(demo: Project) -> None:
    os.truncate(demo.root / "src/1.txt", 1 << 40)  # a hole; whoever reads it is busy for an hour
    demo.write("src/2.txt", "jello\n")
    assert demo.coppice("why", "demo:a.0", "demo:b.2", timeout=20).returncode == 1


def test_asking_writes_nothing(demo: Project) -> None:
    demo.write("src/2.txt", "jello\n")
    demo.write("runs/demo/a/1.txt", "tampered\n")
    for result in (demo.root / "runs/.store/results").glob("*/*"):
        result.write_text("damaged\n")
    before = contents(demo.root)
    why(demo, "demo")
    why(demo, "demo:sum")
    assert contents(demo.root) == before


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@given(st.lists(st.tuples(st.sets(st.integers(0, 11)), st.booleans()), min_size=1, max_size=12))
def test_every_chain_goes_from_reader_to_writer_up_to_a_target_that_is_stale_by_itself(
    drawn: list[tuple[set[int], bool]],
) -> None:
    targets = [
        Target(f"r:{i}", "run", (("in", tuple(f"{j}" for j in sorted(reads) if j < i)),), (("out", (f"{i}",)),), {})
        for i, (reads, _) in enumerate(drawn)
    ]
    graph = Graph(targets, in_order=True)
    broken = {i for i, (_, stale) in enumerate(drawn) if stale}
    causes = Causes(graph, {i: [Reason("output missing", f"{i}")] if i in broken else [] for i in range(len(drawn))})
    assert {*causes.own} == graph.downstream(broken)
    for i in causes.own:
        chains = causes.chains(i)
        assert chains
        for chain in chains:
            assert chain.path[0] == i
            assert chain.path[-1] in broken
            assert all(above in graph.above(below) for below, above in pairwise(chain.path))
            assert broken.isdisjoint(chain.path[:-1])
