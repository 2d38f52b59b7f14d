"""Identity: agents, their surfaces, tokens and sessions. A token is exactly one sender.

Which sender is a surface of which agent is registered here and never guessed from a hyphen. A
label is display text and decides nothing.

`names` registers who there is, `tokens` binds tokens to senders and authenticates by them,
`labels` holds what is written on them against whose they are, `importing` takes over another bus's,
`people` lets persons join and sign in, `connections` lets clients act for them, `sessions` knows
running clients, and `folding` owns the tables.
"""
