"""A decision service with one pool of candidates, a policy for every strategy over it, and what can happen to it.

Three providers serve the model ``m``: ``p`` and ``q`` by one connection each, ``a`` by three. ``p`` is everybody's
favourite: the cheapest, the heaviest, the first declared, the one with the earliest quota reset, and the one that
served last. So whatever stops it has to hold against every strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from google.protobuf import field_mask_pb2, timestamp_pb2

from omniroute.decision.v1 import decision_pb2 as pb
from omniroute.registry.v1 import registry_pb2, registry_pb2_grpc
from service_kit import clock
from tests.decision_service.client import LIMIT_S, Client, struct

MODEL = "m"
FAVOURITE = "p/m@p-1"
CANDIDATES = (FAVOURITE, "q/m@q-1", "a/m@a-1", "a/m@a-2", "a/m@a-3")
PRICES = {"p": 0.5, "q": 1.0, "a": 2.0}
WINDOWS = {"p": 100_000, "q": 200_000, "a": 300_000}
SESSION = "conversation"
HOUR_S, DAY_S = 3_600, 86_400


def provider_of(candidate: str) -> str:
    return candidate.partition("/")[0]


def connection_of(candidate: str) -> str:
    return candidate.rpartition("@")[2]


def step(candidate: str, **fields: Any) -> registry_pb2.ComboStep:
    """A step that is pinned to the candidate's connection."""
    return registry_pb2.ComboStep(
        model=f"{provider_of(candidate)}/{MODEL}", connection_id=connection_of(candidate), **fields
    )


def only(candidate: str) -> str:
    """The combo that has this candidate alone."""
    return f"only-{connection_of(candidate)}"


