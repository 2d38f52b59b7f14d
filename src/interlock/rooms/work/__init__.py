"""Work: tasks, their evidence, the gates that judge them, and blockers.

A worker takes a task by a claim and submits an artifact (commit and tree). The task is done when
evidence meets every criterion, every gate has passed that artifact, and no blocker is open.
`verbs` declares, `tasks`, `evidence`, `gates` and `blockers` decide, `criteria` and `missing` say
what is left to do, `holders` who may judge, `story` shows a task, `records` reads the tables, and
`fold` writes them.
"""
