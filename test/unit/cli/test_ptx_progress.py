"""The progress line of `lowtide ptx check`."""

from lowtide.cli.ptx import time_left


def test_the_time_left_is_that_of_the_ctas_that_have_not_ended() -> None:
    assert time_left(2, 8, 4.0, 1.0) == "about 11 s left"
    assert time_left(2, 8, 60.0, 100.0) == "about 80 s left"
    assert time_left(0, 8, 0.0, 9.0) == "more than estimated"


def test_a_long_pause_is_told() -> None:
    assert time_left(1, 8, 0.1, 77.0) == "no CTA has ended for 77 s; it may never end"
    assert time_left(0, 8, 0.0, 31.0) == "no CTA has ended for 31 s; it may never end"
