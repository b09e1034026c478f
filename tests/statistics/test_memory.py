"""What is remembered of served requests: the conversation's home, the last known good, the prompt's cache."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from decision_service.kernel.affinity import SERVED_BEFORE
from decision_service.kernel.decide import Decision
from decision_service.kernel.model import DAY, MINUTE, KeyPolicy, ModelFacts, OutcomeClass, QuotaWindow, Settings
from tests.kernel.rig import Rig, combo, ids, roster
from tests.statistics.fit import assert_fits, uniform

FOUR = ["p/m@a", "q/m@b", "r/m@c", "s/m@d"]
SUCCESS, ERROR = OutcomeClass.SUCCESS, OutcomeClass.UPSTREAM_ERROR
BLAMED = [
    *(ERROR, OutcomeClass.TIMEOUT, OutcomeClass.NETWORK, OutcomeClass.MALFORMED, OutcomeClass.EMPTY),
    *(OutcomeClass.INTERRUPTED, OutcomeClass.RATE_LIMITED, OutcomeClass.QUOTA_EXHAUSTED, OutcomeClass.AUTH_FAILED),
    *(OutcomeClass.MODEL_NOT_FOUND, OutcomeClass.OVERLOADED),
]
UNBLAMED = [each for each in OutcomeClass if each not in BLAMED and each is not SUCCESS]
PLAIN: dict[str, Any] = {"exploration_rate": 0.0}
LAST_GOOD = "last known good"
TALK: dict[str, Any] = {"session_id": "talk", "session_explicit": True}


def rig(strategy: str, steps: list[str] | None = None, **config: Any) -> Rig:
    return Rig(roster(FOUR, combo(strategy, steps or FOUR, **config)))


def served_by(over: Rig, candidate: str, outcome_class: OutcomeClass = SUCCESS, **request: Any) -> Decision:
    """A decision whose call to this candidate ends so, wherever it stands in the chain."""
    decision = over.decide(**request)
    over.report(outcome_class, place=ids(decision).index(candidate), final=True)
    return decision


def home(over: Rig, **request: Any) -> str:
    return ids(over.ask(**request))[0]


# The conversation's home

ALWAYS = ["auto", "lkgp", "quota-weighted", "cache-optimized"]
IF_NAMED = [
    *("weighted", "round-robin", "context-relay", "fill-first", "p2c", "random", "least-used", "cost-optimized"),
    *("reset-aware", "reset-window", "headroom", "strict-random", "context-optimized"),
]


def config_of(strategy: str) -> dict[str, Any]:
    """What keeps exploration and batches out of the way."""
    return {"auto": PLAIN, "round-robin": {"sticky_round_robin_limit": 1}}.get(strategy, {})


def bound(over: Rig, **request: Any) -> bool:
    """It is because of the conversation that the target comes first."""
    return over.ask(**request).draft.reason == SERVED_BEFORE


@pytest.mark.parametrize("strategy", [*ALWAYS, *IF_NAMED])
def test_a_named_conversation_goes_on_where_it_was_served(strategy: str) -> None:
    over = rig(strategy, **config_of(strategy))
    served_by(over, FOUR[2], **TALK)
    for seed in range(20):
        assert home(over, seed=seed, **TALK) == FOUR[2]


@pytest.mark.parametrize("strategy", [*ALWAYS, *IF_NAMED])
def test_a_derived_session_binds_only_some_strategies(strategy: str) -> None:
    """The session that an edge makes of key and first message binds those whose nature it is."""
    over = rig(strategy, **config_of(strategy))
    served_by(over, FOUR[2], session_id="derived")
    places = {home(over, seed=seed, session_id="derived") for seed in range(60)}
    assert (places == {FOUR[2]}) == (strategy in ALWAYS)


def test_priority_never_leaves_its_order_for_a_conversation_but_stays_within_a_step() -> None:
    accounts = ["p/m@a", "p/m@b", "q/m@c"]
    over = Rig(roster(accounts, combo("priority", ["p/m", "q/m@c"])))
    served_by(over, "q/m@c", **TALK)
    assert home(over, **TALK).startswith("p/")
    served_by(over, "p/m@b", **TALK)
    for _ in range(3):
        over.decide(session_id="another")
        assert home(over, **TALK) == "p/m@b", "however busy it is"


@pytest.mark.parametrize("strategy", ALWAYS)
def test_conversations_do_not_meet(strategy: str) -> None:
    """Neither of another name, nor of another key, nor through another policy."""
    config = config_of(strategy)
    over = Rig(roster(FOUR, *(combo(strategy, FOUR, name=name, **config) for name in ("one", "two"))))
    served_by(over, FOUR[1], model="one", session_id="s", api_key_id="k1")
    assert bound(over, model="one", session_id="s", api_key_id="k1")
    for model, session, key in (("one", "t", "k1"), ("one", "s", "k2"), ("two", "s", "k1"), ("one", "", "k1")):
        assert not bound(over, model=model, session_id=session, api_key_id=key), (model, session, key)


@pytest.mark.parametrize(("left", "stays"), [(0.16, True), (0.15, False), (0.0, False)])
@pytest.mark.parametrize("strategy", ALWAYS)
def test_little_quota_sends_a_conversation_on(strategy: str, left: float, stays: bool) -> None:
    over = rig(strategy, **config_of(strategy), lkgp_enabled=False)
    served_by(over, FOUR[2], session_id="s")
    over.state.account("r", "c").quota = {"weekly": QuotaWindow("weekly", left, over.now + DAY, left == 0.0)}
    assert bound(over, session_id="s") == stays


@pytest.mark.parametrize("outcome_class", [*BLAMED, *UNBLAMED])
def test_a_blamed_failure_drops_the_pin_and_nothing_else_does(outcome_class: OutcomeClass) -> None:
    """In whatever conversation it happens: it is the target that is bad."""
    over = rig("auto", **PLAIN, lkgp_enabled=False)
    served_by(over, FOUR[2], session_id="s")
    served_by(over, FOUR[2], outcome_class, session_id="another")
    over.pass_time(10 * MINUTE)
    assert bound(over, session_id="s") == (outcome_class in UNBLAMED)


def test_a_pin_lasts_fifteen_minutes_from_the_last_success() -> None:
    over = rig("auto", **PLAIN, lkgp_enabled=False)
    served_by(over, FOUR[2], session_id="s")
    over.pass_time(14 * MINUTE)
    assert home(over, session_id="s") == FOUR[2]
    served_by(over, FOUR[2], session_id="s")
    over.pass_time(15 * MINUTE - 1)
    assert home(over, session_id="s") == FOUR[2]
    over.pass_time(1)
    assert not bound(over, session_id="s")


@pytest.mark.parametrize(
    ("own", "all_", "sticky"), [(None, False, True), (None, True, False), (True, False, False), (False, True, True)]
)
def test_stickiness_is_switched_off_by_the_combo_or_else_for_all(own: bool | None, all_: bool, sticky: bool) -> None:
    policy = combo("auto", FOUR, **PLAIN, lkgp_enabled=False, disable_session_stickiness=own)
    over = Rig(roster(FOUR, policy, settings=Settings(disable_session_stickiness=all_)))
    served_by(over, FOUR[2], session_id="s")
    assert bound(over, session_id="s") == sticky


CHANGES: list[dict[str, Any]] = [
    {"enabled": False},
    {"usable": False},
    {"models": ("m", "n")},
    {"account_tier": "ultra"},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_changed_connection_is_nobodys_home(change: dict[str, Any]) -> None:
    policy = combo("auto", FOUR, **PLAIN, lkgp_enabled=False)
    over = Rig(roster(FOUR, policy))
    served_by(over, FOUR[2], session_id="s")
    served_by(over, FOUR[1], session_id="t")
    over.state.change_roster(roster(FOUR, policy, connections={"c": change}))
    over.state.change_roster(roster(FOUR, policy))
    assert not bound(over, session_id="s")
    assert bound(over, session_id="t"), "what happens to others is nothing to it"


def test_a_pin_falls_to_its_connection_when_the_model_is_gone() -> None:
    """The account is what has the conversation's cache."""
    accounts = ["p/one@a", "p/one@b", "p/two@b", "p/two@c"]
    over = Rig(roster(accounts, combo("auto", ["p/one@a", "p/one@b", "p/two@c"], **PLAIN, lkgp_enabled=False)))
    served_by(over, "p/one@b", session_id="s")
    over.state.change_roster(
        roster(accounts, combo("auto", ["p/one@a", "p/two@c", "p/two@b"], **PLAIN, lkgp_enabled=False))
    )
    assert home(over, session_id="s") == "p/two@b"


