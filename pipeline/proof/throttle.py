"""How long to wait before the next trial starts, so that the machine stays of use to others.

The load average is that of a minute: it lags.  The moving average on top of it keeps it from swinging.  Only starting
is slowed down; what runs, runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

ALPHA = 0.1
LONGEST = 1.0
STEEPNESS = 4


def smoothed(cpu_ema: float, current_load: float, alpha: float = ALPHA) -> float:
    return alpha * current_load + (1 - alpha) * cpu_ema


def throttle(cpu_ema: float, target: float) -> float:
    """Seconds to sleep."""
    return min(LONGEST, STEEPNESS * (cpu_ema - target)) if cpu_ema > target else 0.0


@dataclass(frozen=True)
class Throttle:
    target: float
    cpu_ema: float = 0.0

    def read(self, current_load: float) -> Throttle:
        return replace(self, cpu_ema=smoothed(self.cpu_ema, current_load))

    @property
    def sleep(self) -> float:
        return throttle(self.cpu_ema, self.target)
