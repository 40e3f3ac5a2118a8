"""Daily prices of twenty S&P 500 stocks, 1990-2022: get the wheel that carries them, take the file out, check it.

Usage: python3 fetch.py skfolio==1.12.2 prices.csv

The prices are a data file of the skfolio package (BSD 3-Clause). The wheel is opened as the zip file it is:
nothing of it is installed or imported. What counts is the checksum of the prices, not that of the wheel.
"""

import gzip
import hashlib
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

MEMBER = "skfolio/datasets/data/sp500_dataset.csv.gz"
SHA256 = "5f769c6d7be57f62a4dfd1f553995855462a17c92b21a4af4245439c6115617f"  # of the unpacked file


def download(requirement: str, folder: Path) -> Path:
    """Only a wheel will do: a source distribution would execute its build script."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    what = ["download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), requirement]
    if find_spec("pip") is None:
        sys.exit(f"{sys.executable} has no pip; put a Python that has one first on PATH (scripts/run does)")
    if subprocess.run(pip + what, check=False).returncode:
        sys.exit(f"pip could not download {requirement} (its message is above)")
    return next(folder.glob("*.whl"))


def unpack(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        if MEMBER not in archive.namelist():
            sys.exit(f"{wheel.name} has no {MEMBER}; another version of the package may")
        return gzip.decompress(archive.read(MEMBER))


def checked(prices: bytes) -> bytes:
    found = hashlib.sha256(prices).hexdigest()
    if found != SHA256:
        sys.exit(f"{MEMBER}: sha256 is {found}, expected {SHA256}; these are other prices")
    return prices


def main(requirement: str, out: str) -> None:
    with TemporaryDirectory() as folder:
        prices = checked(unpack(download(requirement, Path(folder))))
    Path(out).write_bytes(prices)


if __name__ == "__main__":
    main(*sys.argv[1:])
