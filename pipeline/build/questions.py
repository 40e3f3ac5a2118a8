"""Commands that answer and change nothing: why, plan, graph."""

from __future__ import annotations

from typing import Any

from pipeline.build.ours import FAILED, Ours, plans_for


class Question(Ours):
    """Needs none of the options by which doit's own commands choose a database."""

    base_options = ()


class Why(Question):
    name = "why"
    doc_usage = "RUN:TARGET | RUN | FILE ..."
    doc_purpose = "say whether targets are fresh, and if not exactly why"
    doc_description = (
        "For each target: fresh, or what is different from what was recorded, with the old and the new value; for one"
        " that is stale because of others, the way up to the cause. Exit code 0 when all are fresh, 1 when one is not."
    )

    def ours(self, params: Any, args: list[str]) -> int:
        from pipeline.build.inquiry import Inquiry
        from pipeline.build.session import Session

        session = Session(plans_for(args))
        inquiry = Inquiry(session, session.select(args))
        words = args or list(session.plans)
        for word in words:
            print(inquiry.told_run(word) if word in session.plans else inquiry.told(*session.select([word])))
        return FAILED if session.select(words) & inquiry.causes.own.keys() else 0
