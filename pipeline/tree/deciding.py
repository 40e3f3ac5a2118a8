"""The stages that decide: they make records of records, and so can be played through again at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pipeline.edge.job import Papers, Stage
from pipeline.tree.assigning import hand_out
from pipeline.tree.bench import Bench, Chains
from pipeline.tree.cascading import cascade, join
from pipeline.tree.judging import judge, pair
from pipeline.tree.promoting import end_depth
from pipeline.tree.sweeping import gather
from pipeline.tree.weighing import settle, weigh

Opened = Callable[[str], Chains]


class Decider(NamedTuple):
    """`do` is told how the repository of a run is looked into."""

    code: str
    do: Callable[[Papers, Opened], None]

    def stage(self) -> Stage:
        return Stage(self.code, lambda job: self.do(job, Bench))


# By the name of the stage; within a depth in this order.
DECIDERS = {
    "assign": Decider("tree.assign/1", lambda job, _: hand_out(job)),
    "gather": Decider("tree.gather/2", lambda job, _: gather(job)),
    "pair": Decider("tree.pair/1", lambda job, _: pair(job)),
    "cascade": Decider("tree.cascade/1", lambda job, _: cascade(job)),
    "join": Decider("tree.join/1", lambda job, _: join(job)),
    "weigh": Decider("tree.weigh/1", lambda job, _: weigh(job)),
    "settle": Decider("tree.settle/1", lambda job, _: settle(job)),
    "score": Decider("tree.score/2", lambda job, _: judge(job)),
    "promote": Decider("tree.promote/1", end_depth),
}
