"""Structured logs: one line an event on stderr, JSON or for people, secrets left out."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from service_kit import calls

LEVELS = ("debug", "info", "warning", "error")
REDACTED = "[redacted]"
SECRET_KEY = re.compile(
    r"(?:^|[_-])(?:secret|token|password|passwd|authorization|credential|cookie|(?:api|secret|private|access)[_-]?key)$",
    re.IGNORECASE,
)
SECRET_TEXT = re.compile(r"(?i:\bbearer\s+)\S+|\b(?:sk|rk|pk|gsk|xai)-[A-Za-z0-9_-]{8,}|\bAIza[A-Za-z0-9_-]{20,}")


_FOR_PEOPLE = structlog.dev.ConsoleRenderer(colors=False, pad_event_to=24)


def configure(service: str, level: str = "info", json: bool = True) -> None:
    """Send structlog's and the standard library's records to stderr as one form. ``level`` is one of LEVELS.

    The form for people leaves out the service and the logger, and shows the local time of day.
    """
    first: list[Processor] = [structlog.contextvars.merge_contextvars, structlog.processors.add_log_level, _request_id]
    first += _machine_keys(service) if json else [structlog.processors.TimeStamper("%H:%M:%S", utc=False)]
    last: list[Processor] = [
        structlog.processors.format_exc_info,
        redact,
        structlog.processors.JSONRenderer(serializer=_json) if json else _FOR_PEOPLE,
    ]
    handler = logging.StreamHandler(sys.stderr)
    without_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*first, structlog.stdlib.ExtraAdder()], processors=[without_meta, *last]
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    for chatty in ("httpx", "httpcore", "aiohttp.access", "alembic"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.getLogger().level))
    # Our own events do not pass through the standard library: that costs four times as much for the same line.
    structlog.configure(
        processors=[*first, *last],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=_Lines,
        cache_logger_on_first_use=True,
    )


class _Lines(structlog.PrintLogger):
    """Writes lines to stderr, under the name of the module that asked for the logger, or the one that it gave."""

    def __init__(self, *names: str) -> None:
        super().__init__(sys.stderr)
        self.name = _named(*names).name


_named = structlog.stdlib.LoggerFactory(ignore_frame_names=[__name__])


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace the values of secret-looking keys, and texts that look like a credential, at any depth."""
    return {key: _clean(key, value) for key, value in event.items()}


def _clean(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _clean(str(name), item) for name, item in value.items()}
    if value and _is_secret(key):
        return REDACTED
    if isinstance(value, list | tuple):
        return [_clean(key, item) for item in value]
    return SECRET_TEXT.sub(REDACTED, value) if isinstance(value, str) else value


@lru_cache(maxsize=1024)
def _is_secret(key: str) -> bool:
    return SECRET_KEY.search(key) is not None


def _machine_keys(service: str) -> list[Processor]:
    def add_service(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["service"] = service
        return event

    return [structlog.stdlib.add_logger_name, structlog.processors.TimeStamper(fmt="iso", utc=True), add_service]


def _request_id(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    request_id = calls.CURRENT.get().request_id
    if request_id:
        event.setdefault("request_id", request_id)
    return event


def _json(value: Any, **_options: Any) -> str:
    return orjson.dumps(value, default=repr).decode()
