"""References between combos: nothing dangles, no circle, not too deep, and only to what can be laid flat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from decision_service.kernel.model import Combo
from decision_service.policy.fields import nearest
from decision_service.policy.vocabulary import SEVERAL_CALLS
from service_kit.errors import ServiceError, invalid


def check_change(combos: Mapping[str, Combo], changed: str, max_depth: int) -> None:
    """Refuse a changed combo that cannot be laid flat, or that makes another one so. Raises INVALID_FIELD."""
    walk = _Walk(combos, max_depth)
    walk.height(changed)
    for name in combos:
        try:
            walk.height(name)
        except ServiceError as error:
            got = f"a change that breaks combo {name!r} ({error.message})"
            raise invalid("steps", got, "a change that keeps the combos that refer to this one sound") from None


def check_references(combos: Mapping[str, Combo], name: str, max_depth: int) -> None:
    """Refuse a combo that cannot be laid flat, naming its own step. Depth counts references in a row."""
    _Walk(combos, max_depth).height(name)


@dataclass(frozen=True, slots=True)
class _Walk:
    """A walk down the references; ``heights`` remembers the combos that were found sound."""

    combos: Mapping[str, Combo]
    max_depth: int
    heights: dict[str, int] = field(default_factory=dict)

    def height(self, name: str, trail: tuple[str, ...] = (), began_at: str = "") -> int:
        """References in a row below a combo. ``began_at`` is the field of the first combo that led here."""
        if name in self.heights:
            return self.heights[name]
        height, combo, trail = 0, self.combos[name], (*trail, name)
        for index, step in enumerate(combo.steps):
            if not step.combo:
                continue
            at = began_at or f"steps[{index}].comboName"
            self._check_target(combo, step.combo, at)
            if step.combo in trail:
                raise invalid(at, f"a circle: {' -> '.join((*trail, step.combo))}", "a combo that does not lead back")
            height = max(height, 1 + self.height(step.combo, trail, at))
            if height > self.max_depth:
                got = f"more than {self.max_depth} references in a row"
                raise invalid(at, got, f"at most {self.max_depth} (comboRefMaxDepth)")
        self.heights[name] = height
        return height

    def _check_target(self, combo: Combo, target: str, at: str) -> None:
        inner = self.combos.get(target)
        if inner is None:
            others = [name for name in self.combos if name != combo.name]
            hint = f"; the nearest one is {nearest(target, others)!r}" if others else ""
            raise invalid(at, f"the unknown combo {target!r}", f"the name of a stored combo{hint}")
        if combo.strategy == "fusion":
            return
        if inner.strategy in SEVERAL_CALLS or (inner.strategy == "auto" and not inner.steps):
            what = f"a {inner.strategy} combo" if inner.steps else "an auto combo without steps"
            raise invalid(at, f"{target!r}, {what}", "one that can be laid flat (fusion takes others as members)")
