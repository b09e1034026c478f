"""``python -m bench.beside PYTHON``: the kernel and LiteLLM's Router in one run, on the same core, in turns.

``PYTHON`` is an interpreter that has litellm. The last line is one JSON object.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import figures
from bench.kernel import kernel

SECONDS = 2.0
LIMIT_S = 300


def main(python: str) -> None:
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    script = Path(__file__).with_name("rival.py")
    ran = subprocess.run([python, str(script), str(SECONDS)], capture_output=True, timeout=LIMIT_S, check=True)
    found: dict[str, Any] = {
        "machine": figures.machine(),
        "versions": figures.versions(),
        "kernel": kernel(SECONDS),
        "litellm": json.loads(ran.stdout.splitlines()[-1]),
    }
    for pool, ours in found["kernel"].items():
        theirs = {name: rows[pool]["pick_p50_us"] for name, rows in found["litellm"].items() if name != "version"}
        print(f"{pool:>10}: decide {ours['decide_p50_us']} us (p95 {ours['decide_p95_us']}); LiteLLM {theirs}")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
