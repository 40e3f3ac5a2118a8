"""The stages that tell people of a finished search: TREE_SUMMARY.md and VALIDATION_REPORT.md."""

from __future__ import annotations

from pipeline.edge.job import Job
from pipeline.tree.keeping import keep
from pipeline.tree.manifest import folded
from pipeline.tree.records import write
from pipeline.tree.summary import summary
from pipeline.tree.validation import validated, validation_report


def report(job: Job) -> None:
    write(job.writes["summary"][0], summary(folded(job.target.run, job.target.params)))


def validate(job: Job) -> None:
    """Of what was recalled, git's part may be made again only now."""
    keep(job.target.run, folded(job.target.run, job.target.params))
    write(job.writes["report"][0], validation_report(validated(job.target.run, job.target.params)))
