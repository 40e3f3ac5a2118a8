"""Recipe of a target: all that decides what it writes besides the contents it reads; and the key of both.

Position (names, paths of outputs) is left out, so that a renamed run or a moved slot finds its results again.  The path
of an input counts only where a kind puts it into `params`, as `steps/plan` does with paths that a command is told."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

from pipeline.core.graph import Ports, Target

# Under this word a kind keeps what says how a target may run, and not what comes of it.
LIMITS = "limits"
_WORD = r"\.[A-Za-z][A-Za-z0-9]*"
# Of several only the last one counts, and the one before it when that says how it is packed.
_SUFFIX = re.compile(rf"(?:{_WORD})?\.(?:gz|bz2|xz|zst|lz4|br|Z)$|{_WORD}$")

# X.Y: a patch release changes no result, and a store is shared by machines that differ in it.
PYTHON = f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]}"
# The parts of a recipe in which a spec has no say.
_OURS = {"stage": "", "python": ""}


def make_recipe(target: Target, code: str) -> dict[str, Any]:
    """Make the recipe of a target.  `code` stands for the code of its stage; of outputs the suffixes count.

    Of what it reads, the number of files of each port; where a file is read twice, their places among all instead."""
    written = [[port, [suffix(path) for path in group]] for port, group in target.writes]
    params, inputs = target.params, target.inputs
    if LIMITS in params:
        params = {name: value for name, value in params.items() if name != LIMITS}
    place = {path: n for n, path in enumerate(dict.fromkeys(inputs))}
    twice = len(place) < len(inputs)
    reads = [[port, [place[path] for path in group] if twice else len(group)] for port, group in target.reads]
    return {"stage": code, "python": PYTHON, "reads": reads, "writes": written, "params": params}


def same_request(then: Mapping[str, Any], now: Mapping[str, Any] | None) -> bool:
    """Check if two recipes ask for the same, whatever code and Python do it."""
    return now is not None and compact_json({**then, **_OURS}) == compact_json({**now, **_OURS})


def reads_of(recipe: Mapping[str, Any], inputs: Sequence[str]) -> Ports:
    """Rebuild the ports of a target whose inputs are known in their order."""
    left = iter(inputs)
    return tuple(
        (port, tuple(islice(left, files)) if isinstance(files, int) else tuple(inputs[place] for place in files))
        for port, files in recipe["reads"]
    )


def writes_of(recipe: Mapping[str, Any], outputs: Iterable[str]) -> Ports:
    left = iter(outputs)
    return tuple((port, tuple(islice(left, len(suffixes)))) for port, suffixes in recipe["writes"])


def describe_params(target: Target, left_out: str = "", spread: str = "") -> dict[str, Sequence[str]]:
    """The stage, params and limits of a target in words; of the param `spread` each value by itself."""
    words = {name: value for name, value in target.params.items() if name not in (LIMITS, left_out, spread)}
    every = {**words, **target.params.get(spread, {}), **target.params.get(LIMITS, {})}
    return {"stage": [target.stage], **{name: [json.dumps(each, ensure_ascii=False)] for name, each in every.items()}}


def suffix(path: str) -> str:
    """Suffix of a file name such as `.csv` or `.tar.gz`, by which many programs choose what they write.

    A number such as in `lr-0.10` is no suffix; nor is a position such as in `d0.n1.csv`."""
    match = _SUFFIX.search(path)
    return match[0] if match else ""


def result_key(recipe: Mapping[str, Any], contents: Iterable[str]) -> str:
    """The identity of a result: same recipe, same contents in the same order."""
    return sha256(f"{compact_json(recipe)}\n{' '.join(contents)}".encode()).hexdigest()


# One encoder for all: json.dumps would make a new one for each call.
compact_json: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode
