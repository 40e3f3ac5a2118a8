"""`python -m benchmarks.trust [--quick] [--only NAME,...] [--depths N] [--jobs 2] [--prices FILE] [--json FILE]`

Prints markdown, and says at the end which promises were reached; exits with 1 if one was missed."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: the cells are what runs in parallel

from benchmarks.trust.studies import STUDIES, cell
from benchmarks.trust.study import Found, Params, plain, table

NEEDS_PRICES = "momentum"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cells, 400 depths each")
    parser.add_argument("--only", default=",".join(STUDIES), metavar="NAME,...", help=", ".join(STUDIES))
    parser.add_argument("--depths", type=int, help="simulated in each cell (default: 2,000)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--prices", type=Path, help="a CSV of prices, for the null ideas on real data")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    return parser.parse_args()


def measured(name: str, depths: int, cells: Sequence[Params], jobs: int) -> list[Found]:
    if jobs == 1:
        return [cell(name, depths, params) for params in cells]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        return list(pool.map(cell, [name] * len(cells), [depths] * len(cells), cells))


def report(name: str, rows: Sequence[tuple[Params, Found]], seconds: float) -> dict[str, Any]:
    """Of one study: printed, and for JSON."""
    study = STUDIES[name]
    print(f"\n## {study.title}\n\n{table(rows)}\n", flush=True)
    promises = [(params, promise) for params, found in rows for promise in study.promises(params, found)]
    for params, promise in promises:
        if not promise.reached:
            print(f"- MISSED {' '.join(f'{k}={v}' for k, v in params.items())}: {promise.what}")
    reached = sum(promise.reached for _, promise in promises)
    print(f"{reached} of {len(promises)} promises reached; {seconds:.0f} s")
    figures = [params | {key: plain(value) for key, value in found.items()} for params, found in rows]
    return {"study": name, "title": study.title, "rows": figures, "promises": len(promises), "reached": reached}


def main() -> int:
    asked = arguments()
    depths = asked.depths or (400 if asked.quick else 2_000)
    print(f"# Trust: {depths:,} simulated depths a cell; python -m benchmarks.trust {' '.join(sys.argv[1:])}")
    reports = []
    for name in asked.only.split(","):
        if name == NEEDS_PRICES and not asked.prices:
            continue
        cells, more = STUDIES[name].grid(asked.quick), {"prices": str(asked.prices)} if name == NEEDS_PRICES else {}
        start = time.perf_counter()
        found = measured(name, depths, [params | more for params in cells], asked.jobs)
        rows = list(zip(cells, found, strict=True))
        reports.append(report(name, rows, time.perf_counter() - start))
    if asked.json:
        asked.json.write_text(json.dumps({"depths": depths, "studies": reports}, indent=1) + "\n")
    return 0 if all(entry["reached"] == entry["promises"] for entry in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
