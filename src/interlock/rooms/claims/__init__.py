"""Claims are exclusive, leased and fenced. At any position of the log an item has one holder or
none.

`verbs` declares and decides, `rules` reads the tables, grants claims and serves waiters, `guard`
compares files with claims, and `fold` writes the tables.
"""

DEFAULT_LEASE_S = 3600
LEASE_HELP = "the lease"
