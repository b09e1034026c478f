"""The same request asked again within a minute gets the same decision."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from decision_service.kernel.model import MINUTE
from omniroute.decision.v1 import decision_pb2 as pb
from service_kit.errors import invalid

KEPT = 50_000
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _Answered:
    digest: bytes
    response: pb.DecideResponse
    until: int


class Repeats:
    """Answers by (caller, key, request id), for 60 s."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Key, _Answered] = OrderedDict()

    def find(self, caller: str, request: pb.DecideRequest, now: int) -> pb.DecideResponse | None:
        """The answer that the same request got; raises INVALID_FIELD for other content under its id."""
        answered = self._answers.get((caller, request.api_key_id, request.request_id))
        if answered is None or now >= answered.until:
            return None
        if answered.digest != _digest(request):
            raise invalid("request_id", "the id of another request of the last 60 s", "one id per request")
        return answered.response

    def keep(self, caller: str, request: pb.DecideRequest, response: pb.DecideResponse, now: int) -> None:
        key = (caller, request.api_key_id, request.request_id)
        self._answers.pop(key, None)
        self._answers[key] = _Answered(_digest(request), response, now + MINUTE)
        while len(self._answers) > KEPT or next(iter(self._answers.values())).until <= now:
            self._answers.popitem(last=False)


def _digest(request: pb.DecideRequest) -> bytes:
    return hashlib.blake2b(request.SerializeToString(deterministic=True), digest_size=16).digest()
