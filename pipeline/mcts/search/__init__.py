"""Monte-Carlo tree search over proofs: select, expand, evaluate, back up. Pure.

The policies give an `Expand` and take its outcome; they know nothing of Lean. Only guides know tactics.

records      questions, answers, rules
nodes        goals and actions: their values and states, the script of a proof
tree         the AND/OR graph, selection and backup
trace        a record for each iteration, and their sum
centralized  policy: one controller
agents       how an agent of many goes down the tree; blocks and delays
distributed  policy: many controllers over one tree, and the clocks that give them turns
journal      rules, questions and answers as lines, for core.journal
guides       priors over tactics, and rewards of goals"""