# The last known good


def good_rig(**config: Any) -> Rig:
    return rig("auto", **{"router_strategy": "lkgp", **PLAIN, **config})


def test_a_success_is_written_and_a_blamed_failure_clears_it() -> None:
    over = good_rig()
    served_by(over, FOUR[2])
    assert home(over) == FOUR[2]
    served_by(over, FOUR[1], ERROR)
    assert home(over) == FOUR[2], "another one's failure"
    for outcome_class in UNBLAMED:
        served_by(over, FOUR[2], outcome_class)
    assert home(over) == FOUR[2], "nobody's failure"
    served_by(over, FOUR[2], ERROR)
    assert over.ask().draft.reason != LAST_GOOD


def test_a_failure_in_another_scope_clears_nothing() -> None:
    one, two = (combo("auto", FOUR, name=name, router_strategy="lkgp", **PLAIN) for name in ("one", "two"))
    over = Rig(roster(FOUR, one, two))
    for model in ("one", "two"):
        served_by(over, FOUR[2], model=model)
    served_by(over, FOUR[2], ERROR, model="two")
    assert home(over, model="one") == FOUR[2]
    assert over.ask("two").draft.reason != LAST_GOOD


@pytest.mark.parametrize(
    ("model", "scope", "key", "session", "same"),
    [
        ("combo", "combo", "k", "t", True),
        ("combo", "session", "k", "t", False),
        ("combo", "session", "k", "s", True),
        ("auto", "", "k", "s", True),
        ("auto", "", "k", "t", False),
        ("auto", "", "other", "s", False),
        ("auto/fast", "", "k", "s", False),
    ],
)
def test_the_scope_is_the_combo_or_the_session_and_of_channels_the_key_too(
    model: str, scope: str, key: str, session: str, same: bool
) -> None:
    config = {**PLAIN, "disable_session_stickiness": True}
    over = Rig(
        roster(
            FOUR,
            combo("auto", FOUR, router_strategy="lkgp", lkgp_scope=scope or "combo", **config),
            settings=Settings(disable_session_stickiness=True),
        )
    )
    written = "auto" if model.startswith("auto") else model
    served_by(over, FOUR[2], model=written, api_key_id="k", session_id="s")
    found = [over.ask(model, seed, api_key_id=key, session_id=session) for seed in range(30)]
    assert any(decision.draft.reason == LAST_GOOD for decision in found) == same


