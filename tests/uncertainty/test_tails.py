"""Student's t and the normal, against mpmath with 40 digits."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streameval.accumulator.uncertainty import (
    log_normal_tail,
    log_student_tail,
    normal_quantile,
    normal_reach,
    student_reach,
)
from tests.effort import every_case

# The logarithm of erfc(z / sqrt(2)) / 2.
NORMAL = [
    (0.25, -0.91306176481113506),
    (1.5, -2.7059444008238898),
    (3.999, -10.355876356043406),
    (4.001, -10.364327570338337),
    (12.0, -75.410673001568796),
    (40.0, -804.60844201375379),
]
# The logarithm of half of betainc(nu / 2, 1 / 2, 0, nu / (nu + t^2), regularized=True).
STUDENT = [
    (0.001, 11.0, -0.6939274642744189),
    (1.5, 11.5, -2.522242154365967),
    (1.8, 255.0, -3.3098607921075442),
    (3.0, 15.0, -5.406711648622468),
    (6.0, 62.25, -16.715991648169142),
    (40.0, 12.0, -31.580946013536055),
    (1000.0, 1023.0, -3526.5924947019932),
]
# The root of the difference of the two, by bisection.
REACH = [
    (1.0, 12.0, 1.0434388652719851),
    (1.96, 15.0, 2.1314940880754532),
    (3.1, 254.9, 3.1325683669169908),
    (8.0, 12.0, 53.326560668845242),
    (20.0, 30.5, 4057.1850767926213),
]


@every_case(("z", "expected"), NORMAL)
def test_the_tail_of_the_normal(z: float, expected: float) -> None:
    assert log_normal_tail(z) == pytest.approx(expected, rel=1e-13)


@every_case(("t", "groups", "expected"), STUDENT)
def test_the_tail_of_student(t: float, groups: float, expected: float) -> None:
    assert log_student_tail(t, groups) == pytest.approx(expected, rel=1e-11)


@every_case(("z", "groups", "expected"), REACH)
def test_as_rare_for_student_as_for_the_normal(z: float, groups: float, expected: float) -> None:
    assert student_reach(z, groups) == pytest.approx(expected, rel=1e-11)


@given(st.floats(1e-12, 0.49))
def test_a_quantile_is_where_its_tail_is(tail: float) -> None:
    assert log_normal_tail(normal_quantile(tail)) == pytest.approx(math.log(tail), rel=1e-11)


@given(st.floats(1e-3, 60.0), st.floats(11.0, 1023.0))
def test_there_and_back(z: float, groups: float) -> None:
    reach = student_reach(z, groups)
    assert reach > z
    assert normal_reach(reach, groups) == pytest.approx(z, rel=1e-10)
