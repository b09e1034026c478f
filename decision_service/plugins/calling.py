"""A plug-in as the kernel calls it: shown the pool as values, held to its word, and measured.

Whatever it does, a decision comes of it: where it fails, `rules` picks, and the reason says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import structlog
from prometheus_client import Counter, Histogram

from decision_service.kernel import routers
from decision_service.kernel.draft import Ask, Draft
from decision_service.kernel.model import MINUTE
from decision_service.kernel.routers import Scored
from decision_service.plugins.surface import Choice, RouterStrategy
from decision_service.plugins.views import context_of, pool_of
from service_kit.metrics import REGISTRY

SLOW_S = 0.005
MOST_REASON_CHARS = 200
MOST_SCORE = 1e300
LOG = structlog.get_logger()

SECONDS = Histogram(
    "omniroute_router_plugin_seconds",
    "Duration of a plug-in's select.",
    ["router"],
    registry=REGISTRY,
    buckets=(0.0001, 0.0005, 0.001, SLOW_S, 0.025, 0.1, 1.0),
)
SLOW = Counter("omniroute_router_plugin_slow", "Calls of select over 5 ms.", ["router"], registry=REGISTRY)
FALLBACKS = Counter(
    "omniroute_router_plugin_fallbacks", "Picks that rules made, by why.", ["router", "why"], registry=REGISTRY
)


class Called:
    """A router strategy of the kernel that asks a plug-in. ``seconds`` is a clock for durations."""

    def __init__(self, strategy: RouterStrategy, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._strategy = strategy
        self._seconds = seconds
        self._name = strategy.name
        self._slow = Seldom()
        self._failed = Seldom()

    def __call__(self, scored: Scored, ask: Ask, draft: Draft) -> int:
        pool, context = pool_of(scored, ask, draft), context_of(scored, ask, draft)
        began = self._seconds()
        try:
            choice = self._strategy.select(pool, context)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code ends no decision, nor the service
            return self._fallen_back("raised", scored, ask, draft, error)
        finally:
            self._measured(self._seconds() - began, ask.turn.now)
        place = _place(choice, scored)
        if isinstance(place, str):
            return self._fallen_back(place, scored, ask, draft)
        draft.reason = f"{self._name}: {_shown(choice.reason)} (score {choice.score:.4g})"
        return place

    def _fallen_back(self, why: str, scored: Scored, ask: Ask, draft: Draft, error: BaseException | None = None) -> int:
        FALLBACKS.labels(self._name, why).inc()
        if self._failed.again(ask.turn.now):
            LOG.warning("router_plugin_failed", router=self._name, why=why, exc_info=error)
        place = routers.rules(scored, ask, draft)
        told = why if error is None else f"{why} {type(error).__name__}"
        draft.reason = f"{self._name}: fallback ({told}); {draft.reason}"
        return place

    def _measured(self, seconds: float, now: int) -> None:
        SECONDS.labels(self._name).observe(seconds)
        if seconds > SLOW_S:
            SLOW.labels(self._name).inc()
            if self._slow.again(now):
                LOG.warning("router_plugin_slow", router=self._name, ms=round(1000 * seconds, 1))


def callable_by_the_kernel(strategies: Mapping[str, RouterStrategy]) -> dict[str, routers.RouterStrategy]:
    """The plug-ins as router strategies of the kernel; the log names each."""
    for name, strategy in strategies.items():
        LOG.info("router_plugin", router=name, description=strategy.description)
    return {name: Called(strategy) for name, strategy in strategies.items()}


class Seldom:
    """Says yes once a minute."""

    def __init__(self) -> None:
        self._next = 0

    def again(self, now: int) -> bool:
        if now < self._next:
            return False
        self._next = now + MINUTE
        return True


def _place(choice: object, scored: Scored) -> int | str:
    """The place of a pick, or what is wrong with it."""
    if not isinstance(choice, Choice):
        return "no choice"
    candidate, reason, score = _fields(choice)
    if not isinstance(reason, str):
        return "no reason"
    if not isinstance(score, int | float) or not -MOST_SCORE < score < MOST_SCORE:
        return "no finite score"
    if not isinstance(candidate, str):
        return "unknown candidate"
    places = (place for place, member in enumerate(scored.members) if member.id == candidate)
    return next(places, "unknown candidate")


def _fields(choice: Choice) -> tuple[object, object, object]:
    """Nobody checked what a plug-in put there."""
    return choice.candidate, choice.reason, choice.score


def _shown(reason: str) -> str:
    """A foreign text as one line."""
    line = " ".join(reason.split())[:MOST_REASON_CHARS]
    return "".join(char if char.isprintable() else "?" for char in line)
