"""What stands where a secret would, and is none: words such as `changeme`, rows of `x`, the places
from which the secret is fetched, and the ids of Interlock's tokens, which are public."""

import re
from typing import Final

_WORDS: Final = (
    "password passphrase passwort passwd pass pwd secret token credentials credential apikey key "
    "auth api access account client private public username user admin root login app database db "
    "changeme changeit change replace insert enter put add set fill update your yours my mine our "
    "the this that a an of in it is to not for from with and or here me goes real actual value "
    "string text type name example sample placeholder dummy fake mock test testing tests foobar "
    "foo bar baz todo tbd fixme redacted hidden masked removed none null nil undefined unset empty "
    "blank default optional required true false yes no on off some any random strong secure long "
    "super very insecure generate generated abcdefgh abcdef abcd abc xyz xxx qwerty letmein only "
    "demo dev local development production prod staging new old bearer basic"
)
# The longest first, and without a way back: whatever the text, it is read once.
_SAID: Final = re.compile(
    "(?:" + "|".join(sorted(_WORDS.split(), key=len, reverse=True)) + r"|\d{1,10}|[\W_])++",
    re.IGNORECASE,
)
_ROW: Final = re.compile(r"([x*.#?_•…-])\1{7}", re.IGNORECASE)
_ELSEWHERE: Final = re.compile(
    r"""(?isx)
    \$ [\w{(@] .* | % \w+ % | %\( .* | %[sdr] | \\ .*
    | .* (?: \$\{ | \$\( | \{\{ | \#\{ | <% | %\(\w+\)s ) .*
    | [*&] [a-z_][\w-]* | [<\[{(|>] .*  | .* < [\w .-]+ > .* | [^{}]* \{ [\w.\[\]!:'"()]* \} [^{}]*
    | [a-z_][\w.]* \( .*
    | (?: os | process | env | environ | settings | config | conf | var | local | module | data
        | secrets? | self | this | args | options | opts | params | request | ctx | context | vault
        | ssm | arn | file | values? ) [.:\[] .*
    | (?: ~ | \.{1,2} | [a-z]: ) [/\\] .* | / [a-z]{2,} (?: [/.] .* )? | [a-z][a-z0-9+.-]* :// .*
    | tok_[0-9a-f]{12}
    | .+ \. (?: txt | pem | key | crt | cer | json | ya?ml | toml | env | gpg | asc | pub | html? )
    """
)


def is_placeholder(value: str) -> bool:
    """Whether this stands for a secret, and is none."""
    return bool(
        "EXAMPLE" in value
        or _ROW.search(value)
        or len(set(value.lower()) - set("-_. ")) <= 2
        or _SAID.fullmatch(value)
        or _ELSEWHERE.fullmatch(value)
    )
