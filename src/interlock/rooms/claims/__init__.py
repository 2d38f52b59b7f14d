"""Claims: exclusive, leased, fenced. At any position of the log an item has at most one holder.

`verbs` declares and decides, `queue` serves waiters, `guard` compares files with claims, `sessions`
keeps and releases the claims of a session, `records` reads the tables, and `fold` writes them.
"""
