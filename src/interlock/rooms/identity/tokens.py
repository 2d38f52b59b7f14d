"""Tokens: each belongs to exactly one sender, and has scopes and an optional expiry time.

`authenticate` and the `refuse_` functions check the caller of each request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock.errors import (
    BadToken,
    IdentityMismatch,
    MissingScope,
    NameTaken,
    NoIdentity,
    NotFound,
    Remedy,
    TokenExpired,
    Usage,
    WrongAudience,
)
from interlock.log.times import rfc3339
from interlock.rooms.identity import labels
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.rooms.identity.token_format import token_id
from interlock.rooms.identity.verbs import ListTokens, MintToken, ReaffirmTokens, RotateToken
from interlock.rooms.transaction import Caller, FoldedState, RuleAnswer, Transaction
from interlock.verbs.addresses import address, check_name
from interlock.verbs.answers import without_none

if TYPE_CHECKING:
    from interlock.rooms.identity import verbs


class Token(NamedTuple):
    """A row of identity_tokens, without the hash. `use` is `browser` or `connection` for a token
    that no file contains."""

    id: str
    sender: str
    label: str | None
    scopes: str
    minted_by: str
    minted_at: int
    seq: int
    expires_at: int | None
    revoked_at: int | None
    suspended: int
    use: str | None
    client: str | None
    resource: str | None


_COLUMNS = ", ".join(Token._fields)
TO_LIST = Remedy("interlock token list", ListTokens())


def authenticate(state: FoldedState, now: int, token_hash: str, session: str | None) -> Caller:
    """Return the caller of a token. Raises BadToken or TokenExpired."""
    row = state.execute(
        "SELECT t.id, t.sender, t.scopes, t.expires_at, t.revoked_at, t.suspended, s.agent, "
        "s.surface, a.kind, t.resource, t.use FROM identity_tokens t JOIN identity_senders s "
        "USING (sender) JOIN identity_agents a ON a.name = s.agent WHERE t.hash = ?",
        (token_hash,),
    ).fetchone()
    if row is None:
        raise BadToken
    token, sender, scopes, expires_at, revoked_at, suspended, agent, surface, kind = row[:9]
    resource, use = row[9:]
    if revoked_at is not None:
        revoked = f"The token {token} of @{sender} was revoked."
        if resource:
            raise BadToken(revoked, "The person can connect the client again.")
        raise BadToken(revoked, "The owner or an admin can mint another:", to_mint(sender))
    if suspended:
        raise BadToken(
            f"The token {token} of @{sender} is suspended: the log lost its newest entries, and "
            "the token may have been revoked in them. An admin who trusts the token can reaffirm "
            "it:",
            Remedy(f"interlock token reaffirm {token}", ReaffirmTokens(token)),
        )
    if expires_at is not None and expires_at <= now:
        expired = f"The token {token} of @{sender} expired at {rfc3339(expires_at)}."
        if resource:
            raise TokenExpired(expired, "Its client can renew it with its refresh token.")
        raise TokenExpired(
            expired,
            "The owner or an admin can replace the token:",
            Remedy(f"interlock token rotate {token}", RotateToken(token)),
        )
    # A client that acts for a person has the rights of an agent.
    kind = "agent" if resource is not None else kind
    allowed = frozenset(scopes.split())
    return Caller(sender, agent, kind, surface, allowed, session, token, False, resource, use)


OWNER_NEEDS_SENDER = Remedy(
    str(NoIdentity.remedy),
    http="The owner's token belongs to no sender. Send the token of a sender instead.",
    mcp="The owner's token belongs to no sender. Set the token of a sender in the client's MCP "
    "configuration.",
)


def to_mint(sender: str, scopes: tuple[str, ...] = ()) -> Remedy:
    flags = "".join(f" --scope {scope}" for scope in scopes)
    return Remedy(
        f"interlock token mint --sender {sender} --keep{flags}", MintToken(sender, scopes=scopes)
    )


def refuse_elsewhere(caller: Caller, audience: str | None) -> None:
    """Raise WrongAudience for a connection's token at another address than its resource."""
    if caller.resource is None:
        return
    resource = caller.resource.rstrip("/") + "/"
    if audience is None or not (audience + "/").startswith(resource):
        where = f"to {audience}" if audience else "on the server's own machine"
        raise WrongAudience(
            f"This token is valid only at {caller.resource}, and the request was sent {where}. "
            f"Use {caller.resource}, or connect the client to this address."
        )


def refuse_mismatch(caller: Caller, claimed: str | None) -> None:
    """Raise IdentityMismatch if the request names another sender than the token's."""
    if claimed is not None and claimed.removeprefix("@") != caller.sender:
        raise IdentityMismatch(
            f"Your credentials belong to @{caller.sender}, and the request names "
            f"{claimed[:80]!r}. The token decides the sender.",
            Remedy(
                "Omit --from, or use the credentials of that sender.",
                http="Omit `from`, `source`, `sender` and the header `Interlock-Sender`.",
                mcp="Omit `from`, `source` and `sender`.",
            ),
            sender=address(caller.sender),
            claimed=claimed[:80],
        )


