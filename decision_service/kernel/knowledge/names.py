"""One model, many spellings: what two model ids have to share to mean the same model."""

from __future__ import annotations

EFFORTS = ("-minimal", "-low", "-medium", "-high", "-xhigh")
"""Ends under which ratings list one model once for each reasoning effort."""

WITH_EFFORTS = ("gpt-", "o1", "o3", "o4")
STATUS_ENDS = ("-free", "-latest", "-preview")
LONGEST = 200


def hyphenated(model: str) -> str:
    """A model id in lower case, its letters and digits parted by single hyphens."""
    return "-".join("".join(c if c.isalnum() else " " for c in model[:LONGEST].lower()).split())


def same_model(model: str) -> str:
    """What is left of a model id when everything that does not make another model of it is taken away.

    Taken away: the vendor before the last slash, a tag after a colon unless it is a size, what follows an at sign or
    stands in brackets, a date, and words such as ``-latest``. ``anthropic/claude-opus-4.5-20251101:free`` reads
    ``claude-opus-4-5``, ``gpt-oss:20b`` reads ``gpt-oss-20b``.
    """
    name = model[:LONGEST].lower().rpartition("/")[2]
    for mark in ("@", " ("):
        name = name.partition(mark)[0]
    bare, _, tag = name.partition(":")
    name = hyphenated(name if tag[:1].isdigit() else bare)
    shorter = _shorter(name)
    while shorter != name:
        name, shorter = shorter, _shorter(shorter)
    return name


def _shorter(name: str) -> str:
    for end in STATUS_ENDS:
        name = name.removesuffix(end)
    parts = name.split("-")
    if len(parts) > 1 and _is_date(parts[-1]):
        return "-".join(parts[:-1])
    if len(parts) > 3 and _is_date("".join(parts[-3:])):
        return "-".join(parts[:-3])
    return name


def _is_date(digits: str) -> bool:
    return len(digits) == 8 and digits.isdigit() and digits.startswith("20")


def without_effort(name: str) -> str:
    """The model of a rating that is for one reasoning effort."""
    if name.startswith(WITH_EFFORTS):
        for end in EFFORTS:
            name = name.removesuffix(end)
    return name
