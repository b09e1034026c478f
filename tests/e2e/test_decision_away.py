"""The decision service is away or silent under load: clients of known models notice nothing, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from functools import partial
from statistics import median

import pytest
import pytest_asyncio

from tests.e2e.load import Load, Shot, kept_outcomes, quantile, shooting
from tests.e2e.stack import Stack, running, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
DEADLINE_S, SLACK_S = 0.25, 0.05
LONGEST_SKIP_S = 2.0
CALM_S = 1.5


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """One whose edge waits for decisions as long as it does by default."""
    waits = f"{1000 * DEADLINE_S:.0f}"
    async with running(tmp_path_factory.mktemp("away"), OMNIROUTE_EDGE_DECIDE_TIMEOUT_MS=waits) as stack:
        yield stack


async def known(stack: Stack, *models: str, api_key: str = "") -> None:
    """Let the edge see each model as plain and as streamed requests, which are no likes of each other."""
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}

    async def served(model: str, stream: bool) -> bool:
        answer = await stack.chat(model, stream=stream, headers=headers)
        return answer.status == 200 and "x-omniroute-degraded" not in answer.headers

    for model in models:
        for stream in (False, True):
            await until(partial(served, model, stream))


async def reported(stack: Stack) -> Counter[str]:
    results = ("accepted", "duplicate", "rejected")
    name = "omniroute_edge_reported_total"
    return Counter({each: round(await stack.figure(stack.edge, name, result=each)) for each in results})


async def delivered(stack: Stack) -> bool:
    return await stack.figure(stack.edge, "omniroute_edge_report_queued") == 0


async def well(load: Load) -> bool:
    """Whether decisions are made again."""
    return not any(shot.degraded for shot in load.shots[-5:])


def all_served(shots: list[Shot]) -> None:
    assert Counter(shot.status for shot in shots) == {200: len(shots)}
    assert all(shot.whole for shot in shots)
    assert len({shot.decision_id for shot in shots}) == len(shots)


async def nothing_is_lost_or_doubled(stack: Stack, load: Load, before: Counter[str]) -> None:
    kept = await kept_outcomes(stack, load.shots)
    assert set(kept.values()) == {1}
    assert len(kept) == len(load.shots)
    await until(lambda: delivered(stack))
    now = await reported(stack) - before
    # A report whose answer got lost is repeated, and recognised.
    assert now["accepted"] + now["duplicate"] == len(load.shots)
    assert not now["rejected"]
    assert await stack.figure(stack.edge, "omniroute_edge_report_dropped_total") == 0


@pytest.mark.parametrize(
    ("away_s", "rate"),
    [
        pytest.param(2.0, 20.0, id="short"),
        pytest.param(10.0, 40.0, id="long", marks=[pytest.mark.full, pytest.mark.timeout(120)]),
    ],
)
async def test_a_killed_decision_service_is_not_missed(stack: Stack, away_s: float, rate: float) -> None:
    ant, bee = await stack.provider("ant", api_key="sk-of-ant-0123456789"), await stack.provider("bee")
    models = (ant.model, await stack.combo(ant, bee, strategy="round-robin"))
    await known(stack, *models)
    await until(lambda: delivered(stack))
    before, loop = await reported(stack), asyncio.get_running_loop()
    async with shooting(stack, *models, rate=rate) as load:
        await asyncio.sleep(CALM_S)
        await stack.disconnect()
        await stack.decision.kill()
        killed = loop.time()
        await asyncio.sleep(away_s)
        started = loop.time()
        await stack.decision.start()
        await stack.connect()
        await until(lambda: well(load))
        back = loop.time()
        await asyncio.sleep(CALM_S)
    all_served(load.shots)
    while_away = load.between(killed, started)
    assert len(while_away) > 0.8 * away_s * rate
    assert all(shot.degraded for shot in while_away)
    assert all(shot.decision_id.startswith("edge_") for shot in while_away)
    after = load.between(back, loop.time())
    assert sum(shot.degraded for shot in after) < 0.5 * len(after)
    told = quantile((shot.took_s for shot in while_away), 0.99), median(shot.took_s for shot in while_away)
    print(f"{len(load.shots)} served, {len(while_away)} while it was away; p99 {told[0]:.3f} s, median {told[1]:.3f} s")
    await nothing_is_lost_or_doubled(stack, load, before)


@pytest.mark.parametrize(
    ("frozen_s", "rate"),
    [
        pytest.param(3.0, 20.0, id="short"),
        pytest.param(12.0, 40.0, id="long", marks=[pytest.mark.full, pytest.mark.timeout(120)]),
    ],
)
async def test_a_silent_decision_service_costs_its_deadline_and_then_nothing(
    stack: Stack, frozen_s: float, rate: float
) -> None:
    ant = await stack.provider("ant", api_key="sk-of-ant-0123456789")
    await known(stack, ant.model)
    await until(lambda: delivered(stack))
    before, loop = await reported(stack), asyncio.get_running_loop()
    waits_before = stack.edge.said.count("decision service away")
    async with shooting(stack, ant.model, rate=rate) as load:
        began = loop.time()
        await asyncio.sleep(CALM_S)
        stack.decision.freeze()
        frozen = loop.time()
        await asyncio.sleep(frozen_s)
        stack.decision.thaw()
        thawed = loop.time()
        waits = stack.edge.said.count("decision service away") - waits_before
        await until(lambda: well(load))
        back = loop.time()
        await asyncio.sleep(CALM_S)
    all_served(load.shots)
    silent, after = load.between(frozen, thawed - DEADLINE_S), load.between(back, loop.time())
    calm = cost(load.between(began, frozen - DEADLINE_S))
    usual, unusual = median(calm), max(calm) - median(calm)
    at_first = cost(load.between(frozen, frozen + DEADLINE_S), usual)
    added, skipped = cost(silent, usual), cost(load.between(frozen + 2 * DEADLINE_S, thawed - DEADLINE_S), usual)
    machine = max(shot.beside_s for shot in load.shots)
    print(
        f"added at first: median {median(at_first):.3f} s; at all: worst {max(added):.3f}; once waits are skipped: "
        f"median {median(skipped):.3f}, p90 {quantile(skipped, 0.9):.3f}; {waits} of {len(silent)} waited; "
        f"probes took up to {machine:.3f} s"
    )
    assert DEADLINE_S - SLACK_S <= median(at_first) <= DEADLINE_S + SLACK_S
    assert median(skipped) <= SLACK_S
    assert waits <= rate * 2 * DEADLINE_S + 2 + frozen_s / LONGEST_SKIP_S
    if machine <= SLACK_S:  # of a machine that stands still now and then the worst says nothing
        assert max(added) <= DEADLINE_S + SLACK_S + unusual
        assert quantile(skipped, 0.9) <= SLACK_S
    assert sum(shot.degraded for shot in after) < 0.5 * len(after)
    assert median(cost(after, usual)) <= SLACK_S
    await nothing_is_lost_or_doubled(stack, load, before)
    if machine <= SLACK_S:  # a decision whose answer is late holds its lease until that runs out
        await until(lambda: _no_lease(stack))


def cost(shots: Sequence[Shot], usual: float = 0.0) -> list[float]:
    """Seconds beyond what the machine cost at that moment, and beyond the usual."""
    return [shot.took_s - shot.beside_s - usual for shot in shots]


async def _no_lease(stack: Stack) -> bool:
    return not await stack.client.states("lease")


async def test_what_no_earlier_plan_may_serve_is_refused_with_a_time(stack: Stack) -> None:
    """What only the decision service can hold to, such as a strict budget or a key's money; and what is new to it."""
    ant, fresh = await stack.provider("ant"), await stack.provider("fresh")
    strict = {"x-omniroute-budget": "5", "x-omniroute-budget-fallback": "strict"}
    soft = {"x-omniroute-budget": "5"}
    made = [
        await stack.client.add_key(name, scopes=["inference"], limits=limits)
        for name, limits in (("free", {}), ("paid", {"usd_per_day": 10.0}))
    ]
    free, paid = ({"authorization": f"Bearer {each.secret}"} for each in made)
    asked: dict[str, tuple[str, dict[str, str]]] = {
        "usual": (ant.model, free),
        "soft budget": ("auto", {**free, **soft}),
        "strict budget": ("auto", {**free, **strict}),
        "key with a budget": (ant.model, paid),
    }
    for model, headers in asked.values():
        await until(partial(decided, stack, model, headers))
    await stack.disconnect()
    await stack.decision.kill()
    try:
        answers = {name: await stack.chat(model, headers=headers) for name, (model, headers) in asked.items()}
        answers["never asked"] = await stack.chat(fresh.model, headers=free)
    finally:
        await stack.decision.start()
        await stack.connect()
    served = {name for name, answer in answers.items() if answer.status == 200}
    assert served == {"usual", "soft budget"}
    for name, answer in answers.items():
        if name in served:
            assert answer.headers["x-omniroute-degraded"] == "true", name
        else:
            assert (answer.status, answer.error["code"]) == (503, "service_unavailable"), name
            assert int(answer.headers["retry-after"]) >= 1, name


async def decided(stack: Stack, model: str, headers: dict[str, str]) -> bool:
    answer = await stack.chat(model, headers=headers)
    return answer.status == 200 and "x-omniroute-degraded" not in answer.headers
