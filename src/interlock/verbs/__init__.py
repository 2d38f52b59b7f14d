"""Verbs: the operations of Interlock, each declared once beside the rule that decides it.

`verb` has the class that declarations inherit from, `types` the types of their fields, `http` the
encoding of requests, and `flows` the verbs that take several requests.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock.verbs.verb import Verb

# Every verb whose module is imported. `help` reads the list, and imports no verb.
DECLARED: "list[type[Verb]]" = []
