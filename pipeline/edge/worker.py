"""The other end of `workers`: reads calls, makes them, answers each with what went wrong.

Run as a script in the project's folder.  Whatever the function prints goes where standard error goes;
the pipe to Coppice is kept out of its reach."""

from __future__ import annotations

import marshal
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Sources = dict[str, tuple[tuple[int, ...], dict[str, Any]]]


def function(file: str, name: str, sources: Sources) -> Callable[..., object]:
    """The function as the file now defines it; a file is read again when it has changed."""
    stat = os.stat(file)
    mark = (stat.st_mtime_ns, stat.st_size, stat.st_ctime_ns, stat.st_ino)
    if file not in sources or sources[file][0] != mark:
        names: dict[str, Any] = {"__name__": "coppice_step", "__file__": file}
        with open(file, "rb") as source:
            exec(compile(source.read(), file, "exec"), names)
        sources[file] = (mark, names)
    found: Callable[..., object] = sources[file][1][name]
    return found


def called(request: dict[str, Any], sources: Sources) -> str:
    """What went wrong, or nothing."""
    try:
        do = function(request["file"], request["function"], sources)
        do(request["reads"], request["writes"], **request["with"])
    except KeyError as error:
        if error.args == (request["function"],):
            return f"{request['file']} has no function {request['function']}"
        print_traceback()
        return repr(error)
    except Exception as error:  # noqa: BLE001 - whatever the user's code raises is its failure
        print_traceback()
        return f"{type(error).__name__}: {error}"
    except SystemExit as error:
        return f"the function called sys.exit({error.code!r})" if error.code else ""
    return ""


def print_traceback() -> None:
    import traceback  # most calls go well

    traceback.print_exc()


def restore(printed: int) -> None:
    """Standard output and error as they were, whatever the function did to them; what it printed is written out."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and not stream.closed:
            stream.flush()
    os.dup2(printed, 1)
    os.dup2(printed, 2)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115


def main() -> None:
    sys.path[0] = os.getcwd()
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    printed = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    restore(printed)
    home = os.getcwd()
    sources: Sources = {}
    while size := requests.read(4):
        request = marshal.loads(requests.read(int.from_bytes(size, "little")))
        error = called(request, sources)
        restore(printed)
        os.chdir(home)
        answer = error.encode(errors="replace")
        answers.write(len(answer).to_bytes(4, "little") + answer)
        answers.flush()


main()
