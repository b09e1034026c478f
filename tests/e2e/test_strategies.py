"""Every strategy that a combo may have, once through the whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from decision_service.kernel.routers import ROUTER_STRATEGIES
from decision_service.policy.vocabulary import INTERNAL_STRATEGY, SEVERAL_CALLS, STRATEGIES
from omniroute.registry.v1 import registry_pb2
from tests.e2e.stack import Answer, Provided, Stack
from tests.executor.upstream import Connection, Received, answer, completion, error_body

pytestmark = pytest.mark.asyncio(loop_scope="module")
SINGLE_CALL = [name for name in (*STRATEGIES, INTERNAL_STRATEGY) if name not in SEVERAL_CALLS]


async def trio(stack: Stack, **facts: Any) -> list[Provided]:
    return [await stack.provider(word, **facts) for word in ("ant", "bee", "cat")]


async def ask(stack: Stack, combo: str, times: int = 1, **fields: Any) -> list[str]:
    """Who served these requests, one after the other, each known to the service before the next is sent."""
    served = [await answered(stack, combo, **fields) for _ in range(times)]
    return [each.provider for each in served]


async def answered(stack: Stack, combo: str, **fields: Any) -> Answer:
    served = await stack.chat(combo, **fields)
    assert served.status == 200, served.body
    await stack.settled(served.decision_id)
    return served


@pytest.mark.parametrize("strategy", SINGLE_CALL)
async def test_every_strategy_answers_and_fails_over(stack: Stack, strategy: str) -> None:
    targets = await trio(stack, context_window=100_000)
    if strategy == INTERNAL_STRATEGY:
        combo = await stack.combo(*targets, quotaShare=True)
    else:
        combo = await stack.combo(*targets, strategy=strategy)
    served = await answered(stack, combo)
    assert served.headers["x-omniroute-strategy"] == strategy
    assert served.provider in {target.name for target in targets}
    for target in targets[1:]:
        target.plays(answer(500, error_body()))
    for _ in range(4):
        assert (await answered(stack, combo)).provider == targets[0].name


async def test_priority_takes_the_first(stack: Stack) -> None:
    targets = await trio(stack)
    assert await ask(stack, await stack.combo(*targets), 4) == [targets[0].name] * 4


async def test_weighted_never_draws_a_step_without_weight(stack: Stack) -> None:
    targets = await trio(stack)
    steps = [
        registry_pb2.ComboStep(model=target.model, weight=weight)
        for target, weight in zip(targets, (3.0, 1.0, 0.0), strict=True)
    ]
    await stack.client.add_combo("weights", steps, "weighted")
    served = await ask(stack, "weights", 20)
    assert set(served) <= {targets[0].name, targets[1].name}


async def test_round_robin_turns_after_three_successes(stack: Stack) -> None:
    targets = await trio(stack)
    served = await ask(stack, await stack.combo(*targets, strategy="round-robin"), 10)
    first, second, third = (target.name for target in targets)
    assert served == [first] * 3 + [second] * 3 + [third] * 3 + [first]


async def test_round_robin_of_one_turns_every_time(stack: Stack) -> None:
    targets = await trio(stack)
    combo = await stack.combo(*targets, strategy="round-robin", stickyRoundRobinLimit=1)
    names = [target.name for target in targets]
    assert await ask(stack, combo, 7) == [*names, *names, names[0]]


async def test_fill_first_leaves_a_target_when_its_quota_is_gone(stack: Stack) -> None:
    targets = await trio(stack)
    combo = await stack.combo(*targets, strategy="fill-first")
    assert await ask(stack, combo, 3) == [targets[0].name] * 3
    targets[0].plays(answer(429, error_body("You exceeded your current quota", code="insufficient_quota")))
    assert await ask(stack, combo, 3) == [targets[1].name] * 3
    assert len(targets[0].upstream.requests) == 4


async def test_least_used_spreads_what_comes_at_once(stack: Stack) -> None:
    gate = asyncio.Event()

    async def waits(_received: Received, connection: Connection) -> None:
        await gate.wait()
        await answer(200, completion("Hello"))(_received, connection)

    targets = [await stack.provider(word, waits) for word in ("ant", "bee", "cat")]
    combo = await stack.combo(*targets, strategy="least-used")
    calls = [asyncio.create_task(stack.chat(combo)) for _ in range(9)]
    async with asyncio.timeout(20):
        while sum(len(target.upstream.requests) for target in targets) < 9:
            await asyncio.sleep(0.01)
    gate.set()
    assert {served.status for served in await asyncio.gather(*calls)} == {200}
    assert [len(target.upstream.requests) for target in targets] == [3, 3, 3]


async def test_cost_optimized_takes_the_cheapest_for_this_request(stack: Stack) -> None:
    dear_in = await stack.provider("dearin", input_price=10.0, output_price=1.0)
    dear_out = await stack.provider("dearout", input_price=1.0, output_price=10.0)
    unknown = await stack.provider("unknown")
    combo = await stack.combo(unknown, dear_in, dear_out, strategy="cost-optimized")
    long, short = "word " * 2_000, "hi"
    assert await ask(stack, combo, content=long, max_tokens=10) == [dear_out.name]
    assert await ask(stack, combo, content=short, max_tokens=1_000) == [dear_in.name]


async def test_p2c_takes_the_better_of_two(stack: Stack) -> None:
    ill, well = await stack.provider("ill", answer(500, error_body())), await stack.provider("well")
    combo = await stack.combo(ill, well, strategy="p2c", maxRetries=0)
    assert (await answered(stack, combo)).attempts == 2
    assert await ask(stack, combo, 5) == [well.name] * 5
    assert len(ill.upstream.requests) == 1


async def test_random_uses_everybody(stack: Stack) -> None:
    targets = await trio(stack)
    served = await ask(stack, await stack.combo(*targets, strategy="random"), 40)
    assert set(served) == {target.name for target in targets}


async def test_context_optimized_takes_the_smallest_window_that_fits(stack: Stack) -> None:
    windows = {"large": 50_000, "small": 2_000, "middle": 8_000}
    targets = {word: await stack.provider(word, context_window=size) for word, size in windows.items()}
    combo = await stack.combo(*targets.values(), strategy="context-optimized")
    for words, expected in ((10, "small"), (3_000, "middle"), (20_000, "large")):
        assert await ask(stack, combo, content="word " * words) == [targets[expected].name]


@pytest.mark.parametrize("router", [name for name in ROUTER_STRATEGIES if name != "nadir"])
async def test_auto_with_every_router_strategy(stack: Stack, router: str) -> None:
    """Of three that differ in price alone each router takes one that it can account for."""
    prices = {"dear": 20.0, "cheap": 0.5, "middle": 5.0}
    targets = {
        word: await stack.provider(word, input_price=price, output_price=price, context_window=100_000)
        for word, price in prices.items()
    }
    combo = await stack.combo(*targets.values(), strategy="auto", routerStrategy=router, explorationRate=0)
    served = await answered(stack, combo)
    assert served.headers["x-omniroute-strategy"] == "auto"
    decision = (await stack.record(served.decision_id)).decision
    assert decision.router_strategy in (router, "rules")
    assert decision.propensity == pytest.approx(1.0)
    assert decision.reason
    expected = "dear" if router == "latency" else "cheap"
    assert served.provider == targets[expected].name


async def test_rules_share_the_load_among_equals(stack: Stack) -> None:
    targets = await trio(stack)
    combo = await stack.combo(*targets, strategy="auto", explorationRate=0)
    at_once = await asyncio.gather(*(stack.chat(combo, f"conversation {number}") for number in range(9)))
    assert {served.status for served in at_once} == {200}
    assert len({served.provider for served in at_once}) >= 2


async def test_a_mode_and_a_budget_are_controls_of_one_request(stack: Stack) -> None:
    dear = await stack.provider("dear", input_price=50.0, output_price=50.0)
    cheap = await stack.provider("cheap", input_price=0.1, output_price=0.1)
    combo = await stack.combo(dear, cheap, strategy="auto", explorationRate=0)
    served = await answered(stack, combo, headers={"x-omniroute-budget": "0.001", "x-omniroute-mode": "Nonsense"})
    assert served.provider == cheap.name
    assert served.headers["x-omniroute-ignored-controls"] == "x-omniroute-mode"
    strict = {"x-omniroute-budget": "0.0000001", "x-omniroute-budget-fallback": "strict"}
    refused = await stack.chat(combo, headers=strict)
    assert (refused.status, refused.error["code"]) == (402, "budget_exceeded")


async def test_a_combo_may_stand_for_a_model_and_refer_to_another(stack: Stack) -> None:
    targets = await trio(stack)
    inner = await stack.combo(*targets[:2])
    steps = [
        registry_pb2.ComboStep(kind="combo-ref", combo_name=inner),
        registry_pb2.ComboStep(model=targets[2].model),
    ]
    await stack.client.add_combo(f"{targets[2].name}-model", steps)
    for target in targets[:2]:
        target.plays(answer(500, error_body()))
    served = await answered(stack, f"{targets[2].name}-model")
    assert (served.provider, served.attempts) == (targets[2].name, 3)