def test_channels_of_equal_resolution_share_a_scope() -> None:
    over = Rig(roster(FOUR))
    served_by(over, FOUR[2], model="auto/chat:floor", seed=1)
    assert over.ask("auto/chat:cheap", 1).draft.reason == LAST_GOOD


def test_it_falls_to_its_providers_others_the_same_model_first() -> None:
    accounts = ["p/m@a", "q/n@b", "q/m@c", "q/m@d", "r/m@e"]
    policy = combo("auto", accounts, router_strategy="lkgp", **PLAIN)
    over = Rig(roster(accounts, policy))
    served_by(over, "q/m@c")
    over.state.change_roster(roster(accounts, policy, connections={"c": {"enabled": False}}))
    assert home(over) == "q/m@d"
    over.state.change_roster(roster(accounts, policy, connections={name: {"enabled": False} for name in "cd"}))
    assert home(over) == "q/n@b"
    over.state.change_roster(roster(accounts, policy, connections={name: {"enabled": False} for name in "bcd"}))
    assert over.ask().draft.reason != LAST_GOOD
    over.state.change_roster(roster(accounts, policy))
    assert home(over) == "q/m@c", "it was not forgotten meanwhile"


def test_an_earlier_decided_success_never_overwrites_a_later_ones() -> None:
    over = good_rig()
    early = over.decide()
    late = over.decide()
    over.report(decision=late, place=ids(late).index(FOUR[2]), final=True)
    over.report(decision=early, place=ids(early).index(FOUR[1]), final=True)
    assert home(over) == FOUR[2]


def fit(*values: float) -> dict[str, ModelFacts]:
    return {name: ModelFacts(fitness={"default": value}) for name, value in zip(FOUR, values, strict=True)}