def refuse_foreign_session(tx: Transaction, caller: Caller) -> None:
    """Raise IdentityMismatch if the caller names a session of another sender."""
    if caller.session is None:
        return
    row = tx.one("SELECT sender FROM identity_sessions WHERE session = ?", caller.session)
    if row is not None and row[0] != caller.sender:
        raise IdentityMismatch(
            f"The session {caller.session} belongs to @{row[0]}, and the token to "
            f"@{caller.sender}. Use a session of @{caller.sender}.",
            sender=address(caller.sender),
        )


def granted_scopes(tx: Transaction, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the scopes of a new token. If `wanted` has some of mail, claim and work, the token has
    only these; else it has all three. It also has gate:NAME and admin where `wanted` has them.

    Raises Usage, or MissingScope for a caller without admin."""
    for scope in wanted:
        if scope.startswith("gate:") and scope != "gate:":
            check_name(scope.removeprefix("gate:"), "", "gate")
        elif scope not in (*BASIC_SCOPES, "admin"):
            raise Usage(
                f"Unknown scope {scope[:80]!r}. Give mail, claim, work, gate:NAME or admin."
            )
    beyond = sorted({scope for scope in wanted if scope not in BASIC_SCOPES})
    if beyond and "admin" not in tx.caller.scopes:
        raise MissingScope(
            f"To grant {', '.join(beyond)}, a token needs the scope admin. The token of "
            f"@{tx.caller.sender} lacks it. Ask an admin or the owner to grant the scope.",
            scope="admin",
        )
    basic = [scope for scope in BASIC_SCOPES if scope in wanted] or list(BASIC_SCOPES)
    return (*basic, *beyond)


def mint_token(
    tx: Transaction,
    sender: str,
    token_hash: str,
    label: str | None,
    scopes: tuple[str, ...],
    expires_at: int | None,
    *,
    use: str | None = None,
    client: str | None = None,
) -> str:
    """Register a token of the sender by its hash, and return its id. Raises NameTaken."""
    made = token_id(token_hash)
    if tx.one("SELECT 1 FROM identity_tokens WHERE id = ? OR hash = ?", made, token_hash):
        raise NameTaken(f"The token {made} is already registered. Make a new token.")
    minted = without_none(
        id=made,
        hash=token_hash,
        sender=sender,
        label=label,
        scopes=list(scopes),
        expires_at=expires_at,
        use=use,
        client=client,
    )
    tx.append("token_minted", minted)
    return made


def tokens_named(
    tx: Transaction,
    where: str,
    request: verbs.RotateToken | verbs.RevokeToken | verbs.ReaffirmTokens,
) -> list[Token]:
    """The tokens that the request names by their id or their sender."""
    sender = request.sender.removeprefix("@") if request.sender is not None else None
    return select(tx, f"(id = ? OR sender = ?) AND {where}", request.id, sender)


def select(tx: Transaction, where: str, *values: str | None) -> list[Token]:
    """The tokens that match an SQL condition, which may end with an order."""
    rows = tx.all(f"SELECT {_COLUMNS} FROM identity_tokens WHERE {where}", *values)
    return [Token(*row) for row in rows]


def find_token(tx: Transaction, id: str) -> Token:
    for token in select(tx, "id = ?", id):
        return token
    raise NotFound(f"No token has the id {id[:80]!r}. List the tokens:", TO_LIST)


def none_named(
    request: verbs.RotateToken | verbs.RevokeToken | verbs.ReaffirmTokens, state: str
) -> NotFound:
    """Return the refusal of a request that names no `live` or `suspended` token."""
    if request.sender is not None:
        named = f"@{request.sender.removeprefix('@')[:80]} has no {state} token."
    else:
        named = f"No {state} token has the id {(request.id or '')[:80]!r}."
    return NotFound(f"{named} List the tokens:", TO_LIST)


def show_token(tx: Transaction, id: str) -> RuleAnswer:
    """The view of a token. Raises NotFound."""
    return token_view(tx, find_token(tx, id))


def token_view(tx: Transaction, token: Token, known: labels.Known | None = None) -> RuleAnswer:
    wrong = None
    if token.label is not None and token.revoked_at is None:
        wrong = (known or labels.Known(tx.state)).contradiction(token.sender, token.label)
    return without_none(
        id=token.id,
        sender=token.sender,
        address=address(token.sender),
        label=token.label,
        contradiction=wrong,
        scopes=token.scopes.split(),
        use=token.use,
        client=token.client,
        resource=token.resource,
        minted_by=address(token.minted_by),
        minted_at=rfc3339(token.minted_at),
        seq=token.seq,
        expires_at=rfc3339(token.expires_at) if token.expires_at is not None else None,
        revoked_at=rfc3339(token.revoked_at) if token.revoked_at is not None else None,
        suspended=True if token.suspended else None,
    )
