"""Instants go on whatever the wall clock does."""

from __future__ import annotations

from service_kit.clock import Timeline

YEAR_S = 365 * 86_400.0


class Hands:
    """A wall clock that anyone may set, and a steady one that nobody does; both in seconds."""

    def __init__(self) -> None:
        self.wall_s, self.steady_s = 1_800_000_000.0, 77.0

    def timeline(self) -> Timeline:
        return Timeline(lambda: self.wall_s, lambda: self.steady_s)

    def pass_s(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds


def test_it_is_the_wall_clock_where_nobody_sets_that() -> None:
    hands = Hands()
    line = hands.timeline()
    for _ in range(3):
        hands.pass_s(10.0)
        assert line.now() == hands.wall_s * 1000


def test_it_follows_a_wall_clock_that_is_set_forward() -> None:
    hands = Hands()
    line = hands.timeline()
    hands.wall_s += 3_600.0
    assert line.now() == hands.wall_s * 1000


def test_it_goes_on_while_the_wall_clock_is_behind() -> None:
    hands = Hands()
    line = hands.timeline()
    before = line.now()
    hands.wall_s -= 3_600.0
    assert line.now() == before
    hands.pass_s(30.0)
    assert line.now() == before + 30_000


def test_jumps_there_and_back_do_not_add_up() -> None:
    hands = Hands()
    line = hands.timeline()
    for _ in range(3):
        hands.wall_s += YEAR_S
        furthest = line.now()
        assert furthest == hands.wall_s * 1000
        hands.wall_s -= YEAR_S
        assert line.now() == furthest
    hands.pass_s(1.0)
    assert line.now() == furthest + 1_000


def test_steps_do_not_add_up() -> None:
    hands = Hands()
    line = hands.timeline()
    start = line.now()
    for _ in range(5):
        line.step()
        assert line.now() > start
        hands.pass_s(1.0)
    assert line.now() == hands.wall_s * 1000


def test_it_resumes_from_an_instant_that_is_ahead_of_the_wall_clock() -> None:
    hands = Hands()
    line = hands.timeline()
    seen = int(hands.wall_s * 1000) + 5_000
    line.resume(seen)
    assert line.now() == seen
    hands.pass_s(2.0)
    assert line.now() == seen + 2_000


def test_it_does_not_resume_from_the_past() -> None:
    hands = Hands()
    line = hands.timeline()
    line.resume(1_000)
    assert line.now() == hands.wall_s * 1000
