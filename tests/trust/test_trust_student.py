"""Student's t against printed tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.trust.distributions import t_cdf, t_quantile

TABLE = [
    (0.8, 4, 0.941),
    (0.8, 9, 0.883),
    (0.95, 1, 6.314),
    (0.95, 2, 2.920),
    (0.95, 4, 2.132),
    (0.95, 9, 1.833),
    (0.95, 19, 1.729),
    (0.95, 49, 1.677),
    (0.975, 10, 2.228),
    (0.99, 30, 2.457),
    (0.995, 120, 2.617),
    (0.9995, 5, 6.869),
]


@pytest.mark.parametrize(("p", "df", "t"), TABLE)
def test_quantiles_are_those_of_the_tables(p: float, df: float, t: float) -> None:
    assert t_quantile(p, df) == pytest.approx(t, abs=0.0006)
    assert t_quantile(1 - p, df) == -t_quantile(p, df)


def test_with_one_degree_of_freedom_it_is_cauchys_and_with_two_it_has_a_root() -> None:
    assert t_cdf(1.0, 1) == pytest.approx(0.75, abs=1e-14)
    assert t_cdf(2.0, 2) == pytest.approx(0.5 + 2 / (2 * (2 + 4) ** 0.5), abs=1e-14)


@given(st.floats(-8, 8), st.floats(1, 200))
def test_the_quantile_undoes_the_distribution(t: float, df: float) -> None:
    assert t_cdf(t, df) + t_cdf(-t, df) == pytest.approx(1, abs=1e-12)
    assert t_cdf(t_quantile(t_cdf(t, df), df), df) == pytest.approx(t_cdf(t, df), abs=1e-8)


@pytest.mark.parametrize(("p", "df"), [(0, 4), (1, 4), (0.5, 0)])
def test_what_has_no_quantile_is_refused(p: float, df: float) -> None:
    with pytest.raises(ValueError, match="there is no quantile"):
        t_quantile(p, df)
