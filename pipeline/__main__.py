"""`python -m pipeline`, which is `coppice`."""

import os
import sys

if not sys.flags.safe_path and sys.path[0] == os.getcwd():
    sys.path.append(sys.path.pop(0))  # a code.py or queue.py of the project must not stand in for Python's

from pipeline.cli import main

try:
    code = main()
    sys.stdout.flush()
except KeyboardInterrupt:  # before a build takes care of its signals
    code = 130
except BrokenPipeError:  # nobody reads it any more, as with `| head`
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    code = 141
sys.exit(code)
