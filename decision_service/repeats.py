"""The same request asked again within a minute gets the same decision."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from decision_service.kernel.model import MINUTE
from omniroute.decision.v1 import decision_pb2 as pb
from service_kit.errors import invalid

KEPT = 50_000
Key = tuple[str, str, str]
# A decision that is made, or one that waits for something.
Answer = pb.DecideResponse | asyncio.Task[pb.DecideResponse]


@dataclass(frozen=True, slots=True)
class _Answered:
    digest: bytes
    answer: Answer
    until: int


class Repeats:
    """Answers by (caller, key, request id), for 60 s."""

    def __init__(self) -> None:
        self._answers: OrderedDict[Key, _Answered] = OrderedDict()

    def find(self, caller: str, request: pb.DecideRequest, now: int) -> Answer | None:
        """The answer that the same request got, or gets; raises INVALID_FIELD for other content under its id."""
        answered = self._answers.get((caller, request.api_key_id, request.request_id))
        if answered is None or now >= answered.until:
            return None
        if answered.digest != _digest(request):
            raise invalid("request_id", "the id of another request of the last 60 s", "one id per request")
        answer = answered.answer
        if isinstance(answer, pb.DecideResponse) or not answer.done():
            return answer
        return None if answer.cancelled() or answer.exception() else answer.result()

    def keep(self, caller: str, request: pb.DecideRequest, answer: Answer, now: int) -> None:
        key = (caller, request.api_key_id, request.request_id)
        self._answers.pop(key, None)
        self._answers[key] = _Answered(_digest(request), answer, now + MINUTE)
        while len(self._answers) > KEPT or next(iter(self._answers.values())).until <= now:
            self._answers.popitem(last=False)


def _digest(request: pb.DecideRequest) -> bytes:
    return hashlib.blake2b(request.SerializeToString(deterministic=True), digest_size=16).digest()
