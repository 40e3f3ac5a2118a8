"""A graph for the terminal: a line for each step, after the steps it reads from."""

from __future__ import annotations

from pipeline.core.words import count, listed
from pipeline.views.chart import STATUSES, Chart, counts


def as_text(chart: Chart) -> str:
    total = chart.statuses
    head = f"{chart.title}: {count(total.total())}, {', '.join(f'{total[s]} {s}' for s in STATUSES if total[s])}"
    reads = [f"<- {listed([chart.boxes[i].name for i in box.reads])}" if box.reads else "" for box in chart.boxes]
    names, arrows = (max(map(len, texts), default=0) for texts in ([box.label for box in chart.boxes], reads))
    rows = zip(chart.boxes, reads, strict=True)
    return "\n".join(
        [
            head,
            "",
            *(f"  {box.label:{names}}  {above:{arrows}}  {counts(box.statuses)}" for box, above in rows),
        ]
    )
