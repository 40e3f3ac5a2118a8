"""The other end of `workers`: reads calls, makes them, answers each with what went wrong.

Run as a script in the project's folder.  Whatever the function prints goes where standard error goes;
the pipe to Coppice is kept out of its reach."""

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
    from types import CodeType
    from typing import Any

    Sources = dict[str, tuple[tuple[int, ...], dict[str, Any]]]


def namespace(file: str, sources: Sources) -> dict[str, Any]:
    """What the file now defines; it is read again when it has changed."""
    stat = os.stat(file)
    mark = (stat.st_mtime_ns, stat.st_size, stat.st_ctime_ns, stat.st_ino)
    if file not in sources or sources[file][0] != mark:
        names: dict[str, Any] = {"__name__": "coppice_step", "__file__": file}
        with open(file, "rb") as source:
            exec(compile(source.read(), file, "exec"), names)
        sources[file] = (mark, names)
    return sources[file][1]


def called(request: dict[str, Any], sources: Sources) -> str:
    """What went wrong, or nothing."""
    try:
        names = namespace(request["file"], sources)
        if request["function"] not in names:
            return f"{request['file']} has no function {request['function']}"
        names[request["function"]](request["reads"], request["writes"], **request["with"])
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is its failure
        print_traceback()
        return repr(error) if isinstance(error, KeyError) else f"{type(error).__name__}: {error}"
    except SystemExit as error:
        return f"the function called sys.exit({error.code!r})" if error.code else ""
    return ""


class FromSource(SourceFileLoader):
    """Compiled files are trusted by size and second: a module edited twice in a second would be an old one."""

    def get_code(self, name: str) -> CodeType:
        path = self.get_filename(name)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def finder(folder: str) -> FileFinder:
    """Finds modules of the project; those that are installed may be compiled."""
    if not f"{folder}/".startswith(f"{HOME}/") or "/site-packages" in folder:
        raise ImportError
    extensions, sources = (ExtensionFileLoader, EXTENSION_SUFFIXES), (FromSource, SOURCE_SUFFIXES)
    return FileFinder(folder, extensions, sources, (SourcelessFileLoader, BYTECODE_SUFFIXES))


def print_traceback() -> None:
    import traceback  # most calls go well

    traceback.print_exc()


class Streams:
    """Standard input, output and error: nothing to read, and one file for all that is printed."""

    def __init__(self) -> None:
        self._printed, self._empty = os.dup(2), os.open(os.devnull, os.O_RDONLY)
        self._ours = (sys.stdout, sys.stderr)
        self.restore()
        self._renew()

    def restore(self) -> None:
        """As they were, whatever the function did to them; what it printed is written out."""
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
        sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # type: ignore[misc]  # noqa: SIM115
        sys.stderr = sys.__stderr__ = open(2, "w", closefd=False, buffering=1)  # type: ignore[misc]  # noqa: SIM115
        self._ours = (sys.stdout, sys.stderr)


def main() -> None:
    sys.path[0] = HOME
    sys.path_hooks.insert(0, finder)
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    for pipe in (requests, answers):  # a fork would answer too, and who waits for an answer would wait for its end
        os.register_at_fork(after_in_child=pipe.close)
    streams = Streams()
    sources: Sources = {}
    while size := requests.read(4):
        request = marshal.loads(requests.read(int.from_bytes(size, "little")))
        error = called(request, sources)
        streams.restore()
        if answers.closed:
            return  # a fork that the function did not end
        os.chdir(HOME)
        answer = error.encode(errors="replace")
        answers.write(len(answer).to_bytes(4, "little") + answer)
        answers.flush()


main()
