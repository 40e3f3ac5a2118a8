"""What commands are given, what becomes of them, and the targets that a matrix makes."""

import json
import os

import pytest
from kit.building import built, failed, log_of, steps
from kit.project import Project

NASTY = ["a b", "it's", 'say "hi"', "$(touch pwned)", "`touch pwned`", "; touch pwned", "a\nb", "tab\there", "ünï ☃ 𝄞"]
NASTY += ["*", "~", "$HOME", "\\n", "-rf", "--", "", " ", "#", "&", "{out}", "{in}", "{{", "}", "%s", "!", "\\"]


@pytest.mark.parametrize("run", [["sh", "-c", 'printf %s "$1" > "$2"', "sh", "{v}", "{out}"], "printf %s {v} > {out}"])
def test_values_reach_a_command_as_they_are(project: Project, run: object) -> None:
    rows = [{"n": str(n), "v": value} for n, value in enumerate(NASTY)]
    step = {"for": rows, "run": run, "writes": "{n}.txt"}
    project.spec("x", json.dumps({"kind": "steps", "steps": {"echo": step}}, ensure_ascii=False))
    built(project)
    assert [project.read(f"runs/x/{n}.txt") for n in range(len(NASTY))] == NASTY
    assert not (project.root / "pwned").exists()


def test_files_of_any_name_are_one_word_each(project: Project) -> None:
    names = ["a b.txt", "it's.txt", "$(x).txt", "ünï.txt"]
    for name in names:
        project.write(name, f"{name}\n")
    line = {"run": "cat -- {in} > {out}", "reads": names, "writes": "deep folder/ö/a b.txt"}
    joined = 'out=$1; shift; cat -- "$@" > "$out"'
    words = {"run": ["sh", "-c", joined, "sh", "{out}", "{in}"], "reads": names, "writes": "b"}
    project.spec("x", json.dumps({"kind": "steps", "steps": {"line": line, "words": words}}))
    built(project)
    expected = "".join(f"{n}\n" for n in names)
    assert project.read("runs/x/deep folder/ö/a b.txt") == project.read("runs/x/b") == expected


def test_ports_name_files_and_in_is_all_of_them_in_order(project: Project) -> None:
    for name in "abc":
        project.write(name, name)
    spec = """
        s:
          run: 'cat {late} > {one}; cat {in} > {two}; echo {out} > /dev/null'
          reads: {late: c, early: [a, b]}
          writes: {one: 1, two: 2}
    """
    project.spec("x", steps(spec))
    built(project)
    assert (project.read("runs/x/1"), project.read("runs/x/2")) == ("c", "cab")


LINES = {
    "printf %s {v} > {out}": "{}",
    "printf %s '{v}' > '{out}'": "{}",
    'printf %s "{v}" > "{out}"': "{}",
    "printf %s 'a {v}'\\'' b' > {out}": "a {}' b",
    'printf %s "$(cat < \'{file}\') \\"{v}" > {out}': '{} "{}',
    "printf %s `cat '{file}'` x#'{v}' > {out} # it's {v}": "{}x#{}",
    "printf %s $( (cat {file}); printf \"%s\" '{v}') > {out}": "{}{}",
}


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("value", ["0.1", "it's", 'say"so"', "$HOME\\", "{a}%s#"])
def test_a_value_in_a_shell_line_is_just_itself_also_inside_quotes(project: Project, line: str, value: str) -> None:
    for name in ("a b", "it's"):
        project.write(name, value)
        step = {"for": [{"v": value}], "run": line, "reads": {"file": name}, "writes": f"of {name}"}
        project.spec("x", json.dumps({"kind": "steps", "steps": {"s": step}}))
        built(project)
        assert project.read(f"runs/x/of {name}") == LINES[line].replace("{}", value)


def test_several_files_inside_quotes_are_one_text(project: Project) -> None:
    project.write("a", "")
    project.write("b c", "")
    project.spec("x", steps("s: {run: 'echo \"<{in}>\" > {out}', reads: [a, b c], writes: made}"))
    built(project)
    assert project.read("runs/x/made") == "<a b c>\n"


def test_braces_that_are_meant_are_written_twice(project: Project) -> None:
    spec = """
        line: {run: 'printf {{}} > {out}', writes: a}
        words: {run: [sh, -c, 'printf "$0" > "$1"', '{{{{x}}}}', '{out}'], writes: 'b{}'}
    """
    project.spec("x", steps(spec.replace("b{}", "b{{}}")))
    built(project)
    assert (project.read("runs/x/a"), project.read("runs/x/b{}")) == ("{}", "{{x}}")


def test_a_command_has_nothing_on_its_standard_input(project: Project) -> None:
    project.spec("x", steps("s: {run: 'cat > {out}', writes: a, timeout: 10}"))
    built(project)
    assert project.read("runs/x/a") == ""


FAILURES = {
    "[no-such-command, '{out}']": "cannot start 'no-such-command': No such file or directory",
    "[./not-runnable, '{out}']": "cannot start './not-runnable': Permission denied",
    "[./not-a-program, '{out}']": "cannot start './not-a-program': Exec format error",
    "'no-such-command > {out}'": "exit status 127",
    "'echo because; exit 3; : {out}'": "exit status 3",
    "'kill -9 $$; : {out}'": "killed by signal 9",
    "'true {out}'": "did not write runs/x/a",
    "'mkdir {out}'": "not a plain file",
    "'ln -s /etc/hosts {out}'": "not a plain file",
    "'mkfifo {out}'": "not a plain file",
}


