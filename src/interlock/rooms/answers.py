"""The types of all answers, for the verbs, OpenAPI and the users of the client.

Times are RFC 3339 in UTC. A member without a value is absent. A plain "no" is an answer with the
members of the error object.

Pydantic derives schemas from these types. Before Python 3.12 it accepts only the TypedDict of
typing_extensions.
"""

from __future__ import annotations

from interlock.rooms.claims.answers import *
from interlock.rooms.identity.answers import *
from interlock.rooms.mail.answers import *
from interlock.rooms.people.answers import *
from interlock.rooms.shared_answers import *
from interlock.rooms.work.answers import *
from interlock.rooms.workspace.answers import *
