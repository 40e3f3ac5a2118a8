"""The user's own key: what it has signed is believed when it is read again, such as stored results and frozen plans.

It lies where no cage can see it, in the user's configuration; machines that share a store have it in their environment,
in a variable that no command is given."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import NoReturn

from pipeline.errors import SpecError

VARIABLE = "COPPICE_STORE_KEY"
_BYTES = 32
_FORM = re.compile(rb"[0-9a-f]{64}\n?")
_RIGHT = f"a key is {2 * _BYTES} hexadecimal digits, as `openssl rand -hex {_BYTES}` prints them"


def key_path() -> str:
    """Path of the file with the key, whether it is there or not."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    folder = given if os.path.isabs(given) else os.path.expanduser("~/.config")
    return f"{folder}/coppice/store.key"


def load_key() -> bytes:
    """The key; it is made when it is first asked for.  SpecError for one that is no key, or that others could know."""
    if VARIABLE in os.environ:
        text = os.environb[VARIABLE.encode()].strip().lower()
        if not _FORM.fullmatch(text):
            _refuse(f"${VARIABLE}", f"is no key; {_RIGHT}")
        return bytes.fromhex(text.decode())
    path = key_path()
    try:
        return _read_key(path) or _make_key(path)
    except OSError as error:
        _refuse(path, f"cannot be read or made: {error.strerror}; or set ${VARIABLE}")


def _read_key(path: str) -> bytes | None:
    """The key in a file; None when there is no file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        status, text = os.fstat(fd), os.read(fd, 4 * _BYTES)
    finally:
        os.close(fd)
    if stat.S_ISREG(status.st_mode) and status.st_uid != os.geteuid():
        _refuse(path, f"belongs to user {status.st_uid}, who could sign for you; remove it, and a new one is made")
    if stat.S_IMODE(status.st_mode) & 0o077:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        _refuse(path, f"others may read or write it (mode {mode}); remove it, and a new one is made")
    if not _FORM.fullmatch(text):
        _refuse(path, f"is no key; {_RIGHT}; remove it, and a new one is made")
    return bytes.fromhex(text.decode())


def _make_key(path: str) -> bytes:
    """Make a key.  Of two that make it at once, the first to have it whole in its place wins."""
    from tempfile import mkstemp  # here: a key is made once

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    fd, draft = mkstemp(prefix=f"{os.path.basename(path)}.", dir=os.path.dirname(path))  # its user's alone
    try:
        os.write(fd, os.urandom(_BYTES).hex().encode() + b"\n")
        os.fsync(fd)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.close(fd)
        os.unlink(draft)
    key = _read_key(path)
    assert key is not None, path
    return key


def signature(key: bytes, name: str, content: bytes) -> str:
    """Sign `content` as what is called `name`, so that it is believed under no other one."""
    import hmac  # here: most starts sign nothing

    return hmac.digest(key, b"%b\n%b" % (name.encode(), content), "sha256").hex()


def is_signed(key: bytes, name: str, content: bytes, claimed: bytes) -> bool:
    import hmac

    return hmac.compare_digest(signature(key, name, content).encode(), claimed)


def _refuse(what: str, why: str) -> NoReturn:
    raise SpecError(f"{what}: {why}")
