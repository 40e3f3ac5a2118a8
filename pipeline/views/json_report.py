"""The whole build as one JSON document: the shape of doit's own reporter, with what we know besides."""

from __future__ import annotations

import json
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from pipeline.core.outcome import BUILT, FAILED, FRESH, IGNORED, RECALLED, SKIPPED, Outcome
from pipeline.views.lines import tail
from pipeline.views.recorder import Recorder

# What doit's reporter calls it.
RESULT = {
    BUILT: "success", RECALLED: "success", FRESH: "up-to-date", FAILED: "fail", IGNORED: "ignore", SKIPPED: None,
}  # fmt: skip


class JsonReporter(Recorder):
    """Whatever else would be printed during the build becomes part of the document."""

    def initialize(self, tasks: Any, selected: Any) -> None:
        self.printed, self.problems = StringIO(), StringIO()
        self._redirected = ExitStack()
        self._redirected.enter_context(redirect_stdout(self.printed))
        self._redirected.enter_context(redirect_stderr(self.problems))

    def complete_run(self) -> None:
        self._redirected.close()
        document = {
            "tasks": [described(name, outcome) for name, outcome in self.all()],
            "out": self.printed.getvalue(),
            "err": self.problems.getvalue(),
            "stopped": self.stopped,
        }
        json.dump(document, self.outstream)
        self.outstream.write("\n")
        self.outstream.flush()


def described(name: str, outcome: Outcome) -> dict[str, Any]:
    """doit's fields, then ours.  `out` is the end of the log of a target that failed; `log` is where all of it is."""
    ran = bool(outcome.end)
    return {
        "name": name,
        "result": RESULT[outcome.status],
        "out": "\n".join(tail(outcome.log)) if outcome.status == FAILED and outcome.log else "",
        "err": "",
        "error": outcome.why or None,
        "started": datetime.fromtimestamp(outcome.start, UTC).strftime("%Y-%m-%d %H:%M:%S.%f") if ran else None,
        "elapsed": outcome.seconds if ran else None,
        "status": outcome.status,
        "start": outcome.start if ran else None,
        "end": outcome.end if ran else None,
        "seconds": outcome.seconds if ran else None,
        "attempts": outcome.attempts,
        "exit": outcome.exit if ran or outcome.status == FAILED else None,
        "why": outcome.why,
        "log": outcome.log,
    }
