"""``python -m decision_service``: settings from the environment, then serve until a signal."""

from __future__ import annotations

import asyncio
import os
import sys

from decision_service.assembly import serve
from decision_service.settings import DecisionSettings
from service_kit import lifecycle, log, settings


async def main(stop: asyncio.Event) -> None:
    own = settings.read(DecisionSettings, os.environ)
    log.configure("decision", own.log_level, json=own.log_json)
    await serve(own, os.environ, stop)


if __name__ == "__main__":
    sys.exit(lifecycle.run(main))
