"""The credentials of a request."""

from interlock.verbs import Record


class Credentials(Record):
    """The caller's proof of identity, and the circumstances of the request.

    token     decides who the caller is
    session   the running client that acts
    claimed   the sender that the request names; it decides nothing and must not contradict the
              token
    owner     set only by a door whose caller may write the workspace's file
    seen      the last position of the log that the caller was told of, by any node
    audience  the address where the token was shown, over HTTP
    peer      the address of a caller on another machine, for presence only
    """

    token: str | None = None
    session: str | None = None
    claimed: str | None = None
    owner: bool = False
    seen: int = 0
    audience: str | None = None
    peer: str | None = None
