"""What a target reads of another is what that one made, whatever has been written over it meanwhile."""

import shutil

from kit.project import Project

# One after another, `forger` runs after `maker` and before `reader`.
SPEC = """kind: steps
steps:
  maker: {run: "echo maker >> ran; seq 600 > {out}", writes: made.txt}
  forger: {run: "echo forger >> ran; FORGE; echo > {out}", reads: src, writes: forged.txt}
  reader:
    run: "echo reader >> ran; cat {made} > {out}"
    reads: {made: runs/x/made.txt, by: runs/x/forged.txt}
    writes: read.txt
"""
GOOD = "".join(f"{n}\n" for n in range(1, 601))


def forged(project: Project, forge: str, spec: str = SPEC) -> Project:
    project.spec("x", spec.replace("FORGE", forge))
    project.write("src", "")
    return project


def test_what_was_written_over_an_output_is_put_right_before_it_is_read(project: Project) -> None:
    said = forged(project, "echo 9999 > runs/x/made.txt").call("run", "-n", "1")
    assert said.code == 0, said
    assert project.read("runs/x/read.txt") == project.read("runs/x/made.txt") == GOOD
    assert "runs/x/made.txt was changed by something else" in project.read("runs/x/.coppice/logs/maker.log")


def test_an_output_that_was_removed_is_there_when_it_is_read(project: Project) -> None:
    said = forged(project, "rm runs/x/made.txt").call("run", "-n", "1")
    assert said.code == 0, said
    assert project.read("runs/x/read.txt") == GOOD


def test_nothing_is_redone_for_it_by_the_next_build(project: Project) -> None:
    forged(project, "echo 9999 > runs/x/made.txt").call("run", "-n", "1")
    assert project.read("ran").split() == ["maker", "forger", "reader"]
    said = project.call("run")
    assert said.code == 0
    assert project.read("ran").split() == ["maker", "forger", "reader"]
    assert project.read("runs/x/read.txt") == GOOD


def test_an_output_of_an_earlier_build_is_held_to_its_receipt_too(project: Project) -> None:
    forged(project, ":").call("run", "-n", "1")
    forged(project, "echo 9999 > runs/x/made.txt")
    said = project.call("run", "-n", "1")
    assert said.code == 0, said
    assert project.read("ran").split() == ["maker", "forger", "reader", "forger"]
    project.write("src", "now the reader is stale as well")
    forged(project, "echo $$ > runs/x/made.txt; echo new > {out} #")
    said = project.call("run", "-n", "1")
    assert said.code == 0, said
    assert project.read("runs/x/read.txt") == GOOD


def test_without_a_copy_in_the_store_it_is_refused_and_the_next_build_makes_it_again(project: Project) -> None:
    said = forged(project, "echo 9999 > runs/x/made.txt; rm -rf runs/.store/results").call("run", "-n", "1")
    assert said.code == 1, said
    why = "runs/x/made.txt was changed by something else after x:maker made it; build again"
    assert why in said.out + said.err
    assert not (project.root / "runs/x/read.txt").exists()
    shutil.rmtree(project.root / "runs/x/.coppice/stage", ignore_errors=True)
    said = project.call("run", "-n", "1")
    assert said.code == 0, said
    assert project.read("runs/x/read.txt") == GOOD
    assert project.read("ran").split() == ["maker", "forger", "maker", "reader"]


def test_what_the_store_has_by_now_does_not_take_its_place_if_it_is_not_the_same(project: Project) -> None:
    """A command that comes out anew each time; another run has made it again, under the same key."""
    random = SPEC.replace("seq 600", "date +%s%N")
    forged(project, ":", random).call("run", "-n", "1")
    project.spec("y", random.partition("  forger")[0].replace("runs/x", "runs/y"))
    assert project.call("run", "y").code == 0
    assert project.read("runs/y/made.txt") == project.read("runs/x/made.txt")
    project.call("forget", "y:maker")
    assert project.call("run", "y").code == 0
    assert project.read("runs/y/made.txt") != project.read("runs/x/made.txt")
    said = forged(project, "echo 9 > runs/x/made.txt", random).call("run", "x", "-n", "1")
    assert "runs/x/made.txt was changed by something else after x:maker made it" in said.out + said.err


def test_of_several_outputs_only_the_one_that_was_changed_is_written(project: Project) -> None:
    two = SPEC.replace("seq 600 > {out}", "echo a > {a}; echo b > {b}")
    two = two.replace("writes: made.txt", "writes: {a: a, b: b}").replace(
        "{made: runs/x/made.txt", "{made: runs/x/a, b: runs/x/b"
    )
    said = forged(project, "echo 9 > runs/x/a; ls -i runs/x/b > before", two).call("run", "-n", "1")
    assert said.code == 0, said
    assert project.read("runs/x/read.txt") == "a\n"
    assert project.read("before").split()[0] == str((project.root / "runs/x/b").stat().st_ino)
