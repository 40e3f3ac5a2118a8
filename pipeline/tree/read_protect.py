"""The key `protect:` of a tree spec: paths of the repo and of the project that a candidate may not touch."""

from __future__ import annotations

import posixpath

from pipeline.core.globs import pattern_error
from pipeline.spec import Item
from pipeline.tree.model import Protect

_PROJECT = "{project}"


def protect(item: Item) -> Protect:
    items = item.items("protect") if item.is_list else [item]
    if not items:
        item.wrong("protect: the list is empty; name files or patterns of `repo:`, or leave the key out")
    read = [_path(each) for each in items]
    # in one order, whichever they are named in: nothing is measured anew for that
    repo, project = (tuple(sorted({path for own, path in read if own is kind})) for kind in (False, True))
    return Protect(repo, project, item.line)


def _path(item: Item) -> tuple[bool, str]:
    """Is it of the project?  And the path from there on."""
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
