"""Git repositories of a user who has everything set that could get in the way."""

import os
import subprocess
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest

from pipeline.git.commits import Candidate, commit_without_leavings
from pipeline.git.worktrees import Worktree

OWN = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@localhost",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@localhost",
    "GIT_AUTHOR_DATE": "1700000000 +0200",
    "GIT_COMMITTER_DATE": "1700000000 +0200",
}
HOOKS = ["post-checkout", "post-index-change", "pre-commit", "reference-transaction", "post-commit", "pre-auto-gc"]
HOSTILE = """
[core]
    hooksPath = {home}/hooks
    fsmonitor = {trap}
    pager = {trap}
    editor = {trap}
    autocrlf = true
    excludesFile = {home}/ignored
    attributesFile = {home}/attributes
    fileMode = false
[commit]
    gpgSign = true
    template = {home}/missing
[gpg]
    program = {trap}
[diff]
    external = {trap}
    noprefix = true
[init]
    templateDir = {home}/template
    defaultObjectFormat = sha256
[user]
    useConfigOnly = true
[status]
    showUntrackedFiles = no
[apply]
    whitespace = error
[i18n]
    commitEncoding = latin1
[filter "trap"]
    clean = {trap}
    smudge = {trap}
    required = true
[alias]
    status = !{trap}
"""


def run_git(folder: Path | str, *words: str, stdin: bytes = b"", **env: str) -> str:
    """As the user does it by hand."""
    done = subprocess.run(["git", *words], cwd=folder, env=OWN | env, input=stdin, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return os.fsdecode(done.stdout)


def write(folder: Path | str, files: Mapping[str, str | bytes]) -> None:
    for name, text in files.items():
        file = Path(folder) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode() if isinstance(text, str) else text)


def repository(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    folder.mkdir(parents=True)
    run_git(folder, "init", "--quiet", "--template=", "--initial-branch=main")
    write(folder, files)
    run_git(folder, "add", "--all")
    run_git(folder, "commit", "--quiet", "--allow-empty", "--message=start")
    return folder


def trap(folder: Path, name: str = "trap") -> Path:
    """A program that tells on whoever runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{sprung(folder)}'\n")
    program.chmod(0o755)
    return program


def sprung(folder: Path) -> Path:
    return next(parent for parent in [folder, *folder.parents] if (parent / "traps").exists()) / "traps"


def hostile_user(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks, filters, signatures, a template, and an environment as a hook of git has it."""
    for folder in ("hooks", "template/hooks"):
        for hook in HOOKS:
            trap(home / folder, hook)
    write(home, {"ignored": "*.py\n", "attributes": "* filter=trap diff=trap\n"})
    write(home, {".gitconfig": HOSTILE.format(home=home, trap=trap(home))})
    write(home, {".config/git/attributes": "* filter=trap\n", ".config/git/ignore": "*.txt\n"})
    hook = {"GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index", "GIT_OBJECT_DIRECTORY": "/nowhere/objects"}
    hook |= {"GIT_WORK_TREE": "/nowhere", "GIT_COMMON_DIR": "/nowhere", "GIT_EXTERNAL_DIFF": str(home / "trap")}
    hook |= {"GIT_AUTHOR_DATE": "5 +0000", "GIT_COMMITTER_NAME": "", "GIT_CONFIG_PARAMETERS": "'core.bare=true'"}
    for name, value in {"HOME": str(home), **hook}.items():
        monkeypatch.setenv(name, value)


def contents(folder: Path) -> dict[str, str]:
    """Every file, link and folder: its mode and what is in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        stat = path.lstat()
        text = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
        kept = text.encode() if isinstance(text, str) else text
        found[str(path.relative_to(folder))] = f"{stat.st_mode:o} {sha256(kept).hexdigest()}"
    return found


def tree_of(repo: str, commit: str) -> dict[str, tuple[str, bytes]]:
    """Mode and contents of each file of a commit."""
    listed = run_git(repo, "ls-tree", "-r", "-z", commit, GIT_DIR=repo).split("\0")[:-1]
    rows = (row.split("\t", 1) for row in listed)
    return {name: (meta.split()[0], blob(repo, meta.split()[2])) for meta, name in rows}


def blob(repo: str, name: str) -> bytes:
    shown = subprocess.run(
        ["git", "cat-file", "-p", name], env=OWN | {"GIT_DIR": repo}, capture_output=True, check=False
    )
    return shown.stdout


def commit_worktree(worktree: Worktree, parent: str, message: str) -> Candidate:
    """The commit of a worktree, whatever is left out of it."""
    return commit_without_leavings(worktree, parent, message)[0]
