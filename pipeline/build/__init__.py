"""One build: which targets are stale, making them, recording how they ended.

Not pure: files, processes, threads, clock.  May import core, store, machine, git, views, kinds, spec and errors;
never commands.  `runner` alone imports doit.

names      the commands of `coppice`, where each is, and the names that no run may have
project    the specs of a project, the plans made of them, frozen until a spec or this package changes
session    one look at a project: plans, records, and which targets are in doubt
outputs    staging, logs, and inputs as their makers wrote them
make       one target: found fresh, recalled or run, with retries; equal work is done once
board      the queue of the threads of a build: the next target, and the news of it
rehearsal  a build without building: forecasts, statuses, times, the plan
runner     doit's side of a build: targets as its tasks, receipts as its database, its runner with our rooms
activity   what a build works on, for other processes to read; the moment that a run is in
history    past builds of a run: when, how long, which targets, the critical path
inquiry    answers to `why` and `info`, which views put into words"""
