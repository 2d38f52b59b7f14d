"""Identity: agents, their surfaces, tokens and sessions. A token belongs to exactly one sender.

A registered fact says which sender is a surface of which agent; no rule guesses it from a hyphen.
`verbs` declares, `names` registers senders and groups, `tokens` and `sessions` decide about theirs,
`imports` and `token_files` take tokens from another bus, `labels` compares labels with senders, and
`fold` writes the tables, those of people included.
"""
