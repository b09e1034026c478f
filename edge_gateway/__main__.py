"""``python -m edge_gateway``."""

import os
import sys

from edge_gateway.assembly import main
from service_kit import lifecycle

if __name__ == "__main__":
    sys.exit(lifecycle.run(lambda stop: main(os.environ, stop)))
