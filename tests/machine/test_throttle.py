"""How long starting is put off, and how much of the machine is ours."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.build.project import RunPlan
from pipeline.commands.build import job_count
from pipeline.machine import usage
from pipeline.proof.schedule.policy import ProofSchedule, smooth_load, throttle_sleep
from pipeline.proof.schedule.records import ScheduleRules, Strategy


def test_the_documented_formulas() -> None:
    assert smooth_load(0.2, 1.2) == pytest.approx(0.1 * 1.2 + 0.9 * 0.2)
    assert throttle_sleep(0.6, 0.5) == pytest.approx(4 * (0.6 - 0.5))
    assert throttle_sleep(2.0, 0.5) == 1.0
    assert throttle_sleep(0.5, 0.5) == 0.0


@given(st.floats(0, 100), st.floats(0, 4))
def test_one_sleeps_only_above_the_target_and_never_longer_than_a_second(ema: float, target: float) -> None:
    assert 0 <= throttle_sleep(ema, target) <= 1
    assert (throttle_sleep(ema, target) > 0) == (ema > target)


def test_a_spike_is_smoothed_away() -> None:
    schedule = ProofSchedule(ScheduleRules((Strategy("micro", 1.0),), cpu_target=0.5))
    assert schedule.load(4.0) == 0
    assert [schedule.load(4.0) for _ in range(50)][-1] == 1.0
    assert schedule.cpu_ema == pytest.approx(4.0, abs=0.1)


def machine(root: Path, cgroup: str, **files: str) -> Path:
    for name, text in {"proc/self/cgroup": cgroup, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_narrowest_quota_around_us_holds(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        "sys/fs/cgroup/cpu.max": "300000 100000\n",
    }
    root = machine(tmp_path, "0::/a/b\n", **files)
    assert usage.usable_cpus(root) == min(1.5, *affinity())


def test_quotas_of_the_first_version_of_control_groups(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/cpu/docker"
    files = {f"{folder}/cpu.cfs_quota_us": "50000\n", f"{folder}/cpu.cfs_period_us": "100000\n"}
    root = machine(tmp_path, "5:memory:/docker\n4:cpu,cpuacct:/docker\n", **files)
    assert usage.usable_cpus(root) == 0.5


def test_within_a_container_the_limit_is_that_of_what_is_mounted(tmp_path: Path) -> None:
    root = machine(tmp_path, "0::/docker/9f2\n", **{"sys/fs/cgroup/cpu.max": "25000 100000"})
    assert usage.usable_cpus(root) == 0.25


@pytest.mark.parametrize("quota", ["-1", "max 100000"])
def test_no_limit_leaves_what_we_may_run_on(tmp_path: Path, quota: str) -> None:
    files = {"sys/fs/cgroup/cpu.max": quota, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": quota}
    root = machine(tmp_path, "1:cpu:/\n0::/\n", **files)
    assert usage.usable_cpus(root) == min(affinity())


def test_no_control_groups_at_all(tmp_path: Path) -> None:
    assert usage.usable_cpus(tmp_path) == min(affinity())


@pytest.mark.parametrize(("quota", "jobs"), [("25000", 1), ("100000", 1), ("100001", 2)])
def test_a_build_runs_as_many_at_once_as_a_quota_allows(tmp_path: Path, quota: str, jobs: int) -> None:
    root = machine(tmp_path, "0::/\n", **{"sys/fs/cgroup/cpu.max": f"{quota} 100000"})
    plan = RunPlan("x", "steps", "specs/x.yaml", "", False, {}, 1, (), "", {}, (), (), [])
    assert job_count(0, {"x": plan}, root) == min(jobs, *affinity())
    assert job_count(0, {"x": plan._replace(at_once=3)}, root) == 3
    assert job_count(5, {"x": plan}, root) == 5


def affinity() -> set[float]:
    return {float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)}


def test_load_is_per_usable_cpu() -> None:
    before, now, after = os.getloadavg()[0], usage.load_per_cpu(), os.getloadavg()[0]
    assert min(before, after) - 0.01 <= now * usage.usable_cpus() <= max(before, after) + 0.01
