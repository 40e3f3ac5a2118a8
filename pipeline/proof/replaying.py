"""A journal gone through once more, to see that the rules decide as they did."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pipeline.core.retold import Difference, differences, retold
from pipeline.proof.journal import AGAIN, begun, first_line
from pipeline.proof.trials import Rules


def replay(lines: Sequence[str], rules: Rules | None = None) -> list[Difference]:
    """Where the journal is not what these rules write, byte for byte: empty, or the first such line.

    Without `rules`, those that the journal begins with."""
    first = None if rules is None else first_line(rules)
    return differences(lambda: retold(lines, lambda told, write: begun(json.loads(told), write), AGAIN, first))
