"""`interlock.toml`: its parser, its refusals, and the pushes that a guard covers."""

import os
from pathlib import Path

import pytest

from interlock.errors import Usage
from interlock.local.project import LARGEST, Check, Project, PushGuard, decode, load, parse

WHOLE = """\
[checks.tests]
command = "make test"
time_limit = "10m"

[checks.lint]
command = ["ruff", "check", ""]
exit_code = 3
pattern = "^All checks passed"
gate = "style"

[checks.scrub]
gate = "release"
time_limit = "90"

[[guards]]
gate = "release"
remote = "github.com/acme/*"
branch = "main"

[[guards]]
gate = "style"

[scrub]
words = ["hush"]
[scrub.paths]
allowed = ["src/**"]
"""


def refused(text: str) -> Usage:
    with pytest.raises(Usage) as caught:
        parse(text)
    assert caught.value.members["file"] == "interlock.toml"
    assert "interlock.toml" in caught.value.message
    return caught.value


def check(line: str) -> Check:
    (found,) = parse(f'[checks.it]\ncommand = "true"\n{line}').checks
    return found


def test_a_file_with_all_tables_is_parsed() -> None:
    assert parse(WHOLE) == Project(
        checks=(
            Check("tests", "tests", ("/bin/sh", "-c", "make test"), time_limit=600),
            Check("lint", "style", ("ruff", "check", ""), 3, "^All checks passed"),
            Check("scrub", "release", time_limit=90),
        ),
        guards=(PushGuard("release", "github.com/acme/*", "main"), PushGuard("style", "*", "*")),
        scrub={"words": ["hush"], "paths": {"allowed": ["src/**"]}},
    )


def test_an_empty_file_has_no_rules() -> None:
    assert parse("") == parse("# nothing yet\n") == Project((), (), {})


def test_the_file_is_at_the_root(tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").write_bytes(
        b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode()
    )
    assert load(str(tmp_path)) == parse(WHOLE)


def test_a_missing_file_has_no_rules(tmp_path: Path) -> None:
    assert load(str(tmp_path)) == Project((), (), {})


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "interlock.toml").mkdir()
    with pytest.raises(Usage, match="Cannot read"):
        load(str(tmp_path))


def test_a_symbolic_link_to_itself_is_refused(tmp_path: Path) -> None:
    os.symlink("interlock.toml", tmp_path / "interlock.toml")
    with pytest.raises(Usage, match="Cannot read"):
        load(str(tmp_path))


def test_the_refusal_of_invalid_utf_8_names_the_position() -> None:
    with pytest.raises(Usage, match="the old one is not valid UTF-8 at byte 2"):
        decode(b"# \xff", "the old one")


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    assert decode(b"#" * LARGEST) == Project((), (), {})
    (tmp_path / "interlock.toml").write_bytes(b"#" * (LARGEST + 1))
    with pytest.raises(Usage, match=str(LARGEST)):
        load(str(tmp_path))


@pytest.mark.parametrize("text", ["x", "[checks", "a = 1\na = 2", "scrub = " + "[" * 100_000])
def test_invalid_toml_is_refused(text: str) -> None:
    assert "is not valid TOML" in refused(text).message


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("x = 1", "x"),
        ("checks = 1", "checks"),
        ("checks.a = 1", "checks.a"),
        ("[checks.a]", "checks.a.command"),
        ("[checks.A]\ncommand = 'x'", "checks.A"),
        ("[checks.'a b']\ncommand = 'x'", "checks.a b"),
        ("[checks.'a\\n']\ncommand = 'x'", "checks.a\\n"),
        ("[checks.a]\ncommand = ''", "checks.a.command"),
        ("[checks.a]\ncommand = ' '", "checks.a.command"),
        ("[checks.a]\ncommand = 7", "checks.a.command"),
        ("[checks.a]\ncommand = []", "checks.a.command"),
        ("[checks.a]\ncommand = ['']", "checks.a.command"),
        ("[checks.a]\ncommand = ['a', 7]", "checks.a.command"),
        ("[checks.a]\ncommand = [['a']]", "checks.a.command"),
        ('[checks.a]\ncommand = "a\\u0000"', "checks.a.command"),
        ("[checks.a]\ncommand = 'x'\nexit_code = '0'", "checks.a.exit_code"),
        ("[checks.a]\ncommand = 'x'\nexit_code = true", "checks.a.exit_code"),
        ("[checks.a]\ncommand = 'x'\nexit_code = 0.0", "checks.a.exit_code"),
        ("[checks.a]\ncommand = 'x'\nexit_code = -1", "checks.a.exit_code"),
        ("[checks.a]\ncommand = 'x'\nexit_code = 256", "checks.a.exit_code"),
        ("[checks.a]\ncommand = 'x'\npattern = 1", "checks.a.pattern"),
        ("[checks.a]\ncommand = 'x'\npattern = '('", "checks.a.pattern"),
        ("[checks.a]\ncommand = 'x'\ntime_limit = 600", "checks.a.time_limit"),
        ("[checks.a]\ncommand = 'x'\ntime_limit = '0s'", "checks.a.time_limit"),
        ("[checks.a]\ncommand = 'x'\ntime_limit = '1h30m'", "checks.a.time_limit"),
        ("[checks.a]\ncommand = 'x'\ngate = 'Athena'", "checks.a.gate"),
        ("[checks.a]\ncommand = 'x'\ngate = ''", "checks.a.gate"),
        ("[checks.a]\ncommand = 'x'\nshell = true", "checks.a.shell"),
        ("[checks.scrub]\ncommand = 'true'", "checks.scrub.command"),
        ("[checks.scrub]\nexit_code = 1", "checks.scrub.exit_code"),
        ("guards = 'main'", "guards"),
        ("[guards]\ngate = 'a'", "guards"),
        ("guards = ['a']", "guards[1]"),
        ("[[guards]]\ngate = 'a'\n[[guards]]\nbranch = 'main'", "guards[2].gate"),
        ("[[guards]]\ngate = 7", "guards[1].gate"),
        ("[[guards]]\ngate = 'a'\nremote = ''", "guards[1].remote"),
        ("[[guards]]\ngate = 'a'\nbranch = ['main']", "guards[1].branch"),
        ("[[guards]]\ngate = 'a'\nbranches = 'main'", "guards[1].branches"),
        ("scrub = true", "scrub"),
        ("[[scrub]]", "scrub"),
    ],
)
def test_the_refusal_of_an_invalid_value_names_its_key(text: str, key: str) -> None:
    refusal = refused(text)
    assert refusal.members["key"] == key
    assert f"interlock.toml, {key}: " in refusal.message


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("[check.a]\ncommand = 'x'", ["checks"]),
        ("[checks.a]\ncomand = 'x'", ["command"]),
        ("[checks.a]\ncommand = 'x'\nexitcode = 1", ["exit_code"]),
        ("[[guards]]\ngate = 'a'\nbranches = 'x'", ["branch"]),
    ],
)
def test_a_misspelt_key_is_refused_with_near_matches(text: str, near: list[str]) -> None:
    assert refused(text).members["did_you_mean"] == near


