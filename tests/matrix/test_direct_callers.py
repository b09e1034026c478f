"""The examples of services with I/O of their own, run as they stand against a real decision service and upstreams."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from omniroute.decision.v1 import decision_pb2 as pb
from tests.decision_service.client import LIMIT_S, Client
from tests.decision_service.loopback import serving
from tests.decision_service.process import free_ports
from tests.executor.upstream import Script, Upstream, answer, close_at_once, completion, error_body, hang

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RUN_LIMIT_S = 30.0
both = pytest.mark.parametrize("example", ["direct_caller.py", "direct_caller_stream.py"])


@dataclass(frozen=True)
class Ran:
    """How a run of an example ended."""

    status: int
    out: list[str]
    err: str


@dataclass
class Scene:
    """A decision service whose policy `auto` has the upstreams of the test in their order."""

    client: Client
    address: str
    upstreams: list[Upstream] = field(default_factory=list)

    async def outcomes(self) -> list[list[str]]:
        """The classes that were reported, of each decision in order of attempts; sorted."""
        request = pb.ListDecisionsRequest(page_size=1000)
        records = (await self.client.decisions.ListDecisions(request, timeout=LIMIT_S)).records
        told = [sorted(record.outcomes, key=lambda outcome: outcome.attempt) for record in records]
        for outcomes in told:
            assert [outcome.final for outcome in outcomes] == [False] * (len(outcomes) - 1) + [True]
        names = [[pb.OutcomeClass.Name(o.outcome_class).removeprefix("OUTCOME_CLASS_") for o in row] for row in told]
        assert await self.client.states("lease") == {}
        return sorted(names)


@pytest.fixture
async def parts() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as parts:
        yield parts


async def scene(parts: AsyncExitStack, data_dir: Path, *scripts: Script, strategy: str = "priority") -> Scene:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    client = await parts.enter_async_context(serving(data_dir, decision_bind=address))
    made = Scene(client, address)
    steps = []
    for number, script in enumerate(scripts):
        upstream = await Upstream(script).start()
        parts.push_async_callback(upstream.stop)
        made.upstreams.append(upstream)
        steps.append(await client.add_target(f"up-{number}", base_url=upstream.url))
    if steps:
        await client.add_combo("auto", steps, strategy, {"targetTimeoutMs": 1_500})
    return made


async def run(example: str, address: str, *questions: str) -> Ran:
    environ = {**os.environ, "OMNIROUTE_DECISION_ADDRESS": address, "NO_PROXY": "*", "UP_1_API_KEY": "key-of-up-1"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLES / example), *questions),
        env=environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), RUN_LIMIT_S)
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode is not None
    return Ran(process.returncode, out.decode().splitlines(), err.decode())


GOOD = answer(200, completion("The sea goes up and down."))


FAILURES = {
    "RATE_LIMITED, 429": answer(429, error_body(), {"retry-after": "7.5"}),
    "INVALID_REQUEST, 400": answer(400, error_body()),
    "AUTH_FAILED, 401": answer(401, error_body()),
    "UPSTREAM_ERROR, 408": answer(408, error_body()),
    "UPSTREAM_ERROR, 503": answer(503, error_body()),
    "MALFORMED, 200": answer(200, b"<html>"),
    "EMPTY, 200": answer(200, completion("")),
    "NETWORK, 0": close_at_once,
    "TIMEOUT, 0": hang,
}


@both
async def test_every_failed_target_is_reported_and_the_next_one_called(
    parts: AsyncExitStack, tmp_path: Path, example: str
) -> None:
    here = await scene(parts, tmp_path, *FAILURES.values(), GOOD)
    ran = await run(example, here.address, "Tides?")
    assert (ran.status, len(ran.out)) == (0, 1), ran.err
    assert ran.out[0].endswith("The sea goes up and down.")
    assert ran.err.splitlines() == [f"up-{n}/up-{n}-model: {told}" for n, told in enumerate(FAILURES)]
    assert await here.outcomes() == [[*(told.partition(",")[0] for told in FAILURES), "SUCCESS"]]
    assert here.upstreams[1].requests[0].headers["authorization"] == "Bearer key-of-up-1"
    assert "authorization" not in here.upstreams[0].requests[0].headers
    resting = await here.client.states("cooldown", abnormal_only=True)
    assert {state.reason for state in resting.values()} == {"rate_limited", "auth_failed"}


@both
async def test_what_fails_everywhere_is_not_tried_everywhere(
    parts: AsyncExitStack, tmp_path: Path, example: str
) -> None:
    here = await scene(parts, tmp_path, answer(422, error_body()), GOOD)
    ran = await run(example, here.address, "Tides?")
    assert ran.status == 1
    assert await here.outcomes() == [["INVALID_REQUEST"]]
    assert not here.upstreams[1].requests


@both
async def test_a_refusal_is_told_in_one_line(parts: AsyncExitStack, tmp_path: Path, example: str) -> None:
    here = await scene(parts, tmp_path, answer(429, error_body(), {"retry-after": "60"}))
    assert (await run(example, here.address, "Tides?")).status == 1
    ran = await run(example, here.address, "Tides?")
    assert ran.status == 1
    told = [line for line in [*ran.out, *ran.err.splitlines()] if "refused" in line]
    assert len(told) == 1
    assert "no target is available now" in told[0]
    assert "Traceback" not in ran.err
    assert len(here.upstreams[0].requests) == 1, "nobody was called the second time"


@both
async def test_a_plan_of_several_calls_is_left_to_others(parts: AsyncExitStack, tmp_path: Path, example: str) -> None:
    here = await scene(parts, tmp_path, GOOD, GOOD, strategy="fusion")
    ran = await run(example, here.address, "Tides?")
    assert ran.status == 1
    assert "SHAPE_FUSION" in ran.err + "".join(ran.out)
    assert not any(upstream.requests for upstream in here.upstreams)


@both
async def test_without_a_decision_service_there_is_a_line_and_no_stack(unused_tcp_port: int, example: str) -> None:
    ran = await run(example, f"127.0.0.1:{unused_tcp_port}", "Tides?")
    assert ran.status == 1
    assert "Traceback" not in ran.err


async def test_many_questions_share_a_stream_and_each_has_its_own_answer(parts: AsyncExitStack, tmp_path: Path) -> None:
    """They spread over the targets, and what one learns of a broken one helps the others."""
    here = await scene(parts, tmp_path, answer(503, error_body()), GOOD, GOOD, GOOD, strategy="round-robin")
    questions = [f"What is wave number {n}?" for n in range(40)]
    ran = await run("direct_caller_stream.py", here.address, *questions)
    assert ran.status == 0, ran.err
    assert ran.out == [f"{question} The sea goes up and down." for question in questions]
    told = await here.outcomes()
    assert len(told) == 40
    assert {tuple(row) for row in told} <= {("SUCCESS",), ("UPSTREAM_ERROR", "SUCCESS")}
    assert len({row.body["messages"][0]["content"] for up in here.upstreams[1:] for row in up.requests}) == 40
