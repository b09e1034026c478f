"""Plan shapes, each with what carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from executor.chain import Run
from executor.model import Plan, Shape
from executor.shapes.single import single

Carry = Callable[[Run, Plan], Awaitable[None]]

SHAPES: Mapping[Shape, Carry] = MappingProxyType({Shape.SINGLE: single})
