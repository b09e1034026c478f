"""The one wall clock; assembly hands it to whatever needs one."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]

wall: Clock = time.time
"""Seconds since the epoch."""
