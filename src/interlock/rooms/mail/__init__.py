"""Mail: typed messages, deliveries with receipts, and asks. An accepted message is never lost.

`verbs` declares, `sending` accepts messages, and `reading` shows them. `waking` decides which
message may wake an agent. `uploads` sends large bodies. `records` reads the tables, and `fold`
writes them.
"""

from typing import Final

# The severity of a blocker that states none.
DEFAULT_SEVERITY: Final = "stop"
