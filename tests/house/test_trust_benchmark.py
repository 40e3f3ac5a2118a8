"""The benchmark of the trust rule runs, every study of it, and its generators are what they say."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kit.project import ROOT

from benchmarks.trust.shares import Share, seeded
from benchmarks.trust.studies import STUDIES
from benchmarks.trust.worlds import World


def test_every_study_runs_and_says_what_it_found(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    asked = [sys.executable, "-m", "benchmarks.trust", "--quick", "--depths", "4", "--json", str(out)]
    ended = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode in (0, 1), ended.stderr
    assert [study["study"] for study in json.loads(out.read_text())["studies"]] == [*STUDIES][:-1]
    assert ended.stdout.count("\n## ") == len(STUDIES) - 1


@pytest.mark.parametrize("noise", ["normal", "t3", "left"])
@pytest.mark.parametrize("rho", [0.0, 0.4])
def test_a_mean_varies_as_much_as_its_true_error_says(noise: str, rho: float) -> None:
    deltas, error = World(2, 10, noise, rho).depths(seeded("test"), 4_000)
    t = deltas.mean(axis=(2, 3)) / error
    assert np.mean(t**2) == pytest.approx(1, abs=0.08)
    assert np.mean(t[:, 0] * t[:, 1]) == pytest.approx(0.5, abs=0.08)


def test_an_interval_is_wilsons() -> None:
    assert Share(10, 200).interval == pytest.approx((2.738, 8.957), abs=0.01)
    assert Share(0, 0).interval == (0, 100)
    assert Share(20, 200).within(7)
    assert not Share(20, 200).within(6)
