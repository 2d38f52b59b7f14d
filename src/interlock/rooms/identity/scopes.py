"""The default scopes of a token. A token can also have gate:NAME and admin."""

BASIC_SCOPES = ("mail", "claim", "work")
