"""The lines that contain a secret. The tests remove each `~` from a secret at run time, so that
this file contains none."""

import pytest

from interlock.scrub import Rules, names
from interlock.scrub.scanner import ScannedLine, Scanner
from interlock.scrub.texts import HitFinder

BASE64 = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYa1B2c3D4e5"
HEX = "0f1e2d3c4b5a69788796" * 2


@pytest.fixture(scope="module")
def scanner() -> Scanner:
    return Scanner()


def found(scanner: Scanner, line: str, *, settings: bool) -> list[str]:
    return [secret.value for secret in scanner.secrets([ScannedLine(1, line)], settings=settings)]


@pytest.mark.parametrize(
    "line",
    [
        "gh~p_" + "a1B2" * 9,
        "github~_pat_" + "a1B2" * 10,
        "xox~b-123456789012-abcdefghijkl",
        "sk~_live_" + "a1B2" * 6,
        "sk~-ant-" + "a1B2" * 8,
        "AI~za" + "a1B2c" * 7,
        "hf~_" + "a1" * 17,
        "npm~_" + "a1B2" * 9,
        "//registry.example/:_auth~Token=npm~_" + "a1B2" * 9,
        "-----BEGIN RSA ~PRIVATE KEY-----",
        "-----BEGIN ENCRYPTED ~PRIVATE KEY-----",
        "postgres:~//app:hunter22@db.example/app",
        "eyJhbGciOiJIUzI1NiJ9~.eyJzdWIiOiJvdHRvIn0." + "a1B2" * 8,
        "Account~Key=" + "a1B2" * 22,
        "SG~." + "a1" * 11 + "." + "a1" * 21 + "b",
        "gl~pat-" + "a1B2" * 5,
        "api~_key = '" + "a1B2-c3d4'",
        "1234567890:~" + "a1B2c" * 7,
        f"Author~ization: Bearer {HEX}",
        f"aws_secret~_access_key = {BASE64}",
        f"export AWS_SECRET~_ACCESS_KEY={BASE64}",
        f'auth_tok~en = "{HEX}"',
    ],
)
def test_a_secret_of_a_known_shape_or_in_quotes_is_found_once_in_any_file(
    scanner: Scanner, line: str
) -> None:
    finder = HitFinder(Rules(), scanner)
    text = f"above\n\n{line.replace('~', '')}\nbelow\n".encode()
    assert [(hit.check, hit.line) for hit in finder.hits([text])] == [("secret", 3)]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("pass~word: hunter2correcthorse9", "hunter2correcthorse9"),
        ("  db_pass~word: hunter2x  # of old", "hunter2x"),
        ("- DB_PASS~WORD=s3cr3t-thing", "s3cr3t-thing"),
        ("db: {user: otto, pass~word: hunter22x}", "hunter22x"),
        ("PASS~WORD=correcthorsebattery", "correcthorsebattery"),
        ("spring.datasource.pass~word=Zx9!kq", "Zx9!kq"),
        ("Pass~wd=Tr0ub4dor&3", "Tr0ub4dor&3"),
        ("mysql --pass~word=hunter2x shop", "hunter2x"),
        (f"ENV LEVEL=1 API~_KEY={HEX} SIZE=2", HEX),
        (f"client_secret~: {HEX}", HEX),
        (f"tok~en = {HEX}", HEX),
    ],
)
def test_a_value_without_quotes_is_found_in_settings_only(
    scanner: Scanner, line: str, value: str
) -> None:
    line = line.replace("~", "")
    assert found(scanner, line, settings=False) == []
    assert found(scanner, line, settings=True) == [value]


@pytest.mark.parametrize(
    "line",
    [
        "password: ${PASSWORD}",
        "password: $PASSWORD1",
        "PASSWORD=$(cat /run/secrets/db1)",
        "password: {{ vault_password1 }}",
        "password: %DB_PASSWORD1%",
        "password = %(password1)s",
        "token: ${{ secrets.GITHUB_TOKEN_1234567 }}",
        "token: os.environ['INTERLOCK_TOKEN_1']",
        'password = os.getenv("PASSWORD1")',
        "api_key: process.env.SHOP_API_KEY_1234",
        "password: settings.DB_PASSWORD1",
        "password: !vault |",
        "password: *password_1",
        "password: /run/secrets/db1",
        "PWD=/srv/app1",
        "password_file: secrets/db1",
        "secretName: shop-tls-0123456789abcdef",
        "password: changeme",
        "password: changeme123",
        'password = "changeme"',
        "password: xxxx",
        "password: xxxxxxxx",
        "password: '********'",
        'password: ""',
        "token: <your-token>",
        "api_key: your-api-key-here-1234",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN1234",
        "Authorization: Bearer YOUR_TOKEN_12",
        "Authorization: Bearer {token1}",
        "Authorization: Bearer authentication",
        "postgres://app:${PASSWORD1}@db.example/app",
        "postgres://user:password@db.example/app",
        "gh" + "p_" + "x" * 36,
        "SK" + "x" * 32,
        "AKIA" + "IOSFODNN7EXAMPLE",
        "password: str",
        "password: Optional[str] = None",
        "password: str = Field(min_length=8)",
        "password: string",
        "password: true",
        "password: Passwort",
        "password: the one of user 1",
        "password: otto1234 has to change it",
        "secret: shop-orders-of-the-northern-warehouse",
        "pass: 12345678",
        "id-token: write",
        '"token": "tok_5528981f2c85"',
        "token: |",
    ],
)
@pytest.mark.parametrize("settings", [True, False])
def test_a_placeholder_is_not_a_secret(scanner: Scanner, line: str, settings: bool) -> None:
    assert found(scanner, line, settings=settings) == []


def test_a_line_that_is_clean_in_a_program_is_checked_again_in_settings() -> None:
    scanner = Scanner()
    line = "pass" + "word: hunter2correcthorse9"
    assert [found(scanner, line, settings=settings) for settings in (False, True)] == [
        [],
        ["hunter2correcthorse9"],
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"a/b.yaml", True),
        (b"app.INI", True),
        (b".env.example", True),
        (b"Dockerfile", True),
        (b".aws/credentials", True),
        (b"x.properties", True),
        (b"x.py", False),
        (b"yaml", False),
        (b"conf.d/notes.md", False),
    ],
)
def test_files_of_settings_are_recognised_by_name(name: bytes, expected: bool) -> None:
    assert names.holds_settings(name) is expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"#!/bin/sh\n", True),
        (b"#!/usr/bin/env bash\n", True),
        (b"#! /bin/zsh -e\n", True),
        (b"#!/usr/bin/env python3\n", False),
        (b"#!/usr/bin/env pwsh-like\n", False),
        (b"echo sh\n", False),
    ],
)
def test_shell_scripts_are_recognised_by_their_first_line(start: bytes, expected: bool) -> None:
    assert names.is_script(start) is expected


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_byte_order_mark_is_read_across_pieces(
    order: str, scanner: Scanner
) -> None:
    key = "AKIA" + "QWERTYUIOPASDFGH"
    data = ("Überschrift\n" * 2000 + key + "\n").encode(order)
    finder = HitFinder(Rules(words=("überschrift",)), scanner)
    pieces = [data[at : at + 9999] for at in range(0, len(data), 9999)]
    hits = list(finder.hits(pieces))
    assert ("secret", 2001) in {(hit.check, hit.line) for hit in hits}
    assert {hit.line for hit in hits if hit.check == "word"} == set(range(1, 2001))
