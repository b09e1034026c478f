"""Plan shapes, each with what carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from executor.chain import Carry, Result, Run
from executor.model import Shape
from executor.plan import Plan
from executor.shapes.agentic import agentic
from executor.shapes.fanout import fanout
from executor.shapes.fusion import fusion
from executor.shapes.pipeline import pipeline
from executor.shapes.single import single

SHAPES: Mapping[Shape, Carry] = MappingProxyType(
    {
        Shape.SINGLE: single,
        Shape.FUSION: fusion,
        Shape.PIPELINE: pipeline,
        Shape.AGENTIC: agentic,
        Shape.FANOUT: fanout,
    }
)


async def carry(run: Run, plan: Plan) -> Result:
    """What the plan comes to; the outcomes of its attempts have gone out by then, and what a stream has said."""
    return await SHAPES[plan.shape](run, plan)