def test_an_unknown_key_is_refused_with_the_list_of_keys() -> None:
    refusal = refused("[[guards]]\ngate = 'a'\nzzz = 'x'")
    assert "did_you_mean" not in refusal.members
    assert "gate, remote and branch" in refusal.message


# Checks


@pytest.mark.parametrize(("code", "met"), [(0, False), (2, True), (None, False)])
def test_a_check_expects_its_exit_code(code: int | None, met: bool) -> None:
    assert check("exit_code = 2").meets(code, "") is met


@pytest.mark.parametrize(
    ("output", "met"),
    [
        ("12 passed", True),
        ("warming up\n3 passed\nbye", True),
        ("ok, 3 passed", False),
        ("", False),
    ],
)
def test_a_check_expects_its_pattern_in_a_line_of_the_output(output: str, met: bool) -> None:
    each = check(r"pattern = '^\d+ passed$'")
    assert each.meets(0, output) is met
    assert each.meets(1, output) is False


# Guards

URL = "git@github.com:acme/tool.git"


@pytest.mark.parametrize(
    "remote",
    [
        "*", "origin", "orig*", "Origin", URL, "git@github.com:acme/*", "github.com/acme/tool",
        "github.com/acme/*", "GitHub.com/Acme/*", "https://github.com/acme/tool",
        "https://github.com/acme/*", "ssh://git@github.com:22/acme/tool.git", "*/acme/*",
    ],
)  # fmt: skip
def test_a_remote_matches_by_name_or_by_any_form_of_its_url(remote: str) -> None:
    assert PushGuard("g", remote).covers("origin", URL, "refs/heads/main")


@pytest.mark.parametrize(
    "remote", ["upstream", "orig", "github.com/other/*", "https://gitlab.com/*", "acme", "/srv/*"]
)
def test_another_remote_does_not_match(remote: str) -> None:
    assert not PushGuard("g", remote).covers("origin", URL, "refs/heads/main")


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/tool",
        "https://user:secret@github.com/acme/tool.git",
        "ssh://git@GitHub.com/acme/tool/",
        "git@github.com:acme/tool",
    ],
)
def test_no_form_of_a_url_bypasses_a_guard(url: str) -> None:
    assert PushGuard("g", "https://github.com/acme/*").covers(url, url, "refs/heads/main")


def test_a_remote_can_be_a_directory(tmp_path: Path) -> None:
    place = tmp_path / "tool.git"
    for url in (str(place), f"file://{place}", f"{tmp_path}/x/../tool.git"):
        assert PushGuard("g", str(place)).covers("origin", url, "refs/heads/main")
    assert not PushGuard("g", str(place)).covers("origin", f"{tmp_path}/other", "refs/heads/main")


@pytest.mark.parametrize(
    ("branch", "ref", "covered"),
    [
        ("main", "refs/heads/main", True),
        ("main", "refs/heads/main2", False),
        ("main", "refs/heads/Main", False),
        ("main", "refs/tags/main", False),
        ("release/*", "refs/heads/release/1/x", True),
        ("release/*", "refs/heads/release", False),
        ("v[0-9]", "refs/heads/v1", True),
        ("refs/heads/main", "refs/heads/main", True),
        ("refs/tags/v*", "refs/tags/v1", True),
        ("refs/tags/v*", "refs/heads/v1", False),
        ("*", "refs/heads/any/thing", True),
        ("*", "refs/tags/v1", True),
    ],
)
def test_a_branch_matches_by_name_and_other_refs_by_full_name(
    branch: str, ref: str, covered: bool
) -> None:
    assert PushGuard("g", "*", branch).covers("origin", URL, ref) is covered
