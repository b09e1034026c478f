"""Everything that a caller or an operator asks of a decision service, in the words of the tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import grpc
import grpc.aio
from google.protobuf import struct_pb2
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from omniroute.decision.v1 import decision_pb2, decision_pb2_grpc
from omniroute.registry.v1 import registry_pb2, registry_pb2_grpc
from service_kit.grpc_client import open_channel

LIMIT_S = 10.0


class Client:
    """One channel to a decision service and a stub for each of its services."""

    def __init__(self, address: str) -> None:
        self.channel = open_channel(address)
        self.decisions = decision_pb2_grpc.DecisionServiceStub(self.channel)
        self.catalog = registry_pb2_grpc.CatalogServiceStub(self.channel)
        self.connections = registry_pb2_grpc.ConnectionServiceStub(self.channel)
        self.combos = registry_pb2_grpc.ComboServiceStub(self.channel)
        self.keys = registry_pb2_grpc.ApiKeyServiceStub(self.channel)
        self.settings = registry_pb2_grpc.SettingsServiceStub(self.channel)
        self.machines = registry_pb2_grpc.StateServiceStub(self.channel)
        self.secrets = registry_pb2_grpc.CredentialServiceStub(self.channel)

    async def close(self) -> None:
        await self.channel.close()

    # What an operator stores

    async def add_provider(
        self, name: str, *, base_url: str = "http://127.0.0.1:9/v1", provider_class: str = "local"
    ) -> None:
        provider = registry_pb2.Provider(id=name, provider_class=provider_class, dialect="openai", base_url=base_url)
        await self.catalog.CreateProvider(registry_pb2.CreateProviderRequest(provider=provider), timeout=LIMIT_S)

    async def add_model(self, provider: str, model: str, **facts: Any) -> None:
        known = registry_pb2.Model(provider=provider, model=model, **facts)
        await self.catalog.UpdateModel(registry_pb2.UpdateModelRequest(model=known), timeout=LIMIT_S)

    async def add_connection(self, name: str, provider: str, *models: str, api_key: str = "") -> None:
        given = registry_pb2.Connection(id=name, provider=provider, models=models)
        if api_key:
            given.credential.api_key = api_key
        request = registry_pb2.CreateConnectionRequest(connection=given)
        await self.connections.CreateConnection(request, timeout=LIMIT_S)

    async def add_target(self, name: str, *, api_key: str = "", provider_class: str = "local", **facts: Any) -> str:
        """Provider ``name`` with the connection ``name``-1 and one model; the model's name."""
        base_url = facts.pop("base_url", "http://127.0.0.1:9/v1")
        await self.add_provider(name, base_url=base_url, provider_class=provider_class)
        await self.add_model(name, f"{name}-model", **facts)
        await self.add_connection(f"{name}-1", name, f"{name}-model", api_key=api_key)
        return f"{name}/{name}-model"

    async def add_combo(
        self,
        name: str,
        steps: Iterable[str | registry_pb2.ComboStep],
        strategy: str = "priority",
        config: dict[str, Any] | None = None,
    ) -> None:
        given = [registry_pb2.ComboStep(model=step) if isinstance(step, str) else step for step in steps]
        combo = registry_pb2.Combo(name=name, strategy=strategy, steps=given, config=struct(config or {}))
        await self.combos.CreateCombo(registry_pb2.CreateComboRequest(combo=combo), timeout=LIMIT_S)

    async def add_key(self, name: str, **fields: Any) -> registry_pb2.CreateApiKeyResponse:
        request = registry_pb2.CreateApiKeyRequest(key=registry_pb2.ApiKey(name=name, **fields))
        return await self.keys.CreateApiKey(request, timeout=LIMIT_S)

    # What a caller asks

    async def decide(self, model: str, **fields: Any) -> decision_pb2.DecideResponse:
        return await self.decisions.Decide(decision_pb2.DecideRequest(model=model, **fields), timeout=LIMIT_S)

    async def report(self, *outcomes: decision_pb2.Outcome) -> decision_pb2.ReportResponse:
        return await self.decisions.Report(decision_pb2.ReportRequest(outcomes=outcomes), timeout=LIMIT_S)

    async def attempt(self, model: str, outcome_class: str, **fields: Any) -> decision_pb2.DecideResponse:
        """A decision whose first target ends so; nothing is tried after it."""
        decision = await self.decide(model)
        answer = await self.report(outcome(decision, outcome_class, **fields))
        assert answer.accepted == 1, answer
        return decision

    async def record(self, decision_id: str) -> decision_pb2.DecisionRecord:
        request = decision_pb2.GetDecisionRequest(decision_id=decision_id)
        return (await self.decisions.GetDecision(request, timeout=LIMIT_S)).record

    async def states(self, kind: str = "", *, abnormal_only: bool = False) -> dict[str, registry_pb2.State]:
        """By key; of leases, which may share one, the last."""
        request = registry_pb2.ListStatesRequest(kind=kind, abnormal_only=abnormal_only, page_size=1000)
        answer = await self.machines.ListStates(request, timeout=LIMIT_S)
        return {state.key: state for state in answer.states}


def outcome(
    decision: decision_pb2.DecideResponse, outcome_class: str, *, place: int = 0, attempt: int = 1, **fields: Any
) -> decision_pb2.Outcome:
    """What came of a call to the target at ``place``; final unless said otherwise."""
    target = decision.plan.targets[place]
    told = {"final": True, "latency_ms": 120, "http_status": 200 if outcome_class == "SUCCESS" else 0, **fields}
    return decision_pb2.Outcome(
        decision_id=decision.decision_id,
        attempt=attempt,
        target_id=target.target_id,
        provider=target.provider,
        model=target.model,
        connection_id=target.connection_id,
        outcome_class=decision_pb2.OutcomeClass.Value(f"OUTCOME_CLASS_{outcome_class}"),
        **told,
    )


def stranger(decision_id: str, provider: str, attempt: int = 1, **fields: Any) -> decision_pb2.Outcome:
    """A success of a decision that the service never made, on a target of ``add_target``."""
    told = {"outcome_class": decision_pb2.OUTCOME_CLASS_SUCCESS, "latency_ms": 100, "final": True, **fields}
    return decision_pb2.Outcome(
        decision_id=decision_id,
        attempt=attempt,
        target_id="1",
        provider=provider,
        model=f"{provider}-model",
        connection_id=f"{provider}-1",
        **told,
    )


def struct(values: dict[str, Any]) -> struct_pb2.Struct:
    message = struct_pb2.Struct()
    message.update(values)
    return message


class Refusal:
    """What a failed call says of itself."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        self.code = error.code()
        self.message = error.details() or ""
        self.reason = self.field = ""
        self.retry_after_ms: int | None = None
        status = rpc_status.from_call(cast(grpc.Call, error))
        info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
        for detail in status.details if status else ():
            if detail.Unpack(info):
                self.reason, self.field = info.reason, info.metadata.get("field", "")
            elif detail.Unpack(retry):
                self.retry_after_ms = retry.retry_delay.ToMilliseconds()


async def refused(call: Any) -> Refusal:
    """The refusal that a call ends in."""
    try:
        answer = await call
    except grpc.aio.AioRpcError as error:
        return Refusal(error)
    raise AssertionError(f"it was not refused: {answer}")
