"""FANOUT: a panel answers at once and every answer is shown; the primary's is the message.

The primary is the first of the panel that answered, in panel order. A stream is one choice: as each member ends, its
text under its name; after the last one the primary's text once more, as the message. A plain answer is the primary's,
with all members under ``omniroute.panel``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from executor import bodies
from executor.attempt import STREAM_HEADERS, Ended
from executor.chain import Link, Result, Run
from executor.clients import CLIENTS
from executor.delivery import send_pieces
from executor.dialects import chat
from executor.dialects.openai import ChunkReader
from executor.model import Head
from executor.plan import Plan
from executor.relay import Relay
from executor.shapes.panel import Answered, Member, convened

NO_ANSWER = 502
LIMIT_S = 120.0
UNLIMITED = 2**62  # bytes of an event: what becomes one has been within the limits of an answer


async def fanout(run: Run, plan: Plan) -> Result:
    def over(answers: Sequence[Answered], last: Ended) -> Link:
        return run.ending(answers[0].ended if answers else last)

    part = run.asking(bodies.plain(run.call.body))
    shown = _Shown(run) if run.call.stream else None
    async with convened(part, plan.chains, plan.retry, over, LIMIT_S) as panel:
        while panel.is_running:
            for member in await panel.heard():
                if shown is not None and member.answered is not None:
                    await shown.member(member.answered)
    if not panel.answers:
        return panel.nobody(NO_ANSWER)
    primary = panel.answers[0]
    return await shown.end(primary) if shown is not None else _with_panel(primary, panel.members)


class _Shown:
    """The stream for the client, made of whole texts."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._relay = Relay(ChunkReader(), CLIENTS[run.call.client].writer(run.call, as_it_is=False), UNLIMITED)
        self._begun = False

    async def member(self, answered: Answered) -> None:
        target = answered.target
        if not self._begun:
            self._begun = True
            tally = self._run.tally
            await self._run.sink(Head(200, STREAM_HEADERS, target, len(tally.ended), tally.cost_usd))
        name = f"{target.provider}/{target.model}"
        await self._say(f"**{name}**\n\n{answered.text}\n\n", {"omniroute": {"member": name}})

    async def end(self, primary: Answered) -> Ended:
        """The primary's answer, of which only the end is still to be sent."""
        await self._say(primary.text, {})
        ended = primary.ended
        usage, finish_reason = ended.attempt.usage, ended.attempt.finish_reason or "stop"
        await self._feed({}, finish_reason, {})
        tail = self._relay.tail(usage, self._run.tally.cost_usd)
        return Ended(replace(ended.attempt, committed=True), tail=tail)

    async def _say(self, text: str, extra: dict[str, Any]) -> None:
        await self._feed({"role": "assistant", "content": text}, None, extra)

    async def _feed(self, delta: dict[str, Any], finish_reason: str | None, extra: dict[str, Any]) -> None:
        call = self._run.call
        chunk = {
            "id": f"chatcmpl-{call.decision_id}",
            "object": chat.CHUNK,
            "created": call.created,
            "model": chat.word(call.body.get("model")),
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
            **extra,
        }
        await send_pieces(self._run, self._relay.feed(b"data: " + orjson.dumps(chunk) + b"\n\n"))


def _with_panel(primary: Answered, members: Sequence[Member]) -> Ended:
    ended = primary.ended
    assert ended.answer is not None
    payload = orjson.loads(ended.answer.body)
    payload["omniroute"] = {"panel": [_row(member, primary) for member in members]}
    return replace(ended, answer=replace(ended.answer, body=orjson.dumps(payload), own=b""))


def _row(member: Member, primary: Answered) -> dict[str, Any]:
    row: dict[str, Any] = {"provider": member.target.provider, "model": member.target.model}
    answered = member.answered
    if answered is None:
        return {**row, "ok": False, "error": member.reason.text}
    usage = chat.usage_told(answered.ended.attempt.usage)
    return {**row, "ok": True, "primary": answered is primary, "content": answered.text, "usage": usage}
