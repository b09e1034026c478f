"""Every fault at every place of a plan: what the client hears, the outcome's class, and what it moves in routing.

The state is that of the decision service: the same fault moves the same, wherever in a plan it strikes, and nothing of
those who stood beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pytest
import pytest_asyncio

from omniroute.decision.v1 import decision_pb2
from tests.e2e.stack import Answer, Provided, Stack, running
from tests.executor.shapes import test_matrix as in_the_executor
from tests.executor.shapes.plans import TOOL, says
from tests.executor.shapes.test_matrix import DIES, FAULTS, Fault
from tests.executor.upstream import answer, error_body

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONFIG: dict[str, Any] = {"targetTimeoutMs": 2_000, "maxRetries": 0}
ACTS: dict[str, Any] = {"agenticOrchestration": {"enabled": True}, **CONFIG}

# The machine that a failed attempt moved, and what it says of it.
Moved = tuple[str, str]
COUNTED: Moved = ("breaker", "1 failure")
NOTHING: Moved | None = None
RESTS: Mapping[str, Moved | None] = MappingProxyType(
    {
        "UPSTREAM_ERROR": COUNTED,
        "TIMEOUT": COUNTED,
        "NETWORK": COUNTED,
        "MALFORMED": COUNTED,
        "EMPTY": COUNTED,
        "INTERRUPTED": COUNTED,
        "RATE_LIMITED": ("cooldown", "rate_limited"),
        "QUOTA_EXHAUSTED": ("cooldown", "quota_exhausted"),
        "AUTH_FAILED": ("cooldown", "auth_failed"),
        "MODEL_NOT_FOUND": ("lockout", "model_not_found"),
        "OVERLOADED": ("lockout", "overloaded"),
        "CONTENT_POLICY": NOTHING,
        "CONTEXT_TOO_LONG": NOTHING,
        "INVALID_REQUEST": NOTHING,
    }
)
MALFORMED_REQUEST = error_body("Invalid type for 'messages'", type="invalid_request_error", param="messages")
MORE_FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "402": Fault(answer(402, error_body("pay")), "QUOTA_EXHAUSTED", 429),
        "404": Fault(answer(404, error_body("no such model")), "MODEL_NOT_FOUND", 404),
        "529": Fault(answer(529, error_body("overloaded")), "OVERLOADED", 529),
        "page of a proxy": Fault(answer(502, b"<html>bad gateway</html>"), "UPSTREAM_ERROR", 502),
        "code 1302 inside": Fault(answer(200, {"error": {"code": "1302", "message": "x"}}), "RATE_LIMITED", 429),
        "cut JSON": Fault(answer(200, b'{"choices":[{"message":{"content":"hel'), "MALFORMED", 502),
        "400 about the shape": Fault(answer(400, MALFORMED_REQUEST), "INVALID_REQUEST", 400, returned=True),
    }
)
ALL_FAULTS: Mapping[str, Fault] = MappingProxyType({**FAULTS, **MORE_FAULTS, "dies after content": DIES})


@dataclass(frozen=True)
class House:
    """A stack with providers that are well."""

    stack: Stack
    good: Provided
    spare: Provided
    judge: Provided
    planner: Provided
    key: str


@dataclass(frozen=True)
class Place:
    """Where a fault strikes; ``ask`` makes the request, ``expected`` is the client's status and text."""

    ask: Callable[[House, Provided, bool], Awaitable[Answer]]
    expected: Callable[[Fault], tuple[int, str]]
    streams: bool


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with running(tmp_path_factory.mktemp("stack")) as stack:
        good, spare = [await stack.provider("well", says("good")) for _ in range(2)]
        judge = await stack.provider("judge", says("judged"))
        planner = await stack.provider("planner", says("TOOLS"))
        key = (await stack.client.add_key("everything")).secret
        yield House(stack, good, spare, judge, planner, key)


async def asked(house: House, model: str, streamed: bool, *, tools: bool = False, key: str = "") -> Answer:
    fields: dict[str, Any] = {"tools": [TOOL]} if tools else {}
    headers = {"authorization": f"Bearer {key or house.key}"}
    return await house.stack.chat(model, stream=streamed, headers=headers, **fields)


async def alone(house: House, bad: Provided, streamed: bool) -> Answer:
    return await asked(house, await house.stack.combo(bad, **CONFIG), streamed)


async def first_of_two(house: House, bad: Provided, streamed: bool) -> Answer:
    return await asked(house, await house.stack.combo(bad, house.good, **CONFIG), streamed)


async def in_a_panel(house: House, bad: Provided, streamed: bool) -> Answer:
    panel = (house.good, bad, house.spare)
    combo = await house.stack.combo(*panel, strategy="fusion", judgeModel=house.judge.model, **CONFIG)
    return await asked(house, combo, streamed)


async def as_judge(house: House, bad: Provided, streamed: bool) -> Answer:
    combo = await house.stack.combo(house.good, house.spare, strategy="fusion", judgeModel=bad.model, **CONFIG)
    return await asked(house, combo, streamed)


async def as_a_step(house: House, bad: Provided, streamed: bool) -> Answer:
    combo = await house.stack.combo(house.good, bad, house.spare, strategy="pipeline", **CONFIG)
    return await asked(house, combo, streamed)


async def as_planner(house: House, bad: Provided, streamed: bool) -> Answer:
    return await asked(house, await house.stack.combo(bad, house.good, **ACTS), streamed, tools=True)


