"""State machines as they are documented: explored by running the kernel, so that no diagram can say what is not so."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

W = TypeVar("W")
Edge = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Machine(Generic[W]):
    """A machine and how to run it.

    ``begin`` is its world at first; each of ``events`` makes another world of one, or None where it cannot happen.
    ``phase`` names the state that a world is in. ``alike`` is equal for worlds that need not both be explored.
    ``edges`` are what there is to find, (phase, event, phase), with the words for each; no words: it is not drawn.
    """

    begin: W
    events: Mapping[str, Callable[[W], W | None]]
    phase: Callable[[W], str]
    alike: Callable[[W], Hashable]
    edges: Mapping[Edge, str]


def explored(machine: Machine[W]) -> set[Edge]:
    """Every change of phase that its events bring about."""
    found: set[Edge] = set()
    waiting, seen = [machine.begin], {machine.alike(machine.begin)}
    while waiting:
        world = waiting.pop()
        for name, event in machine.events.items():
            after = event(world)
            if after is None:
                continue
            found.add((machine.phase(world), name, machine.phase(after)))
            if (key := machine.alike(after)) not in seen:
                seen.add(key)
                waiting.append(after)
    return found


def drawn(machine: Machine[W]) -> str:
    """Its Mermaid diagram. Raises ValueError where the machine does something else than ``edges`` say."""
    found = explored(machine)
    if found != set(machine.edges):
        missing = sorted(set(machine.edges) - found)
        raise ValueError(f"never happens: {missing}; not told: {sorted(found - set(machine.edges))}")
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {machine.phase(machine.begin)}"]
    for (before, _, after), words in machine.edges.items():
        if words:
            lines.append(f"    {before} --> {after}: {words}")
    return "\n".join([*lines, "```"])
