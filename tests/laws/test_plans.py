"""Of every single-shape plan: who is in it, that nothing changes by asking, and that caches never show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from decision_service.kernel.decide import Decision
from decision_service.kernel.factors import survey
from decision_service.kernel.model import Refused, Rejection
from decision_service.kernel.recall import cache_key, rendezvous_winner
from decision_service.kernel.roster import Roster
from decision_service.kernel.scoring import breakdown, score
from decision_service.kernel.screening import incapable, needs_of, unavailable
from decision_service.kernel.state import RoutingState
from tests.kernel.rig import Rig, ids
from tests.laws.snapshot import snapshot
from tests.laws.worlds import Event, asked, counts, happen, histories, lived, rosters


def answer(over: Rig, request: dict[str, Any]) -> Decision | Refused:
    try:
        return over.ask(**request)
    except Refused as refused:
        return refused


def told(result: Decision | Refused) -> dict[str, Any]:
    """What a caller sees of a decision or a refusal."""
    if isinstance(result, Refused):
        return {"reason": result.reason, "retry_at": result.retry_at, "rejected": dict(result.rejected)}
    draft = result.draft
    return {
        "chain": ids(result),
        "timeouts": list(result.timeouts),
        "probe": result.probe,
        "propensity": draft.propensity,
        "exploration": draft.exploration,
        "reason": draft.reason,
        "scores": draft.scores,
        "rejected": {candidate: (stop.filter, stop.until) for candidate, stop in result.rejected.items()},
        "effects": list(result.effects),
        "opened": result.opened,
        "incident": result.incident,
    }


def stops_by_hand(result: Decision, now: int) -> dict[str, Rejection]:
    """The gate without anything kept: each member of the pool is looked at."""
    needs = needs_of(result.request, result.ask.floor)
    found = {m.id: unavailable(m, now) or incapable(m, needs) for m in result.pool.members}
    return {candidate: stop for candidate, stop in found.items() if stop is not None}


@given(over=rosters(), history=histories, which=counts, amount=counts)
def test_a_plan_is_a_permutation_of_the_eligible(
    over: Roster, history: Sequence[Event], which: int, amount: int
) -> None:
    rig = lived(over, history)
    result = answer(rig, asked(rig, which, amount))
    if isinstance(result, Refused):
        return
    chain, rejected = ids(result), set(result.rejected)
    assert len(set(chain)) == len(chain) > 0
    assert set(chain).isdisjoint(rejected)
    assert set(chain) | rejected == {m.id for m in result.pool.members}
    stopped = stops_by_hand(result, rig.now)
    by_gate = {c: s for c, s in result.rejected.items() if s.filter not in ("exclusion", "budget")}
    assert by_gate == stopped
    if result.strategy != "auto":
        out = {c for c, e in rig.state.exclusions.of(result.scope).items() if e.out(rig.now)}
        able = {m.id for m in result.pool.members} - set(stopped)
        assert set(chain) in (able, able - out)
    assert len(result.timeouts) == len(chain)
    assert 0.0 < result.draft.propensity <= 1.0


@given(over=rosters(), history=histories, asks=st.lists(st.tuples(counts, counts), min_size=1, max_size=6))
def test_asking_changes_nothing_and_answers_the_same_twice(
    over: Roster, history: Sequence[Event], asks: list[tuple[int, int]]
) -> None:
    rig = lived(over, history)
    for which, amount in asks:
        answer(rig, asked(rig, which, amount))  # records and pools are made when they are first seen
    before = snapshot(rig.state, rig.now)
    first = [told(answer(rig, asked(rig, *numbers))) for numbers in asks]
    second = [told(answer(rig, asked(rig, *numbers))) for numbers in asks]
    assert first == second
    assert snapshot(rig.state, rig.now) == before


@given(over=rosters(), history=histories, which=counts, amount=counts)
def test_what_is_kept_ready_never_shows(over: Roster, history: Sequence[Event], which: int, amount: int) -> None:
    """Kept pools, gates and scores that lived through a history answer as freshly made ones do."""
    rig = Rig(over)
    request = asked(rig, which, amount)
    for event in history:
        answer(rig, request)
        happen(rig, event)
    warm = told(answer(rig, request))
    forget(rig.state)
    assert told(answer(rig, request)) == warm


def forget(state: RoutingState) -> None:
    state._pools.clear()
    state._combos.clear()


@given(over=rosters(), history=histories, which=counts, amount=counts)
def test_scores_are_the_sum_of_the_factors_and_all_are_in_bounds(
    over: Roster, history: Sequence[Event], which: int, amount: int
) -> None:
    rig = lived(over, history)
    result = answer(rig, asked(rig, which, amount))
    if isinstance(result, Refused) or not result.draft.scored:
        return
    draft, members = result.draft, result.draft.scored
    key = cache_key(result.request, rig.state.roster)
    winner = rendezvous_winner(members, key) if key else ""
    scene = survey(members, result.request, draft.task_type, rig.now, winner)
    slowly = dict(zip((m.id for m in members), score(members, scene, draft.weights), strict=True))
    assert draft.scores == pytest.approx(slowly, abs=1e-9)
    table = result.factors()
    for place, member in enumerate(members):
        factors = breakdown(member, scene)
        assert {name: column[place] for name, column in table.items()} == pytest.approx(factors, abs=1e-9)
        assert all(0.0 <= value <= 1.0 for value in factors.values()), factors
        by_hand = sum(draft.weights[name] * value for name, value in factors.items())
        assert draft.scores[member.id] == pytest.approx(by_hand, abs=1e-9)
        assert 0.0 <= draft.scores[member.id] <= 1.0


@given(over=rosters(), history=histories, seeds=st.lists(counts, min_size=1, max_size=2, unique=True))
def test_a_seed_is_all_the_chance_there_is(over: Roster, history: Sequence[Event], seeds: list[int]) -> None:
    """Two states with the same history decide alike under the same seeds, and stay alike."""
    one, two = lived(over, history), lived(over, history)
    for seed in seeds:
        for which in range(len(over.combos)):
            assert told(answer(one, asked(one, which, seed))) == told(answer(two, asked(two, which, seed)))
            for rig in (one, two):
                try:
                    rig.decide(**asked(rig, which, seed))
                except Refused:
                    continue
    assert snapshot(one.state, one.now) == snapshot(two.state, two.now)
