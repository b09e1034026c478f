"""What decisions and outcomes move beside self-healing: leases, batches, pins, the last known good.

These live in the whole kernel, so it is run: a world is the list of what has happened since the beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any

from decision_service.kernel.apply import tick
from decision_service.kernel.recall import good_key, pin_key, pinned
from decision_service.kernel.state import Ticket
from decision_service.scenario import read_scenario
from decision_service.scenario.run import Simulation
from docs_build.machine import Edge, Machine

Path = tuple[str, ...]
Move = Callable[[Simulation], bool]
CANDIDATES = [{"provider": name, "model": "m", "connection": "c"} for name in "abc"]
STEPS = ["a/m", "b/m", "c/m"]
SESSION = {"session_id": "s", "session_explicit": True}
QUARTER_MS, NO_WINDOW = 15 * 60_000, {"name": "weekly", "remaining_fraction": 0.1}


def _machine(
    combo: Mapping[str, Any], moves: Mapping[str, Move], phase: Callable[[Simulation], str], edges: Mapping[Edge, str]
) -> Machine[Path]:
    """A machine of one combo; each of ``moves`` answers whether it could happen. A phase is explored once."""

    @cache
    def at(path: Path) -> Simulation | None:
        given = {"candidates": CANDIDATES, "combos": [{"name": "combo", "steps": STEPS, **combo}]}
        simulation = Simulation(read_scenario(given))
        return simulation if all(moves[name](simulation) for name in path) else None

    def event(name: str) -> Callable[[Path], Path | None]:
        return lambda path: (*path, name) if at((*path, name)) is not None else None

    def phase_at(path: Path) -> str:
        simulation = at(path)
        assert simulation is not None
        return phase(simulation)

    def alike(path: Path) -> Hashable:
        return phase_at(path)

    return Machine((), {name: event(name) for name in moves}, phase_at, alike, edges)


def _decided(**request: Any) -> Move:
    def move(simulation: Simulation) -> bool:
        return "error" not in simulation.decide({"model": "combo", **request}, "decide")

    return move


def _told(outcome_class: str, **outcome: Any) -> Move:
    """An outcome of the last decision's call under way, or of its first where none is."""

    def move(simulation: Simulation) -> bool:
        number = len(simulation.decisions) - 1
        ticket = _ticket(simulation)
        if ticket is None:
            return False
        place = next(iter(ticket.leases), 0)
        attempt = len(ticket.applied) + 1
        given = {"decision": number, "outcome_class": outcome_class, "attempt": attempt, "target": str(place + 1)}
        simulation.report({**given, **outcome}, "report")
        return True

    return move


def _both(*moves: Move) -> Move:
    return lambda simulation: all(move(simulation) for move in moves)


def _passed(ms: int) -> Move:
    def move(simulation: Simulation) -> bool:
        simulation.now += ms
        tick(simulation.state, simulation.now)
        return True

    return move


def _ticket(simulation: Simulation) -> Ticket | None:
    return simulation.state.tickets.get(str(len(simulation.decisions) - 1))


# Leases


def _lease_phase(simulation: Simulation) -> str:
    ticket = _ticket(simulation)
    if ticket is None:
        return "ASKED"
    if ticket.leases:
        return "ON_FIRST" if 0 in ticket.leases else "ON_NEXT"
    return "ABANDONED" if ticket.abandoned else "ENDED"


def _only_once(move: Move) -> Move:
    return lambda simulation: not simulation.decisions and move(simulation)


LEASE = _machine(
    {"strategy": "priority", "steps": STEPS[:2]},
    {
        "decided": _only_once(_decided()),
        "success": _told("SUCCESS"),
        "failure": _told("UPSTREAM_ERROR"),
        "again": _told("RATE_LIMITED", next_target="a/m@c"),
        "gone": _told("CLIENT_CANCELLED"),
        "time": lambda simulation: bool(simulation.decisions) and _passed(60 * 60_000)(simulation),
    },
    _lease_phase,
    {
        ("ASKED", "decided", "ON_FIRST"): "Decide",
        ("ON_FIRST", "success", "ENDED"): "success",
        ("ON_FIRST", "failure", "ON_NEXT"): "failure, another target is left",
        ("ON_FIRST", "again", "ON_FIRST"): "failure, the same target once more",
        ("ON_FIRST", "gone", "ENDED"): "the client is gone",
        ("ON_FIRST", "time", "ABANDONED"): "nothing told until 30 s after the deadline",
        ("ON_NEXT", "success", "ENDED"): "success",
        ("ON_NEXT", "failure", "ENDED"): "failure of the last target",
        ("ON_NEXT", "again", "ON_FIRST"): "failure, an earlier target once more",
        ("ON_NEXT", "gone", "ENDED"): "the client is gone",
        ("ON_NEXT", "time", "ABANDONED"): "nothing told",
        ("ENDED", "success", "ENDED"): "",
        ("ENDED", "failure", "ENDED"): "",
        ("ENDED", "again", "ENDED"): "",
        ("ENDED", "gone", "ENDED"): "",
        ("ENDED", "time", "ENDED"): "",
        ("ABANDONED", "success", "ABANDONED"): "told late, for statistics alone",
        ("ABANDONED", "failure", "ABANDONED"): "",
        ("ABANDONED", "again", "ABANDONED"): "",
        ("ABANDONED", "gone", "ABANDONED"): "",
        ("ABANDONED", "time", "ABANDONED"): "",
    },
)


