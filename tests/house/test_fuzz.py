"""A short round of the fuzz, and proof that its oracle sees what goes wrong."""

from pathlib import Path

from benchmarks.fuzz.rounds import Summary, fuzz, told


def middle(summary: Summary) -> int:
    """Kills that some targets were finished before, and some not."""
    return sum(count for name, count in summary.counts.items() if name.endswith("in the middle of a build"))


def test_whatever_happens_builds_come_out_right_and_nothing_finished_is_executed_again(tmp_path: Path) -> None:
    summary = fuzz(rounds=32, seed=11, against="coppice", folder=tmp_path, most_failures=1)
    assert not summary.failures, "\n".join(map(told, summary.failures))
    assert summary.counts["rounds"] == 32
    assert middle(summary) > 0
    assert any(name.endswith("while it ran") for name in summary.counts)


def test_the_oracle_catches_stock_doit(tmp_path: Path) -> None:
    """It takes tampered outputs for good ones, forgets what was finished before a kill, and has no lock."""
    summary = fuzz(rounds=48, seed=18, against="doit", folder=tmp_path, most_failures=6)
    kinds = {wrong.kind for failure in summary.failures for wrong in failure.wrong}
    assert kinds >= {"wrong state", "executed again"}
    assert middle(summary) > 0
