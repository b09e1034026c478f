"""Before anything of the tests is imported."""

from __future__ import annotations

import os

# Under uvloop the child of a fork runs gRPC's own handlers before it becomes another program. While calls are under way
# they crash it now and then. The tests fork for nothing else, so they need no handlers.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
