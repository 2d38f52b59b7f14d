"""The scopes of a token by default. It can have gate:NAME and admin besides."""

BASIC_SCOPES = ("mail", "claim", "work")
