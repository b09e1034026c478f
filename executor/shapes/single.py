"""SINGLE: one call, the targets in order until one answers."""

from __future__ import annotations

from executor.chain import Run, walk
from executor.clients import CLIENTS
from executor.model import Chunk, Head, Plan
from executor.problems import failed

PLAIN_HEADERS = (("content-type", "application/json"),)
PIECE_BYTES = 256 * 1024


async def single(run: Run, plan: Plan) -> None:
    """The outcome of an attempt goes out before the end of its answer: whoever has the end knows that it was served."""
    walked = await walk(run, plan.targets, plan.retry)
    last, client = walked.last, CLIENTS[run.call.client]
    if last is not None and last.attempt.committed:
        await run.sink(Chunk(last.tail))
    elif last is not None and last.answer is not None:
        cost_usd = sum(attempt.cost_usd for attempt in run.attempts)
        await run.sink(Head(200, PLAIN_HEADERS, last.attempt.target, len(run.attempts), cost_usd))
        await _send_pieces(run, client.answer(run.call, last.answer))
    else:
        problem = failed(walked.attempts, walked.why)
        await run.sink(Head(problem.status, problem.headers, None, len(run.attempts), 0.0, problem.code))
        await _send_pieces(run, client.problem(problem))
    await run.sink(run.done(last.attempt if last else None))


async def _send_pieces(run: Run, body: bytes) -> None:
    for start in range(0, len(body), PIECE_BYTES):
        await run.sink(Chunk(body[start : start + PIECE_BYTES]))
