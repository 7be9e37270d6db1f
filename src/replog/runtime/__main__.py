"""`python -m replog.runtime FILE` runs one broker without the command line around it."""

import sys
from pathlib import Path

from replog.runtime.broker import run_broker

if __name__ == "__main__":
    sys.exit(run_broker(Path(sys.argv[1])))
