"""Plans that are more than one chain: which calls there are, and how they belong together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from decision_service.kernel.live import Member
from decision_service.kernel.model import Shape


@dataclass(frozen=True, slots=True)
class Call:
    """One place in a plan. ``id`` is unique in the plan; a fallback's is its call's with a number behind.

    ``nested`` is the plan of a panel member that is a combo of its own; its calls stand for this one. ``scope`` names
    the combo of the nested plan that a call belongs to; empty: the decision's own.
    """

    id: str
    member: Member
    fallbacks: tuple[Call, ...] = ()
    nested: Plan | None = None
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls by role, in order.

    FUSION and FANOUT: the ``panel``, and for FUSION a ``judge``. PIPELINE: ``panel`` holds the steps. AGENTIC: planner,
    then executors. SINGLE (nested plans only): the chain. ``calls`` is all of them flat, in the order of their ids,
    ``chains`` the places in it of those that are tried one after the other.
    """

    shape: Shape
    panel: tuple[Call, ...]
    timeout_ms: int
    judge: Call | None = None
    calls: tuple[Call, ...] = field(init=False)
    chains: tuple[range, ...] = field(init=False)

    def __post_init__(self) -> None:
        judge = () if self.judge is None else (self.judge,)
        object.__setattr__(self, "calls", tuple(_flat((*self.panel, *judge))))
        lengths = _chained(self.shape, list(_lengths((*self.panel, *judge))))
        ends = accumulate(lengths)
        object.__setattr__(self, "chains", tuple(range(end - n, end) for n, end in zip(lengths, ends, strict=True)))

    @property
    def first(self) -> Sequence[int]:
        """Places in ``calls`` of the calls that begin at once."""
        if self.shape in (Shape.PIPELINE, Shape.AGENTIC, Shape.SINGLE):
            return (0,)
        heads = {call.id for call in _heads(self.panel)}
        return [place for place, call in enumerate(self.calls) if call.id in heads]

    def following(self, place: int) -> int | None:
        """The place that is tried when the call at this one fails: the next of its chain."""
        chain = next(chain for chain in self.chains if place in chain)
        return place + 1 if place + 1 in chain else None


FALLBACK = "."
NESTED = "/"


def _flat(calls: Sequence[Call]) -> Iterator[Call]:
    for call in calls:
        if call.nested is not None:
            yield from call.nested.calls
        else:
            yield call
            yield from call.fallbacks


def _lengths(calls: Sequence[Call]) -> Iterator[int]:
    """How many calls each chain has, in the order of the calls."""
    for call in calls:
        if call.nested is not None:
            yield from map(len, call.nested.chains)
        else:
            yield 1 + len(call.fallbacks)


def _chained(shape: Shape, lengths: Sequence[int]) -> Sequence[int]:
    """The lengths of the chains: targets that stand in for one another are one chain, and so are executors."""
    if shape is Shape.SINGLE:
        return (sum(lengths),)
    return (lengths[0], sum(lengths[1:])) if shape is Shape.AGENTIC else lengths


def _heads(calls: Sequence[Call]) -> Iterator[Call]:
    for call in calls:
        if call.nested is None:
            yield call
        else:
            for place in call.nested.first:
                yield call.nested.calls[place]


def call_of(call_id: str, members: Sequence[Member]) -> Call:
    """A call with its fallbacks."""
    fallbacks = tuple(Call(f"{call_id}{FALLBACK}{n}", member) for n, member in enumerate(members[1:], 1))
    return Call(call_id, members[0], fallbacks)
