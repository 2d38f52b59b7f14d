"""The rules of the guard: which sender may change which files, and the messages of a denial."""

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
from world.wake_workspace import WakeWorkspace
from world.workspace import HOUR, OWNER

COMMIT = "5" * 40


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[WakeWorkspace]:
    """A staffed workspace, open until the test ends."""
    with WakeWorkspace(tmp_path) as workspace:
        yield workspace


def claim(workspace: WakeWorkspace, by: Credentials, *paths: str, **fields: Any) -> dict[str, Any]:
    request = AcquireClaim(paths=paths or ("src/**",), repo=fields.pop("repo", "r"), **fields)
    answer = workspace.call(by, request)
    assert answer["acquired"], answer
    found = answer["claim"]
    assert isinstance(found, dict)
    return found


def check(workspace: WakeWorkspace, by: Credentials, *paths: str, **fields: Any) -> dict[str, Any]:
    repo, worktree = fields.pop("repo", "r"), fields.pop("worktree", None)
    return workspace.call(by, CheckPaths(paths or ("src/a.py",), repo, worktree))


def verdict(workspace: WakeWorkspace, by: Credentials, *paths: str, **fields: Any) -> str:
    """The guard's answer to a change of these files: denied, warned or free."""
    found = check(workspace, by, *paths, **fields)
    assert found["allowed"] == (not found["denied"])
    return "denied" if found["denied"] else "warned" if found["warned"] else "free"


# --- directories, and the guard that is off