# Batches of round-robin


def _batch_phase(simulation: Simulation) -> str:
    rotation = simulation.state.rotations.get("combo")
    return "NO_BATCH" if rotation is None or rotation.batch is None else "BATCH"


def _away(simulation: Simulation) -> bool:
    """The target of the batch is locked when the next decision is made."""
    rotation = simulation.state.rotations.get("combo")
    if rotation is None or rotation.batch is None:
        return False
    direct = _both(_decided(model=rotation.batch.member.partition("@")[0]), _told("OVERLOADED"))
    return direct(simulation) and _decided()(simulation)


BATCH = _machine(
    {"strategy": "round-robin", "config": {"stickyRoundRobinLimit": 2}},
    {
        "success": _both(_decided(), _told("SUCCESS")),
        "failure": _both(_decided(), _told("UPSTREAM_ERROR", final=True)),
        "fallback": _both(_decided(), _told("UPSTREAM_ERROR"), _told("SUCCESS")),
        "away": _away,
    },
    _batch_phase,
    {
        ("NO_BATCH", "success", "BATCH"): "a success begins one",
        ("NO_BATCH", "fallback", "BATCH"): "also of a fallback",
        ("NO_BATCH", "failure", "NO_BATCH"): "",
        ("BATCH", "failure", "BATCH"): "failures neither count nor reset",
        ("BATCH", "fallback", "BATCH"): "a success elsewhere begins another there",
        ("BATCH", "success", "NO_BATCH"): "full, the counter moves behind it",
        ("BATCH", "away", "NO_BATCH"): "its target is unavailable",
    },
)


# Conversations


def _pin_phase(simulation: Simulation) -> str:
    key = pin_key(simulation.decisions[-1].request) if simulation.decisions and simulation.decisions[-1] else None
    combo = simulation.state.combo("combo")
    members = simulation.state.pool(combo, "combo", "").members
    found = pinned(members, simulation.state.pins.get(key), simulation.now) if key else None
    return "FREE" if found is None else "PINNED"


PIN = _machine(
    {"strategy": "least-used"},
    {
        "success": _both(_decided(**SESSION), _told("SUCCESS")),
        "failure": _both(_decided(**SESSION), _told("UPSTREAM_ERROR", final=True)),
        "low": _both(_decided(**SESSION), _told("SUCCESS", quota=[NO_WINDOW])),
        "time": _passed(QUARTER_MS),
    },
    _pin_phase,
    {
        ("FREE", "success", "PINNED"): "a success in the conversation",
        ("FREE", "failure", "FREE"): "",
        ("FREE", "low", "FREE"): "",
        ("FREE", "time", "FREE"): "",
        ("PINNED", "success", "PINNED"): "another success, for 15 minutes more",
        ("PINNED", "failure", "FREE"): "a blamed failure of the target",
        ("PINNED", "low", "FREE"): "15 % of the quota or less are left",
        ("PINNED", "time", "FREE"): "15 minutes without a success",
    },
)


def _good_phase(simulation: Simulation) -> str:
    last = simulation.decisions[-1] if simulation.decisions else None
    good = simulation.state.goods.get(good_key(last.request, simulation.state.combo("combo"))) if last else None
    return "UNKNOWN" if good is None else "KNOWN"


GOOD = _machine(
    {"strategy": "lkgp"},
    {
        "success": _both(_decided(), _told("SUCCESS")),
        "failure": _both(_decided(), _told("UPSTREAM_ERROR", final=True)),
        "unblamed": _both(_decided(), _told("INVALID_REQUEST", final=True)),
    },
    _good_phase,
    {
        ("UNKNOWN", "success", "KNOWN"): "a success",
        ("UNKNOWN", "failure", "UNKNOWN"): "",
        ("UNKNOWN", "unblamed", "UNKNOWN"): "",
        ("KNOWN", "success", "KNOWN"): "the latest decision's success counts",
        ("KNOWN", "failure", "UNKNOWN"): "a blamed failure of it, here",
        ("KNOWN", "unblamed", "KNOWN"): "",
    },
)
