"""Every way in which targets are put in order: a row each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from decision_service.kernel.routers import ROUTER_STRATEGIES
from decision_service.policy.vocabulary import SEVERAL_CALLS, STRATEGIES
from omniroute.registry.v1 import registry_pb2
from tests.matrix.world import CANDIDATES, FAVOURITE, MODEL, World, step

ANYBODY = "anybody"
ALL_PROVIDERS = "all-providers"
NOWHERE = "http://127.0.0.1:9"
SINGLE_SHAPE = tuple(name for name in STRATEGIES if name not in SEVERAL_CALLS)


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy over the world's candidates.

    ``model`` is what a caller asks for, ``key`` by whose id. ``config`` is that of the stored combo of this name; None:
    it is a channel or a model, and nothing is stored. ``pinned`` is the strategy that the key pins in its channel.
    ``shaped``: its plan is one of several calls. ``whole``: its plan leads to every candidate that may serve.
    """

    name: str
    strategy: str
    model: str
    key: str = ANYBODY
    config: Mapping[str, Any] | None = None
    pinned: str = ""
    ordered: bool = False
    shaped: bool = False
    whole: bool = True
    draws: int = 4
    steps: tuple[registry_pb2.ComboStep, ...] = field(default=(), repr=False)

    @property
    def stored(self) -> bool:
        return self.config is not None

    @property
    def channel(self) -> str:
        """The channel that it asks for; empty: none."""
        return self.model.removeprefix("auto/") if self.model == "auto" or self.model.startswith("auto/") else ""

    @property
    def scored(self) -> bool:
        """The budget has a say: the `auto` strategy, and whatever stands in its place in a channel."""
        return bool(self.channel) or self.strategy == "auto"

    async def furnish(self, world: World) -> None:
        """Stores what the policy is made of."""
        if self.config is not None:
            await world.store(self.name, self.steps, self.strategy, self.config)
        if self.key != ANYBODY:
            await world.key(self.key)
            await self.override(world)

    async def override(self, world: World, excluded: tuple[str, ...] = ()) -> None:
        """What the key changes in the channel, with these candidates excluded."""
        order = (FAVOURITE,) if self.ordered else ()
        await world.override(self.key, self.channel, excluded, strategy=self.pinned, order=order)


EACH_PROVIDER = (
    step(FAVOURITE, weight=100.0),
    step(CANDIDATES[1], weight=1.0),
    registry_pb2.ComboStep(model=f"a/{MODEL}", weight=1.0),
)
ANY_PROVIDER_TWICE = (registry_pb2.ComboStep(combo_name=ALL_PROVIDERS),) * 2


def _combo(name: str, strategy: str, config: Mapping[str, Any] | None = None, **more: Any) -> Policy:
    return Policy(name, strategy, name, config=config or {}, **{"steps": EACH_PROVIDER, **more})


def _pinned(strategy: str) -> Policy:
    name = f"auto-pinned-{strategy}"
    return Policy(name, strategy, "auto", key=name, pinned=strategy, draws=2)


def _routed(router: str) -> Policy:
    config = {"routerStrategy": router, "explorationRate": 0.0, "nadir": {"baseUrl": NOWHERE, "timeoutMs": 100}}
    return _combo(f"auto-by-{router}", "auto", config)


POLICIES = (
    *(_combo(f"by-{name}", name) for name in SINGLE_SHAPE),
    _combo("quota-share", "priority", {"quotaShare": True}),
    _combo("strict-random-deck", "strict-random", {"strictRandom": {"deck": True}}),
    _combo("round-robin-by-one", "round-robin", {"stickyRoundRobinLimit": 1}),
    _combo("weighted-sticky", "weighted", {"stickyWeightedLimit": 5}),
    _combo("every-connection-a-step", "priority", {"connectionAwareExpansion": True}),
    _combo("auto-exploring", "auto", {"explorationRate": 1.0}),
    *(_routed(name) for name in ROUTER_STRATEGIES),
    _combo("fusion", "fusion", shaped=True),
    _combo("pipeline", "pipeline", steps=ANY_PROVIDER_TWICE, shaped=True),
    _combo(
        "agentic",
        "priority",
        {"agenticOrchestration": {"enabled": True}},
        steps=ANY_PROVIDER_TWICE,
        shaped=True,
    ),
    Policy("channel", "auto", "auto", key="key-of-channel"),
    Policy("channel-with-a-pack", "auto", "auto/cheap", key="key-of-pack"),
    Policy("fanout", "auto", "auto/chaos", key="key-of-fanout", shaped=True, whole=False),
    Policy("auto-in-order", "priority", "auto", key="key-of-order", ordered=True),
    *(_pinned(name) for name in SINGLE_SHAPE),
    Policy("bare-model", "auto", MODEL),
)


async def furnish(world: World) -> None:
    """The whole world with every policy."""
    await world.furnish()
    await world.key(ANYBODY)
    await world.store(ALL_PROVIDERS, EACH_PROVIDER, "priority")
    for policy in POLICIES:
        await policy.furnish(world)
