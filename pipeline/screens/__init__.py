"""Screens that follow a run: in the terminal, and a recorded one as a show.

Not pure: clock, terminal, threads.  May import what a build may, and kinds by `kinds` alone.  All draw the JSON of
projections (`core/projection`), which a feed gives; nothing here counts or judges.

show      a recorded run, played at its times
terminal  `coppice watch` on a full screen, by textual"""
