"""Reports from the records of a search.  Not pure: reads files and git; only its callers write.

May import: store, git, core, errors, trust, views.pages, tree.rules, tree.spec, tree.run.  `figures`, `summary` and
`projection` are pure functions of a manifest, `markdown` of rows.

run_records     the records of a run, each read on demand; entries of its nodes; the cages that held
manifest        manifest.json: all records, folded into one
money           the bill: every call that was asked and paid for, by role, by depth, over time
live            manifest.json while a search goes on, as it stands, and as it was
happenings      what happened, from the events; lines for a terminal as a search goes on
markdown        Markdown tables, and numbers and texts on one line
figures         the numbers of a manifest, which summary and projection tell alike
obstacles       what keeps a search from going on: targets that failed, answers of a person
summary         TREE_SUMMARY.md
projection      what screens show: state, top line, tree, stair, money
explain         decisions in numbers: what each check used, and what would have been enough
replay          every decision made again from its recorded inputs
storage_checks  checks of files and of the run's repository
validation      checks of the manifest and of decisions; VALIDATION_REPORT.md"""