@pytest.mark.parametrize("run", FAILURES)
def test_a_command_that_fails_says_how(project: Project, run: str) -> None:
    project.write("not-runnable", "#!/bin/sh\n")
    project.write("not-a-program", "\0").chmod(0o755)
    project.spec("x", steps(f"s: {{run: {run}, writes: a}}"))
    assert FAILURES[run] in failed(project)
    assert not os.path.lexists(project.root / "runs/x/a")


def test_a_word_longer_than_the_system_takes_is_a_failure_of_the_target(project: Project) -> None:
    project.spec("x", steps(f"s: {{run: [echo, '{'w' * 200_000}', '{{out}}'], writes: a}}"))
    assert "cannot start 'echo': Argument list too long" in failed(project)


def test_of_several_outputs_none_appears_when_one_is_missing(project: Project) -> None:
    project.spec("x", steps("s: {run: 'echo > {one}; : {two}', writes: {one: 1.txt, two: deep/2.txt}}"))
    assert "did not write runs/x/deep/2.txt" in failed(project)
    assert not (project.root / "runs/x/1.txt").exists()


def test_what_a_command_leaves_beside_its_output_is_removed(project: Project) -> None:
    project.spec("x", steps("s: {run: 'echo > {out}; echo > {out}.tmp; mkdir $(dirname {out})/scratch', writes: a}"))
    built(project)
    assert sorted(p.name for p in (project.root / "runs/x").iterdir()) == [".coppice", "a"]


def test_what_a_command_prints_is_in_its_log_and_nowhere_else(project: Project) -> None:
    project.spec(
        "x", steps("s: {for: {n: [1, 2]}, run: 'echo out {n}; echo err {n} >&2; echo > {out}', writes: '{n}'}")
    )
    assert "err" not in built(project).out
    assert log_of(project, "x:s.2") == "out 2\nerr 2\n"


def names(project: Project) -> list[str]:
    said = project.call("list", "--all", "-q", "--sort", "definition", "x")
    assert said.code == 0, said
    return said.out.split()[1:]


def test_a_matrix_is_the_product_of_its_values_in_the_order_written(project: Project) -> None:
    spec = "s: {for: {b: [2, 10], a: {range: [3, 0, -2]}}, run: 'echo {a} {b} > {out}', writes: '{a}/{b}'}"
    project.spec("x", steps(spec))
    assert names(project) == ["x:s.2.3", "x:s.2.1", "x:s.10.3", "x:s.10.1"]


def test_rows_are_taken_as_written(project: Project) -> None:
    project.spec("x", steps("s: {for: [{n: 1, w: b}, {w: a, n: 2}], run: 'echo {w} > {out}', writes: '{n}'}"))
    assert names(project) == ["x:s.1.b", "x:s.2.a"]


def test_values_are_the_text_in_the_file(project: Project) -> None:
    values = ["0.10", "010", "yes", "1e3", "0x1F", "1_000", "2020-01-01"]
    project.spec(
        "x", steps(f"s: {{for: {{v: [{', '.join(values)}]}}, run: 'printf %s {{v}} > {{out}}', writes: '{{v}}'}}")
    )
    assert names(project) == [f"x:s.{v}" for v in values]
    built(project)
    assert [project.read(f"runs/x/{v}") for v in values] == values


def test_a_gather_takes_the_outputs_whose_values_agree(project: Project) -> None:
    spec = """
        part:
          for: {n: [1, 2], m: [a, b]}
          run: 'echo {n}{m} | tee {main} > {side}'
          writes: {main: "{n}{m}.main", side: "{n}{m}.side"}
        by-n:
          for: {n: [2], other: [x]}
          run: 'cat {in} > {out}'
          reads: [{step: part, port: main}]
          writes: by-{n}
        whole:
          run: 'cat {parts} {in} | wc -l > {out}'
          reads: {parts: {step: part}, more: [{step: by-n}, seed]}
          writes: whole
    """
    project.write("seed", "seed\n")
    project.spec("x", steps(spec))
    built(project)
    assert project.read("runs/x/by-2") == "2a\n2b\n"
    assert project.read("runs/x/whole").strip() == str(8 + 8 + 2 + 1)


def test_letters_of_any_script_stay_in_the_names_of_targets(project: Project) -> None:
    project.spec("x", steps("s: {for: {n: [日本, 中国, a b]}, run: 'echo {n} > {out}', writes: '{n}.txt'}"))
    said = built(project, "-n", "1").out
    assert [line.split()[1] for line in said.splitlines()[:3]] == ["x:s.日本", "x:s.中国", "x:s.a-b"]
    assert (project.root / "runs/x/日本.txt").read_text() == "日本\n"


@pytest.mark.parametrize("end", ["EOF", "'EOF'"])
def test_a_quote_in_a_here_document_opens_none(project: Project, end: str) -> None:
    line = f"cat > note <<{end}\nit's a note\nEOF\nprintf %s {{who}} > {{out}}"
    project.spec("x", steps(f"s: {{for: {{who: ['a $(touch HACKED) b']}}, run: {json.dumps(line)}, writes: o}}"))
    built(project)
    assert project.read("runs/x/o") == "a $(touch HACKED) b"
    assert project.read("note") == "it's a note\n"
    assert not (project.root / "HACKED").exists()
