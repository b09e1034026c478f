"""One call to one target, from the credential to the last byte: the only place that waits for an upstream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from executor import estimates, failures, hints, outgoing, telemetry
from executor.clients import CLIENTS
from executor.credentials import Away, Credentials, Unusable
from executor.dialects import DIALECTS, chat
from executor.dialects.frames import Answer, Dialect, FrameReader, NoAnswer, Prepared, Untranslatable
from executor.dialects.openai import ChunkReader
from executor.drain import Drain
from executor.faults import fault_of_body
from executor.gate import Gates, NoTurn
from executor.model import Attempt, Call, Chunk, Failure, Head, OutcomeClass, QuotaWindow, Sink, Usage
from executor.relay import Relay, State
from executor.timing import Slot, called_off, out_of_time
from executor.transport.port import Transport, TransportFault, UpstreamResponse
from service_kit.clock import Clock

C = OutcomeClass

MAX_ERROR_BYTES = 64 * 1024
ERROR_BODY_S = 5.0
ERROR_BODY_MARGIN_S = 0.05  # before the attempt's own end, which would make a time-out of it
STREAM_HEADERS = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
PLAIN_STARTS = (b"{", b"[", b"<")  # no event stream begins with one of these, whatever its content type says


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes of a whole answer and of one event, and seconds between two events of a stream."""

    max_answer_bytes: int = 64 * 2**20
    max_event_bytes: int = 8 * 2**20
    stall_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Means:
    """What an attempt needs of the process. ``wall`` gives Unix seconds."""

    transport: Transport
    credentials: Credentials
    drain: Drain
    wall: Clock
    gates: Gates
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Ended:
    """``answer`` is a whole answer that is still to be sent, ``tail`` the end of a stream that is."""

    attempt: Attempt
    answer: Answer | None = None
    tail: bytes = b""

    @property
    def withheld(self) -> bool:
        """A content filter kept the answer back; that goes to the client as it is."""
        return self.answer is not None and self.answer.refused


async def attempt(means: Means, call: Call, slot: Slot, sink: Sink) -> Ended:
    """Call the target. A stream goes to ``sink`` from its first content on, all but its tail; a plain answer stays."""
    if slot.target.dialect not in DIALECTS:
        unspoken = f"dialect {slot.target.dialect} is not spoken here"
        return uncalled(means, slot, failures.failure(C.LOCAL_CANCELLED, unspoken, client_status=502))
    if means.drain.ended:
        return uncalled(means, slot, called_off(means.drain.why))
    visit = _Visit(means, call, slot)
    try:
        failure = await visit.until_content()
        if visit.relay.is_committed:
            cost_usd = slot.spent_usd + slot.target.estimated_cost_usd
            await sink(Head(200, STREAM_HEADERS, slot.target, slot.number, cost_usd))
            failure = await visit.pass_on(sink)
    except asyncio.CancelledError:
        telemetry.attempt_cancelled(slot.target.provider)
        raise
    finally:
        await visit.leave()
    ended = visit.ended(failure)
    telemetry.attempt_ended(ended.attempt)
    return ended


