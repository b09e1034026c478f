"""Diagrams come from running the machine; what it does not do, or does beside, is an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from docs_build import machines, served
from docs_build.machine import Machine, drawn, explored

TURNSTILE = Machine(
    begin="LOCKED",
    events={"coin": lambda _: "OPEN", "push": lambda world: "LOCKED" if world == "OPEN" else None},
    phase=lambda world: world,
    alike=lambda world: world,
    edges={
        ("LOCKED", "coin", "OPEN"): "a coin",
        ("OPEN", "coin", "OPEN"): "",
        ("OPEN", "push", "LOCKED"): "somebody goes through",
    },
)


def test_every_edge_is_found() -> None:
    assert explored(TURNSTILE) == set(TURNSTILE.edges)


def test_edges_without_words_are_not_drawn() -> None:
    assert drawn(TURNSTILE).splitlines() == [
        "```mermaid",
        "stateDiagram-v2",
        "    [*] --> LOCKED",
        "    LOCKED --> OPEN: a coin",
        "    OPEN --> LOCKED: somebody goes through",
        "```",
    ]


def test_an_edge_that_never_happens_is_refused() -> None:
    wrong = replace(TURNSTILE, edges={**TURNSTILE.edges, ("OPEN", "kick", "BROKEN"): "a kick"})
    with pytest.raises(ValueError, match=r"never happens: .*kick"):
        drawn(wrong)


def test_an_edge_that_is_not_told_is_refused() -> None:
    edges = {edge: words for edge, words in TURNSTILE.edges.items() if edge[1] != "push"}
    with pytest.raises(ValueError, match=r"not told: .*push"):
        drawn(replace(TURNSTILE, edges=edges))


ALL: dict[str, Machine[Any]] = {
    "breaker": machines.BREAKER,
    "cooldown": machines.COOLDOWN,
    "auth": machines.AUTH,
    "lockout": machines.LOCKOUT,
    "exclusion": machines.EXCLUSION,
    "lease": served.LEASE,
    "batch": served.BATCH,
    "pin": served.PIN,
    "good": served.GOOD,
}


@pytest.mark.parametrize("name", ALL)
def test_the_kernel_does_what_its_diagrams_say(name: str) -> None:
    assert explored(ALL[name]) == set(ALL[name].edges)
