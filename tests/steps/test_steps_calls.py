"""`call:` runs a function of the project in a warm process, and survives whatever the function does."""

import json
import os
import py_compile

import pytest
from kit.building import built, failed, log_of, ran, steps
from kit.project import Project

FUNCTIONS = """
import os, sys
def good(reads, writes):
    print('to the log'); print('and this', file=sys.stderr); os.write(1, b'raw\\n')
    open(writes[0], 'w').write(sys.stdin.read() + os.getcwd())
def raises(reads, writes):
    raise ValueError('no such luck')
def leaves(reads, writes):
    sys.exit(3)
def leaves_well(reads, writes):
    open(writes[0], 'w').close()
    sys.exit()
def dies(reads, writes):
    print('last words', flush=True)
    os._exit(5)
def killed(reads, writes):
    os.kill(os.getpid(), 9)
def interrupted(reads, writes):
    raise KeyboardInterrupt
def away(reads, writes):
    open(writes[0], 'w').close()
    os.chdir('/')
def silent(reads, writes):
    sys.stdout.close()
    open(writes[0], 'w').close()
def key(reads, writes):
    return {}['raises']
def no_arguments():
    pass
not_a_function = 3
"""
PAIR = "a: {{call: f.py:{}, writes: a}}\nb: {{call: f.py:good, writes: b}}"
FAILURES = {
    "raises": "ValueError: no such luck",
    "leaves": "sys.exit(3)",
    "dies": "exit status 5",
    "killed": "killed by signal 9",
    "interrupted": "KeyboardInterrupt",
    "key": "KeyError",
    "no_arguments": "TypeError: no_arguments() takes 0 positional arguments but 2 were given",
    "not_a_function": "TypeError: 'int' object is not callable",
    "nowhere": "f.py has no function nowhere",
}


@pytest.mark.parametrize("function", FAILURES)
def test_a_function_that_fails_says_how_and_the_next_one_works(project: Project, function: str) -> None:
    project.write("f.py", FUNCTIONS)
    project.spec("x", steps(PAIR.format(function)))
    assert FAILURES[function] in failed(project, "-n", "1", "--continue")
    assert project.read("runs/x/b") == str(project.root)


@pytest.mark.parametrize("function", ["leaves_well", "away", "silent"])
def test_a_function_may_leave_move_or_close_its_output(project: Project, function: str) -> None:
    project.write("f.py", FUNCTIONS)
    project.spec("x", steps(PAIR.format(function)))
    built(project, "-n", "1")
    assert project.read("runs/x/b") == str(project.root)
    assert sorted(log_of(project, "x:b").splitlines()) == ["and this", "raw", "to the log"]


def test_a_traceback_is_in_the_log_of_the_target(project: Project) -> None:
    project.write("f.py", FUNCTIONS)
    project.spec("x", steps("a: {call: f.py:raises, writes: a}"))
    failed(project)
    assert "in raises" in log_of(project, "x:a")


def test_a_file_that_cannot_be_imported_is_a_failure_of_the_target(project: Project) -> None:
    project.write("f.py", "def f(:\n")
    project.spec("x", steps("a: {call: f.py:f, writes: a}"))
    assert "SyntaxError" in failed(project)


def test_a_function_gets_lists_or_mappings_where_ports_are_named(project: Project) -> None:
    write = "import json\ndef f(reads, writes):\n    json.dump(reads, open({}, 'w'))\n"
    project.write("list.py", write.format("writes[0]"))
    project.write("map.py", write.format("writes['o'][0]"))
    project.write("in", "1")
    spec = """
        a: {call: list.py:f, reads: [in, map.py], writes: a}
        b: {call: map.py:f, reads: {p: in, q: [in, map.py]}, writes: {o: b}}
        c: {call: list.py:f, writes: c}
    """
    project.spec("x", steps(spec))
    built(project)
    read = [json.loads(project.read(f"runs/x/{name}")) for name in "abc"]
    assert read == [["in", "map.py"], {"p": ["in"], "q": ["in", "map.py"]}, []]


