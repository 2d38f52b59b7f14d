"""Masking secrets by their shapes, for any split of the input into blocks, without false
positives."""

import random

import pytest

from interlock.rooms.identity import token_format
from interlock.rooms.work.secrets import HELD, Masker, masked, masked_words

LETTERS = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA"
LONG = LETTERS * 4
KEY_LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"

# Each secret in its maker's form, and the text around it. The parts are joined at run time, so that
# scanners do not report this file as a leak.
SECRETS = {
    "interlock": (token_format.compose(bytes(range(25))), "token {} here"),
    "github": ("gh" + "p_" + LONG[:36], "x={}\n"),
    "github, of an app": ("gh" + "s_" + LONG[:40], "({})"),
    "github, fine-grained": ("github" + "_pat_" + LONG[:22] + "_" + LONG[:59], "'{}'"),
    "gitlab": ("gl" + "pat-" + LONG[:20], "PRIVATE-TOKEN: {}"),
    "aws key id": ("AK" + "IA" + "IOSFODNN7EXAMPLE", "id {} end"),
    "aws secret": (LONG[:40], "aws_secret_access_key = {}\n"),
    "aws secret, json": (LONG[:40], '"SecretAccessKey": "{}",'),
    "aws session": (LONG[:100] + "==", "AWS_SESSION_TOKEN={}\n"),
    "openai": ("sk" + "-" + LONG[:48], "key {}!"),
    "openai, of a project": ("sk" + "-proj-" + LONG[:60], '"{}"'),
    "anthropic": ("sk" + "-ant-api03-" + LONG[:90], "ANTHROPIC_API_KEY={}\n"),
    "stripe": ("sk" + "_live_" + LONG[:24], "{} "),
    "slack": ("xox" + "b-1234567890-" + LONG[:24], "{};"),
    "google": ("AI" + "za" + LONG[:35], "?key={}&x=1"),
    "npm": ("npm" + "_" + LONG[:36], "//registry/:_authToken={}\n"),
    "jwt": (f"eyJ{LONG[:30]}.eyJ{LONG[:60]}.{LONG[:43]}", "got {}\n"),
    "bearer": (LONG[:32], "Bearer {}\n"),
    "authorization": ("onlyletters", "Authorization: Bearer {}"),
    "authorization, basic": ("dXNlcjpwYXNz", "-H 'authorization: Basic {}' x"),
    "url": ("hunter2", "https://otto:{}@example.org/x"),
    "url without a name": ("hun%40ter", "redis://:{}@localhost:6379/0"),
}

HARMLESS = [
    "a task-force-of-people-who-work-together-daily-1",
    "sk-learn-is-what-some-call-scikit-learn",
    "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "https://example.org:8080/a@b",
    "git@example.org:otto/tools.git",
    "see https://example.org/x, or mail a:b@c",
    "the secret key is kept elsewhere",
    "bearer of good news, and of authentication",
    "Authorization: none",
    "ilk_ is our prefix, and ghp_ another",
    "AKIA is a word",
    "eyJ.eyJ.eyJ",
    "-----BEGIN CERTIFICATE-----\n" + KEY_LINE + "\n-----END CERTIFICATE-----\n",
    "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "test_session_token_expires[ok] PASSED",
]


def fed(data: bytes, *sizes: int) -> tuple[bytes, int]:
    """Mask the data in blocks of these sizes, which repeat. Return the stored bytes and the number
    of secrets."""
    masker, stored, at, turn, taken = Masker(), b"", 0, 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        for piece in masker.feed(data[at : at + size]):
            stored += piece.stored
            taken += piece.taken
        at, turn = at + size, turn + 1
    for piece in masker.feed(b"", last=True):
        stored += piece.stored
        taken += piece.taken
    assert taken == len(data)
    return stored, masker.count


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_masked_and_the_text_around_it_is_not(name: str) -> None:
    secret, around = SECRETS[name]
    assert masked(around.format(secret).encode()) == (around.format("[masked]").encode(), 1)


@pytest.mark.parametrize("text", HARMLESS)
def test_text_without_a_secret_stays_unchanged(text: str) -> None:
    assert masked(text.encode()) == (text.encode(), 0)


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_is_masked_at_any_split_into_blocks(name: str) -> None:
    secret, around = SECRETS[name]
    data = ("before " + around + " after\n").format(secret).encode()
    whole = masked(data)
    for cut in range(1, len(data)):
        assert fed(data, cut, len(data)) == whole
    assert fed(data, 1) == whole


