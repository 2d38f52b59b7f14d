"""Claims: exclusive, leased, fenced. One holder per item at any position of the log.

The holder is (sender, session): two windows of one agent are two holders. A lease ends by
comparison with the log's time, not by an event; whoever notices records it. Waiters stand in a
queue that is in the log too, and what becomes free goes to the first that can have it.

`records` shows what is held and awaited, `holding` decides, `queueing` serves those who wait, and
`folding` owns the tables.
"""
