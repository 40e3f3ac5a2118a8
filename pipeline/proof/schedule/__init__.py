"""Schedule of a proof search: a policy that gives trials and takes their outcomes. Pure; imports core and goals.

records  rules, trials, outcomes, and what a worker answers
bandits  which strategy comes first on a goal: four rules behind one protocol
effort   one goal: its budget and level, strategies tried and left, its place in the queue
policy   the schedule itself: rooms, levels, cancelling, load; its questions as lines, for core.journal"""
