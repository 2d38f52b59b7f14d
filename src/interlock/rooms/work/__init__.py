"""Work: tasks, what proves them, the gates that judge them, and what stands in their way.

A task is taken by a claim, submitted as an artifact (commit and tree), and done only when every
criterion is met on that tree, every gate has passed that submission and no blocker is open. Who
worked on it cannot judge it, whichever surface they use.

`records` reads the tables, `needs` says what is missing, `tasks`, `evidence`, `gates` and
`blockers` decide, `story` shows, and `folding` owns the tables.
"""
