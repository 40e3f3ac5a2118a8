"""Turns specs/bench.yaml into (step, name, inputs, output), for the tools that do not read it."""

import yaml

OUT = "runs/bench"


def expand(path="specs/bench.yaml"):
    with open(path) as file:
        steps = yaml.load(file, Loader=yaml.CSafeLoader)["steps"]
    scores = {group: [] for group in steps["promote"]["for"]["group"]}
    for row in steps["implement"]["for"]:
        idea, parent = row["idea"], row["parent"]
        base = "promo/seed.txt" if parent == "seed" else f"{OUT}/promo/{parent}.txt"
        made, swept, score = (f"{OUT}/{step}/{idea}.txt" for step in ("implement", "sweep", "score"))
        scores[row["group"]].append(score)
        yield "implement", idea, [f"src/{idea}.txt", base], made
        yield "sweep", idea, [made], swept
        yield "score", idea, [swept], score
    for group, inputs in scores.items():
        yield "promote", group, inputs, f"{OUT}/promo/{group}.txt"
