"""Schedule of a proof search: a policy, asked for trials and told outcomes. Pure; imports core and goals.

records  rules, trials, outcomes, and what a worker answers
bandits  which strategy comes first on a goal: four rules behind one protocol
effort   one goal: its features, what was tried and what is left, and its place in the queue
policy   the schedule itself: rooms, levels, cancelling, load
journal  its questions as lines, for core.journal"""
