"""Changes of the state machines, for those who watch: what a look sees that the last one did not."""

from __future__ import annotations

from collections.abc import Iterator

from decision_service.engine import Engine
from decision_service.history import History
from decision_service.servicers.state import KINDS, NORMAL
from omniroute.decision.v1 import decision_pb2
from omniroute.registry.v1 import registry_pb2

MACHINES = ("breaker", "cooldown", "lockout", "exclusion")
CALM = {"breaker": "CLOSED"}
CLEAR = "CLEAR"

States = dict[tuple[str, str], registry_pb2.State]


class Transitions:
    """Looks from time to time, and only while somebody watches: nothing on the way of a decision pays for it."""

    def __init__(self, engine: Engine, history: History) -> None:
        self._engine = engine
        self._history = history
        self._seen: States | None = None

    def look(self) -> None:
        """Tell what has changed since the last look."""
        if not self._history.watched:
            self._seen = None
            return
        now = self._engine.tick()
        present: States = {
            (state.kind, state.key): state
            for kind in MACHINES
            for state in KINDS[kind](self._engine.state, now)
            if state.state not in NORMAL
        }
        if self._seen is not None:
            for transition in _between(self._seen, present):
                self._history.moved(transition, now)
        self._seen = present


def _between(before: States, after: States) -> Iterator[decision_pb2.StateTransition]:
    for kind, key in dict.fromkeys((*before, *after)):
        calm = registry_pb2.State(state=CALM.get(kind, CLEAR))
        old, new = before.get((kind, key), calm), after.get((kind, key), calm)
        if (old.state, old.reason, old.generation) != (new.state, new.reason, new.generation):
            yield decision_pb2.StateTransition(
                kind=kind,
                key=key,
                from_state=old.state,
                to_state=new.state,
                reason=new.reason,
                until_ms=new.until_ms if new.HasField("until_ms") else None,
            )
