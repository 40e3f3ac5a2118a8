"""coppice graph: the steps of a run, for the terminal and as a picture."""

import xml.etree.ElementTree as ET
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.project import Project

from pipeline.views.layout import Spacing, layout, space_out

SVG = "{http://www.w3.org/2000/svg}"
DEMO = """
kind: steps
steps:
  prices:
    run: cat {in} > {out}
    reads: "src/a&b<c>.txt"
    writes: prices.csv
  test:
    for: {k: {range: 6}}
    run: test {k} != 3 && cat {in} > {out}
    reads: prices.csv
    writes: test/{k}.txt
  hold:
    run: cat {in} > {out}
    reads: prices.csv
    writes: hold.txt
  report:
    run: cat {in} > {out}
    reads: [{step: test}, hold.txt]
    writes: report.txt
"""


@pytest.fixture
def demo(project: Project) -> Project:
    project.write("src/a&b<c>.txt", "1\n")
    project.spec("demo", DEMO)
    assert project.call("run", "-c").code == 1
    (project.root / "runs/demo/test/5.txt").unlink()
    return project


def drawn(project: Project, *words: str) -> ET.Element:
    said = project.call("graph", *words, "--svg", "graph.svg")
    assert (said.code, said.out) == (0, "drawn: graph.svg\n")
    return ET.fromstring(project.read("graph.svg"))


def texts(svg: ET.Element) -> list[str]:
    return [node.text or "" for node in svg.iter(f"{SVG}text")]


def arrows(svg: ET.Element) -> int:
    return sum(node.get("class") == "arrow" for node in svg.iter(f"{SVG}path"))


def test_steps_are_listed_with_what_they_read_from_and_how_their_targets_stand(demo: Project) -> None:
    said = demo.call("graph", "demo")
    assert said.code == 0
    assert said.out.split("\n") == [
        "demo: 9 targets, 6 fresh, 2 stale, 1 failed",
        "",
        "  prices                  fresh",
        "  test x6  <- prices      4 fresh, 1 stale, 1 failed",
        "  hold     <- prices      fresh",
        "  report   <- test, hold  stale",
        "",
    ]


def test_a_target_asked_for_is_shown_with_all_it_is_made_from(demo: Project) -> None:
    assert demo.call("graph", "demo:hold").out.splitlines()[2:] == [
        "  prices             fresh",
        "  hold    <- prices  fresh",
    ]


def test_an_ignored_target_is_counted_as_such(demo: Project) -> None:
    demo.call("ignore", "demo:test.5", "demo:test.1")
    assert "  3 fresh, 1 failed, 2 ignored\n" in demo.call("graph").out


def test_what_reads_an_ignored_target_is_left_out_with_it(demo: Project) -> None:
    demo.call("ignore", "demo:hold")
    said = demo.call("graph").out
    assert "  hold     <- prices      ignored\n" in said
    assert "  report   <- test, hold  ignored\n" in said


def test_a_picture_goes_into_a_file_whose_name_says_so(demo: Project) -> None:
    said = demo.call("graph", "--svg", "demo")
    assert (said.code, said.out) == (2, "")
    assert "--svg wants the file to draw into, a name that ends in .svg, not 'demo'; for instance " in said.err
    assert not (demo.root / "demo").exists()


def test_steps_of_several_runs_are_told_apart_by_the_name_of_the_run(demo: Project) -> None:
    demo.spec(
        "more",
        "kind: steps\nsteps:\n  hold:\n    run: cat {in} > {out}\n    reads: runs/demo/hold.txt\n    writes: h\n",
    )
    said = demo.call("graph", "more").out
    assert said.splitlines()[2:] == [
        "  demo:prices                  fresh",
        "  demo:hold    <- demo:prices  fresh",
        "  more:hold    <- demo:hold    stale",
    ]


def test_an_unknown_run_is_refused_with_exit_code_2(demo: Project) -> None:
    said = demo.call("graph", "nothing", "--svg", "graph.svg")
    assert (said.code, said.out) == (2, "")
    assert not (demo.root / "graph.svg").exists()


def test_the_picture_stands_alone_and_follows_the_readers_choice_of_light_or_dark(demo: Project) -> None:
    drawn(demo)
    text = demo.read("graph.svg")
    assert "@media (prefers-color-scheme: dark)" in text
    assert text.count("http") == 1  # the name of the format; nothing is fetched
    assert "<script" not in text


def test_the_picture_has_a_box_a_step_with_its_counts_and_an_arrow_for_each_reading(demo: Project) -> None:
    svg = drawn(demo, "demo")
    assert texts(svg)[0] == "demo: 9 targets"
    assert texts(svg)[1:4] == ["6 fresh", "2 stale", "1 failed"]
    assert {"prices", "test x6", "4 fresh, 1 stale, 1 failed", "hold", "report"} <= {*texts(svg)}
    assert arrows(svg) == 4


