"""Names of positions in the search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.tree.rules.positions import ROOT, EvalSlot, NodePlace, parse_place, parse_slot, places_of, slots_of

NUMBERS = st.integers(0, 999_999_999)


@given(st.builds(EvalSlot, NUMBERS, NUMBERS, NUMBERS))
def test_a_slot_is_read_as_it_is_written(slot: EvalSlot) -> None:
    assert parse_slot(str(slot)) == slot
    assert parse_place(str(slot.place)) == slot.place


def test_slots_are_written_as_in_the_layout_of_a_run() -> None:
    assert str(EvalSlot(1, 0, 2)) == "d1.n0.i2"
    assert str(ROOT) == "d0.n0"


@pytest.mark.parametrize(
    "text",
    ["", "d1.n0", "d1.n0.i", "d1.n0.i02", "d1.n0.i-1", "d1.n0.i2 ", "d1/n0/i2", "D1.n0.i2", "d1.n0.i٢", "d1.n0.i2\n"],
)
def test_what_is_no_slot_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"d1\.n0\.i2"):
        parse_slot(text)


@pytest.mark.parametrize("text", ["", "d1", "d1.n0.i2", "d01.n0", "d1.n0\n", f"d1.n{'9' * 5000}"])
def test_what_is_no_place_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"it would be like d1\.n0"):
        parse_place(text)


def test_depth_0_has_the_root_alone_and_the_others_the_width_of_the_beam() -> None:
    assert places_of(0, 3) == (ROOT,)
    assert places_of(2, 3) == (NodePlace(2, 0), NodePlace(2, 1), NodePlace(2, 2))
    assert [*map(str, slots_of(0, 3, 2))] == ["d0.n0.i0", "d0.n0.i1"]
    assert [*map(str, slots_of(1, 2, 2))] == ["d1.n0.i0", "d1.n0.i1", "d1.n1.i0", "d1.n1.i1"]


def test_slots_are_ordered_by_number_not_by_letter() -> None:
    assert parse_slot("d1.n0.i10") > parse_slot("d1.n0.i9")