def test_a_function_gets_values_of_the_type_yaml_gives_them(project: Project) -> None:
    project.write("f.py", "import json\ndef f(reads, writes, **more):\n    json.dump(more, open(writes[0], 'w'))\n")
    spec = """
        s:
          for: [{a: 1, b: 0.5, c: true, d: text}]
          call: f.py:f
          with: {a: '{a}', b: '{b}', c: '{c}', d: ['{d}!', 'x{a}', 2], e: {f: null}}
          writes: a
    """
    project.spec("x", steps(spec))
    built(project)
    expected = {"a": 1, "b": 0.5, "c": True, "d": ["text!", "x1", 2], "e": {"f": None}}
    assert json.loads(project.read("runs/x/a")) == expected


NOTING = """
from pathlib import Path
import sibling
def f(reads, writes):
    with open('ran', 'a') as note:
        note.write('f\\n')
    Path(writes[0]).write_text(sibling.TEXT)
"""


def test_editing_the_file_of_a_function_or_what_it_reads_makes_it_stale(project: Project) -> None:
    project.write("lib/f.py", NOTING)
    project.write("sibling.py", "TEXT = 'one'\n")
    project.spec("x", steps("a: {call: lib/f.py:f, reads: sibling.py, writes: a}"))
    built(project)
    for path, text in (("lib/f.py", NOTING + "#\n"), ("sibling.py", "TEXT = 'two'\n")):
        project.write(path, text)
        built(project)
    assert ran(project) == ["f"] * 3
    assert project.read("runs/x/a") == "two"
    project.write("sibling.py", "TEXT = 'one'\n")
    assert "recalled" in built(project).out
    assert project.read("runs/x/a") == "one"


def test_a_module_compiled_before_it_was_edited_is_not_believed(project: Project) -> None:
    """Python goes by size and second."""
    project.write("f.py", NOTING)
    sibling = project.write("sibling.py", "TEXT = 'one'\n")
    py_compile.compile(str(sibling))
    second = sibling.stat().st_mtime
    project.write("sibling.py", "TEXT = 'two'\n")
    os.utime(sibling, (second, second))
    project.spec("x", steps("a: {call: f.py:f, reads: sibling.py, writes: a}"))
    built(project)
    assert project.read("runs/x/a") == "two"


def test_what_is_installed_is_not_compiled_again_by_each_worker(project: Project) -> None:
    project.write("f.py", "import yaml\ndef f(reads, writes):\n    open(writes[0], 'w').write(yaml.__cached__)\n")
    project.write(
        "g.py", "import f\ndef g(reads, writes):\n    open(writes[0], 'w').write(type(f.__loader__).__name__)\n"
    )
    project.spec("x", steps("a: {call: f.py:f, writes: a}\nb: {call: g.py:g, writes: b}"))
    built(project)
    assert "__pycache__" in project.read("runs/x/a")
    assert project.read("runs/x/b") == "FromSource"
    assert not [*project.root.rglob("__pycache__")]


def test_a_module_edited_while_a_build_goes_on_is_imported_anew(project: Project) -> None:
    """The worker that imported it before is still there."""
    project.write("sibling.py", "TEXT = 'one'\n")
    edit = "open('sibling.py', 'w').write(\"TEXT = 'three'\\n\")"
    project.write(
        "f.py",
        f"import sibling\ndef f(reads, writes, n):\n    if n == 1: {edit}\n"
        "    open(writes[0], 'w').write(sibling.TEXT)\n",
    )
    project.spec("x", steps("s: {for: {n: [1, 2]}, call: f.py:f, with: {n: '{n}'}, reads: sibling.py, writes: '{n}'}"))
    assert "was edited while it ran" in failed(project, "-n", "1", "--continue")
    assert project.read("runs/x/2") == "three"


def test_a_function_finds_the_environment_as_it_was_whoever_ran_before(project: Project) -> None:
    change = "os.environ['SEEN'] = sys.path[0]; os.environ.pop('HOME', None); sys.path.insert(0, 'elsewhere')"
    told = "str(['SEEN' in os.environ, 'HOME' in os.environ, 'elsewhere' in sys.path])"
    project.write("f.py", f"import os, sys\ndef f(reads, writes):\n    open(writes[0], 'w').write({told}); {change}\n")
    project.spec("x", steps("a: {call: f.py:f, writes: a}\nb: {call: f.py:f, reads: a, writes: b}"))
    built(project, "-n", "1")
    assert project.read("runs/x/b") == "[False, True, False]"