@pytest.mark.parametrize("size", [1, 7, 100, HELD - 1, HELD, HELD + 1, 65536])
def test_secrets_in_a_long_line_of_noise_are_masked_at_any_block_size(size: int) -> None:
    chance = random.Random(size)
    parts = []
    for _ in range(40 if size > 1 else 4):
        noise = bytes(
            chance.choice(b" .,;abcXYZ0189\x00\xff") for _ in range(chance.randrange(900))
        )
        secret, around = chance.choice(list(SECRETS.values()))
        parts.append(noise + b" " + around.replace("\n", " ").format(secret).encode() + b" ")
    data = b"".join(parts)
    assert fed(data, size) == masked(data)
    assert masked(data)[1] == len(parts)


def test_a_secret_longer_than_the_held_bytes_is_masked_to_its_end() -> None:
    token = b"Bearer " + b"a1" * 100_000
    for size in (100, 65536):
        assert fed(b"<" + token + b"> the end", size) == (b"<Bearer [masked]> the end", 1)


def test_a_word_that_only_ends_like_a_secret_is_not_masked_at_any_split() -> None:
    data = b"the di" + b"sk-" + b"a1" * 20 + b" " * 2 * HELD
    cut = data.index(b"sk-") + HELD  # the held bytes start there
    assert fed(data, cut, len(data)) == masked(data) == (data, 0)


def key(kind: str, *lines: str, end: str = "\n") -> str:
    label = f"{kind} PRIVATE KEY".strip()
    return end.join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])


@pytest.mark.parametrize("size", [1, 50, 4096])
@pytest.mark.parametrize(
    "block",
    [
        key("", KEY_LINE, KEY_LINE, "abc="),
        key("RSA", "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,00", "", KEY_LINE),
        key("OPENSSH", *[KEY_LINE] * 300),
        key("EC", KEY_LINE, KEY_LINE, end="\r\n"),
        key("", KEY_LINE, KEY_LINE, end="\\n"),
        key("", *[KEY_LINE] * 200, end="\\n"),
    ],
)
def test_a_private_key_is_masked_with_all_its_lines(block: str, size: int) -> None:
    data = f'first\n  "key": "{block}",\nlast\n'.encode()
    assert fed(data, size) == (b'first\n  "key": "[masked]",\nlast\n', 1)


def test_a_mention_of_a_key_does_not_mask_the_next_lines() -> None:
    text = b"found -----BEGIN PRIVATE KEY-----\nin two files, of which one is new\nthe end\n"
    assert masked(text) == (b"found [masked]in two files, of which one is new\nthe end\n", 1)


def test_a_key_without_an_end_masks_a_bounded_number_of_bytes() -> None:
    text = b"-----BEGIN PRIVATE KEY-----\n" + b"word\n" * 40_000
    stored, count = masked(text)
    assert count == 1
    assert stored.endswith(b"word\n" * 20_000)


def test_held_bytes_are_bounded_and_released_at_the_end_of_a_line() -> None:
    masker = Masker()
    data = b"no end of line here " * 10_000
    settled = sum(piece.taken for piece in masker.feed(data))
    assert len(data) - settled <= HELD
    masker = Masker()
    assert sum(piece.taken for piece in masker.feed(b"a line\n")) == 7


def test_the_words_of_a_command_are_masked_and_become_text() -> None:
    secret = SECRETS["github"][0]
    words, count = masked_words(["curl", f"-u{secret}", "\udcff", "https://a:b@c"])
    assert words == ["curl", "-u[masked]", "\ufffd", "https://a:[masked]@c"]
    assert count == 2


@pytest.mark.parametrize(
    "unit",
    [
        b"eyJ", b"eyJaaaaaaaaaa.", b"://", b"://a:", b"://:@", b"sk-", b" sk-aaaaaaa", b"secret",
        b"secret_key = ", b"Bearer ", b"Authorization: ", b"-----BEGIN ",
        b"-----BEGIN PRIVATE KEY-----",
        b"-----BEGIN PRIVATE KEY-----\n", b"ghp_", b"a", b" ", b"\n", b"AKIA", b"session_token=",
        b"xoxb-", b"authorization:        ", b"-----END ",
    ],
)  # fmt: skip
def test_repeated_starts_of_secrets_are_masked_alike_at_any_block_size(unit: bytes) -> None:
    data = unit * (20_000 // len(unit))
    assert fed(data, 65536) == masked(data) == fed(data, 100)
