"""How git is run: with an end, with its message in a line, and without what the caller's environment says."""

import errno
import os
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from kit.building import ends
from kit.gitting import OWN

from pipeline.git.command import GitOutage, GitProblem, checked_sha, git, split_names
from pipeline.git.commits import _candidate_problems


def instead_of_git(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    program = folder / "bin/git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{OWN['PATH']}")


def test_a_git_that_hangs_is_ended_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    instead_of_git(tmp_path, monkeypatch, f"(trap '' TERM; exec sleep 600) & echo $! $$ > {tmp_path}/pids; wait")
    with pytest.raises(GitOutage, match=r"^git fetch did not end within 1 s$"), _candidate_problems():
        git("fetch", timeout=1)  # and is nobody's fault
    pids = map(int, (tmp_path / "pids").read_text().split())
    assert all(ends(pid) for pid in pids)


def test_only_what_git_needs_is_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GIT_DIR", "GIT_CONFIG_PARAMETERS", "GIT_SSH_COMMAND", "API_KEY", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, "of the caller")
    instead_of_git(tmp_path, monkeypatch, "env")
    assert "of the caller" not in git("status").decode()
    assert "GIT_CONFIG_GLOBAL=/dev/null\n" in git("status").decode()
    assert "GIT_DIR=/here\n" in git("status", repo="/here", cwd="/").decode()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("echo 'warning: w' >&2; echo 'error: e' >&2; echo 'hint: h' >&2; echo 'fatal: f' >&2", "error: e; fatal: f"),
        ("echo odd >&2; echo words >&2", "odd; words"),
        ("printf '\\377' >&2", "\ufffd"),
        ("true", "ended with 3"),
    ],
)
def test_its_message_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, told: str) -> None:
    instead_of_git(tmp_path, monkeypatch, f"{said}; exit 3")
    with pytest.raises(GitProblem) as problem:
        git("status")
    assert str(problem.value) == f"git status: {told}"


def test_a_full_disk_where_git_does_not_write_is_no_reason_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instead_of_git(tmp_path, monkeypatch, "echo 'error: a.py: patch does not apply' >&2; exit 1")
    here, sizes = os.stat(tmp_path).st_dev, os.statvfs
    elsewhere = next(path for path in ("/dev/shm", "/tmp", "/var/tmp") if os.stat(path).st_dev != here)
    full = os.statvfs_result((4096, 4096, 9, 0, 0, 9, 9, 9, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: full if os.stat(path).st_dev == here else sizes(path))
    with pytest.raises(OSError, match="does not apply") as full_disk:
        git("apply", repo=str(tmp_path))
    assert full_disk.value.errno == errno.ENOSPC
    with TemporaryDirectory(dir=elsewhere) as folder, chdir(folder), pytest.raises(GitProblem, match="apply"):
        git("apply", repo=folder)


def test_names_and_commits_are_what_they_must_be() -> None:
    assert split_names(b"a\0b\nc\0\xff\0") == ["a", "b\nc", os.fsdecode(b"\xff")]
    assert split_names(b"") == []
    assert checked_sha("0" * 40) == "0" * 40
    with pytest.raises(GitProblem, match="40 hexadecimal digits"):
        checked_sha("--upload-pack=x")
