"""Manifests of large searches, made up from that of a small one, so that every entry has the fields of today.

By blocks; of an idea the metric may be negative or missing, a verdict may be any, and some fail, run or wait."""

import random
from copy import deepcopy
from typing import Any, NamedTuple

Manifest = dict[str, Any]

START, BEGAN = -3.5, 1.6e9  # the metric of the start, and when the search began
WHY = {
    "sweep": "sweep: exit status 3",
    "checks": "checks: look-ahead: a decision changes",
    "test": "tests: exit status 1",
}
ENDS = ("passed", "indecisive", "rejected", "undecidable", "failed", "duplicate", "defects")


class Shape(NamedTuple):
    depths: int
    width: int
    ideas: int

    @property
    def evaluations(self) -> int:
        return (1 + (self.depths - 1) * self.width) * self.ideas


def made_manifest(small: Manifest, shape: Shape, seed: int = 1) -> Manifest:
    """A search that stopped after so many depths; at each the best ideas that passed became nodes."""
    return _Made(small, shape, random.Random(seed)).manifest()


class _Made:
    def __init__(self, small: Manifest, shape: Shape, chance: random.Random) -> None:
        self.small, self.shape, self.chance, self.clock = small, shape, chance, BEGAN
        nodes, evaluations = [*small["nodes"].values()], [*small["evaluations"].values()]
        self.root, self.node = nodes[0], nodes[-1]
        self.entry = next(each for each in evaluations if each["scoring_summary"] and each["by_config"])
        self.primary = small["run_config"]["primary"]
        self.nodes: dict[str, Any] = {}
        self.evaluations: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.beams: dict[str, Any] = {}

    def manifest(self) -> Manifest:
        self.tell("build", targets=self.shape.evaluations * 6, pid=1)
        self.nodes["d0.n0"] = {**deepcopy(self.root), "metrics": {self.primary: START}, "status": "expanded"}
        for depth in range(self.shape.depths):
            self.depth(depth)
        self.tell("stopped", depth=self.shape.depths - 1, stop_reason="max_depth_reached")
        self.tell("build_ended", seconds=self.clock - BEGAN, failed=0, stopped=False)
        config = self.small["run_config"]
        metrics = [{**metric, "better": "higher"} for metric in config["metrics"]]
        score = {"alpha": 0.05, "alpha_over": "run", "draws": 10_000, "smallest_effect": 0.0}
        sizes = {"max_depth": self.shape.depths, "beam_width": self.shape.width, "ideas_per_node": self.shape.ideas}
        over_time = [
            {"eval_id": name, "usd": round(0.25 * at, 2), "unknown_calls": at // 10}
            for at, name in enumerate(self.evaluations, 1)
        ]
        return {
            **self.small,
            "run_config": {**config, **sizes, "metrics": metrics, "method": "paired", "score": score},
            "nodes": self.nodes,
            "evaluations": self.evaluations,
            "events": self.events,
            "state": self.state(),
            "money": self.money(over_time),
        }

    def tell(self, event: str, **more: Any) -> None:
        self.clock = round(self.clock + 0.25, 3)
        self.events.append({"at": self.clock, "event": event, **more})

    def depth(self, depth: int) -> None:
        parents = [name for name, node in self.nodes.items() if node["depth"] == depth]
        slots = [f"{parent}.i{idea}" for parent in parents for idea in range(self.shape.ideas)]
        here = {slot: self.evaluation(slot) for slot in slots}
        for slot, each in here.items():
            if not each["empty"]:
                self.tell("queued", eval_id=slot)
                each["queued_at"] = self.clock
        for slot, each in here.items():
            if not each["empty"]:
                self.life(slot, each)
        self.evaluations |= here
        passed = [slot for slot, each in here.items() if each["scoring_summary"] and each["outcome"] == "passed"]
        best = sorted(passed, key=lambda slot: -here[slot]["primary"]["after"])[: self.shape.width]
        self.beams[str(depth + 1)] = {}
        for n, slot in enumerate(best):
            self.promote(slot, here[slot], f"d{depth + 1}.n{n}")
        for slot in passed:
            if slot not in best:
                here[slot]["decision"] = {"promoted_to_node_id": None, "failed_check": "rank", "why": "outranked"}
                here[slot]["outcome"] = "passed, outranked"

    def life(self, slot: str, each: Manifest) -> None:
        self.tell("started", eval_id=slot, pid=1)
        each["started_at"] = self.clock
        self.tell("working", eval_id=slot, pid=1, stage="sweep")
        self.tell(each["status"], eval_id=slot, error=each["error"] and {"why": each["error"]["why"]})
        each["finished_at"] = self.clock
        if each["scoring_summary"]:
            self.tell("scored", eval_id=slot, verdict=each["outcome"])
            each["scored_at"] = self.clock

    def promote(self, slot: str, each: Manifest, node: str) -> None:
        each["decision"] = {"promoted_to_node_id": node, "failed_check": "", "why": "rank +1"}
        each["outcome"] = "promoted"
        parent = each["parent_node_id"]
        artifacts = {**self.node["artifacts"], "promoted_from_eval_id": slot}
        depth = int(node[1:].partition(".")[0])
        self.nodes[node] = {**self.node, "parent_node_id": parent, "depth": depth, "artifacts": artifacts,
                            "idea_chain": [*self.nodes[parent]["idea_chain"], each["idea_path"]], "closed": "",
                            "status": "expanded" if depth < self.shape.depths else "frontier",
                            "metrics": {self.primary: each["primary"]["after"]}}  # fmt: skip
        beam = {"promoted_from_eval_id": slot, "commit": self.node["commit"], "why": "rank +1"}
        self.beams[str(depth)][node] = beam
        self.tell("promotion", node_id=node, **beam)

    def evaluation(self, slot: str) -> Manifest:
        parent = slot.rpartition(".")[0]
        end = self.chance.choices(ENDS, (3, 4, 2, 1, 2, 1, 1))[0]
        if slot.endswith(".i0"):
            end = "passed"  # so that the search goes on
        title = f"Idea of {slot}, {self.chance.choice(['short', 'long ' * 30, '<b>bold</b>', 'ünï➤'])}"
        each = deepcopy(self.entry) | dict.fromkeys(("error", "queued_at", "started_at", "finished_at", "scored_at"))
        each |= {"eval_id": slot, "parent_node_id": parent, "depth": int(slot[1:].partition(".")[0])}
        each |= {"idea_title": title, "idea_path": f"runs/x/{slot}.md", "status": "completed", "empty": ""}
        each |= {"task_state": "completed", "empty_why": "", "outcome": "not passed", "defects": []}
        each["spent"] = {"evals": 1, "usd": 0.25, "tokens": 900, "seconds": 12.5, "unknown_calls": 0}
        before = self.nodes[parent]["metrics"][self.primary]
        self.result(each, end, before)
        return each

    def result(self, each: Manifest, end: str, before: float) -> None:
        none = {"scoring_summary": None, "primary": None, "by_config": None, "best_config": None}
        each["decision"] = {
            "promoted_to_node_id": None,
            "failed_check": "recommended",
            "why": f"{end}: could_be_chance",
        }
        if end in ("failed", "duplicate", "defects"):
            each |= none
        if end == "failed":
            stage = self.chance.choice([*WHY])
            each |= {"status": "failed", "task_state": "failed", "outcome": "failed"}
            each["error"] = {"stage": stage, "why": WHY[stage], "exit": 3, "log": f"runs/x/{stage}.log"}
        elif end == "duplicate":
            each |= {"status": "skipped", "task_state": "skipped", "outcome": "skipped", "empty": "duplicate"}
            each |= {"empty_why": "the same idea as d0.n0.i0", "spent": None, "decision": None}
        elif end == "defects":
            each["defects"] = ["config 0, sharpe: 'nan' is not a finite number"]
        else:
            gain = self.chance.gauss(0.2 if end == "passed" else -0.1, 0.2)
            each["primary"] = {"before": before, "after": before + gain}
            each["outcome"] = "passed" if end == "passed" else "not passed"
            verdict = "promoted" if end == "passed" else end
            each["scoring_summary"] = {
                side: self.comparison(against, before + gain, verdict)
                for side, against in (("recommendation", before), ("root_recommendation", START))
            }

    def comparison(self, before: float, after: float, verdict: str) -> Manifest:
        gain = after - before
        evidence = {"standing": "tested", "blocks": 32, "mean": gain, "se": 0.1, "t": gain / 0.1, "p": 0.02}
        evidence |= {"lower": gain - 0.2, "upper": gain + 0.2, "estimate": gain * 0.9, "detectable": 0.2, "rho": 0.1}
        evidence |= {"alpha": 0.025, "guards": [], "verdict": verdict, "reasons": ["gain"]}
        like = self.entry["scoring_summary"]["recommendation"]
        detail = {**like["metrics"][0], "name": self.primary, "better": "higher", "delta": gain}
        detail |= {"baseline": before, "candidate": after}
        return {**like, "metrics": [detail], "primary_delta": gain, "score": gain * 0.9, "evidence": evidence}

    def state(self) -> Manifest:
        depths = range(self.shape.depths)
        progress = {}
        for depth in depths:
            here = [each for each in self.evaluations.values() if each["depth"] == depth]
            counts = {name: sum(each["status"] == name for each in here) for name in ("completed", "failed", "skipped")}
            counts |= {"planned": len(here), "assigned": sum(not each["empty"] for each in here), "unfinished": 0}
            progress[str(depth)] = {**counts, "empty": {}, "promoted": len(self.beams[str(depth + 1)])}
        spent = [each["spent"] for each in self.evaluations.values() if each["spent"]]
        sums = {name: sum(each[name] for each in spent) for name in spent[0]}
        return {**self.small["state"], "current_depth": self.shape.depths, "stop_reason": "max_depth_reached",
                "completed_depths": [*depths], "depth_progress_by_depth": progress, "beam_by_depth": self.beams,
                "spent": sums}  # fmt: skip

    def money(self, over_time: list[Manifest]) -> Manifest:
        last = over_time[-1]
        bill = dict.fromkeys(("failed_calls", "unended_calls", "input_tokens", "cached_tokens", "output_tokens"), 0)
        bill |= {"calls": len(over_time), "usd": last["usd"], "unknown_calls": last["unknown_calls"], "failed_usd": 0.0}
        return {
            **self.small["money"],
            **bill,
            "by_role": {"coder": bill},
            "by_depth": {"0": bill},
            "over_time": over_time,
        }