@pytest.mark.parametrize(("explored", "displaces"), [(FOUR[1], True), (FOUR[0], False), (FOUR[3], False)])
def test_an_explored_success_displaces_only_what_it_scores_as_high_as(explored: str, displaces: bool) -> None:
    policy = combo("auto", FOUR, router_strategy="lkgp", exploration_rate=1.0, weights={"taskFit": 1.0})
    over = Rig(roster(FOUR, policy, facts=fit(0.4, 0.9, 0.6, 0.3)))
    exploring = {ids(over.ask(seed=seed))[0]: seed for seed in range(50)}
    plain = combo("auto", FOUR, router_strategy="lkgp", exploration_rate=0.0, weights={"taskFit": 1.0})
    over.state.change_roster(roster(FOUR, plain, facts=fit(0.4, 0.9, 0.6, 0.3)))
    served_by(over, FOUR[2])
    over.state.change_roster(roster(FOUR, policy, facts=fit(0.4, 0.9, 0.6, 0.3)))
    decision = over.decide(seed=exploring[explored])
    assert decision.draft.exploration
    over.report()
    over.state.change_roster(roster(FOUR, plain, facts=fit(0.4, 0.9, 0.6, 0.3)))
    assert home(over) == (explored if displaces else FOUR[2])


def test_only_the_explored_pick_is_exploratory() -> None:
    """A fallback that serves was picked by nobody's curiosity: it is written."""
    facts = fit(0.4, 0.9, 0.6, 0.3)
    policy = combo("auto", FOUR, router_strategy="lkgp", exploration_rate=1.0, weights={"taskFit": 1.0})
    over = Rig(roster(FOUR, policy, facts=facts))
    served_by(over, FOUR[1], seed=next(s for s in range(50) if ids(over.ask(seed=s))[0] != FOUR[1]))
    seed = next(s for s in range(50) if ids(over.ask(seed=s))[0] != FOUR[3])
    decision = over.decide(seed=seed)
    place = ids(decision).index(FOUR[3])
    over.report(place=place, final=True)
    plain = combo("auto", FOUR, router_strategy="lkgp", exploration_rate=0.0, weights={"taskFit": 1.0})
    over.state.change_roster(roster(FOUR, plain, facts=facts))
    assert home(over) == FOUR[3]


def test_an_explored_success_writes_where_the_old_one_was_not_in_the_pool() -> None:
    facts = fit(0.4, 0.9, 0.6, 0.3)
    exploring = combo("auto", FOUR, router_strategy="lkgp", exploration_rate=1.0, weights={"taskFit": 1.0})
    plain = combo("auto", FOUR, router_strategy="lkgp", exploration_rate=0.0, weights={"taskFit": 1.0})
    over = Rig(roster(FOUR, plain, facts=facts))
    served_by(over, FOUR[1])
    over.state.change_roster(roster(FOUR, exploring, facts=facts, connections={"b": {"enabled": False}}))
    seed = next(s for s in range(50) if ids(over.ask(seed=s))[0] == FOUR[3])
    over.decide(seed=seed)
    over.report()
    over.state.change_roster(roster(FOUR, plain, facts=facts))
    assert home(over) == FOUR[3]


def test_of_sessions_it_is_forgotten_after_fifteen_minutes_and_of_combos_never() -> None:
    of_combo, of_session = good_rig(), good_rig(lkgp_scope="session", disable_session_stickiness=True)
    served_by(of_combo, FOUR[2])
    served_by(of_session, FOUR[2], session_id="s")
    for over, request in ((of_combo, {}), (of_session, {"session_id": "s"})):
        over.pass_time(15 * MINUTE - 1)
        assert home(over, **request) == FOUR[2]
        over.pass_time(1)
    assert home(of_combo) == FOUR[2]
    assert of_session.ask(session_id="s").draft.reason != LAST_GOOD


def test_switched_off_it_is_rules() -> None:
    over = good_rig(lkgp_enabled=False)
    served_by(over, FOUR[2])
    decision = over.ask()
    assert decision.draft.router_strategy == "rules"
    assert decision.draft.reason != LAST_GOOD


# The prompt's cache

MANY = [f"p/m@c{n}" for n in range(8)]
PROMPTS = [f"prefix {n}" for n in range(1_600)]
CACHED = ["cache-optimized", "round-robin", "weighted"]


def winners(over: Rig, **request: Any) -> dict[str, str]:
    return {key: home(over, prompt_cache_key=key, **request) for key in PROMPTS}


def cached(strategy: str, candidates: list[str], **more: Any) -> Rig:
    return Rig(roster(candidates, combo(strategy, candidates), **more))


