"""Writes every transcript anew, with what the kernel does now: ``make transcripts``. A change of one is reviewed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.transcripts.play import played, scripts


def main(names: list[str]) -> int:
    """Writes the named transcripts, or all; answers how many could not be played."""
    failed = 0
    for path in [Path(name) for name in names] or scripts():
        try:
            text = played(path)
        except ValueError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            failed += 1
            continue
        if text != path.read_text():
            path.write_text(text)
            print(f"{path.name}: written")
    return failed


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
