"""The verbs of who is who: agents, groups, tokens and sessions."""

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.client.asking import Asked, Verb
from interlock.contracts import acts, answers
from interlock.contracts.token_files import prepared
from interlock.contracts.tokens import hashed


class Identity:
    @Verb
    def whoami(self) -> Asked[answers.Whoami]:
        """Say who acts here, and what is waiting for them."""
        return Asked(acts.Whoami())

    @Verb
    def agents(self, name: str | None = None) -> Asked[answers.Agents]:
        """List who has joined, and how each can be reached."""
        return Asked(acts.ListAgents(name))

    @Verb
    def join(
        self,
        name: str,
        *,
        surface: str | None = None,
        kind: answers.Kind | None = None,
        label: str | None = None,
        scopes: Iterable[str] = (),
    ) -> Asked[answers.Joined]:
        """Register an agent or a person. The token is in the answer, and nowhere else: keep it."""
        return Asked(acts.Join(name, surface, kind, label, tuple(scopes)))

    @Verb
    def invite(
        self,
        name: str,
        *,
        surface: str | None = None,
        own: Iterable[str] = (),
        kind: answers.Kind | None = None,
        ttl_s: int | None = None,
    ) -> Asked[answers.Invited]:
        """Let a person, or another machine, join by a link: the server's address and `path`."""
        return Asked(acts.Invite(name, surface, tuple(own), kind, ttl_s))

    @Verb
    def accept_invitation(self, code: str) -> Asked[answers.Joined]:
        """Join by an invitation. The token is in the answer, and nowhere else: keep it."""
        return Asked(acts.AcceptInvitation(code))

    @Verb
    def connections(self) -> Asked[answers.Connections]:
        """List the clients that people let act for them, and where people have signed in."""
        return Asked(acts.ListConnections())

    @Verb
    def name_connection(self, id: str, name: str) -> Asked[answers.Connection]:
        """Name a connection."""
        return Asked(acts.NameConnection(id, name))

    @Verb
    def revoke_connection(self, id: str) -> Asked[answers.Revoked | answers.LockedOut]:
        """End a connection or a browser's session at once, withdraw an invitation, or lock a person
        out, named as `@vera`."""
        return Asked(acts.RevokeConnection(id))

    @Verb
    def groups(self) -> Asked[answers.Groups]:
        """List groups and their members."""
        return Asked(acts.ListGroups())

    @Verb
    def create_group(self, name: str, members: Iterable[str]) -> Asked[answers.GroupMade]:
        """Register a name for several recipients."""
        return Asked(acts.CreateGroup(name, tuple(members)))

    @Verb
    def tokens(self) -> Asked[answers.Tokens]:
        """List tokens: ids, senders, scopes; never the secrets."""
        return Asked(acts.ListTokens())

    @Verb
    def show_token(self, id: str) -> Asked[answers.Token]:
        """Show one token, never its secret."""
        return Asked(acts.ShowToken(id))

    @Verb
    def mint_token(
        self,
        sender: str,
        *,
        label: str | None = None,
        scopes: Iterable[str] = (),
        ttl_s: int | None = None,
    ) -> Asked[answers.Minted]:
        """Make another token for a sender. It is in the answer, and nowhere else."""
        return Asked(acts.MintToken(sender, label, tuple(scopes), ttl_s))

    @Verb
    def rotate_token(
        self, id: str | None = None, *, sender: str | None = None
    ) -> Asked[answers.Rotated]:
        """Replace a token by a new one, which is in the answer and nowhere else."""
        return Asked(acts.RotateToken(id, sender))

    @Verb
    def revoke_token(
        self, id: str | None = None, *, sender: str | None = None
    ) -> Asked[answers.Revoked]:
        """End a token at once, or every token of a sender."""
        return Asked(acts.RevokeToken(id, sender))

    @Verb
    def reaffirm_tokens(
        self, id: str | None = None, *, sender: str | None = None
    ) -> Asked[answers.Reaffirmed]:
        """Trust tokens again that a restore suspended: one, a sender's, or all of them."""
        return Asked(acts.ReaffirmTokens(id, sender))

    @Verb
    def label_token(self, id: str, label: str) -> Asked[answers.Token]:
        """Write another label on a token. Whose it is stays as it is."""
        return Asked(acts.LabelToken(id, label))

    @Verb
    def import_tokens(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        map: Mapping[str, str] | None = None,
        apply: bool = False,
    ) -> Asked[answers.Imported]:
        """Take over another bus's tokens, from rows with `token_hash`, `agent` and `label`: says
        what would become of each, or does it with `apply`. A `token` is hashed here."""
        found = prepared([dict(row) for row in rows]).rows
        return Asked(acts.ImportTokens(found, dict(map) if map else None, apply))

    @Verb
    def identify_token(self, token: str) -> Asked[answers.KnownToken | answers.UnknownToken]:
        """Say whose a token is. Only its hash is shown to anybody."""
        return Asked(acts.IdentifyToken(hashed(token)))

    @Verb
    def mute(
        self, name: str | None = None, *, ttl_s: int | None = None, off: bool = False
    ) -> Asked[answers.Muted]:
        """Let nothing wake a name, yours if none is named, for a time or until told otherwise."""
        return Asked(acts.Mute(name, ttl_s, off))

    @Verb
    def attend(
        self,
        step: str,
        adapter: str = "python",
        *,
        paths: Iterable[str] = (),
        repo: str | None = None,
        worktree: str | None = None,
        held: int = 0,
        wait_s: int | None = None,
    ) -> Asked[answers.Attended]:
        """Say at which step a session is, and hear what is new: for those who write a client."""
        where = tuple(paths), repo, worktree
        return Asked(acts.Attend(step, adapter, *where, held, wait_s))

    @Verb
    def start_session(self, id: str) -> Asked[answers.SessionStarted]:
        """Register a session of yours; `connect(…, session=id)` acts in it."""
        return Asked(acts.StartSession(id))

    @Verb
    def find_session(self, id: str) -> Asked[answers.SessionFound]:
        """Say whose a session is, while it lives."""
        return Asked(acts.FindSession(id))

    @Verb
    def keep_session(self, id: str) -> Asked[answers.Claims]:
        """Renew what a living session holds, below half of each lease."""
        return Asked(acts.KeepSession(id))

    @Verb
    def end_session(self, id: str) -> Asked[answers.SessionEnded]:
        """End a session, which gives up its claims."""
        return Asked(acts.EndSession(id))
