"""The credentials of a request."""

from interlock.verbs import Record


class Credentials(Record):
    """The caller's proof of identity, and the circumstances of the request.

    token     decides who the caller is
    session   the running client that acts
    claimed   the sender that the request names; it decides nothing and must not contradict the
              token
    owner     set only by a door whose caller has write access to the workspace's directory
    seen      the last position of the log that any node has reported to the caller
    audience  the address to which the caller sent the token, over HTTP
    peer      the address of a caller on another machine, for presence only
    """

    token: str | None = None
    session: str | None = None
    claimed: str | None = None
    owner: bool = False
    seen: int = 0
    audience: str | None = None
    peer: str | None = None