class _Visit:
    """What is known of the call while it lasts."""

    def __init__(self, means: Means, call: Call, slot: Slot) -> None:
        self._means = means
        self._call = call
        self._slot = slot
        self._dialect: Dialect = DIALECTS[slot.target.dialect]
        self.relay = self._relay(self._dialect.reader(call), as_it_is=call.own_body(slot.target.dialect) is not None)
        self._clock = asyncio.get_running_loop().time
        self._started = self._quiet_since = self._clock()
        self._secret = ""
        self._waits = False  # for what comes before the call
        self._end_turn: Callable[[], None] | None = None
        self._prepared = Prepared("", b"")
        self._response: UpstreamResponse | None = None
        self._is_read = False  # to its end, so that the connection can serve again
        self._status = 0
        self._wait_ms: int | None = None
        self._quota: tuple[QuotaWindow, ...] = ()
        self._ttft_ms = 0
        self._answer: Answer | None = None
        self._out = b""  # for the client, not sent yet

    async def until_content(self) -> Failure | None:
        """Up to a whole plain answer, or to the first content of a stream."""
        try:
            async with self._means.drain.scope(self._slot.until):
                await self._get_ready()
            async with self._means.drain.scope(self._slot.until):
                return await self._exchange()
        except TimeoutError:
            return self._out_of_time()
        except TransportFault as fault:
            return failures.from_transport(fault, self._status)
        except Untranslatable as error:
            return failures.failure(C.INVALID_REQUEST, str(error))
        except Unusable as error:
            return failures.failure(C.AUTH_FAILED, str(error))
        except (Away, NoTurn) as error:
            return failures.failure(C.LOCAL_CANCELLED, str(error))

    async def pass_on(self, sink: Sink) -> Failure | None:
        """From the first content on; what came with the end goes out with it.

        The time that the client takes to read is not the upstream's.
        """
        while self.relay.is_open:
            await self._send_on(sink)
            try:
                data = await self._read(self._slot.deadline)
            except TimeoutError:
                return self._out_of_time()
            except TransportFault as fault:
                if not self.relay.finish_reason:
                    return failures.failure(C.INTERRUPTED, str(fault), http_status=self._status)
                data = b""  # the answer was whole; only the connection broke
            self._out = self._relayed(data)
        if self.relay.no_answer is None:
            self._is_read = True
            return None
        return replace(self._failure_of(self.relay.no_answer), outcome_class=C.INTERRUPTED, model_scoped=False)

    async def leave(self) -> None:
        try:
            if self._response is not None and self._is_read:
                self._response.finish()
            elif self._response is not None:
                await self._response.close()
        finally:
            if self._end_turn is not None:
                self._end_turn()

    def ended(self, failure: Failure | None) -> Ended:
        relay, answer = self.relay, self._answer
        usage = self._usage()
        record = Attempt(
            number=self._slot.number,
            place=self._slot.place,
            target=self._slot.target,
            outcome_class=self._outcome_class(failure),
            latency_ms=self._elapsed_ms(),
            ended_at=self._means.wall(),
            http_status=self._status,
            ttft_ms=self._ttft_ms,
            usage=usage,
            cost_usd=usage.cost_usd(self._slot.target.prices),
            finish_reason=answer.finish_reason if answer else relay.finish_reason,
            quota=self._quota,
            committed=relay.is_committed,
            failure=failure,
        )
        if not relay.is_committed:
            return Ended(record, answer)
        if failure is not None:
            return Ended(record, tail=self._out + relay.error(failure))
        return Ended(record, tail=self._out + relay.tail(usage, self._slot.spent_usd + record.cost_usd))

    async def _get_ready(self) -> None:
        """All that comes before the call: its request, the credential, the turn. None of it is the target's doing."""
        self._prepared = self._prepare()
        self._waits = True
        target, credentials = self._slot.target, self._means.credentials
        self._secret = await credentials.secret(target.connection_id)
        await self._take_turn(credentials.most_at_once(target.connection_id))

    async def _exchange(self) -> Failure | None:
        response = await self._ask()
        now = self._means.wall()
        self._status = response.status
        self._quota = hints.quota_windows(response.headers, now)
        if not 200 <= response.status < 300:
            self._wait_ms = hints.answered_wait_ms(response.status, response.headers, self._quota, now)
            fault = fault_of_body(await self._error_body(response))
            return self._failure_of(NoAnswer(C.UPSTREAM_ERROR, "", fault))
        opening = await _opening(response)
        if self._call.stream and opening.strip() and not opening.lstrip().startswith(PLAIN_STARTS):
            return await self._hold(opening)
        return await self._read_whole(response, opening)

    def _relay(self, reader: FrameReader, *, as_it_is: bool) -> Relay:
        writer = CLIENTS[self._call.client].writer(self._call, as_it_is=as_it_is)
        return Relay(reader, writer, self._means.limits.max_event_bytes)

    def _prepare(self) -> Prepared:
        """Raises Untranslatable."""
        call, target = self._call, self._slot.target
        if call.spoken is not None and call.spoken.lost and call.own_body(target.dialect) is None:
            raise Untranslatable("; ".join(call.spoken.lost))
        return self._dialect.prepare(call, target)

    async def _ask(self) -> UpstreamResponse:
        """Send the request; with a credential that is refused, once more with a renewed one."""
        target, credentials, transport = self._slot.target, self._means.credentials, self._means.transport
        response = await transport.send(outgoing.request(self._call, target, self._prepared, self._secret))
        self._response = response
        if response.status != 401 or not self._secret:
            return response
        renewed = await credentials.renewed(target.connection_id, self._secret)
        if renewed is None:
            return response
        self._response = None
        await response.close()
        self._secret = renewed
        self._response = await transport.send(outgoing.request(self._call, target, self._prepared, renewed))
        return self._response

    async def _take_turn(self, most: int) -> None:
        """Raises NoTurn. The wait is no time of the target's: the call has what it would have if it began now."""
        target = self._slot.target
        self._end_turn = await self._means.gates.enter(target.connection_id, most, target.base_url)
        self._waits = False
        self._started = self._quiet_since = self._clock()
        self._slot = self._slot.begun(self._started)

    async def _error_body(self, response: UpstreamResponse) -> bytes:
        """Its beginning. A body that does not come takes nothing from what the status says."""
        body = b""
        until = min(self._slot.until - ERROR_BODY_MARGIN_S, self._clock() + ERROR_BODY_S)
        try:
            async with self._means.drain.scope(until):
                while len(body) < MAX_ERROR_BYTES:
                    data = await response.read()
                    body += data
                    if not data:
                        self._is_read = True
                        break
        except (TimeoutError, TransportFault):
            return body
        return body

    async def _read_whole(self, response: UpstreamResponse, opening: bytes) -> Failure | None:
        most = self._means.limits.max_answer_bytes
        pieces, size = [opening], len(opening)
        while data := await response.read():
            pieces.append(data)
            size += len(data)
            if size > most:
                return self._failure_of(NoAnswer(C.MALFORMED, f"the upstream's answer is larger than {most} bytes"))
        self._is_read = True
        result = self._dialect.read_answer(self._call, b"".join(pieces))
        if isinstance(result, NoAnswer):
            return self._failure_of(result)
        if not self._call.stream:
            self._answer = result
            return None
        self.relay = self._relay(ChunkReader(), as_it_is=False)
        return await self._hold(chat.as_events(result.body))

    async def _hold(self, opening: bytes) -> Failure | None:
        """Feed the relay until the stream has content or fails."""
        self._out = self._relayed(opening)
        while self.relay.state is State.HOLDING:
            self._out = self._relayed(await self._read(self._slot.until))
        if self.relay.is_committed:
            self._ttft_ms = max(1, self._elapsed_ms())
            return None
        assert self.relay.no_answer is not None
        return self._failure_of(self.relay.no_answer)

    async def _read(self, until: float) -> bytes:
        """The stream's next bytes; once it has begun, an event has to come within the stall limit."""
        assert self._response is not None
        if self.relay.progress:
            until = min(until, self._quiet_since + self._means.limits.stall_s)
        async with self._means.drain.scope(until):
            return await self._response.read()

    async def _send_on(self, sink: Sink) -> None:
        data, self._out = self._out, b""
        if data:
            await sink(Chunk(data))
            self._quiet_since = self._clock()

    def _relayed(self, data: bytes) -> bytes:
        before = self.relay.progress
        out = self.relay.feed(data) if data else self.relay.close()
        telemetry.STREAM_BYTES.inc(len(out))
        if self.relay.progress != before:
            self._quiet_since = self._clock()
        return out

    def _failure_of(self, no_answer: NoAnswer) -> Failure:
        if no_answer.fault is None:
            return failures.failure(no_answer.outcome_class, no_answer.message, http_status=self._status)
        return failures.from_fault(
            no_answer.fault,
            status=self._status,
            model=self._slot.target.model,
            secret=self._secret,
            wait_ms=self._wait_ms,
            added=self._prepared.added,
            translated=self._prepared.translated,
        )

    def _out_of_time(self) -> Failure:
        ended, committed = self._means.drain.why, self.relay.is_committed
        if self._waits and not ended:
            return failures.failure(C.LOCAL_CANCELLED, "the call's time was over before its turn came")
        return out_of_time(self._slot, self._clock(), self._status, ended=ended, committed=committed)

    def _outcome_class(self, failure: Failure | None) -> OutcomeClass:
        if failure is not None:
            return failure.outcome_class
        refused = self._answer.refused if self._answer else self.relay.refused
        return C.CONTENT_POLICY if refused else C.SUCCESS

    def _usage(self) -> Usage:
        told = self._answer.usage if self._answer else self.relay.usage
        if told is not None:
            return told
        if self._answer is None and not self.relay.is_committed:
            return Usage()
        return estimates.usage(self._call.body, self._answer.characters if self._answer else self.relay.characters)

    def _elapsed_ms(self) -> int:
        return round(1000 * (self._clock() - self._started))


def uncalled(means: Means, slot: Slot, why: Failure) -> Ended:
    """An attempt that ends before it calls anybody, so that nobody is blamed."""
    return Ended(Attempt(slot.number, slot.place, slot.target, why.outcome_class, 0, means.wall(), failure=why))


async def _opening(response: UpstreamResponse) -> bytes:
    """The body up to its first byte that is no white space; upstreams send blanks to keep a connection alive."""
    opening = b""
    while data := await response.read():
        opening += data
        if opening.strip():
            break
    return opening
