"""What the targets of a build share."""

import threading

from pipeline.edge.kept import Kept


class Dear:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def test_it_is_made_once_however_many_ask_at_the_same_time() -> None:
    kept, found, ready = Kept(), [], threading.Barrier(8)

    def ask() -> None:
        ready.wait()
        found.append(kept.get("lean", Dear))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(each) for each in found}) == 1
    assert kept.get("other", Dear) is not found[0]


def test_all_is_closed_once_at_the_end() -> None:
    kept = Kept()
    made = [kept.get(name, Dear) for name in ("a", "b", "a")]
    kept.close()
    kept.close()
    assert [each.closed for each in made] == [1, 1, 1]
