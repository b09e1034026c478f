"""Credentials: asked of the registry, kept, renewed, referenced, and never shown."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from omniroute.registry.v1 import registry_pb2
from tests.executor.conftest import NOT_FOUND, SECRET, TOKEN, House, key, target
from tests.executor.upstream import Connection, Received, Script, answer, completion, error_body

GOOD = answer(200, completion())


def only(secret: str) -> Script:
    """Answers requests with that key, and refuses every other one while repeating it."""

    async def play(received: Received, connection: Connection) -> None:
        given = received.headers.get("authorization", "").removeprefix("Bearer ")
        script = GOOD if given == secret else answer(401, error_body(f"no such key: {given}"))
        await script(received, connection)

    return play


async def test_the_registry_is_asked_once_with_the_executors_identity(house: House) -> None:
    upstream = await house.upstream(GOOD)
    for _ in range(3):
        await house.execute([target(upstream)])
    assert house.credentials.asked == [("c-t0", False)]
    assert house.credentials.tokens == [TOKEN]


async def test_one_question_at_a_time_for_a_connection(house: House) -> None:
    house.credentials.delay_s = 0.1
    upstream = await house.upstream(GOOD)
    answers = await asyncio.gather(*(house.execute([target(upstream)]) for _ in range(20)))
    assert all(got.classes == ["SUCCESS"] for got in answers)
    assert len(house.credentials.asked) == 1


async def test_a_caller_that_leaves_does_not_take_the_question_with_it(house: House) -> None:
    house.credentials.delay_s = 0.2
    upstream = await house.upstream(GOOD)
    first = house.call([target(upstream)])
    reading = asyncio.create_task(first.read())
    await asyncio.sleep(0.1)
    second = asyncio.create_task(house.execute([target(upstream)]))
    await asyncio.sleep(0.02)
    first.cancel()
    assert (await second).classes == ["SUCCESS"]
    assert len(house.credentials.asked) == 1
    await asyncio.gather(reading, return_exceptions=True)


async def test_a_short_life_is_kept_to(house: House) -> None:
    house.credentials.answers["c-t0"] = registry_pb2.ResolveResponse(api_key=SECRET, max_age_ms=100)
    upstream = await house.upstream(GOOD)
    await house.execute([target(upstream)])
    await asyncio.sleep(0.15)
    await house.execute([target(upstream)])
    assert len(house.credentials.asked) == 2


async def test_a_refused_credential_is_renewed_once_within_the_attempt(house: House) -> None:
    house.credentials.answers["c-t0"] = key("sk-old-0123456789")
    house.credentials.after_refresh["c-t0"] = key("sk-new-0123456789")
    upstream = await house.upstream(only("sk-new-0123456789"))
    got = await house.execute([target(upstream)])
    assert got.classes == ["SUCCESS"]
    assert house.credentials.asked == [("c-t0", False), ("c-t0", True)]
    await house.execute([target(upstream)])
    assert len(house.credentials.asked) == 2


async def test_a_credential_that_stays_refused_fails_the_attempt(house: House) -> None:
    got = await house.plain(only("another"), GOOD)
    assert got.classes == ["AUTH_FAILED", "SUCCESS"]
    assert house.credentials.asked[:2] == [("c-t0", False), ("c-t0", True)]
    assert len(house.upstreams[0].requests) == 1


async def test_references_are_read_here(house: House, tmp_path: Path) -> None:
    house.environ["SOME_KEY"] = " sk-env-0123456789 "
    file = tmp_path / "key"
    file.write_text("sk-file-0123456789\n")
    house.credentials.answers["c-t0"] = registry_pb2.ResolveResponse(reference="env:SOME_KEY", max_age_ms=60_000)
    house.credentials.answers["c-t1"] = registry_pb2.ResolveResponse(reference=f"file:{file}", max_age_ms=60_000)
    by_env, by_file = await house.upstream(GOOD), await house.upstream(GOOD)
    await house.execute([target(by_env)])
    await house.execute([target(by_file, "t1")])
    assert by_env.requests[0].headers["authorization"] == "Bearer sk-env-0123456789"
    assert by_file.requests[0].headers["authorization"] == "Bearer sk-file-0123456789"
    file.write_text("sk-file-changed-01")
    os.utime(file, (1, 1))
    await house.execute([target(by_file, "t1")])
    assert by_file.requests[1].headers["authorization"] == "Bearer sk-file-changed-01"


async def test_a_reference_that_is_refused_is_asked_for_and_read_again(house: House, tmp_path: Path) -> None:
    """Neither the answer of the registry nor the file is taken from memory then."""
    file = tmp_path / "key"
    file.write_text("sk-file-old-0123456789")
    reference = registry_pb2.ResolveResponse(reference=f"file:{file}", max_age_ms=60_000)
    house.credentials.answers["c-t0"] = reference

    async def rotated(received: Received, connection: Connection) -> None:
        file.write_text("sk-file-new-0123456789")
        await only("sk-file-new-0123456789")(received, connection)

    upstream = await house.upstream(rotated)
    got = await house.execute([target(upstream)])
    assert got.classes == ["SUCCESS"]
    sent = [received.headers["authorization"] for received in upstream.requests]
    assert sent == ["Bearer sk-file-old-0123456789", "Bearer sk-file-new-0123456789"]
    house.environ["SOME_KEY"] = "sk-env-old-0123456789"
    house.credentials.after_refresh["c-t0"] = registry_pb2.ResolveResponse(reference="env:SOME_KEY", max_age_ms=60_000)
    upstream.scripts = [only("sk-env-old-0123456789")]
    assert (await house.execute([target(upstream)])).classes == ["SUCCESS"]
    assert house.credentials.asked == [("c-t0", False), ("c-t0", True)]


async def test_an_access_token_goes_out_as_bearer(house: House) -> None:
    oauth = registry_pb2.OAuthCredential(access_token="access-0123456789", refresh_token="refresh-0123456789")
    house.credentials.answers["c-t0"] = registry_pb2.ResolveResponse(oauth=oauth, max_age_ms=60_000)
    upstream = await house.upstream(GOOD)
    await house.execute([target(upstream)])
    assert upstream.requests[0].headers["authorization"] == "Bearer access-0123456789"


async def test_a_provider_that_needs_none_gets_none(house: House) -> None:
    none = registry_pb2.NoCredential()
    house.credentials.answers["c-t0"] = registry_pb2.ResolveResponse(none=none, max_age_ms=60_000)
    upstream = await house.upstream(GOOD)
    assert (await house.execute([target(upstream)])).classes == ["SUCCESS"]
    assert "authorization" not in upstream.requests[0].headers


UNUSABLE: dict[str, Any] = {
    "unknown connection": NOT_FOUND,
    "no credential": registry_pb2.ResolveResponse(max_age_ms=60_000),
    "unset variable": registry_pb2.ResolveResponse(reference="env:NOT_SET_ANYWHERE", max_age_ms=60_000),
    "no file": registry_pb2.ResolveResponse(reference="file:/nonexistent/key", max_age_ms=60_000),
    "a folder": registry_pb2.ResolveResponse(reference="file:/", max_age_ms=60_000),
    "odd reference": registry_pb2.ResolveResponse(reference="vault:x", max_age_ms=60_000),
    "a line break": key("sk-a\r\nx-evil: 1"),
}


@pytest.mark.parametrize("name", UNUSABLE)
async def test_an_unusable_credential_blames_the_connection_without_a_call(house: House, name: str) -> None:
    house.credentials.answers["c-t0"] = UNUSABLE[name]
    got = await house.plain(GOOD, GOOD)
    assert got.classes == ["AUTH_FAILED", "SUCCESS"]
    assert house.upstreams[0].requests == []
    assert (got.outcomes[0].http_status, got.outcomes[0].connection_id) == (0, "c-t0")


async def test_a_registry_that_is_away_blames_nobody(house: House) -> None:
    house.credentials.away = True
    got = await house.plain(GOOD, GOOD)
    assert (got.classes, got.head.status) == (["LOCAL_CANCELLED"] * 2, 503)
    house.credentials.away = False
    assert (await house.plain(GOOD)).classes == ["SUCCESS"]


@pytest.mark.parametrize("stream", [False, True])
async def test_no_secret_leaves_the_process(
    house: House, stream: bool, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "key"
    file.write_text("an-ordinary-looking-value")
    house.credentials.answers["c-t0"] = registry_pb2.ResolveResponse(reference=f"file:{file}", max_age_ms=60_000)
    house.credentials.answers["c-t1"] = key("another-ordinary-value")
    got = await house.plain(only("x"), only("y"), body={"stream": stream})
    sent = b"".join(event.SerializeToString() for event in got.events)
    logged = "".join(capfd.readouterr())
    for secret in ("an-ordinary-looking-value", "another-ordinary-value", TOKEN):
        assert secret.encode() not in sent
        assert secret not in logged
