"""Worker, the other end of `job.Workers`: reads calls, makes them, answers what went wrong.  Run as a script.

States: waiting for a call -> calling the function -> restoring (streams, folder, environment, path) -> answering ->
waiting.  It ends with its standard input, by a kill after a timeout, or when the function ends the process.

It runs in the project's folder.  What the function prints goes to standard error; the pipe to Coppice is out of its
reach."""

from __future__ import annotations

import marshal
import os
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)

# The project: where this was started.
HOME = os.getcwd()

TYPE_CHECKING = False
if TYPE_CHECKING:
    from io import TextIOWrapper
    from types import CodeType
    from typing import Any

    Sources = dict[str, tuple[tuple[int, ...], dict[str, Any]]]


# Modules of the project that were imported: from which file, and its mark at that time.
IMPORTED: dict[str, tuple[str, tuple[int, ...]]] = {}


def mark_of(file: str) -> tuple[int, ...]:
    try:
        stat = os.stat(file)
    except FileNotFoundError:
        return ()
    return stat.st_mtime_ns, stat.st_size, stat.st_ctime_ns, stat.st_ino


def forget_edited(sources: Sources) -> None:
    """Forget all modules once one was edited: others hold what they imported from it."""
    if any(mark_of(file) != mark for file, mark in IMPORTED.values()):
        for name in IMPORTED:
            sys.modules.pop(name, None)
            package, _, own = name.rpartition(".")
            if package in sys.modules:  # a folder; `from folder import own` takes what it has by that name
                vars(sys.modules[package]).pop(own, None)
        IMPORTED.clear()
        sources.clear()


def namespace(file: str, sources: Sources) -> dict[str, Any]:
    """Names that the file defines now; it is read again when it has changed."""
    forget_edited(sources)
    mark = mark_of(file)
    if file not in sources or sources[file][0] != mark:
        package = os.path.dirname(file).replace("/", ".")  # relative imports start from there
        names: dict[str, Any] = {"__name__": "coppice_step", "__package__": package, "__file__": file}
        with open(file, "rb") as source:
            exec(compile(source.read(), file, "exec"), names)
        sources[file] = (mark, names)
    return sources[file][1]


def make_call(request: dict[str, Any], sources: Sources) -> tuple[str, str]:
    """Make the call; what went wrong, or nothing, and the traceback, if there is one."""
    try:
        names = namespace(request["file"], sources)
        if request["function"] not in names:
            return f"{request['file']} has no function {request['function']}", ""
        names[request["function"]](request["reads"], request["writes"], **request["with"])
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is its failure
        import traceback  # most calls go well

        told = traceback.TracebackException.from_exception(error)
        ours = (__file__, "<frozen importlib")
        told.stack[:] = [frame for frame in told.stack if not frame.filename.startswith(ours)]
        why = repr(error) if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
        return why, "".join(told.format())
    except SystemExit as error:
        return f"the function called sys.exit({error.code!r})" if error.code else "", ""
    return "", ""


class FromSource(SourceFileLoader):
    """Loader that ignores compiled files: they are trusted by size and second, and a module may change twice in one."""

    def get_code(self, name: str) -> CodeType:
        path = self.get_filename(name)
        IMPORTED[name] = path, mark_of(path)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def finder(folder: str) -> FileFinder:
    """Finder of the project's modules; those that are installed may be compiled."""
    if not f"{folder}/".startswith(f"{HOME}/") or "/site-packages" in folder:
        raise ImportError
    extensions, sources = (ExtensionFileLoader, EXTENSION_SUFFIXES), (FromSource, SOURCE_SUFFIXES)
    return FileFinder(folder, extensions, sources, (SourcelessFileLoader, BYTECODE_SUFFIXES))


def lines_to(number: int, errors: str) -> TextIOWrapper:
    return open(number, "w", buffering=1, errors=errors, closefd=False)


class Streams:
    """Standard input, output and error: nothing to read, and one file for all that is printed."""

    def __init__(self) -> None:
        self._printed, self._empty = os.dup(2), os.open(os.devnull, os.O_RDONLY)
        self._ours = (sys.stdout, sys.stderr)
        self.restore()
        self._renew()

    def restore(self) -> None:
        """Restore the streams, whatever the function did to them, and write out what it printed."""
        whole = (sys.stdout, sys.stderr) == self._ours and not any(stream.closed for stream in self._ours)
        sys.stdout, sys.stderr = self._ours  # a stream that the function put there ends, and writes what it holds
        for stream in self._ours:
            if not stream.closed:
                stream.flush()
        for number, file in enumerate((self._empty, self._printed, self._printed)):
            os.dup2(file, number)
        if sys.stdin is None or sys.stdin.closed:
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
        if not whole:
            self._renew()

    def _renew(self) -> None:
        """Open streams that write by lines: output keeps its order beside a command's, and survives a kill."""
        sys.stdout = sys.__stdout__ = lines_to(1, "strict")  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = lines_to(2, "backslashreplace")  # type: ignore[misc]
        self._ours = (sys.stdout, sys.stderr)


def main() -> None:
    sys.path[0] = HOME
    sys.path_hooks.insert(0, finder)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    for pipe in (requests, answers):  # a fork would answer too, and who waits for an answer would wait for its end
        os.register_at_fork(after_in_child=pipe.close)
    streams = Streams()
    environ, path = dict(os.environ), [*sys.path]
    sources: Sources = {}
    while size := requests.read(4):
        request = marshal.loads(requests.read(int.from_bytes(size, "little")))
        error, traceback = make_call(request, sources)
        streams.restore()
        sys.stderr.write(traceback)
        if answers.closed:
            return  # a fork that the function did not end
        os.chdir(HOME)
        if os.environ != environ:  # results must not depend on who ran before
            os.environ.clear()
            os.environ.update(environ)
        sys.path[:] = path
        answer = error.encode(errors="replace")
        answers.write(len(answer).to_bytes(4, "little") + answer)
        answers.flush()


main()
