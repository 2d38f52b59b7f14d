"""The table [scrub]: its validation, and the matching of its words and paths."""

import pytest

from interlock.errors import Usage
from interlock.scrub import rules_of
from interlock.scrub.scanner import Scanner
from interlock.scrub.texts import HitFinder


def test_an_empty_table_allows_every_path_and_no_additional_ref() -> None:
    rules = rules_of({})
    assert rules.allows("anything/at.all")
    assert not rules.allows_ref("refs/tags/v1")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("word", ["falcon"]),
        ("words", "falcon"),
        ("words", [7]),
        ("words", [""]),
        ("words", ["x"]),
        ("words", ["**"]),
        ("words", ["fal*con"]),
        ("words", [" falcon"]),
        ("words", ["fal\ncon"]),
        ("words", ["x" * 201]),
        ("words", ["falcon"] * 1001),
        ("paths", ["otto"]),
        ("paths", ["/"]),
        ("paths", ["~/"]),
        ("allow", []),
        ("allow", ["/etc"]),
        ("allow", ["a["]),
        ("refs", ["v*"]),
        ("refs", ["refs/../x"]),
        ("ignore", ["../x"]),
        ("ignore", {"a": 1}),
    ],
)
def test_the_refusal_of_an_invalid_value_names_its_key(key: str, value: object) -> None:
    with pytest.raises(Usage) as refused:
        rules_of({key: value})
    assert refused.value.members["key"] == key
    assert f"[scrub] {key}" in refused.value.message


def test_ignore_contains_fingerprints_and_globs() -> None:
    rules = rules_of({"ignore": ["0123456789abcdef", "tests/**"]})
    assert rules.ignored_findings == {"0123456789abcdef"}
    assert rules.ignores("tests/a/b")
    assert not rules.ignores("0123456789abcdef")


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("otto", "ask OTTO now", True),
        ("otto", "bottom", False),
        ("otto", "lotto", False),
        ("otto", "ottoman", False),
        ("otto", "otto_key and otto-cli", True),
        ("otto", "otto2", False),
        ("otto*", "ottoman", True),
        ("otto*", "lotto", False),
        ("*otto*", "bottom", True),
        ("c++ team", "the C++ \n team", True),
        ("straße", "STRAßE", True),
        ("otto", "", False),
    ],
)
def test_a_word_matches_whole_words_except_at_a_star(word: str, text: str, found: bool) -> None:
    finder = HitFinder(rules_of({"words": [word]}), Scanner())
    assert [hit.check for hit in finder.hits([text.encode()])][:1] == ["word"] * found


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("/home/otto", "in /home/otto/src", True),
        ("/home/otto", "in /home/otto", True),
        ("/home/otto", "in /home/ottoman", False),
        ("/home/", "in /home/mia", True),
        ("/home/otto", "file:///home/otto", True),
        ("C:\\Users\\otto", '"C:\\\\Users\\\\otto\\\\x"', True),
        ("C:/Users/otto", "c:\\users\\otto", True),
        ("~/notes", "see ~/notes.", True),
    ],
)
def test_a_path_is_found_with_either_slash(path: str, text: str, found: bool) -> None:
    finder = HitFinder(rules_of({"paths": [path]}), Scanner())
    assert [hit.check for hit in finder.hits([text.encode()])] == ["path"] * found


def test_a_hit_shows_the_configured_form_of_the_word() -> None:
    finder = HitFinder(rules_of({"words": ["ab", "otto*", "falcon"]}), Scanner())
    assert [(hit.what, hit.line) for hit in finder.hits([b"x\nOttoman\nfalcon"])] == [
        ("The private word 'otto*'", 2),
        ("The private word 'falcon'", 3),
    ]
