"""The end of an execution on its way to the client."""

from __future__ import annotations

from executor import answers
from executor.attempt import STREAM_HEADERS, Ended
from executor.chain import Result, Run
from executor.clients import CLIENTS
from executor.dialects.frames import Answer
from executor.model import Chunk, Done, Head
from executor.problems import Problem

PLAIN_HEADERS = (("content-type", "application/json"),)
PIECE_BYTES = 256 * 1024


async def deliver(run: Run, result: Result, *, closing: bool) -> None:
    """Send what is still to be sent of an answer or a problem; ``closing``: the end of the execution follows at once.

    The outcome of an attempt goes out before the end of its answer: whoever has the end knows that it was served.
    """
    if isinstance(result, Problem):
        await _problem(run, result, closing=closing)
    elif result.attempt.committed:
        await run.sink(Chunk(result.tail, closing))
    elif result.answer is not None:
        await _answer(run, result, result.answer, closing=closing)


def done(run: Run, result: Result, besides_usd: float = 0.0) -> Done:
    """The closing event: usage of the attempt that answered, cost and number of all."""
    cost_usd, attempts = run.tally.cost_usd + besides_usd, len(run.tally.ended)
    if isinstance(result, Problem):
        return Done(cost_usd=cost_usd, attempts=attempts)
    return Done(result.attempt.usage, cost_usd, attempts)


async def _problem(run: Run, problem: Problem, *, closing: bool) -> None:
    tally = run.tally
    await run.sink(Head(problem.status, problem.headers, None, len(tally.ended), tally.cost_usd, problem.code))
    await send_pieces(run, CLIENTS[run.call.client].problem(problem), closing=closing)


async def _answer(run: Run, ended: Ended, answer: Answer, *, closing: bool) -> None:
    """A whole answer in the form that the client asked for."""
    tally, call = run.tally, run.call
    headers = STREAM_HEADERS if call.stream else PLAIN_HEADERS
    await run.sink(Head(200, headers, ended.attempt.target, len(tally.ended), tally.cost_usd))
    if not call.stream:
        await send_pieces(run, CLIENTS[call.client].answer(call, answer), closing=closing)
        return
    said = answers.streamed(call, answer, ended.attempt.usage, tally.cost_usd)
    await send_pieces(run, said, closing=closing)


async def send_pieces(run: Run, data: bytes, *, closing: bool = False) -> None:
    """Bytes of an answer, in messages of a size that the wire takes."""
    for start in range(0, len(data), PIECE_BYTES):
        end = start + PIECE_BYTES
        await run.sink(Chunk(data[start:end], closing and end >= len(data)))
