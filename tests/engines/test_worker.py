"""A worker: it makes an order as the build would make the target, and sees and shows no more of the project."""

import os
import subprocess
import sys
from contextlib import chdir, suppress
from itertools import count
from pathlib import Path

import pytest
from kit.project import Project, environment
from kit.searches import Search, command

from pipeline import kinds
from pipeline.build import project as projects
from pipeline.core.graph import Target
from pipeline.core.outcome import DISK_FULL
from pipeline.core.recipe import PYTHON
from pipeline.engines import orders
from pipeline.engines.orders import FAILED, MADE, OUT, Order, WorkerReport, package_digest
from pipeline.store.files import files_by_port

_NUMBERS = count()


def target_of(name: str) -> Target:
    (found,) = (each for each in projects.load([name.partition(":")[0]])[name.partition(":")[0]].targets
                if each.name == name)  # fmt: skip
    return found


def made(project: Project, name: str, **env: str) -> tuple[WorkerReport, list[Path]]:
    """The report of a worker on a target, and the paths of its outputs."""
    with chdir(project.root):
        target, plan = target_of(name), projects.load([name.partition(":")[0]])[name.partition(":")[0]]
        stage = kinds.stages(plan.kind)[target.stage]
        assert stage.away is not None
        records = None if stage.away.records is None else [*stage.away.records(target)]
        order = Order(f"order{next(_NUMBERS)}", plan.kind, package_digest(), PYTHON, str(project.root), target,
                      files_by_port(target.reads), records, str(project.root / plan.store), "")  # fmt: skip
        orders.write_order(order)
        batch = project.root / orders.write_batch(target.run, order.name, [order.name])
        words = [sys.executable, "-m", "pipeline.engines.worker", str(batch), "0"]
        done = subprocess.run(words, cwd="/", env=environment(env), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        report = orders.read_report(target.run, order.name)
    folder = project.root / order.folder / report.attempt
    return report, [folder / each for each in orders.output_names(target, stage.own_folder)]


def test_an_output_has_the_name_beside_which_programs_write(project: Project) -> None:
    project.spec(
        "x",
        "kind: steps\nsteps:\n"
        "  one: {run: 'cd \"$(dirname {out})\" && echo one > paper.txt', writes: paper.txt}\n"
        "  two: {run: 'cd \"$(dirname {a})/..\" && echo a > p/a && echo b > q/b; : {b}',"
        " writes: {a: p/a, b: q/b}}\n",
    )
    for name, texts in (("x:one", ["one\n"]), ("x:two", ["a\n", "b\n"])):
        report, outputs = made(project, name)
        assert (report.ending, [path.read_text() for path in outputs]) == (MADE, texts), report


def test_a_run_may_be_called_as_a_folder_of_the_project_and_as_runs_itself(project: Project) -> None:
    project.spec("runs", "kind: steps\nsteps: {one: {run: 'cat data/a > {out}', writes: o}}\n")
    project.write("data/a", "a\n")
    assert made(project, "runs:one")[0].ending == MADE
    found = Search(
        project,
        {"a": ":"},
        sweep=command("sh {project}/repo/look.sh {results}", "row.sh"),
        protect=["{project}/repo/look.sh"],
    )
    project.write("repo/look.sh", "printf 'config_id,status,gain,risk\\n0,ok,1,1\\n1,ok,1,1\\n2,ok,1,1\\n' > $1\n")
    found.spec("repo")
    project.call("run", "repo")
    report, outputs = made(project, "repo:d0.n0.sweep")
    assert report.ending == MADE, report
    assert [path.read_bytes() for path in outputs if path.suffix == ".csv"] == [
        (project.root / path).read_bytes()
        for path in target_outputs(project, "repo:d0.n0.sweep")
        if path[-4:] == ".csv"
    ]


def target_outputs(project: Project, name: str) -> tuple[str, ...]:
    with chdir(project.root):
        return target_of(name).outputs


SEEN = ("data/a", "sealed.txt", "open.txt", ".env", ".git/config", "kept", "runs/other/o", "runs/x/root.json",
        "runs/x/repo.git/HEAD", "results/kept", "specs/x.yaml")  # fmt: skip
LOOK = """\
cd "$2"
for path in {seen}; do if cat "$path" > /dev/null 2>&1; then echo "sees $path"; else echo "lacks $path"; fi; done
for path in made data/made kept; do (echo x >> "$path") 2> /dev/null && echo "writes $path"; done
printf 'config_id,status,gain,risk\\n0,ok,1,1\\n1,ok,1,1\\n2,ok,1,1\\n' > "$1"
"""


@pytest.mark.parametrize("visible", [[], ["."]], ids=["words", "visible"])
@pytest.mark.parametrize("grade", ["isolated", "landlock"])
def test_a_command_in_a_cage_sees_the_same_of_the_project_as_in_a_build(
    project: Project, grade: str, visible: list[str]
) -> None:
    for path in ("data/a", "sealed.txt", "open.txt", ".env", ".git/config", "kept", "runs/other/o", "results/kept"):
        project.write(path, "a\n")
    project.write("look.sh", LOOK.format(seen=" ".join(SEEN)))
    named = '"$(dirname {code})"' if visible else "{project}"
    sweep = command(f"sh {{code}} {{results}} {named} {{limit}}", {"code": "look.sh", "data": "open.txt"}, configs=5)
    held = {"configs": [3, 4], "reads": {"data": "sealed.txt"}}
    keys = {"sandbox": grade, "visible": visible, "store": "results"}
    found = Search(project, {"a": ":"}, sweep=sweep, holdout=held, sweep_config_limit=None, **keys)
    found.build()
    in_build = project.read("runs/x/nodes/d0.n0/sweep.log")
    assert "sees data/a" in in_build
    report, outputs = made(project, "x:d0.n0.sweep")
    assert report.ending == MADE, report
    assert [path.read_text() for path in outputs if path.suffix == ".log"] == [in_build]


def test_what_somebody_else_edits_while_a_command_runs_is_not_held_against_it(project: Project) -> None:
    project.write("kept", "a\n")
    project.write(
        "look.sh",
        "[ ! -e \"$2/go\" ] || sleep 1\nprintf 'config_id,status,gain,risk\\n0,ok,1,1\\n1,ok,1,1\\n2,ok,1,1\\n' > $1\n",
    )
    keys = {"sandbox": "isolated", "protect": ["{project}/kept"]}
    found = Search(project, {"a": ":"}, sweep=command("sh {in} {results} {project}", "look.sh"), **keys)
    found.build()
    project.write("go", "")
    said = "runs/x/.coppice/orders/order*/*/said"
    edit = f"until grep -q pid {said} 2> /dev/null; do sleep 0.01; done; echo b >> kept"
    with subprocess.Popen(["/bin/sh", "-c", edit], cwd=project.root) as editor:
        report, _ = made(project, "x:d0.n0.i0.sweep")
        assert editor.wait() == 0
    assert (report.ending, report.why.partition(" ")[0]) == (FAILED, "{project}/kept"), report
    assert "changed by something else" in report.why


def test_a_full_disk_of_a_node_is_nobodys_failure(project: Project, tmp_path: Path) -> None:
    found = Search(project, {"a": ":"})
    found.build()
    full = tmp_path / "full"
    full.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(full)]
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    try:
        with open(full / "ballast", "wb", buffering=0) as file:
            with suppress(OSError):
                while file.write(bytes(4096)):
                    pass
            file.truncate(file.tell() - 4096)  # room for one small file, and so for a folder of temporary files
        report, _ = made(project, "x:d0.n0.i0.sweep", TMPDIR=str(full))
    finally:
        subprocess.run(["umount", "-l", str(full)], check=True)
    assert (report.ending, report.reason) == (OUT, DISK_FULL), report


def test_a_report_that_was_linked_twice_is_the_first(project: Project) -> None:
    """As a network file system does it whose answer was lost."""
    project.spec("x", "kind: steps\nsteps: {one: {run: 'echo a > {out}', writes: o}}\n")
    report, (output,) = made(project, "x:one")
    with chdir(project.root):
        order = orders.read_order(str(output.parents[2] / "order.json"))
        assert orders.publish_report(order, report.attempt)
        Path(f"{order.folder}/second").mkdir()
        orders.write_report(f"{order.folder}/second", report)
        assert not orders.publish_report(order, "second")
