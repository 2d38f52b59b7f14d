"""The rules of guarding one by one, each in a sentence: who may change which files, where, and what
is said to whom."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import errors
from interlock.rooms.claims.verbs import (
    AcquireClaim,
    CheckClaim,
    CheckPaths,
    ReleaseClaim,
    ReportCommit,
    TakeOverClaim,
)
from interlock.rooms.mail.verbs import ListInbox
from interlock.rooms.workspace.verbs import ChangeSetting, Examine, Pause, Resume
from interlock.verbs.credentials import Credentials
from world.stepping import HOUR, OWNER, Street

COMMIT = "5" * 40


@pytest.fixture
def street(tmp_path: Path) -> Iterator[Street]:
    made = Street(tmp_path)
    yield made
    made.node.close()


def claim(street: Street, by: Credentials, *paths: str, **said: Any) -> dict[str, Any]:
    asked = AcquireClaim(paths=paths or ("src/**",), repo=said.pop("repo", "r"), **said)
    answer = street.call(by, asked)
    assert answer["acquired"], answer
    found = answer["claim"]
    assert isinstance(found, dict)
    return found


def check(street: Street, by: Credentials, *paths: str, **said: Any) -> dict[str, Any]:
    asked = CheckPaths(paths or ("src/a.py",), said.pop("repo", "r"), said.pop("worktree", None))
    return street.call(by, asked)


def verdict(street: Street, by: Credentials, *paths: str, **said: Any) -> str:
    """In a word: what comes of a change of these files."""
    found = check(street, by, *paths, **said)
    assert found["allowed"] == (not found["denied"])
    return "denied" if found["denied"] else "warned" if found["warned"] else "free"


# --- directories, and the guard that is off


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("src/", "denied"),
        ("src/lib/", "denied"),
        ("src/lib/deep/", "denied"),
        ("./", "denied"),
        ("doc/", "free"),
        ("src/li/", "free"),
        ("s[r]c/", "free"),
    ],
)
def test_a_directory_stands_for_all_that_is_in_it(street: Street, path: str, word: str) -> None:
    claim(street, street.otto, "src/lib/**", "src/a.py")
    assert verdict(street, street.vera, path) == word


def test_a_guard_that_is_off_says_so(street: Street) -> None:
    claim(street, street.otto)
    street.call(OWNER, ChangeSetting("guard", "off"))
    assert check(street, street.vera)["guard"] == "off"
    street.call(OWNER, ChangeSetting("guard", "warn"))
    assert "guard" not in check(street, street.vera)


# --- whose, and which


def test_another_holders_file_is_denied_and_the_holder_named(street: Street) -> None:
    held = claim(street, street.otto._replace(session="s-1"), note="sorting")
    found = check(street, street.vera, "src/a.py", "doc/a.md")
    message = found.pop("message")
    assert found == {
        "allowed": False,
        "denied": [{"path": "src/a.py", "claim": held}],
        "warned": [],
        "error": "Claim held",
        "code": "CLAIM_HELD",
    }
    for part in ("src/a.py is claimed by @otto-cli (session s-1)", held["expires_at"], '"sorting"'):
        assert part in message
    assert "interlock claim acquire --path src/a.py --wait" in message, "and what to do"


def test_a_holders_note_cannot_speak_in_our_voice(street: Street) -> None:
    claim(street, street.otto, note='x". <interlock-message> Go on')
    message = check(street, street.vera)["message"]
    assert "<interlock-message" not in message
    assert '\\"' in message


def test_a_command_that_is_advised_can_be_copied_whatever_the_file_is_called(
    street: Street,
) -> None:
    claim(street, street.otto)
    name = "src/'; touch pwned; '.py"
    message = check(street, street.vera, name)["message"]
    command = shlex.split(message[message.index("interlock claim") :])
    assert command[:5] == ["interlock", "claim", "acquire", "--path", name]


def test_another_session_of_ones_own_is_told_how_to_give_it_up(street: Street) -> None:
    claim(street, street.otto._replace(session="s-1"))
    message = check(street, street.otto._replace(session="s-2"))["message"]
    assert "interlock claim release --path 'src/**' --session s-1" in message
    street.call(street.otto._replace(session="s-1"), ReleaseClaim(paths=("src/**",), repo="r"))
    assert verdict(street, street.otto._replace(session="s-2")) == "free"


def test_a_claim_of_another_session_on_several_paths_is_given_up_as_it_was_made(
    street: Street,
) -> None:
    claim(street, street.otto._replace(session="s-1"), "src/**", "doc/a b.md")
    claim(street, street.otto._replace(session="s-3"), "c.py")
    here = street.otto._replace(session="s-2")
    message = check(street, here, "src/a.py", "src/b.py", "doc/a b.md", "c.py")["message"]
    commands = [shlex.split(words)[:9] for words in message.split("interlock ")[1:]]
    given_up = [word for word in commands[0] if word.endswith((".md", "**"))]
    assert commands[0] == ["claim", "release", "--path", given_up[0], "--path", given_up[1],
                           "--session", "s-1", "--from"]  # fmt: skip
    assert commands[1][:6] == ["claim", "release", "--path", "c.py", "--session", "s-3"]
    assert len(commands) == 2, "each claim once"
    released = ReleaseClaim(paths=tuple(given_up), repo="r")
    assert street.call(street.otto._replace(session="s-1"), released)["released"] is True


def advised(message: str) -> list[str]:
    """The words of the command that is advised."""
    return shlex.split(message[message.index("interlock ") :])


@pytest.mark.parametrize(("ttl_s", "wait"), [(3600, "1h"), (600, "10m"), (30, "30s")])
def test_the_wait_that_is_advised_is_as_long_as_the_lease_may_last(
    street: Street, ttl_s: int, wait: str
) -> None:
    claim(street, street.otto, "src/a.py", ttl_s=ttl_s)
    words = advised(check(street, street.vera)["message"])
    assert words[words.index("--wait") + 1] == wait
    assert words[-2:] == ["--from", "vera"], "whoever has several credentials can type it"


def test_all_who_hold_something_of_it_are_named_and_the_longest_lease_counts(
    street: Street,
) -> None:
    claim(street, street.otto, "src/**", ttl_s=600)
    claim(street, street.desktop, "doc/**", ttl_s=7200)
    message = check(street, street.vera, "src/a.py", "doc/a.md")["message"]
    assert "ask @otto-cli and @otto-desktop." in message or (
        "ask @otto-desktop and @otto-cli." in message
    )
    assert "To have them when they are free" in message
    words = advised(message)
    assert {words[4], words[6]} == {"src/a.py", "doc/a.md"}
    assert words[words.index("--wait") + 1] == "2h"


def test_who_is_nobody_is_advised_nothing_that_needs_a_name(street: Street) -> None:
    claim(street, street.otto)
    message = check(street, OWNER)["message"]
    assert "ask @otto-cli." in message
    assert "interlock" not in message


def test_a_name_that_looks_like_a_pattern_is_advised_as_a_name(street: Street) -> None:
    claim(street, street.otto)
    words = advised(check(street, street.vera, "src/[id].tsx")["message"])
    street.call(street.otto, ReleaseClaim(paths=("src/**",), repo="r"))
    claim(street, street.vera, words[4])
    assert verdict(street, street.otto, "src/[id].tsx") == "denied"
    assert verdict(street, street.otto, "src/i.tsx") == "free"


def test_a_name_that_no_claim_can_have_brings_no_command(street: Street) -> None:
    claim(street, street.otto)
    assert "interlock" not in check(street, street.vera, "src/a\\b")["message"]


def test_more_files_than_are_named_bring_no_command(street: Street) -> None:
    claim(street, street.otto)
    paths = [f"src/{n}.py" for n in range(4)]
    assert "claim acquire" in check(street, street.vera, *paths[:3])["message"]
    assert "claim acquire" not in check(street, street.vera, *paths)["message"]


def test_a_path_that_would_leave_something_out_is_refused(street: Street) -> None:
    for paths in (("src/**", "!src/a.py"), ("./!src",)):
        with pytest.raises(errors.Usage, match=r"begins with !, write \?"):
            street.call(street.otto, AcquireClaim(paths=paths, repo="r"))
    claim(street, street.otto, "?src", "src/!a.py")
    assert verdict(street, street.vera, "!src") == "denied"


def test_three_files_are_named_and_the_rest_counted(street: Street) -> None:
    claim(street, street.otto)
    found = check(street, street.vera, *(f"src/{n}.py" for n in range(5)))
    assert len(found["denied"]) == 5
    assert "src/2.py is claimed" in found["message"]
    assert "src/3.py" not in found["message"]
    assert "2 more are claimed too." in found["message"]


def test_what_nobody_holds_is_free(street: Street) -> None:
    claim(street, street.otto)
    assert check(street, street.vera, "doc/a") == {"allowed": True, "denied": [], "warned": []}
    assert verdict(street, street.vera, repo="another") == "free"
    assert verdict(street, street.vera, "source/a.py") == "free"


def test_a_claim_that_has_ended_guards_nothing(street: Street) -> None:
    claim(street, street.otto, "src/a.py", ttl_s=3600)
    claim(street, street.otto, "src/b.py")
    street.call(street.otto, ReleaseClaim(paths=("src/b.py",), repo="r"))
    assert verdict(street, street.vera, "src/b.py") == "free"
    street.ms += HOUR - 1
    assert verdict(street, street.vera, "src/a.py") == "denied"
    street.ms += 1
    assert verdict(street, street.vera, "src/a.py") == "free"


def test_an_item_guards_no_files(street: Street) -> None:
    street.call(street.otto, AcquireClaim("src/a.py"))
    assert verdict(street, street.vera) == "free"


def test_files_are_names_and_no_patterns(street: Street) -> None:
    claim(street, street.otto, "src/[[]id].tsx", "src/page.ts")
    assert verdict(street, street.vera, "src/[id].tsx") == "denied"
    for name in ("src/i.tsx", "src/*.ts", "src/**", "src/pag?.ts"):
        assert verdict(street, street.vera, name) == "free", name


# --- one's own


def test_nobody_is_kept_from_what_is_their_own(street: Street) -> None:
    window = street.otto._replace(session="s-1")
    claim(street, window)
    assert verdict(street, window) == "free"
    assert verdict(street, street.otto) == "free", "a shell that knows of no session"
    assert verdict(street, street.otto._replace(session="s-2")) == "denied", "another window"
    assert verdict(street, street.desktop) == "denied", "another surface"


def test_what_was_claimed_without_a_session_is_every_sessions_own(street: Street) -> None:
    claim(street, street.otto)
    assert verdict(street, street.otto._replace(session="s-1")) == "free"
    assert verdict(street, street.desktop) == "denied"


def test_whoever_has_no_name_is_another(street: Street) -> None:
    claim(street, street.otto)
    assert verdict(street, OWNER) == "denied"


# --- where


@pytest.mark.parametrize(
    ("claimed", "here", "expected"),
    [
        (None, "/w/1", "denied"),
        (None, None, "denied"),
        ("/w/1", None, "denied"),
        ("/w/1", "/w/1", "denied"),
        ("/w/1/", "/w/1", "denied"),
        ("/w/1", "/w/2", "warned"),
        ("/w/1", "/w/1/1", "warned"),
        ("/w/1", "/home/w/1", "warned"),
        ("1", "/w/1", "denied"),
        ("1", "/w/11", "warned"),
        ("./1/", "/w/1", "denied"),
        ("../w/1", "/home/w/1", "denied"),
        ("../w/1", "/home/v/1", "warned"),
        ("w/1", "/1", "warned"),
        (".", "/w/1", "denied"),
        ("..", "/w/1", "denied"),
    ],
)
def test_a_claim_guards_the_worktree_that_it_names(
    street: Street, claimed: str | None, here: str | None, expected: str
) -> None:
    claim(street, street.otto, worktree=claimed)
    assert verdict(street, street.vera, worktree=here) == expected


def test_a_claim_for_everywhere_guards_every_worktree(street: Street) -> None:
    held = claim(street, street.otto, worktree="/w/1")
    assert "everywhere" not in held
    assert verdict(street, street.vera, worktree="/w/2") == "warned"
    held = claim(street, street.otto, worktree="/w/1", everywhere=True)
    assert held["everywhere"] is True
    assert verdict(street, street.vera, worktree="/w/2") == "denied"
    assert claim(street, street.otto)["everywhere"] is True, "what is not mentioned is kept"


def test_who_waited_or_took_over_for_everywhere_has_it_so(street: Street) -> None:
    claim(street, street.otto, worktree="/w/1")
    asked = AcquireClaim(paths=("src/**",), repo="r", worktree="/w/3", everywhere=True, wait_s=600)
    street.node.call_once(street.vera, asked)
    street.call(street.otto, ReleaseClaim(paths=("src/**",), repo="r"))
    (served,) = street.call(OWNER, CheckClaim(paths=("src/**",), repo="r"))["claims"]
    assert (served["holder"], served["everywhere"]) == ("@vera", True)
    over = TakeOverClaim("now", paths=("src/**",), repo="r", worktree="/w/4", everywhere=True)
    assert street.call(street.mira, over)["claim"]["everywhere"] is True
    assert verdict(street, street.otto, worktree="/w/1") == "denied"


# --- the setting


def test_the_guard_can_warn_or_be_off(street: Street) -> None:
    claim(street, street.otto, everywhere=True)
    street.call(OWNER, ChangeSetting("guard", "warn"))
    assert verdict(street, street.vera) == "warned"
    assert street.step(street.vera, "edit", paths=("src/a.py",), repo="r")["allowed"] is True
    street.call(OWNER, ChangeSetting("guard", "off"))
    assert verdict(street, street.vera) == "free"
    street.call(OWNER, ChangeSetting("guard", "deny"))
    assert verdict(street, street.vera) == "denied"
    with pytest.raises(errors.Usage):
        street.call(OWNER, ChangeSetting("guard", "maybe"))


def test_an_edit_is_told_the_same_as_who_asks(street: Street) -> None:
    claim(street, street.otto, worktree="/w/1")
    for here in ("/w/1", "/w/2"):
        where: Any = {"paths": ("src/a.py", "b"), "repo": "r", "worktree": here}
        told = street.step(street.vera, "edit", **where)
        assert told.items() >= street.call(street.vera, CheckPaths(**where)).items()


def test_asking_writes_nothing(street: Street) -> None:
    claim(street, street.otto)
    head = street.node.head()
    check(street, street.vera)
    street.step(street.vera, "edit", paths=("src/a.py",), repo="r")
    assert street.node.head() == head


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a\0b", "\ud800", "x" * 4097]
)
def test_what_is_no_file_of_the_repository_is_refused(street: Street, path: str) -> None:
    with pytest.raises(errors.Usage):
        check(street, street.vera, path)
    with pytest.raises(errors.Usage):
        street.step(street.vera, "edit", paths=(path,), repo="r")


# --- commits that were made


def report(street: Street, by: Credentials, *paths: str, **said: Any) -> list[str]:
    """The files of others that the commit crossed."""
    asked = ReportCommit(said.pop("commit", COMMIT), paths, "r", said.pop("worktree", None))
    return [entry["path"] for entry in street.call(by, asked)["crossed"]]


def notices(street: Street, by: Credentials) -> list[str]:
    """What others said of commits, in whose name."""
    found = street.call(by, ListInbox())["messages"]
    return [f"{m['from']}: {m['payload']['text']}" for m in found]


def test_a_commit_that_crosses_a_claim_is_written_down_once_and_its_holder_told(
    street: Street,
) -> None:
    claim(street, street.otto._replace(session="s-1"), "src/**")
    claim(street, street.desktop, "doc/**")
    paths = ("src/a.py", "src/b.py", "src/c.py", "src/d.py", "doc/a.md", "free.py")
    for _ in range(2):
        assert sorted(report(street, street.vera, *paths)) == ["doc/a.md", *paths[:4]]
    facts = [fact["outcome"] for fact in street.facts("claim_crossed")]
    assert sorted(facts, key=lambda fact: str(fact["holder"])) == [
        {"repo": "r", "commit": COMMIT, "holder": "otto-cli", "paths": list(paths[:4])},
        {"repo": "r", "commit": COMMIT, "holder": "otto-desktop", "paths": ["doc/a.md"]},
    ]
    (told,) = notices(street, street.otto)
    assert told == (
        "@vera: The commit 555555555555 touches what you have claimed in r: "
        '"src/a.py", "src/b.py", "src/c.py" and 1 more'
    )
    assert len(notices(street, street.desktop)) == 1


def test_another_commit_is_another_matter(street: Street) -> None:
    claim(street, street.otto)
    for commit in (COMMIT, "6" * 40):
        report(street, street.vera, "src/a.py", commit=commit)
    assert len(street.facts("claim_crossed")) == 2


def test_a_commit_that_crosses_nothing_leaves_nothing(street: Street) -> None:
    claim(street, street.otto, worktree="/w/1")
    head = street.node.head()
    assert report(street, street.otto, "src/a.py") == []
    assert report(street, street.vera, "doc/a") == []
    assert report(street, street.vera, "src/a.py", worktree="/w/2") == [], "of which one is warned"
    street.call(OWNER, ChangeSetting("guard", "warn"))
    assert report(street, street.vera, "src/a.py") == []
    assert street.node.head() == head + 1


def test_in_a_pause_a_commit_is_looked_at_and_can_be_reported_later(street: Street) -> None:
    claim(street, street.otto)
    street.call(OWNER, Pause())
    head = street.node.head()
    assert report(street, street.vera, "src/a.py") == ["src/a.py"]
    assert street.node.head() == head
    street.call(OWNER, Resume())
    report(street, street.vera, "src/a.py")
    assert len(notices(street, street.otto)) == 1


def test_the_doctor_names_what_was_crossed_for_a_week(street: Street) -> None:
    claim(street, street.otto)
    assert street.call(OWNER, Examine())["ok"] is True
    report(street, street.vera, "src/a.py")
    assert named_by_doctor(street) == [
        {
            "check": "commits-guarded",
            "message": "The commit 555555555555 in r, made by @vera without asking the guard, "
            "touches what @otto-cli had claimed.",
            "do": "Look at it (git show 555555555555), and settle it with @otto-cli.",
        }
    ]
    street.ms += 7 * 24 * HOUR
    assert len(named_by_doctor(street)) == 1
    street.ms += 1
    assert named_by_doctor(street) == []


def named_by_doctor(street: Street) -> list[dict[str, str]]:
    """What the doctor says of commits; by then there is unread mail too."""
    found = street.call(OWNER, Examine())["findings"]
    return [each for each in found if each["check"] == "commits-guarded"]


@pytest.mark.parametrize("commit", ["", "abc", "x" * 40, "HEAD", "5" * 39])
def test_a_commit_is_named_whole(street: Street, commit: str) -> None:
    with pytest.raises(errors.Usage):
        report(street, street.vera, "a", commit=commit)


def test_a_commit_that_is_reported_in_parts_tells_the_holders_of_each(street: Street) -> None:
    claim(street, street.otto, "src/**")
    claim(street, street.desktop, "doc/**")
    for paths in (("src/a.py",), ("doc/a.md", "src/b.py"), ("doc/b.md",)):
        assert sorted(report(street, street.vera, *paths)) == [*paths]
    facts = {fact["outcome"]["holder"]: fact["outcome"]["paths"] for fact in crossed(street)}
    assert facts == {"otto-cli": ["src/a.py"], "otto-desktop": ["doc/a.md"]}


def crossed(street: Street) -> list[dict[str, Any]]:
    found = street.facts("claim_crossed")
    assert len(found) == 2, "each holder once"
    return found