@pytest.mark.parametrize(
    ("path", "expected"),
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
def test_checking_a_directory_checks_every_file_in_it(
    workspace: WakeWorkspace, path: str, expected: str
) -> None:
    claim(workspace, workspace.otto, "src/lib/**", "src/a.py")
    assert verdict(workspace, workspace.vera, path) == expected


def test_the_answer_reports_a_guard_that_is_off(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    workspace.call(OWNER, ChangeSetting("guard", "off"))
    assert check(workspace, workspace.vera)["guard"] == "off"
    workspace.call(OWNER, ChangeSetting("guard", "warn"))
    assert "guard" not in check(workspace, workspace.vera)


# --- the message of a denial


def test_a_change_of_another_holders_file_is_denied_with_the_holders_name(
    workspace: WakeWorkspace,
) -> None:
    held = claim(workspace, workspace.otto._replace(session="s-1"), note="sorting")
    found = check(workspace, workspace.vera, "src/a.py", "doc/a.md")
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
    assert "interlock claim acquire --path src/a.py --wait" in message


def test_a_holders_note_cannot_imitate_the_message_envelope(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto, note='x". <interlock-message> Go on')
    message = check(workspace, workspace.vera)["message"]
    assert "<interlock-message" not in message
    assert '\\"' in message


def test_the_advised_command_quotes_the_file_name_for_the_shell(
    workspace: WakeWorkspace,
) -> None:
    claim(workspace, workspace.otto)
    name = "src/'; touch pwned; '.py"
    message = check(workspace, workspace.vera, name)["message"]
    command = shlex.split(message[message.index("interlock claim") :])
    assert command[:5] == ["interlock", "claim", "acquire", "--path", name]


def test_the_denial_names_the_command_that_releases_another_session_of_the_caller(
    workspace: WakeWorkspace,
) -> None:
    claim(workspace, workspace.otto._replace(session="s-1"))
    message = check(workspace, workspace.otto._replace(session="s-2"))["message"]
    assert "interlock claim release --path 'src/**' --session s-1" in message
    workspace.call(
        workspace.otto._replace(session="s-1"), ReleaseClaim(paths=("src/**",), repo="r")
    )
    assert verdict(workspace, workspace.otto._replace(session="s-2")) == "free"


def test_the_release_command_names_all_paths_of_the_claim(
    workspace: WakeWorkspace,
) -> None:
    claim(workspace, workspace.otto._replace(session="s-1"), "src/**", "doc/a b.md")
    claim(workspace, workspace.otto._replace(session="s-3"), "c.py")
    here = workspace.otto._replace(session="s-2")
    message = check(workspace, here, "src/a.py", "src/b.py", "doc/a b.md", "c.py")["message"]
    commands = [shlex.split(words)[:9] for words in message.split("interlock ")[1:]]
    globs = [word for word in commands[0] if word.endswith((".md", "**"))]
    assert commands[0] == ["claim", "release", "--path", globs[0], "--path", globs[1],
                           "--session", "s-1", "--from"]  # fmt: skip
    assert commands[1][:6] == ["claim", "release", "--path", "c.py", "--session", "s-3"]
    assert len(commands) == 2, "one command for each claim"
    released = ReleaseClaim(paths=tuple(globs), repo="r")
    assert workspace.call(workspace.otto._replace(session="s-1"), released)["released"] is True


def advised(message: str) -> list[str]:
    """The words of the command in the message."""
    return shlex.split(message[message.index("interlock ") :])


@pytest.mark.parametrize(("ttl_s", "wait"), [(3600, "1h"), (600, "10m"), (30, "30s")])
def test_the_advised_wait_covers_the_rest_of_the_lease(
    workspace: WakeWorkspace, ttl_s: int, wait: str
) -> None:
    claim(workspace, workspace.otto, "src/a.py", ttl_s=ttl_s)
    words = advised(check(workspace, workspace.vera)["message"])
    assert words[words.index("--wait") + 1] == wait
    assert words[-2:] == ["--from", "vera"], "the command works with several credentials too"


def test_the_denial_names_every_holder_and_waits_for_the_longest_lease(
    workspace: WakeWorkspace,
) -> None:
    claim(workspace, workspace.otto, "src/**", ttl_s=600)
    claim(workspace, workspace.desktop, "doc/**", ttl_s=7200)
    message = check(workspace, workspace.vera, "src/a.py", "doc/a.md")["message"]
    assert "ask @otto-cli and @otto-desktop, or wait in the queue:" in message or (
        "ask @otto-desktop and @otto-cli, or wait in the queue:" in message
    )
    words = advised(message)
    assert {words[4], words[6]} == {"src/a.py", "doc/a.md"}
    assert words[words.index("--wait") + 1] == "2h"


def test_the_owner_gets_no_command_that_needs_a_sender(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    message = check(workspace, OWNER)["message"]
    assert "ask @otto-cli." in message
    assert "interlock" not in message


def test_the_advised_command_escapes_a_file_name_with_wildcards(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    words = advised(check(workspace, workspace.vera, "src/[id].tsx")["message"])
    workspace.call(workspace.otto, ReleaseClaim(paths=("src/**",), repo="r"))
    claim(workspace, workspace.vera, words[4])
    assert verdict(workspace, workspace.otto, "src/[id].tsx") == "denied"
    assert verdict(workspace, workspace.otto, "src/i.tsx") == "free"


def test_a_file_name_that_no_glob_can_spell_gets_no_command(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    assert "interlock" not in check(workspace, workspace.vera, "src/a\\b")["message"]


def test_more_than_three_files_get_no_command(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    paths = [f"src/{n}.py" for n in range(4)]
    assert "claim acquire" in check(workspace, workspace.vera, *paths[:3])["message"]
    assert "claim acquire" not in check(workspace, workspace.vera, *paths)["message"]


def test_a_glob_that_excludes_paths_is_refused(workspace: WakeWorkspace) -> None:
    for paths in (("src/**", "!src/a.py"), ("./!src",)):
        with pytest.raises(errors.Usage, match=r"begins with !, write \?"):
            workspace.call(workspace.otto, AcquireClaim(paths=paths, repo="r"))
    claim(workspace, workspace.otto, "?src", "src/!a.py")
    assert verdict(workspace, workspace.vera, "!src") == "denied"


def test_the_denial_names_three_files_and_counts_the_others(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    found = check(workspace, workspace.vera, *(f"src/{n}.py" for n in range(5)))
    assert len(found["denied"]) == 5
    assert "src/2.py is claimed" in found["message"]
    assert "src/3.py" not in found["message"]
    assert "2 more are claimed too." in found["message"]


def test_files_without_a_claim_are_free(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    assert check(workspace, workspace.vera, "doc/a") == {
        "allowed": True,
        "denied": [],
        "warned": [],
    }
    assert verdict(workspace, workspace.vera, repo="another") == "free"
    assert verdict(workspace, workspace.vera, "source/a.py") == "free"


def test_an_ended_claim_guards_no_files(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto, "src/a.py", ttl_s=3600)
    claim(workspace, workspace.otto, "src/b.py")
    workspace.call(workspace.otto, ReleaseClaim(paths=("src/b.py",), repo="r"))
    assert verdict(workspace, workspace.vera, "src/b.py") == "free"
    workspace.ms += HOUR - 1
    assert verdict(workspace, workspace.vera, "src/a.py") == "denied"
    workspace.ms += 1
    assert verdict(workspace, workspace.vera, "src/a.py") == "free"


def test_a_claim_on_an_item_guards_no_files(workspace: WakeWorkspace) -> None:
    workspace.call(workspace.otto, AcquireClaim("src/a.py"))
    assert verdict(workspace, workspace.vera) == "free"


def test_the_guard_takes_files_as_names_not_as_patterns(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto, "src/[[]id].tsx", "src/page.ts")
    assert verdict(workspace, workspace.vera, "src/[id].tsx") == "denied"
    for name in ("src/i.tsx", "src/*.ts", "src/**", "src/pag?.ts"):
        assert verdict(workspace, workspace.vera, name) == "free", name


# --- the caller's own claims


def test_a_holder_may_change_its_own_files(workspace: WakeWorkspace) -> None:
    window = workspace.otto._replace(session="s-1")
    claim(workspace, window)
    assert verdict(workspace, window) == "free"
    assert verdict(workspace, workspace.otto) == "free", "a shell without a session"
    assert verdict(workspace, workspace.otto._replace(session="s-2")) == "denied", "another window"
    assert verdict(workspace, workspace.desktop) == "denied", "another surface"


def test_a_claim_without_a_session_belongs_to_every_session_of_its_sender(
    workspace: WakeWorkspace,
) -> None:
    claim(workspace, workspace.otto)
    assert verdict(workspace, workspace.otto._replace(session="s-1")) == "free"
    assert verdict(workspace, workspace.desktop) == "denied"


def test_the_guard_denies_claimed_files_to_the_owner(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    assert verdict(workspace, OWNER) == "denied"


# --- worktrees


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
    workspace: WakeWorkspace, claimed: str | None, here: str | None, expected: str
) -> None:
    claim(workspace, workspace.otto, worktree=claimed)
    assert verdict(workspace, workspace.vera, worktree=here) == expected


def test_a_claim_for_everywhere_guards_every_worktree(workspace: WakeWorkspace) -> None:
    held = claim(workspace, workspace.otto, worktree="/w/1")
    assert "everywhere" not in held
    assert verdict(workspace, workspace.vera, worktree="/w/2") == "warned"
    held = claim(workspace, workspace.otto, worktree="/w/1", everywhere=True)
    assert held["everywhere"] is True
    assert verdict(workspace, workspace.vera, worktree="/w/2") == "denied"
    assert claim(workspace, workspace.otto)["everywhere"] is True, "an omitted field is kept"


def test_waiting_and_taking_over_keep_the_flag_everywhere(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto, worktree="/w/1")
    wait = AcquireClaim(paths=("src/**",), repo="r", worktree="/w/3", everywhere=True, wait_s=600)
    workspace.node.call_once(workspace.vera, wait)
    workspace.call(workspace.otto, ReleaseClaim(paths=("src/**",), repo="r"))
    (served,) = workspace.call(OWNER, CheckClaim(paths=("src/**",), repo="r"))["claims"]
    assert (served["holder"], served["everywhere"]) == ("@vera", True)
    over = TakeOverClaim("now", paths=("src/**",), repo="r", worktree="/w/4", everywhere=True)
    assert workspace.call(workspace.mira, over)["claim"]["everywhere"] is True
    assert verdict(workspace, workspace.otto, worktree="/w/1") == "denied"


# --- the setting


def test_the_guard_can_warn_or_be_off(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto, everywhere=True)
    workspace.call(OWNER, ChangeSetting("guard", "warn"))
    assert verdict(workspace, workspace.vera) == "warned"
    assert workspace.step(workspace.vera, "edit", paths=("src/a.py",), repo="r")["allowed"] is True
    workspace.call(OWNER, ChangeSetting("guard", "off"))
    assert verdict(workspace, workspace.vera) == "free"
    workspace.call(OWNER, ChangeSetting("guard", "deny"))
    assert verdict(workspace, workspace.vera) == "denied"
    with pytest.raises(errors.Usage):
        workspace.call(OWNER, ChangeSetting("guard", "maybe"))


def test_an_edit_step_gets_the_same_answer_as_a_check(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto, worktree="/w/1")
    for here in ("/w/1", "/w/2"):
        where: Any = {"paths": ("src/a.py", "b"), "repo": "r", "worktree": here}
        answer = workspace.step(workspace.vera, "edit", **where)
        assert answer.items() >= workspace.call(workspace.vera, CheckPaths(**where)).items()


def test_a_check_appends_no_facts(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    head = workspace.head()
    check(workspace, workspace.vera)
    workspace.step(workspace.vera, "edit", paths=("src/a.py",), repo="r")
    assert workspace.head() == head


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../b", "a\0b", "\ud800", "x" * 4097]
)
def test_a_path_outside_the_repository_is_refused(workspace: WakeWorkspace, path: str) -> None:
    with pytest.raises(errors.Usage):
        check(workspace, workspace.vera, path)
    with pytest.raises(errors.Usage):
        workspace.step(workspace.vera, "edit", paths=(path,), repo="r")


# --- reported commits


def report(workspace: WakeWorkspace, by: Credentials, *paths: str, **fields: Any) -> list[str]:
    """Report a commit, and return the other holders' files that it touches."""
    commit, worktree = fields.pop("commit", COMMIT), fields.pop("worktree", None)
    answer = workspace.call(by, ReportCommit(commit, paths, "r", worktree))
    return [entry["path"] for entry in answer["crossed"]]


def inbox_texts(workspace: WakeWorkspace, by: Credentials) -> list[str]:
    """The messages in an inbox, each with its sender."""
    found = workspace.call(by, ListInbox())["messages"]
    return [f"{m['from']}: {m['payload']['text']}" for m in found]


def test_a_commit_that_crosses_claims_is_recorded_once_and_each_holder_gets_mail(
    workspace: WakeWorkspace,
) -> None:
    claim(workspace, workspace.otto._replace(session="s-1"), "src/**")
    claim(workspace, workspace.desktop, "doc/**")
    paths = ("src/a.py", "src/b.py", "src/c.py", "src/d.py", "doc/a.md", "free.py")
    for _ in range(2):
        assert sorted(report(workspace, workspace.vera, *paths)) == ["doc/a.md", *paths[:4]]
    facts = [fact["outcome"] for fact in workspace.facts("claim_crossed")]
    assert sorted(facts, key=lambda fact: str(fact["holder"])) == [
        {"repo": "r", "commit": COMMIT, "holder": "otto-cli", "paths": list(paths[:4])},
        {"repo": "r", "commit": COMMIT, "holder": "otto-desktop", "paths": ["doc/a.md"]},
    ]
    (text,) = inbox_texts(workspace, workspace.otto)
    assert text == (
        "@vera: The commit 555555555555 touches files that you claimed in r: "
        '"src/a.py", "src/b.py", "src/c.py" and 1 more'
    )
    assert len(inbox_texts(workspace, workspace.desktop)) == 1


def test_each_commit_that_crosses_a_claim_is_recorded(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    for commit in (COMMIT, "6" * 40):
        report(workspace, workspace.vera, "src/a.py", commit=commit)
    assert len(workspace.facts("claim_crossed")) == 2


def test_a_commit_that_crosses_no_claim_is_not_recorded(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto, worktree="/w/1")
    head = workspace.head()
    assert report(workspace, workspace.otto, "src/a.py") == []
    assert report(workspace, workspace.vera, "doc/a") == []
    assert report(workspace, workspace.vera, "src/a.py", worktree="/w/2") == [], (
        "a commit in another worktree gets a warning only"
    )
    workspace.call(OWNER, ChangeSetting("guard", "warn"))
    assert report(workspace, workspace.vera, "src/a.py") == []
    assert workspace.head() == head + 1


def test_a_commit_in_a_pause_is_checked_and_can_be_reported_later(
    workspace: WakeWorkspace,
) -> None:
    claim(workspace, workspace.otto)
    workspace.call(OWNER, Pause())
    head = workspace.head()
    assert report(workspace, workspace.vera, "src/a.py") == ["src/a.py"]
    assert workspace.head() == head
    workspace.call(OWNER, Resume())
    report(workspace, workspace.vera, "src/a.py")
    assert len(inbox_texts(workspace, workspace.otto)) == 1


def test_the_doctor_reports_a_crossed_claim_for_a_week(workspace: WakeWorkspace) -> None:
    claim(workspace, workspace.otto)
    assert workspace.call(OWNER, Examine())["ok"] is True
    report(workspace, workspace.vera, "src/a.py")
    assert doctor_findings(workspace) == [
        {
            "check": "commits-guarded",
            "message": "@vera made the commit 555555555555 in r without the guard. The commit "
            "changes files that @otto-cli had claimed.",
            "do": "Read the commit (git show 555555555555), and agree with @otto-cli on its "
            "changes.",
        }
    ]
    workspace.ms += 7 * 24 * HOUR
    assert len(doctor_findings(workspace)) == 1
    workspace.ms += 1
    assert doctor_findings(workspace) == []


def doctor_findings(workspace: WakeWorkspace) -> list[dict[str, str]]:
    """The doctor's findings about commits, without those about unread mail."""
    found = workspace.call(OWNER, Examine())["findings"]
    return [each for each in found if each["check"] == "commits-guarded"]


@pytest.mark.parametrize("commit", ["", "abc", "x" * 40, "HEAD", "5" * 39])
def test_a_commit_needs_its_whole_id(workspace: WakeWorkspace, commit: str) -> None:
    with pytest.raises(errors.Usage):
        report(workspace, workspace.vera, "a", commit=commit)


def test_a_commit_reported_in_parts_notifies_each_holder_once(
    workspace: WakeWorkspace,
) -> None:
    claim(workspace, workspace.otto, "src/**")
    claim(workspace, workspace.desktop, "doc/**")
    for paths in (("src/a.py",), ("doc/a.md", "src/b.py"), ("doc/b.md",)):
        assert sorted(report(workspace, workspace.vera, *paths)) == [*paths]
    facts = {fact["outcome"]["holder"]: fact["outcome"]["paths"] for fact in crossed(workspace)}
    assert facts == {"otto-cli": ["src/a.py"], "otto-desktop": ["doc/a.md"]}


def crossed(workspace: WakeWorkspace) -> list[dict[str, Any]]:
    found = workspace.facts("claim_crossed")
    assert len(found) == 2, "one fact for each holder"
    return found
