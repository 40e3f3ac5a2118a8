"""Depths of a search that never was: differences of ideas to their baseline, made up with known truth.

delta[idea, config, block] = scale[idea] * (baseline + own) / sqrt 2, each of the two being (block + config) / sqrt 2:

- `block` is one number for all configs, as configs share their data; `config` is normal and each config's own;
- `baseline` is the same for all ideas, as they share a baseline: they are correlated by .5;
- `scale` is exp(N(0, log 1.35)): ideas are not equally noisy.

So each delta has a mean of 0 and a variance of scale**2. `block` is of one of the NOISES, all of variance 1:

- normal; t3: Student's t with 3 degrees of freedom; left: 1 - an exponential number, a skewness of -2 (-1.4 in delta);
- crisis: normal, but in one block of each depth all that varies, of all ideas and configs, is 5 times as large.

With `rho` all that varies is AR(1) over the blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = Any  # of floats
Shape = tuple[int, ...]
CONFIGS = 24
SPREAD = 1.35
CRISIS = 5.0

NOISES: dict[str, Callable[[np.random.Generator, Shape], Array]] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "t3": lambda rng, shape: rng.standard_t(3, shape) / 3**0.5,
    "crisis": lambda rng, shape: rng.standard_normal(shape),
    "left": lambda rng, shape: 1 - rng.standard_exponential(shape),
}


class World(NamedTuple):
    ideas: int
    blocks: int
    noise: str = "normal"
    rho: float = 0.0
    spread: float = SPREAD

    def depths(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Deltas [depth, idea, config, block], and each idea's true standard error (not of crisis: it has another)."""
        scale = np.exp(rng.standard_normal((count, self.ideas, 1, 1)) * np.log(self.spread))
        noise = self._measured(rng, count, 1) + self._measured(rng, count, self.ideas)
        return noise * scale / 2**0.5, scale[:, :, 0, 0] * self._error()

    def _measured(self, rng: np.random.Generator, depths: int, ideas: int) -> Array:
        """[depth, idea, config, block], of variance 1."""
        block = NOISES[self.noise](rng, (depths, ideas, 1, self.blocks))
        config = rng.standard_normal((depths, ideas, CONFIGS, self.blocks))
        x = in_time((block + config) / 2**0.5, self.rho)
        if self.noise == "crisis":
            x = x * self._crisis(depths)
        return x

    def _crisis(self, depths: int) -> Array:
        """The same for the baseline and for the ideas: it is drawn from the depth's number alone."""
        hit = np.random.default_rng(depths).integers(self.blocks, size=depths)
        return np.where(np.arange(self.blocks) == hit[:, None], CRISIS, 1.0)[:, None, None, :]

    def _error(self) -> float:
        """Of the mean over configs and blocks, at a scale of 1."""
        lags = np.arange(1, self.blocks)
        inflated = 1 + 2 * ((1 - lags / self.blocks) * self.rho**lags).sum()
        return float(np.sqrt((0.5 + 0.5 / CONFIGS) * inflated / self.blocks))


def in_time(x: Array, rho: float) -> Array:
    """Independent numbers made AR(1) along the last axis, with the variance that they have."""
    if rho:
        for b in range(1, x.shape[-1]):
            x[..., b] = rho * x[..., b - 1] + (1 - rho**2) ** 0.5 * x[..., b]
    return x
