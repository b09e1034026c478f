"""A whole combo from plain values: no store, no protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from decision_service.kernel.model import Combo
from decision_service.policy.config import read_config
from decision_service.policy.fields import nearest, read_object, shape
from decision_service.policy.known import Known
from decision_service.policy.references import check_change, check_references
from decision_service.policy.steps import read_steps
from decision_service.policy.vocabulary import INTERNAL_STRATEGY, SEVERAL_CALLS, STRATEGIES
from service_kit.errors import ServiceError, invalid

MOST_NAME_CHARS = 128
RESERVED_PREFIXES = ("auto/", "combo/")
STEP_SPELLINGS = ("steps", "targets", "models")


def parse_combo(name: Any, strategy: Any, steps: Any, config: Any, known: Known) -> Combo:
    """The kernel's combo, or INVALID_FIELD with the exact field.

    ``steps`` is a list of texts and objects as section 14 of the specification has them, ``config`` an object or None.
    References are checked when ``known.combos`` is given. ``version`` of the result is 1.
    """
    combo = Combo(
        name=read_name(name),
        strategy=read_strategy(strategy),
        steps=read_steps([] if steps is None else steps, known),
        config=read_config(config, known)[0],
    )
    _check_fit(combo)
    if known.combos is not None:
        check_change({**known.combos, combo.name: combo}, combo.name, known.combo_ref_max_depth)
    return combo


def parse_combos(raws: Iterable[Mapping[str, Any]], known: Known) -> dict[str, Combo]:
    """Several combos that may refer to one another, each ``{name, strategy, steps|targets|models, config}``.

    Fields are named ``combos[0].steps[1].model``. Raises INVALID_FIELD.
    """
    combos: dict[str, Combo] = {}
    for index, raw in enumerate(raws):
        try:
            given = read_object(raw, "", ("id", "name", "strategy", "config", "description", *STEP_SPELLINGS))
            combo = parse_combo(
                given.get("name"), given.get("strategy"), one_spelling(given), given.get("config"), known
            )
            if combo.name in combos:
                raise invalid("name", shape(combo.name), "a name that no other combo has")
        except ServiceError as error:
            raise _within(f"combos[{index}]", error) from None
        combos[combo.name] = combo
    for index, name in enumerate(combos):
        try:
            check_references(combos, name, known.combo_ref_max_depth)
        except ServiceError as error:
            raise _within(f"combos[{index}]", error) from None
    return combos


def one_spelling(given: Mapping[str, Any]) -> Any:
    """The steps, from whichever one of ``steps``, ``targets`` and ``models`` is given."""
    spelt = [key for key in STEP_SPELLINGS if given.get(key) is not None]
    if len(spelt) > 1:
        raise invalid(
            spelt[1], f"steps a second time, beside {spelt[0]}", f"exactly one of {', '.join(STEP_SPELLINGS)}"
        )
    return given[spelt[0]] if spelt else None


def read_name(value: Any) -> str:
    """A combo's name: 1 to 128 printable characters, no blank at its ends, not beginning like a channel."""
    allowed = f"1 to {MOST_NAME_CHARS} printable characters without a blank at either end"
    if not isinstance(value, str) or not value or len(value) > MOST_NAME_CHARS:
        raise invalid("name", shape(value), allowed)
    if value != value.strip() or not value.isprintable():
        raise invalid("name", shape(value), allowed)
    if value.startswith(RESERVED_PREFIXES):
        raise invalid("name", shape(value), f"a name that does not begin with {' or '.join(RESERVED_PREFIXES)}")
    return value


def read_strategy(value: Any) -> str:
    """One of the public strategies."""
    if value == INTERNAL_STRATEGY:
        allowed = f"config.quotaShare: true on another strategy; {INTERNAL_STRATEGY} is internal"
        raise invalid("strategy", shape(value), allowed)
    if not isinstance(value, str) or value not in STRATEGIES:
        hint = f"; the nearest one is {nearest(value, STRATEGIES)!r}" if isinstance(value, str) and value else ""
        raise invalid("strategy", shape(value) + hint, ", ".join(STRATEGIES))
    return value


def _check_fit(combo: Combo) -> None:
    if not combo.steps and combo.strategy != "auto":
        raise invalid("steps", "no step", f"at least one step under strategy {combo.strategy} (only auto needs none)")
    if combo.config.quota_share and combo.strategy in SEVERAL_CALLS:
        raise invalid("config.quotaShare", "true", f"false under strategy {combo.strategy}")


def _within(path: str, error: ServiceError) -> ServiceError:
    if not error.field:
        return ServiceError(error.reason, path + error.message, field=path)
    field = f"{path}.{error.field}"
    return ServiceError(error.reason, error.message.replace(error.field, field, 1), field=field)
