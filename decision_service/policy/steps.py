"""The steps of a combo, as they are written and as the kernel takes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from decision_service.kernel.model import Step
from decision_service.policy.fields import choice, model_name, number, read_object, shape, text, whole
from decision_service.policy.known import Known
from service_kit.errors import invalid

MOST_STEPS = 256
KINDS = ("model", "combo-ref")
KEYS = ("id", "stepId", "kind", "model", "connectionId", "weight", "prompt", "label", "comboName", "maxConcurrent")
NOT_OF_KIND: Mapping[str, tuple[str, ...]] = {"model": ("comboName",), "combo-ref": ("model", "connectionId")}

Identity = tuple[str, str, str]


def read_steps(raw: Any, known: Known) -> tuple[Step, ...]:
    """Steps with their ids: given, else the stored step's, else made. Raises INVALID_FIELD."""
    if not isinstance(raw, list | tuple) or len(raw) > MOST_STEPS:
        raise invalid("steps", shape(raw), f"a list of at most {MOST_STEPS} steps")
    steps = [_read_step(item, f"steps[{index}]", known) for index, item in enumerate(raw)]
    return _with_ids(steps, known.stored.steps if known.stored else ())


def write_step(step: Step) -> dict[str, Any]:
    """The step as it is stored and shown; ``read_steps`` makes the same step of it."""
    shown: dict[str, Any] = {"id": step.id, "kind": "combo-ref" if step.combo else "model"}
    if step.combo:
        shown["comboName"] = step.combo
    else:
        shown["model"] = f"{step.provider}/{step.model}"
    optional = {"connectionId": step.connection, "weight": step.weight, "prompt": step.prompt, "label": step.label}
    shown |= {key: value for key, value in optional.items() if value}
    return shown if step.max_concurrent is None else shown | {"maxConcurrent": step.max_concurrent}


def _read_step(raw: Any, path: str, known: Known) -> Step:
    if isinstance(raw, str):
        raw = {"model": raw}
    given = {key: value for key, value in read_object(raw, path, KEYS).items() if value is not None}
    kind = choice(KINDS)(given.get("kind") or _kind(given), f"{path}.kind", known)
    for key in NOT_OF_KIND[kind]:
        if given.get(key):
            raise invalid(f"{path}.{key}", shape(given[key]), f"nothing, in a step of kind {kind}")
    return replace(_named(kind, given, path, known), **_common(given, path, known))


def _kind(given: Mapping[str, Any]) -> str:
    return "combo-ref" if given.get("comboName") and not given.get("model") else "model"


def _named(kind: str, given: Mapping[str, Any], path: str, known: Known) -> Step:
    if kind == "combo-ref":
        return Step(id="", combo=text(128, least=1)(given.get("comboName"), f"{path}.comboName", known))
    provider, _, model = model_name(given.get("model"), f"{path}.model", known).partition("/")
    connection = text(128)(given.get("connectionId", ""), f"{path}.connectionId", known)
    if connection and known.connections is not None and (provider, connection) not in known.connections:
        raise invalid(f"{path}.connectionId", shape(connection), f"the id of a connection of provider {provider!r}")
    return Step(id="", provider=provider, model=model, connection=connection or None)


def _common(given: Mapping[str, Any], path: str, known: Known) -> dict[str, Any]:
    limit = given.get("maxConcurrent")
    step_id = given.get("id") or given.get("stepId") or ""
    return {
        "id": text(128)(step_id, f"{path}.id", known),
        "weight": number(0)(given.get("weight", 0), f"{path}.weight", known),
        "prompt": text(100_000)(given.get("prompt", ""), f"{path}.prompt", known),
        "label": text(256)(given.get("label", ""), f"{path}.label", known),
        "max_concurrent": None if limit is None else whole(0)(limit, f"{path}.maxConcurrent", known),
    }


def _identities(steps: Iterable[Step]) -> list[tuple[Identity, int]]:
    """What each step is, with how many alike stand before it."""
    seen: Counter[Identity] = Counter()
    found = []
    for step in steps:
        identity = (f"{step.provider}/{step.model}", step.connection or "", step.combo)
        found.append((identity, seen[identity]))
        seen[identity] += 1
    return found


def _with_ids(steps: Sequence[Step], stored: Sequence[Step]) -> tuple[Step, ...]:
    taken: dict[str, int] = {}
    for index, step in enumerate(steps):
        if step.id in taken:
            raise invalid(
                f"steps[{index}].id", shape(step.id), f"an id of its own; steps[{taken[step.id]}] has this one"
            )
        if step.id:
            taken[step.id] = index
    kept = {identity: step.id for identity, step in zip(_identities(stored), stored, strict=True)}
    used = set(taken)
    done = []
    for step, identity in zip(steps, _identities(steps), strict=True):
        if not step.id:
            old = kept.get(identity, "")
            step = replace(step, id=old if old and old not in used else _made_id(identity, used))  # noqa: PLW2901
        used.add(step.id)
        done.append(step)
    return tuple(done)


def _made_id(identity: tuple[Identity, int], used: set[str]) -> str:
    """Of what the step is, so that the same steps get the same ids wherever they are read."""
    salt = 0
    while True:
        digest = sha256(repr((identity, salt)).encode()).hexdigest()
        if f"step-{digest[:12]}" not in used:
            return f"step-{digest[:12]}"
        salt += 1
