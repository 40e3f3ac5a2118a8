"""`python -m pipeline` is `coppice`."""

import sys

from pipeline.cli import main

try:
    sys.exit(main())
except KeyboardInterrupt:  # before a build takes care of its signals
    sys.exit(130)
