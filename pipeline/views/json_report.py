"""The whole build as one JSON document: the shape of doit's own reporter, with what we know besides."""

from __future__ import annotations

import json
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from typing import Any

from pipeline.views.events import BUILT, FAILED, FRESH, IGNORED, RECALLED, SKIPPED, Result
from pipeline.views.lines import tail
from pipeline.views.outcome import Recorder

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
            "tasks": [described(result) for result in self.all()],
            "out": self.printed.getvalue(),
            "err": self.problems.getvalue(),
            "stopped": self.stopped,
        }
        json.dump(document, self.outstream)
        self.outstream.write("\n")
        self.outstream.flush()


def described(result: Result) -> dict[str, Any]:
    """doit's fields, then ours.  `out` is the end of the log of a target that failed; `log` is where all of it is."""
    ran = bool(result.end)
    return {
        "name": result.name,
        "result": RESULT[result.status],
        "out": "\n".join(tail(result.log)) if result.status == FAILED and result.log else "",
        "err": "",
        "error": result.why or None,
        "started": datetime.fromtimestamp(result.start, UTC).strftime("%Y-%m-%d %H:%M:%S.%f") if ran else None,
        "elapsed": result.seconds if ran else None,
        "status": result.status,
        "start": result.start if ran else None,
        "end": result.end if ran else None,
        "seconds": result.seconds if ran else None,
        "attempts": result.attempts,
        "exit": result.exit if ran or result.status == FAILED else None,
        "why": result.why,
        "log": result.log,
    }
