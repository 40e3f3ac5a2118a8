"""Engines: where targets are made that may be made elsewhere than in the threads of a build.

orders     an order: a target as a worker is asked to make it; its report; the folder of both
worker     makes one order on its machine: `python -m pipeline.engines.worker FOLDER NUMBER`
dispatch   the coordinator's side: hands orders in, waits, takes the first whole report of each
slurm      Slurm by its commands: hands in, asks after all at once, cancels

The coordinator decides what is fresh or recalled before it orders anything, and it alone writes the records of a run.
A worker writes into a folder of its own, which counts once its report is linked to the name of the order: whoever comes
second, as a machine that was cut off and is back, is too late."""
