"""Before anything of the tests is imported."""

from __future__ import annotations

import os
import signal

# Under uvloop the child of a fork runs gRPC's own handlers before it becomes another program. While calls are under way
# they crash it now and then. The tests fork for nothing else, so they need no handlers.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# A suite that was started in the background may have been told to ignore Ctrl-C, and would tell every program that the
# tests start; some of the tests are about Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
