"""Mail: typed messages, deliveries and their receipts, asks. What is accepted is never lost.

`sending` decides what goes out, `reading` what comes in, `messages` shows one message, and
`folding` owns the tables.
"""
