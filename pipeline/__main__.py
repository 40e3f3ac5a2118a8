"""`python -m pipeline` is `coppice`."""

from pipeline.cli import main

raise SystemExit(main())
