"""Work: tasks, their evidence, the gates that pass or fail them, and blockers.

A worker takes a task by a claim and submits an artifact (commit and tree). The task is done when
evidence meets every criterion, every gate has passed that artifact, and no blocker is open.
`verbs` declares. `tasks`, `evidence` and `gates` decide. `missing` lists open requirements,
`records` reads the tables, and `fold` writes them.
"""
