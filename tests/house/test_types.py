"""What mypy says of the package, the examples and the scripts."""

import subprocess
import sys

from kit.project import ROOT


def test_types_fit() -> None:
    checked = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
