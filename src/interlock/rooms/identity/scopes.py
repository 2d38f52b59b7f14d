"""What a token may be for. Gates and administration are beyond the basic three."""

BASIC_SCOPES = ("mail", "claim", "work")
