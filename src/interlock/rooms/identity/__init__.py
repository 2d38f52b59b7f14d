"""Identity: agents, their surfaces, tokens and sessions. A token belongs to exactly one sender.

A registered fact says which sender is a surface of which agent; no rule guesses it from a hyphen.
`verbs` declares and decides, `names` registers senders, and `tokens` authenticates and mints.
`imports` and `token_files` import tokens of another message bus. `labels` compares labels with
senders. `fold` writes the tables, those of people included.
"""