@pytest.mark.parametrize("strategy", CACHED)
def test_keys_spread_evenly_and_move_only_with_their_connection(strategy: str) -> None:
    before = winners(cached(strategy, MANY[:7]))
    assert_fits(Counter(before.values()), uniform(MANY[:7]))
    joined = winners(cached(strategy, MANY))
    moved = {key for key in PROMPTS if joined[key] != before[key]}
    assert {joined[key] for key in moved} == {MANY[7]}, "a new connection takes its own keys and no others"
    assert moved == {key for key in PROMPTS if joined[key] == MANY[7]}
    left = winners(cached(strategy, MANY[1:7]))
    assert {key for key in PROMPTS if left[key] != before[key]} == {key for key in PROMPTS if before[key] == MANY[0]}


@pytest.mark.parametrize("strategy", CACHED)
def test_who_is_away_is_replaced_for_its_own_keys_alone_and_comes_back_to_them(strategy: str) -> None:
    over = cached(strategy, MANY)
    before = winners(over)
    policy = combo(strategy, MANY)
    over.state.change_roster(roster(MANY, policy, connections={"c3": {"enabled": False}}))
    meanwhile = winners(over)
    assert {key for key in PROMPTS if meanwhile[key] != before[key]} == {
        key for key in PROMPTS if before[key] == "p/m@c3"
    }
    over.state.change_roster(roster(MANY, policy))
    assert winners(over) == before


@pytest.mark.parametrize("strategy", CACHED)
def test_the_key_of_the_body_goes_before_the_hash_of_the_prefix(strategy: str) -> None:
    over = cached(strategy, MANY)
    for key in PROMPTS[:50]:
        named = home(over, prompt_cache_key=key)
        assert home(over, prompt_cache_key=key, prompt_prefix_hash="another") == named
        assert home(over, prompt_prefix_hash=key) == named


@pytest.mark.parametrize("strategy", CACHED)
def test_switched_off_or_without_a_key_the_strategy_has_its_own_order(strategy: str) -> None:
    off = cached(strategy, MANY, settings=Settings(prompt_cache_affinity_enabled=False))
    on = cached(strategy, MANY)
    for seed in range(20):
        own = ids(on.ask(seed=seed))
        assert ids(off.ask(seed=seed, prompt_cache_key=PROMPTS[seed])) == own
    assert strategy == "weighted" or home(on) == MANY[0]


@pytest.mark.parametrize("strategy", CACHED)
def test_the_conversations_home_goes_before_the_cache(strategy: str) -> None:
    over = cached(strategy, MANY)
    key = next(key for key in PROMPTS if home(over, prompt_cache_key=key) != MANY[4])
    served_by(over, MANY[4], prompt_cache_key=key, **TALK)
    assert home(over, prompt_cache_key=key, **TALK) == MANY[4]


def test_connections_trade_places_within_one_model_only() -> None:
    """The models keep the places that the rotation gives them."""
    candidates = ["p/m@a", "q/n@x", "p/m@b", "q/n@y"]
    over = Rig(roster(candidates, combo("round-robin", candidates, sticky_round_robin_limit=1)))
    for key in PROMPTS[:100]:
        assert [name[0] for name in ids(over.ask(prompt_cache_key=key))] == ["p", "q", "p", "q"]
    seen = {tuple(ids(over.ask(prompt_cache_key=key))) for key in PROMPTS[:100]}
    assert len(seen) == 4, "each model's two connections in either order"


def test_dynamic_steps_are_no_matter_of_the_cache() -> None:
    accounts = [f"p/m@c{n}" for n in range(4)]
    over = Rig(roster(accounts, combo("round-robin", ["p/m"])))
    assert {home(over, prompt_cache_key=key) for key in PROMPTS[:50]} == {accounts[0]}


@pytest.mark.parametrize("strategy", ["priority", "fill-first", "least-used", "random", "auto", "lkgp"])
def test_other_strategies_do_not_look_at_the_key(strategy: str) -> None:
    over = cached(strategy, MANY)
    for seed, key in enumerate(PROMPTS[:30]):
        assert ids(over.ask(seed=seed, prompt_cache_key=key)) == ids(over.ask(seed=seed))


def test_a_key_with_limited_accounts_has_affinity_among_those() -> None:
    keys = {"k": KeyPolicy("k", allowed_connections=frozenset({"c1", "c5"}))}
    over = cached("cache-optimized", MANY, keys=keys)
    among = cached("cache-optimized", ["p/m@c1", "p/m@c5"])
    for key in PROMPTS[:200]:
        assert home(over, prompt_cache_key=key, api_key_id="k") == home(among, prompt_cache_key=key)
