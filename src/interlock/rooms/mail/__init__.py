"""Mail: typed messages, deliveries with receipts, and asks. An accepted message is never lost.

`verbs` declares, `sending` decides what goes out, `reading` what comes in, `waking` which message
may wake an agent, `undeliverable` finds mail to unregistered names, `uploads` sends large bodies,
`records` reads the tables, and `fold` writes them.
"""
