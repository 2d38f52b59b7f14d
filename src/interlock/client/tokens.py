"""The methods of tokens that take other parameters than their verbs."""

from collections.abc import Iterable, Mapping
from typing import Any

from interlock.client import answers
from interlock.client.asking import Asked, Method
from interlock.rooms.identity.token_files import prepared
from interlock.rooms.identity.token_format import hashed
from interlock.rooms.identity.verbs import IdentifyToken, ImportTokens


class Tokens:
    @Method
    def import_tokens(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        map: Mapping[str, str] | None = None,
        apply: bool = False,
    ) -> Asked[answers.Imported]:
        """Import the tokens of another bus, from rows with `token_hash`, `agent` and `label`. The
        answer says what happens to each row; only `apply` changes anything. The client hashes a
        `token`."""
        found = prepared([dict(row) for row in rows]).rows
        return Asked(ImportTokens(rows=found, map=dict(map) if map else None, apply=apply))

    @Method
    def identify_token(self, token: str) -> Asked[answers.KnownToken | answers.UnknownToken]:
        """Say which sender a token belongs to. The client sends only the hash of the token."""
        return Asked(IdentifyToken(token_hash=hashed(token)))
