"""ConnectionService and CredentialService."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp
from sqlalchemy import Engine, text

from decision_service.roster_source import changed_credentials
from omniroute.registry.v1 import registry_pb2 as pb
from service_kit.errors import Reason, ServiceError
from tests.decision_service.conftest import Clock
from tests.decision_service.registry.conftest import DEMO, EDGE, EXECUTOR, Running, running

SECRET = "sk-very-secret-0123456789"


async def create(live: Running, **fields: Any) -> pb.Connection:
    request = pb.CreateConnectionRequest(connection=pb.Connection(**fields))
    answer = await live.call("ConnectionService", "CreateConnection", request)
    return answer.connection  # type: ignore[no-any-return]


async def update(live: Running, mask: list[str] | None = None, **fields: Any) -> pb.Connection:
    request = pb.UpdateConnectionRequest(
        connection=pb.Connection(**fields), update_mask=FieldMask(paths=mask) if mask else None
    )
    answer = await live.call("ConnectionService", "UpdateConnection", request)
    return answer.connection  # type: ignore[no-any-return]


async def delete(live: Running, name: str, etag: str = "") -> None:
    await live.call("ConnectionService", "DeleteConnection", pb.DeleteConnectionRequest(id=name, etag=etag))


async def get(live: Running, name: str) -> pb.Connection:
    answer = await live.call("ConnectionService", "GetConnection", pb.GetConnectionRequest(id=name))
    return answer.connection  # type: ignore[no-any-return]


async def resolve(live: Running, name: str, *, refresh: bool = False, token: str = EXECUTOR) -> pb.ResolveResponse:
    request = pb.ResolveRequest(connection_id=name, refresh=refresh)
    return await live.call("CredentialService", "Resolve", request, token)  # type: ignore[no-any-return]


async def test_a_connection_is_in_the_roster_when_the_answer_comes(live: Running) -> None:
    made = await create(
        live,
        provider="groq",
        default_model="openai/gpt-oss-120b",
        models=["llama-3.3-70b-versatile", "openai/gpt-oss-120b"],
        account_tier="PRO",
        credential=pb.CredentialInput(api_key=SECRET),
    )
    assert made.id.startswith("conn_")
    assert (made.enabled, made.origin, made.account_tier, made.label) == (True, "operator", "pro", made.id)
    roster = live.source.snapshot.roster
    connection = roster.connections["groq", made.id]
    assert connection.models == ("openai/gpt-oss-120b", "llama-3.3-70b-versatile")
    assert (connection.usable, connection.account_tier) == (True, "pro")
    assert {c.model for c in roster.pool if c.connection == made.id} == set(connection.models)
    assert roster.facts["groq", "llama-3.3-70b-versatile"].input_price is not None
    assert live.source.snapshot.endpoints[made.id].base_url == "https://api.groq.com/openai/v1"


async def test_a_credential_is_never_shown(live: Running, store: Engine) -> None:
    made = await create(live, provider="openai", credential=pb.CredentialInput(api_key=SECRET))
    assert made.credential_view.kind == "api_key"
    assert len(made.credential_view.fingerprint) == 12
    assert made.credential_view.usable
    for shown in (made, await get(live, made.id)):
        assert not shown.HasField("credential")
        assert SECRET not in str(shown)
    assert SECRET not in repr(live.registry.snapshot)
    with store.connect() as connection:
        rows = connection.execute(text("SELECT * FROM connections")).all()
        audit = connection.execute(text("SELECT * FROM audit")).all()
    assert SECRET.encode() not in repr(rows).encode()
    assert SECRET not in repr(audit)
    assert (await resolve(live, made.id)).api_key == SECRET


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({}, "provider"),
        ({"provider": "opnai"}, "provider"),
        ({"provider": "openai", "id": "has space"}, "id"),
        ({"provider": "openai", "id": "env-openai"}, "id"),
        ({"provider": "openai", "base_url": "file:///etc/passwd"}, "base_url"),
        ({"provider": "openai", "base_url": "https://user:pass@host/v1"}, "base_url"),
        ({"provider": "openai", "account_tier": "gold"}, "account_tier"),
        ({"provider": "openai", "label": "x" * 257}, "label"),
        ({"provider": "openai", "models": ["a", ""]}, "models[1]"),
        ({"provider": "openai", "default_model": " a"}, "default_model"),
        ({"provider": "openai", "credential": pb.CredentialInput()}, "credential"),
        ({"provider": "openai", "credential": pb.CredentialInput(api_key="")}, "credential.api_key"),
        ({"provider": "openai", "credential": pb.CredentialInput(api_key="a\nb")}, "credential.api_key"),
        ({"provider": "openai", "credential": pb.CredentialInput(reference="OPENAI")}, "credential.reference"),
        (
            {"provider": "openai", "credential": pb.CredentialInput(oauth=pb.OAuthCredential())},
            "credential.oauth.access_token",
        ),
        (
            {"provider": "openai", "credential": pb.CredentialInput(oauth=pb.OAuthCredential(refresh_token="r"))},
            "credential.oauth.token_url",
        ),
    ],
)
async def test_bad_connections_are_refused_and_nothing_is_stored(
    live: Running, fields: dict[str, Any], field: str
) -> None:
    before = live.source.snapshot
    with pytest.raises(ServiceError) as caught:
        await create(live, **fields)
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_FIELD, field)
    assert live.source.snapshot is before


async def test_a_secret_is_in_no_error(live: Running) -> None:
    with pytest.raises(ServiceError) as caught:
        await create(live, provider="openai", credential=pb.CredentialInput(api_key=f"{SECRET}\n"))
    assert SECRET not in caught.value.message


async def test_an_id_is_taken_once(live: Running) -> None:
    with pytest.raises(ServiceError) as caught:
        await create(live, id="c1", provider="groq")
    assert (caught.value.reason, caught.value.field) == (Reason.ALREADY_EXISTS, "id")


async def test_a_mask_changes_what_it_names_alone(live: Running) -> None:
    made = await create(live, provider="openai", label="one", account_tier="pro", models=["gpt-4o"])
    changed = await update(live, ["label"], id=made.id, label="two", account_tier="free")
    assert (changed.label, changed.account_tier, list(changed.models)) == ("two", "pro", ["gpt-4o"])
    changed = await update(live, ["models"], id=made.id)
    assert (changed.label, list(changed.models)) == ("two", [])


async def test_without_a_mask_all_is_changed_but_the_credential(live: Running) -> None:
    made = await create(live, provider="openai", label="one", credential=pb.CredentialInput(api_key=SECRET))
    changed = await update(live, id=made.id, provider="openai", enabled=False, etag=made.etag)
    assert (changed.label, changed.enabled) == (made.id, False)
    assert not live.source.snapshot.roster.connections["openai", made.id].enabled
    assert (await resolve(live, made.id)).api_key == SECRET


async def test_a_credential_can_be_replaced_and_taken_away(live: Running) -> None:
    first = await get(live, "c1")
    changed = await update(live, ["credential"], id="c1", credential=pb.CredentialInput(api_key="sk-new"))
    assert changed.credential_view.fingerprint != first.credential_view.fingerprint
    assert (await resolve(live, "c1")).api_key == "sk-new"
    gone = await update(live, ["credential"], id="c1", credential=pb.CredentialInput(none=pb.NoCredential()))
    assert (gone.credential_view.kind, gone.credential_view.usable) == ("none", False)
    assert not live.source.snapshot.roster.connections["openai", "c1"].usable


async def test_a_credential_that_is_set_anew_is_noticed(live: Running) -> None:
    before = live.source.snapshot
    await update(live, ["label"], id="c2", label="other")
    assert changed_credentials(before, live.source.snapshot) == frozenset()
    await update(live, ["credential"], id="c1", credential=pb.CredentialInput(api_key="sk-c1"))
    await create(live, provider="groq", credential=pb.CredentialInput(api_key="new"))
    assert changed_credentials(before, live.source.snapshot) == {("openai", "c1")}


async def test_a_new_connection_with_a_remote_provider_does_not_do_without(live: Running) -> None:
    none = pb.CredentialInput(none=pb.NoCredential())
    with pytest.raises(ServiceError, match="'groq', which is of class api_key") as caught:
        await create(live, provider="groq", credential=none)
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_FIELD, "credential")
    assert (await create(live, provider="ollama-local", credential=none)).credential_view.usable
    assert not (await create(live, provider="groq")).credential_view.usable


async def test_a_local_provider_needs_no_credential(live: Running) -> None:
    made = await create(live, provider="ollama-local", default_model="llama3")
    assert made.credential_view.usable
    assert live.source.snapshot.roster.connections["ollama-local", made.id].usable
    assert (await resolve(live, made.id)).WhichOneof("kind") == "none"


async def test_a_stale_etag_is_a_conflict(live: Running) -> None:
    first = await get(live, "c1")
    second = await update(live, ["label"], id="c1", label="x", etag=first.etag)
    assert second.etag != first.etag
    for attempt in (
        update(live, ["label"], id="c1", label="y", etag=first.etag),
        delete(live, "c1", first.etag),
    ):
        with pytest.raises(ServiceError) as caught:
            await attempt
        assert caught.value.reason is Reason.CONFLICT
    assert (await get(live, "c1")).label == "x"
    await delete(live, "c1", second.etag)


async def test_what_is_not_there_is_not_found(live: Running) -> None:
    for attempt in (get(live, "nobody"), delete(live, "nobody"), update(live, ["label"], id="nobody")):
        with pytest.raises(ServiceError) as caught:
            await attempt
        assert caught.value.reason is Reason.NOT_FOUND


async def test_masks_and_providers_that_cannot_be_changed(live: Running) -> None:
    with pytest.raises(ServiceError, match="label, enabled"):
        await update(live, ["origin"], id="c1")
    with pytest.raises(ServiceError) as caught:
        await update(live, ["provider"], id="c1", provider="groq")
    assert caught.value.field == "provider"


async def test_a_connection_that_a_combo_names_stays(live: Running) -> None:
    combo = pb.Combo(name="pinned", strategy="priority")
    combo.steps.add(model="openai/gpt-4o", connection_id="c1")
    made = await live.call("ComboService", "CreateCombo", pb.CreateComboRequest(combo=combo))
    with pytest.raises(ServiceError, match="'pinned'") as caught:
        await delete(live, "c1")
    assert caught.value.reason is Reason.CONFLICT
    await live.call("ComboService", "DeleteCombo", pb.DeleteComboRequest(id=made.combo.id))
    await delete(live, "c1")
    assert ("openai", "c1") not in live.source.snapshot.roster.connections


async def test_pages(live: Running) -> None:
    for n in range(5):
        await create(live, id=f"p{n}", provider="groq")
    found, token = [], ""
    while True:
        request = pb.ListConnectionsRequest(page_size=2, page_token=token, provider="groq")
        page = await live.call("ConnectionService", "ListConnections", request)
        assert len(page.connections) <= 2
        found += [connection.id for connection in page.connections]
        token = page.next_page_token
        if not token:
            break
    assert found == [f"p{n}" for n in range(5)]
    everything = await live.call("ConnectionService", "ListConnections", pb.ListConnectionsRequest())
    assert [c.id for c in everything.connections] == sorted([*found, "c1", "c2", "demo-demo"])


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"page_size": -1}, "page_size"),
        ({"page_size": 1001}, "page_size"),
        ({"page_token": "nonsense"}, "page_token"),
        ({"page_token": "W10"}, "page_token"),
        ({"page_token": "ü"}, "page_token"),
    ],
)
async def test_bad_pages_are_refused(live: Running, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ServiceError) as caught:
        await live.call("ConnectionService", "ListConnections", pb.ListConnectionsRequest(**fields))
    assert (caught.value.reason, caught.value.field) == (Reason.INVALID_FIELD, field)


async def test_a_token_of_another_list_is_refused(live: Running) -> None:
    page = await live.call("ConnectionService", "ListConnections", pb.ListConnectionsRequest(page_size=1))
    other = pb.ListConnectionsRequest(page_size=1, page_token=page.next_page_token, provider="openai")
    with pytest.raises(ServiceError, match="page_token"):
        await live.call("ConnectionService", "ListConnections", other)


async def test_simulated_connections_are_shown_and_cannot_be_changed(live: Running) -> None:
    shown = await get(live, "demo-demo")
    assert (shown.origin, shown.credential_view.usable, list(shown.models)) == ("demo", True, ["tiny"])
    assert live.source.snapshot.roster.facts["demo", "tiny"].lacks == {"vision"}
    for attempt in (update(live, ["enabled"], id="demo-demo", enabled=False), delete(live, "demo-demo")):
        with pytest.raises(ServiceError) as caught:
            await attempt
        assert caught.value.reason is Reason.CONFLICT


async def test_credentials_are_for_the_executor_alone(live: Running) -> None:
    for token in ("", EDGE, "executor-toke", "executor-token2"):
        with pytest.raises(ServiceError) as caught:
            await resolve(live, "c1", token=token)
        assert caught.value.reason is Reason.FORBIDDEN
    answer = await resolve(live, "c1")
    assert (answer.api_key, answer.max_age_ms, answer.max_concurrent) == ("sk-c1", 60_000, 0)
    limited = await create(live, provider="openai", max_concurrent=2, credential=pb.CredentialInput(api_key=SECRET))
    assert (await resolve(live, limited.id)).max_concurrent == limited.max_concurrent == 2
    with pytest.raises(ServiceError) as caught:
        await resolve(live, "nobody")
    assert caught.value.reason is Reason.NOT_FOUND


async def test_a_reference_is_passed_on_as_it_is(live: Running) -> None:
    made = await create(live, provider="openai", credential=pb.CredentialInput(reference="file:/run/secrets/key"))
    assert made.credential_view.reference == "file:/run/secrets/key"
    assert (await resolve(live, made.id)).reference == "file:/run/secrets/key"


async def test_an_oauth_token_without_renewal_ends(live: Running, clock: Clock) -> None:
    ends = Timestamp(seconds=int(clock()) + 100)
    oauth = pb.OAuthCredential(access_token="at", expires_at=ends)
    made = await create(live, provider="github-copilot", credential=pb.CredentialInput(oauth=oauth))
    assert made.credential_view.expires_at == ends
    assert made.credential_view.usable
    connection = live.source.snapshot.roster.connections["github-copilot", made.id]
    assert connection.usable_until == ends.seconds * 1000
    answer = await resolve(live, made.id)
    assert (answer.oauth.access_token, answer.oauth.expires_at) == ("at", ends)
    clock.now += 70
    assert (await resolve(live, made.id)).max_age_ms == 30_000
    clock.now += 31
    assert not (await get(live, made.id)).credential_view.usable
    with_renewal = pb.OAuthCredential(access_token="at", refresh_token="rt", token_url="https://x/t", expires_at=ends)
    await update(live, ["credential"], id=made.id, credential=pb.CredentialInput(oauth=with_renewal))
    assert live.source.snapshot.roster.connections["github-copilot", made.id].usable_until is None


async def test_under_another_secret_key_a_stored_secret_is_told_lost(
    live: Running, store: Engine, clock: Clock
) -> None:
    async with running(store, clock, demo=DEMO, secret_key="quite another secret key") as other:
        with pytest.raises(ServiceError, match="another secret key") as caught:
            await resolve(other, "c1")
        assert caught.value.reason is Reason.UNAVAILABLE


async def test_another_process_on_the_store_is_seen(live: Running, store: Engine, clock: Clock) -> None:
    async with running(store, clock, demo=DEMO) as other:
        stale = live.source.snapshot
        await create(other, id="theirs", provider="groq")
        made = await create(live, id="ours", provider="groq")  # before the next look
        roster = live.source.snapshot.roster
        assert made.id == "ours"
        assert {("groq", "theirs"), ("groq", "ours")} <= set(roster.connections)
        assert stale.revision < live.source.snapshot.revision
        with pytest.raises(ServiceError) as caught:
            await create(live, id="theirs", provider="groq")
        assert caught.value.reason is Reason.ALREADY_EXISTS
        other.source.refresh()
        assert ("groq", "ours") in other.source.snapshot.roster.connections
    assert [each.revision for each in live.published] == sorted({each.revision for each in live.published})
