"""The propensity that a decision carries is how often its first target comes first, over the dice alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from decision_service.kernel.model import QuotaWindow
from tests.kernel.rig import COMBO, Rig, combo, ids, reference, roster, step

THREE = ["p/m@a", "p/m@b", "q/n@c"]
DRAWS = 4_000
TOLERANCE = 0.03


def rig(strategy: str, steps: list[Any] | None = None, **config: Any) -> Rig:
    return Rig(roster(THREE, combo(strategy, steps or THREE, **config)))


def weighted(*weights: float, **config: Any) -> Rig:
    return rig("weighted", [step(c, weight=w) for c, w in zip(THREE, weights, strict=True)], **config)


def listed_twice() -> Rig:
    return rig("weighted", [step(THREE[0], weight=1, id="one"), step(THREE[0], weight=1, id="two"), THREE[2]])


def served(over: Rig, **request: Any) -> Rig:
    over.decide(**request)
    over.report()
    return over


def with_quota() -> Rig:
    over = rig("quota-weighted")
    over.state.account("p", "a").quota = {"weekly": QuotaWindow("weekly", 0.25)}
    return over


SESSION: dict[str, Any] = {"session_id": "s", "session_explicit": True}
CACHED = {"prompt_cache_key": "k"}
CASES: dict[str, tuple[Callable[[], Rig], dict[str, Any]]] = {
    "weighted": (lambda: weighted(3, 1, 0), {}),
    "weighted, a candidate listed twice": (listed_twice, {}),
    "weighted, accounts of one model share a cache": (lambda: weighted(3, 1, 4), CACHED),
    "weighted, in a named conversation": (lambda: served(weighted(3, 1, 4), **SESSION), SESSION),
    "p2c": (lambda: rig("p2c"), {}),
    "random": (lambda: rig("random"), {}),
    "random, in a named conversation": (lambda: served(rig("random"), **SESSION), SESSION),
    "strict-random, listed twice": (lambda: rig("strict-random", [THREE[0], step(THREE[0], id="two"), THREE[2]]), {}),
    "strict-random, from a deck": (lambda: served(rig("strict-random", strict_random_deck=True)), {}),
    "quota-weighted": (with_quota, {}),
    "quota-weighted, in a conversation": (lambda: served(with_quota(), session_id="s"), {"session_id": "s"}),
    "auto, exploring": (lambda: rig("auto", exploration_rate=0.6), {}),
    "auto, exploring in a conversation": (
        lambda: served(rig("auto", exploration_rate=0.6), session_id="s"),
        {"session_id": "s"},
    ),
    "round-robin": (lambda: rig("round-robin"), CACHED),
    "least-used": (lambda: rig("least-used"), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_frequency(case: str) -> None:
    make, request = CASES[case]
    over = make()
    told: dict[str, set[float]] = {}
    seen: Counter[str] = Counter()
    for seed in range(DRAWS):
        decision = over.ask(seed=seed, **request)
        first = ids(decision)[0]
        seen[first] += 1
        told.setdefault(first, set()).add(round(decision.draft.propensity, 9))
    assert {first: len(values) for first, values in told.items()} == dict.fromkeys(seen, 1)
    for first, (propensity,) in told.items():
        assert seen[first] / DRAWS == pytest.approx(propensity, abs=TOLERANCE), first


def test_what_serves_pays_its_share_also_when_a_conversation_named_it() -> None:
    """The deficits of quota-share stay balanced: conversations take their connection's share, not an extra one."""
    over = rig("priority", [step(THREE[0], weight=1), step(THREE[2], weight=1)], quota_share=True)
    served(over, **SESSION)
    home = ids(over.ask(**SESSION))[0]
    for _ in range(4):
        served(over, **SESSION)
    for _ in range(4):
        assert ids(over.ask())[0] != home, "it has had its share of these"
        served(over)
    assert sum(over.state.deficits[COMBO].values()) == pytest.approx(0.0)


def test_a_reference_is_drawn_like_its_steps() -> None:
    inner = combo("priority", THREE[:2], name="inner")
    over = Rig(roster(THREE, inner, combo("weighted", [reference("inner", 1.0), step(THREE[2], weight=1)])))
    assert {ids(d)[0]: d.draft.propensity for d in (over.ask(seed=n) for n in range(60))} == {
        THREE[0]: 0.25,
        THREE[1]: 0.25,
        THREE[2]: 0.5,
    }
