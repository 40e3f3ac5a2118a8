"""What keys of a scenario are called as fields of its records."""

from __future__ import annotations

from pipeline.mcts.interventions import Delay

NEEDED = ("agents", "inflight")
# key -> field
STEERING = {key: key for key in (*NEEDED, "virtual_loss", "depth_bias", "path_bias")} | {
    "reservation": "counting",
    "history_cache": "refresh",
}
BLOCK = {key: key for key in ("fraction", "duration", "seed", "unfreeze_after", "unfreeze_prob")} | {
    "immovable_fraction": "immovable"
}
DELAY = {key: key for key in Delay._fields}
