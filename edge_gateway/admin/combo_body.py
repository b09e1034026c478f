"""The ways in which the steps of a combo may be sent."""

from __future__ import annotations

from typing import Any

from edge_gateway.json_body import Json, shape
from service_kit.errors import invalid

NAMES = ("steps", "targets", "models")


def sent_as(body: Json) -> str:
    """The one name under which steps are sent, empty for none. Raises INVALID_FIELD for several."""
    given = [name for name in NAMES if name in body]
    if len(given) > 1:
        raise invalid(given[1], f"steps beside those of {given[0]}", f"exactly one of {', '.join(NAMES)}")
    return given[0] if given else ""


def with_steps(body: Json, *, whole: bool) -> Json:
    """The body with its steps as ``steps``, each an object. ``whole``: they must be there."""
    name = sent_as(body)
    if not name:
        if whole:
            raise invalid("steps", "nothing", f"exactly one of {', '.join(NAMES)}")
        return body
    sent = body[name]
    if not isinstance(sent, list):
        raise invalid(name, shape(sent), "an array of steps")
    rest = {key: value for key, value in body.items() if key != name}
    return rest | {"steps": [_step(step, f"{name}[{index}]") for index, step in enumerate(sent)]}


def _step(step: Any, place: str) -> Json:
    if isinstance(step, str):
        return {"model": step}
    if not isinstance(step, dict):
        raise invalid(place, shape(step), "provider/model, or an object")
    if "id" not in step:
        return step
    if "stepId" in step:
        raise invalid(f"{place}.id", "an id beside stepId", "one of id, stepId")
    return {("stepId" if key == "id" else key): value for key, value in step.items()}
