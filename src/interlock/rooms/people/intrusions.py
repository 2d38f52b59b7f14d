"""What a door refuses on somebody's way in, and the log keeps: each by a code of its own.

These never reach a verb, or reach one with a secret that was used before. OAuth has its own words
for the answer; these are for whoever reads the log afterwards.
"""

INTRUSIONS = {
    "CODE_REPLAYED": "A code was shown again that had been used; its connection was ended.",
    "WRONG_VERIFIER": "A code was shown by somebody who had not asked for it.",
    "WRONG_CLIENT": "A code or a refresh token was shown by another client than its own.",
    "WRONG_REDIRECT": "A client asked to be answered where it is not registered.",
    "PLAIN_CHALLENGE": "A client asked for a weaker proof than S256.",
    "WRONG_RESOURCE": "A client asked for a token to be used somewhere else.",
    "REFRESH_REUSED": "A refresh token was shown again; its connection was ended.",
    "GUESSED_PASSWORD": "A wrong password was tried for one name as often as it may be.",
    "FORGED_CONSENT": "A form came without the cookie that it was made for.",
    "FRAMED_PAGE": "Another site tried to show one of our pages within its own.",
    "TOKEN_IN_URL": "A token stood in an address, where logs and histories keep it.",
    "BAD_REGISTRATION": "What a client registered is too large, or malformed.",
    "BAD_CLIENT_DOCUMENT": "A client's metadata document lies where it must not, or is malformed.",
}
