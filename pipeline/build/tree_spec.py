"""The spec of a search: made from a config file and flags when it is new, otherwise held against them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from difflib import get_close_matches

from pipeline import kinds
from pipeline.build import project
from pipeline.build.tree_flags import Given, Keys, check_agreed, check_same, long_of, written
from pipeline.edge.files import write_all
from pipeline.errors import SpecError
from pipeline.spec import parse

KIND = "tree"
BELOW = "other keys cannot stand below its last line; write it as `key: value` lines, without `...` at the end"


def spec_of(run: str) -> str | None:
    return next((path for path in (f"specs/{run}.yaml", f"specs/{run}.yml") if os.path.exists(path)), None)


def check(run: str, spec: str, config: str | None, given: Sequence[Given]) -> None:
    """Flags and config must say what the spec says."""
    keys = _keys(spec)
    if "kind" in keys and keys["kind"].text("kind") != KIND:
        keys["kind"].wrong(f"kind: {keys['kind'].text('kind')} is built by `coppice {run}`; this is for kind: {KIND}")
    check_agreed(given, spec, keys, whole=True)
    if config is not None:
        check_same(config, _keys(config), spec, keys, kinds.flags(KIND))


def create(run: str, config: str | None, given: Sequence[Given]) -> None:
    """A new one; none is left behind when there is a mistake in it."""
    spec = f"specs/{run}.yaml"
    if not os.path.isdir("specs"):
        project.specs()  # says so
    project.checked(run, spec)
    if config is None:
        close = get_close_matches(run, [name.rpartition(".")[0] for name in os.listdir("specs")], 1)
        what = "give its repo, roles, sweep and metrics with --config FILE, or write that file"
        meant = f"; did you mean '{close[0]}'?" if close else ""
        raise SpecError(f"there is no run '{run}': no {spec}{meant}; for a new one {what}")
    content = _drafted(run, config, given)
    fresh = not os.path.exists(f"runs/{run}")
    if not _put(spec, content):
        check(run, spec, config, given)  # somebody else did it meanwhile
        return
    try:
        project.graph(project.load([run]))
    except BaseException as error:
        os.unlink(spec)
        if fresh:
            shutil.rmtree(f"runs/{run}", ignore_errors=True)
        if isinstance(error, SpecError):
            raise SpecError(str(error).replace(f"{spec}:", f"{config}:")) from error
        raise


def _drafted(run: str, config: str, given: Sequence[Given]) -> bytes:
    """The config as it is, and below it what the flags say, a line each."""
    keys = _keys(config)
    check_agreed(given, config, keys, whole=False)
    added = {} if "kind" in keys else {"kind": KIND}
    added |= {each.flag.key: written(each.value) for each in given if each.flag.key not in keys}
    text = _text(config)
    text += b"" if text.endswith(b"\n") else b"\n"
    content = text + "".join(f"{key}: {value}\n" for key, value in added.items()).encode()
    try:
        _check_content(run, config, content, {*keys, *added})
    except SpecError as error:
        raise SpecError(_by_flag(str(error), config, text.count(b"\n") + 1, [*added])) from error
    return content


def _check_content(run: str, config: str, content: bytes, keys: set[str]) -> None:
    try:
        item = parse(content, config)
        complete = {key for key, _ in item.pairs("spec")} == keys
    except SpecError as error:
        raise SpecError(f"{config}: {BELOW}") from error
    if not complete:
        raise SpecError(f"{config}: {BELOW}")
    kind = kinds.kind_of(item)
    if kind != KIND:
        item.wrong(f"kind: {kind} is not for this command, which makes specs of kind: {KIND}")
    kinds.read(kind, item, run)


def _by_flag(message: str, config: str, first: int, added: Sequence[str]) -> str:
    """Lines below those of the config are flags."""
    match = re.match(rf"{re.escape(config)}:(\d+): (.*)", message, re.DOTALL)
    if match is None or int(match[1]) < first:
        return message
    key = added[int(match[1]) - first]
    return f"tree: --{long_of(key)}: {match[2].removeprefix(f'{key}: ')}"


def _put(spec: str, content: bytes) -> bool:
    """Whole and only if there is none."""
    draft = os.path.join(os.path.dirname(spec), f".{os.path.basename(spec)}.{os.getpid()}")
    write_all(draft, content, durable=True)
    try:
        os.link(draft, spec)
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    return True


def _keys(path: str) -> Keys:
    return dict(parse(_text(path), path).pairs("spec"))


def _text(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror}") from error
