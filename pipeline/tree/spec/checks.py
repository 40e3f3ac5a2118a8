"""The keys `checks` and `protect`: what must be right before the sweep, and what no candidate may touch.

Checks are commands that must end well; a canary among them must decide the same when later data is cut off."""

from __future__ import annotations

import posixpath

from pipeline import spec_fields as fields
from pipeline.core.graph import pattern_error
from pipeline.spec import Item
from pipeline.spec_fields import Field, Reader, Table, Values, checked_name
from pipeline.tree.spec.model import Canary, CheckCommand, CheckoutCommand, CommandDefaults, ProtectKeys
from pipeline.tree.spec.sweep import COMMAND_FIELDS, COMMON_NAMES, read_command

CHECK_NAMES = (*COMMON_NAMES, "output")
# What it writes is read by a canary only.
CANARY_NAMES = (*CHECK_NAMES, "results")
MOST_CUTS = 100


FRACTION = fields.checked(
    fields.number(0), lambda value: value < 1, "expected a part of the rows, from 0 to below 1", exclusiveMaximum=1
)
CANARY_FIELDS = (
    Field("cut", fields.TEXT, "which of its `reads` is cut: one CSV with a header, its rows in the order of time",
          needs=("reads",)),
    Field("column", fields.TEXT, default="", without="the first", needs=("cut",), help=
          "of that file: where the time stands, written so that it sorts, as 2001-12-31 does"),
    Field("cuts", fields.count(1, MOST_CUTS), "how many cuts", 5, needs=("cut",)),
    Field("tolerance", fields.number(0), default=1e-9, without="1e-9", needs=("cut",), help=
          "by how much a number may differ; of numbers above one, by so much of their size"),
    Field("from", FRACTION, "the earliest cut, as a part of the rows", 0.5, needs=("cut",)),
)  # fmt: skip
CHECK = Table(*COMMAND_FIELDS, *CANARY_FIELDS)


def read_checks(item: Item, defaults: CommandDefaults) -> tuple[CheckCommand, ...]:
    found: list[CheckCommand] = []
    for name, each in item.pairs("checks"):
        what = f"checks: {checked_name(name, each, 'checks')}"
        keys = CHECK.read(each, what)
        is_canary = "cut" in keys
        for field in CANARY_FIELDS:
            if field.key in keys and not is_canary:
                keys.wrong(field.key, f"{field.key} is said of a canary; name in `cut:` which of its reads is cut")
        command = read_command(keys, what, CANARY_NAMES if is_canary else CHECK_NAMES, defaults)
        found.append(CheckCommand(name, command, _canary(keys, command) if is_canary else None))
    return tuple(found) or item.wrong("checks: there are none; give name: {run: …}, or leave the key out")


def _canary(keys: Values, command: CheckoutCommand) -> Canary:
    reads, port = command.reads, keys["cut"]
    if port not in reads:
        known = f"one of {', '.join(sorted(reads))}" if reads else "the name of one of its `reads:`; it has none"
        keys.wrong("cut", f"cut: '{port}' is not read by it; give {known}")
    if len(reads[port]) > 1:
        keys.wrong("cut", f"cut: '{port}' is several files; one can be cut")
    if port not in command.uses:
        keys.wrong("run", f"run: it never names {{{port}}}, so that it would not see that this is cut")
    return Canary(port, *(keys[each.key] for each in CANARY_FIELDS[1:]))


_PROJECT = "{project}"


def _protect(item: Item, what: str) -> ProtectKeys:
    items = item.items(what) if item.is_list else [item]
    if not items:
        item.wrong("protect: the list is empty; name files or patterns of `repo:`, or leave the key out")
    read = [_protected_path(each) for each in items]
    # in one order, whichever they are named in: nothing is measured anew for that
    repo, project = (tuple(sorted({path for own, path in read if own is kind})) for kind in (False, True))
    return ProtectKeys(repo, project, item.line)


def _protected_path(item: Item) -> tuple[bool, str]:
    """Check if it is of the project, and the path from there on."""
    text = item.text("protect")
    own = text == _PROJECT or text.startswith(f"{_PROJECT}/")
    path = text.removeprefix(_PROJECT).lstrip("/") if own else text
    if "{" in path or "}" in path:
        item.wrong(f"protect: '{text}': only {_PROJECT}/ at the beginning may stand in braces")
    if path.startswith(("/", "~")):
        item.wrong(f"protect: '{text}' is not a path of `repo:`; what is beside it is {_PROJECT}/…")
    if ".." in path.split("/"):
        item.wrong(f"protect: '{text}' leads out by '..'; only what is in `repo:` or in the project can be protected")
    if not path or posixpath.normpath(path) == ".":
        item.wrong(f"protect: '{text}' is all there is: nothing could be changed; name what measures")
    if error := pattern_error(path):
        item.wrong(f"protect: '{text}' is not a pattern: {error}")
    path = posixpath.normpath(path)
    if own and path.split("/")[0] == "runs":
        item.wrong(f"protect: '{text}': Coppice itself looks after runs/; name what a command reads of it in `reads:`")
    return own, path


PROTECT = Reader(_protect, fields.any_of(fields.SOME_TEXT, fields.list_of(fields.SOME_TEXT, minItems=1)))