class World:
    """What operators and callers do to the service, all of it through its public API."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.overrides = registry_pb2_grpc.OverrideServiceStub(client.channel)

    # Furnishing

    async def furnish(self) -> None:
        """The providers with their models and connections, and a combo for each candidate."""
        for provider, price in PRICES.items():
            await self.client.add_provider(provider, provider_class="api_key")
            await self.model(provider, input_price=price, output_price=price, context_window=WINDOWS[provider])
        for candidate in CANDIDATES:
            connection, provider = connection_of(candidate), provider_of(candidate)
            await self.client.add_connection(connection, provider, MODEL, api_key=f"key-of-{connection}")
            await self.store(only(candidate), [step(candidate)], "priority")

    async def model(self, provider: str, **facts: Any) -> None:
        await self.client.add_model(provider, MODEL, **facts)

    async def connection(self, candidate: str, **fields: Any) -> None:
        """Changes a connection; a credential is given as its input message."""
        changed = registry_pb2.Connection(id=connection_of(candidate), **fields)
        request = registry_pb2.UpdateConnectionRequest(connection=changed, update_mask=_mask(fields))
        await self.client.connections.UpdateConnection(request, timeout=LIMIT_S)

    async def provider(self, name: str, **fields: Any) -> None:
        changed = registry_pb2.Provider(id=name, **fields)
        request = registry_pb2.UpdateProviderRequest(provider=changed, update_mask=_mask(fields))
        await self.client.catalog.UpdateProvider(request, timeout=LIMIT_S)

    async def settings(self, **values: Any) -> None:
        settings = registry_pb2.Settings(values=struct(values))
        await self.client.settings.UpdateSettings(
            registry_pb2.UpdateSettingsRequest(settings=settings), timeout=LIMIT_S
        )

    async def key(self, name: str, **fields: Any) -> None:
        """Makes a key whose id is its name, or changes the one there is."""
        key = registry_pb2.ApiKey(id=name, name=name, **fields)
        if not fields:
            await self.client.keys.CreateApiKey(registry_pb2.CreateApiKeyRequest(key=key), timeout=LIMIT_S)
            return
        request = registry_pb2.UpdateApiKeyRequest(key=key, update_mask=_mask(fields))
        await self.client.keys.UpdateApiKey(request, timeout=LIMIT_S)

    async def override(self, key: str, channel: str, excluded: Iterable[str] = (), **fields: Any) -> None:
        rows = [registry_pb2.CandidateOverride(candidate=candidate, excluded=True) for candidate in excluded]
        override = registry_pb2.Override(api_key_id=key, channel=channel, candidates=rows, **fields)
        await self.overrides.UpdateOverride(registry_pb2.UpdateOverrideRequest(override=override), timeout=LIMIT_S)

    async def store(
        self, name: str, steps: Iterable[registry_pb2.ComboStep], strategy: str, config: Mapping[str, Any] | None = None
    ) -> None:
        """Makes a combo whose id is its name."""
        combo = registry_pb2.Combo(
            id=name, name=name, strategy=strategy, steps=steps, config=struct(dict(config or {}))
        )
        await self.client.combos.CreateCombo(registry_pb2.CreateComboRequest(combo=combo), timeout=LIMIT_S)

    async def change(self, name: str, strategy: str, config: Mapping[str, Any]) -> None:
        """Gives a combo another strategy and config."""
        combo = registry_pb2.Combo(id=name, strategy=strategy, config=struct(dict(config)))
        request = registry_pb2.UpdateComboRequest(combo=combo, update_mask=_mask(("strategy", "config")))
        await self.client.combos.UpdateCombo(request, timeout=LIMIT_S)

    # Happening

    async def happen(self, candidate: str, outcome_class: str, times: int = 1, **fields: Any) -> None:
        """Requests that go to one candidate alone and end so."""
        decisions = [await self.client.decide(only(candidate)) for _ in range(times)]
        await self.end(decisions, outcome_class, **fields)

    async def end(self, decisions: Sequence[pb.DecideResponse], outcome_class: str, **fields: Any) -> None:
        """Every one of these decisions ends with its first call."""
        outcomes = [
            pb.Outcome(
                decision_id=decision.decision_id,
                attempt=1,
                target_id=calls(decision.plan)[0].target_id,
                outcome_class=pb.OutcomeClass.Value(f"OUTCOME_CLASS_{outcome_class}"),
                final=True,
                **{"latency_ms": 50, **fields},
            )
            for decision in decisions
        ]
        answer = await self.client.report(*outcomes)
        assert answer.accepted == len(decisions), answer


def calls(plan: pb.Plan) -> list[pb.Target]:
    """Every call that a plan may lead to: members, steps, judges, their fallbacks, and those of nested plans."""
    return list(_calls(plan))


def _calls(plan: pb.Plan) -> Iterator[pb.Target]:
    heads = [*plan.targets, *(step.target for step in plan.steps)]
    for target in [*heads, plan.judge] if plan.HasField("judge") else heads:
        if target.HasField("nested"):
            yield from _calls(target.nested)
        else:
            yield target
            yield from target.fallbacks


def candidate_of(target: pb.Target) -> str:
    return f"{target.provider}/{target.model}@{target.connection_id}"


def planned(decision: pb.DecideResponse) -> set[str]:
    """The candidates that a plan may lead to."""
    return {candidate_of(target) for target in calls(decision.plan)}


def window(name: str, left: float, resets_in_s: float | None = None, *, reached: bool = False) -> pb.QuotaWindow:
    told = pb.QuotaWindow(name=name, remaining_fraction=left, limit_reached=reached)
    if resets_in_s is not None:
        told.reset_at.CopyFrom(instant(resets_in_s))
    return told


def instant(in_s: float) -> timestamp_pb2.Timestamp:
    """So many seconds from now; negative ones are past."""
    stamp = timestamp_pb2.Timestamp()
    stamp.FromMilliseconds(round(1000 * (clock.wall() + in_s)))
    return stamp


def _mask(fields: Iterable[str]) -> field_mask_pb2.FieldMask:
    return field_mask_pb2.FieldMask(paths=list(fields))