def test_hovering_tells_which_targets_are_wrong_and_what_is_read_and_written(demo: Project) -> None:
    titles = [node.text or "" for node in drawn(demo).iter(f"{SVG}title")]
    assert "prices\ndemo:prices: fresh\nreads src/a&b<c>.txt\nwrites runs/demo/prices.csv" in titles
    assert (
        "test x6\n6 targets\nfailed: demo:test.3\nstale: demo:test.5\nreads runs/demo/prices.csv\n"
        "writes runs/demo/test/0.txt, runs/demo/test/1.txt, runs/demo/test/2.txt and 3 more"
    ) in titles


def test_full_draws_each_target(demo: Project) -> None:
    svg = drawn(demo, "--full")
    assert {f"test.{k}" for k in range(6)} < {*texts(svg)}
    assert arrows(svg) == 6 + 1 + 6 + 1


def test_full_refuses_more_targets_than_anybody_can_see(project: Project) -> None:
    project.spec(
        "demo", "kind: steps\nsteps:\n  a:\n    for: {k: {range: 301}}\n    run: echo > {out}\n    writes: '{k}'\n"
    )
    said = project.call("graph", "--full", "--svg", "graph.svg")
    assert (said.code, said.out) == (2, "")
    assert said.err == "coppice: --full draws up to 300 targets, not 301; drop --full\n"
    assert arrows(drawn(project)) == 0


def test_steps_that_take_turns_are_drawn_with_an_arrow_back(project: Project) -> None:
    project.spec(
        "demo",
        """
kind: steps
steps:
  a:
    for: [{i: 1, p: 0}, {i: 2, p: 1}]
    run: cat {in} > {out}
    reads: b/{p}.txt
    writes: a/{i}.txt
  b:
    for: [{i: 1}]
    run: cat {in} > {out}
    reads: a/{i}.txt
    writes: b/{i}.txt
  zero:
    run: echo > {out}
    writes: b/0.txt
""",
    )
    assert "  a x2  <- " in project.call("graph").out
    svg = drawn(project)
    ends = [
        ("start" if node.get("marker-start") else "end")
        for node in svg.iter(f"{SVG}path")
        if node.get("class") == "arrow"
    ]
    assert sorted(ends) == ["end", "end", "start"]


def test_a_step_that_reads_from_itself_has_no_arrow_to_itself(project: Project) -> None:
    project.spec(
        "demo",
        """
kind: steps
steps:
  zero:
    run: echo > {out}
    writes: a/0.txt
  a:
    for: [{i: 1, p: 0}, {i: 2, p: 1}]
    run: cat {in} > {out}
    reads: a/{p}.txt
    writes: a/{i}.txt
""",
    )
    assert "  a x2  <- zero  2 stale" in project.call("graph").out
    assert arrows(drawn(project)) == 1


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    count = draw(st.integers(1, 9))
    sizes = [(float(draw(st.sampled_from([20, 60]))), float(draw(st.sampled_from([10, 30])))) for _ in range(count)]
    pairs = list(combinations(range(count), 2))
    return sizes, draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14)) if pairs else []


@given(graphs(), st.booleans())
def test_boxes_never_overlap_and_arrows_run_rightwards_from_edge_to_edge(
    drawn: tuple[list[tuple[float, float]], list[tuple[int, int]]], centred: bool
) -> None:
    sizes, edges = drawn
    placed = layout(sizes, edges, Spacing(40, 8, 4, centred))
    areas = [(x, y, x + width, y + size[1]) for (x, y, width), size in zip(placed.boxes, sizes, strict=True)]
    for a, b in combinations(areas, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] + 7.99 <= b[1] or b[3] + 7.99 <= a[1]
    for (a, b), route in placed.routes.items():
        assert (route[0][0], route[-1][0]) == (areas[a][2], areas[b][0])
        assert all(left <= right for (left, _), (right, _) in pairwise(route))
        for x, y in route:
            assert all(not (box[0] < x < box[2] and box[1] < y < box[3]) for box in areas)
    for x, y, right, low in areas:
        assert min(x, y + 0.01) >= 0
        assert right <= placed.width
        assert low <= placed.height + 0.01


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5), st.integers(1, 4)), min_size=1, max_size=7))
def test_places_keep_their_order_and_distances_and_move_no_further_than_needed(
    drawn: list[tuple[int, int, int]],
) -> None:
    wanted, gaps, pull = (
        [float(w) for w, _, _ in drawn],
        [float(g) for _, g, _ in drawn][1:],
        [float(p) for *_, p in drawn],
    )
    found = space_out(wanted, gaps, pull)
    assert all(b - a >= gap - 1e-9 for (a, b), gap in zip(pairwise(found), gaps, strict=True))
    cost = sum(p * (f - w) ** 2 for f, w, p in zip(found, wanted, pull, strict=True))
    for i in range(len(found)):
        for step in (-0.1, 0.1):
            other = [f + step * (n >= i if step > 0 else n <= i) for n, f in enumerate(found)]
            assert sum(p * (f - w) ** 2 for f, w, p in zip(other, wanted, pull, strict=True)) >= cost - 1e-9