async def as_executor(house: House, bad: Provided, streamed: bool) -> Answer:
    combo = await house.stack.combo(house.planner, bad, house.good, **ACTS)
    return await asked(house, combo, streamed, tools=True)


async def in_a_fanout(house: House, bad: Provided, streamed: bool) -> Answer:
    """The channel takes the whole pool, so the key is one that may use two connections."""
    allowed = [house.good.connection, bad.connection]
    key = await house.stack.client.add_key(f"of {bad.name}", allowed_connections=allowed)
    return await asked(house, "auto/chaos", streamed, key=key.secret)


def ends(fault: Fault) -> tuple[int, str]:
    """Nobody else can be asked."""
    return fault.status, "Hel" if fault is DIES else ""


def goes_on(fault: Fault) -> tuple[int, str]:
    """The next one answers, unless the client has heard something already, or all would refuse the request."""
    return ends(fault) if fault is DIES or fault.returned else (200, "good")


def another_judges(fault: Fault) -> tuple[int, str]:
    """Or the first answer of the panel stands in."""
    return ends(fault) if fault is DIES else (200, "good")


PLACES: Mapping[str, Place] = MappingProxyType(
    {
        "single, alone": Place(alone, ends, streams=True),
        "single, first of two": Place(first_of_two, goes_on, streams=True),
        "fusion member": Place(in_a_panel, lambda _: (200, "judged"), streams=False),
        "judge": Place(as_judge, another_judges, streams=True),
        "pipeline step": Place(as_a_step, ends, streams=False),
        "planner": Place(as_planner, ends, streams=False),
        "agentic executor": Place(as_executor, goes_on, streams=True),
        "fanout member": Place(in_a_fanout, lambda _: (200, "good"), streams=False),
    }
)
# Faults of each kind of blame; the others where long tests run.
SHORT = frozenset({"500", "429", "401", "529", "closes before content", "content policy", "dies after content"})


async def test_no_place_of_the_executors_own_matrix_is_left_out() -> None:
    assert PLACES.keys() == in_the_executor.PLACES.keys()
    assert {fault.outcome for fault in ALL_FAULTS.values()} == RESTS.keys()


def cases() -> Iterator[object]:
    for name in ALL_FAULTS:
        for streamed in (False, True):
            is_short = streamed and name in SHORT
            marks = [] if is_short else [pytest.mark.full]
            yield pytest.param(name, streamed, marks=marks, id=f"{name}, {'stream' if streamed else 'plain'}")


@pytest.mark.parametrize(("name", "streamed"), list(cases()))
async def test_a_fault_is_the_same_at_every_place(house: House, name: str, streamed: bool) -> None:
    fault = ALL_FAULTS[name]
    struck = {at: place for at, place in PLACES.items() if strikes(fault, at, place, streamed)}
    keyed = {"provider_class": "api_key", "api_key": "sk-of-the-test"}
    bad = [await house.stack.provider("bad", fault.script, **keyed) for _ in struck]
    served = await asyncio.gather(
        *(place.ask(house, one, streamed) for place, one in zip(struck.values(), bad, strict=True))
    )
    told = {
        at: (heard(answered), await outcome(house, answered, one), await moved(house, one))
        for at, answered, one in zip(struck, served, bad, strict=True)
    }
    assert told == {at: (place.expected(fault), fault.outcome, RESTS[fault.outcome]) for at, place in struck.items()}


def strikes(fault: Fault, at: str, place: Place, streamed: bool) -> bool:
    """A stream breaks only where there is one, and a call of a fan-out has more time than a test."""
    if fault is DIES:
        return streamed and place.streams
    return not (fault.outcome == "TIMEOUT" and at == "fanout member")


def heard(answered: Answer) -> tuple[int, str]:
    """Status and text of an answer; the text of an error is empty, and one after content is an error event."""
    if answered.status != 200:
        assert answered.error["message"]
        return answered.status, ""
    text = answered.text
    if answered.headers["content-type"].startswith("text/event-stream") and answered.payloads[-1] != "[DONE]":
        assert answered.payloads[-1]["error"]["message"]
    return 200, text[-4:] if "**" in text else text


async def outcome(house: House, answered: Answer, bad: Provided) -> str:
    """The class of the bad target's outcomes; a call of a fan-out may have been tried twice."""
    record = await house.stack.record(answered.decision_id)
    found = [outcome.outcome_class for outcome in record.outcomes if outcome.provider == bad.name]
    assert len(found) == len(bad.upstream.requests)
    [outcome_class] = set(found)
    return decision_pb2.OutcomeClass.Name(outcome_class).removeprefix("OUTCOME_CLASS_")


async def moved(house: House, provided: Provided) -> Moved | None:
    """The one machine of a provider's that its attempts moved; None: all are as they were made."""
    found: list[Moved] = []
    for kind in ("breaker", "cooldown", "lockout"):
        for key, state in (await house.stack.client.states(kind)).items():
            if key.partition("/")[0] != provided.name or not (state.reason or state.count or state.until_ms):
                continue
            each = state.count / len(provided.upstream.requests)
            assert kind != "breaker" or state.state == "CLOSED"
            found.append((kind, f"{each:g} failure" if kind == "breaker" else state.reason))
    assert len(found) <= 1, found
    return found[0] if found else None


async def test_nobody_who_stood_beside_is_blamed(house: House) -> None:
    """After all of that."""
    for well in (house.good, house.spare, house.judge, house.planner):
        assert await moved(house, well) is None
        assert well.upstream.requests
    assert not await house.stack.client.states("lease")
    assert not [service.module for service in house.stack.services if "Traceback" in service.said]
