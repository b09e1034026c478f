"""The names that the kernel and the executor each spell for themselves are those of the contract."""

from __future__ import annotations

from enum import Enum

import pytest
from google.protobuf.descriptor import EnumDescriptor

from decision_service.kernel import model as kernel
from executor import model as executor
from omniroute.decision.v1 import decision_pb2 as pb

OUTCOMES, SHAPES = pb.OutcomeClass.DESCRIPTOR, pb.Plan.Shape.DESCRIPTOR


@pytest.mark.parametrize(
    ("names", "contract", "prefix"),
    [
        (kernel.OutcomeClass, OUTCOMES, "OUTCOME_CLASS_"),
        (executor.OutcomeClass, OUTCOMES, "OUTCOME_CLASS_"),
        (kernel.Shape, SHAPES, "SHAPE_"),
        (executor.Shape, SHAPES, "SHAPE_"),
    ],
)
def test_names_are_those_of_the_contract(names: type[Enum], contract: EnumDescriptor, prefix: str) -> None:
    assert {f"{prefix}{name}" for name in names.__members__} | {f"{prefix}UNSPECIFIED"} == {
        value.name for value in contract.values
    }
