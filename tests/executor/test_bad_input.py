"""Requests that cannot be carried out are refused before anything is called, naming the field."""

from __future__ import annotations

from typing import Any

import grpc.aio
import pytest

from omniroute.decision.v1 import decision_pb2
from service_kit.errors import Reason, from_rpc_error
from tests.executor.conftest import House, target
from tests.executor.upstream import answer, completion

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no decision": ({"decision_id": ""}, "decision_id"),
    "no body": ({"body": b""}, "body"),
    "no JSON": ({"body": b"{"}, "body"),
    "not UTF-8": ({"body": b'{"model":"\xff"}'}, "body"),
    "a list": ({"body": b"[1]"}, "body"),
    "too deep": ({"body": b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"}, "body"),
    "no shape": ({"shape": decision_pb2.Plan.SHAPE_UNSPECIFIED}, "plan.shape"),
    "unknown shape": ({"shape": 77}, "plan.shape"),
    "a fusion without a judge": ({"shape": decision_pb2.Plan.SHAPE_FUSION}, "plan.judge"),
    "no targets": ({"targets": []}, "plan.targets"),
    "one target twice": ({"targets": [{}, {}]}, "plan.targets"),
    "no target id": ({"targets": [{"target_id": ""}]}, "plan.targets[0].target_id"),
    "no connection": ({"targets": [{"connection_id": ""}]}, "plan.targets[0].connection_id"),
    "no address": ({"targets": [{"base_url": ""}]}, "plan.targets[0].base_url"),
    "odd scheme": ({"targets": [{"base_url": "file:///etc/passwd"}]}, "plan.targets[0].base_url"),
    "odd port": ({"targets": [{"base_url": "http://x:99999"}]}, "plan.targets[0].base_url"),
    "unknown client dialect": ({"client_dialect": 77}, "client_dialect"),
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_requests(house: House, name: str) -> None:
    options, field = BAD[name]
    upstream = await house.upstream(answer(200, completion()))
    given = options.pop("targets", [{}]) if "targets" in options else [{}]
    targets = [target(upstream, **fields) for fields in given]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await house.execute(targets, **options)
    refusal = from_rpc_error(refused.value)
    assert (refused.value.code(), refusal.reason) == (grpc.StatusCode.INVALID_ARGUMENT, Reason.INVALID_FIELD)
    assert refusal.field == field
    assert field in refusal.message
    assert "allowed" in refusal.message
    assert upstream.requests == []
