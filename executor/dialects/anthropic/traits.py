"""What Claude models take, by their version, where it decides how a request must be written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Thinking(Enum):
    """How a model is told to think."""

    NONE = "none"
    BUDGET = "budget"  # a number of tokens
    ADAPTIVE = "adaptive"  # an effort by name


class Sampling(Enum):
    """Which of temperature and top_p a model takes."""

    BOTH = "both"
    ONE = "one"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class Traits:
    """``max_output`` is in tokens. ``schema``: the model can be held to a JSON schema."""

    max_output: int
    thinking: Thinking
    sampling: Sampling
    schema: bool
    efforts: frozenset[str] = frozenset({"low", "medium", "high"})


_MORE_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})
_MODERN = Traits(64_000, Thinking.ADAPTIVE, Sampling.NEITHER, schema=True, efforts=_MORE_EFFORTS)

# Since which version; the last row that a model reaches is its own.
BY_VERSION: tuple[tuple[tuple[int, int], Traits], ...] = (
    ((0, 0), Traits(4_096, Thinking.NONE, Sampling.BOTH, schema=False)),
    ((3, 5), Traits(8_192, Thinking.NONE, Sampling.BOTH, schema=False)),
    ((3, 7), Traits(64_000, Thinking.BUDGET, Sampling.BOTH, schema=False)),
    ((4, 0), Traits(32_000, Thinking.BUDGET, Sampling.BOTH, schema=False)),
    ((4, 1), Traits(32_000, Thinking.BUDGET, Sampling.ONE, schema=True)),
    ((4, 5), Traits(64_000, Thinking.BUDGET, Sampling.ONE, schema=True)),
    ((4, 6), Traits(64_000, Thinking.ADAPTIVE, Sampling.ONE, schema=True)),
    ((4, 7), _MODERN),
)
# Other vendors that speak this dialect.
OTHER = Traits(16_384, Thinking.BUDGET, Sampling.BOTH, schema=False)

_VERSION = re.compile(r"claude-(?:[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)")


def traits_of(model: str) -> Traits:
    """``model`` is the vendor's name for it; a Claude without a version is taken for a new one."""
    name = model.lower()
    if "claude" not in name:
        return OTHER
    match = _VERSION.search(name)
    if match is None:
        return _MODERN
    version = (int(match[1]), int(match[2] or 0))
    return next(traits for since, traits in reversed(BY_VERSION) if version >= since)
