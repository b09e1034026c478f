"""A fake provider that answers at once. ``python -m bench.upstream PORT EVENTS``, so many to a stream."""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import orjson
import uvloop

CHUNK = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1, "model": "model-0"}
ANSWER = orjson.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1,
        "model": "model-0",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 100}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 60, "completion_tokens": 100, "total_tokens": 160},
    }
)
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(ANSWER), ANSWER)
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def event(delta: dict[str, str], finish: str | None = None) -> bytes:
    """One event as a chunk of the transfer coding."""
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    data = b"data: " + orjson.dumps({**CHUNK, "choices": choices}) + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


WORD = event({"content": "word "})
END = event({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


class Upstream(asyncio.Protocol):
    """Just enough HTTP to answer POSTs on a connection that stays open."""

    def __init__(self, events: int) -> None:
        self._events = events
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        if head.startswith(b"GET"):
            self._buffer = rest
            self._transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        if b'"stream":true' in rest[:length]:
            self._transport.write(STREAM_HEAD)
            self._word(self._events)
        else:
            self._transport.write(PLAIN)

    def _word(self, left: int) -> None:
        """Each event in a turn of its own, as a provider sends them; just without the wait."""
        if self._transport.is_closing():
            return
        self._transport.write(WORD if left else END)
        if left:
            asyncio.get_running_loop().call_soon(self._word, left - 1)


async def main(port: int, events: int) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Upstream(events), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), int(sys.argv[2])))
