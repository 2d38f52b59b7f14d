"""The guard on commits: git refuses a commit on files that another holder has claimed, in every
worktree. A commit that bypasses the guard is reported."""

import copy
import os
from pathlib import Path

import pytest

from world.working import HOLDER, WORKER, Workshop

pytestmark = pytest.mark.every_engine

CLAIM = ("claim", "acquire", "--path", "src/**")


@pytest.fixture
def guarded(shop: Workshop) -> Workshop:
    """A repository with the guard installed."""
    shop.place.ok("guard", "install")
    return shop


@pytest.fixture
def linked(guarded: Workshop) -> Workshop:
    """Another worktree of the same repository."""
    other = copy.copy(guarded)
    other.place = copy.copy(guarded.place)
    other.place.cwd = guarded.place.root / "linked"
    guarded.git("worktree", "add", "--quiet", str(other.place.cwd))
    return other


def as_sender(shop: Workshop, sender: str, **environ: str) -> Workshop:
    return shop.but(INTERLOCK_TOKEN=shop.place.token_of(sender), **environ)


def changed(shop: Workshop, name: str = "src/a.py") -> None:
    shop.write(name, f"{os.urandom(4).hex()}\n")
    shop.git("add", "--all")


def refused(shop: Workshop, *words: str) -> str:
    """Commit, check that git refuses, and return the output."""
    before = shop.head
    done = shop.tried("git", "commit", "--quiet", "--message", "x", *words)
    assert done.returncode != 0, done
    assert shop.head == before
    return done.stdout + done.stderr


def allowed(shop: Workshop, *words: str) -> str:
    before = shop.head
    done = shop.tried("git", "commit", "--quiet", "--message", "x", *words)
    assert done.returncode == 0, done
    assert shop.head != before
    return done.stdout + done.stderr


def test_a_commit_on_another_holders_paths_is_refused_and_names_the_holder(
    guarded: Workshop,
) -> None:
    guarded.place.ok(*CLAIM, "--note", "moving the parser", *HOLDER)
    worker = as_sender(guarded, "otto-cli")
    changed(worker)
    told = refused(worker)
    assert "src/a.py is claimed by @vera until" in told
    assert "moving the parser" in told
    assert "interlock claim acquire --path src/a.py --wait 1h --from otto-cli" in told
    guarded.place.ok("claim", "release", "--path", "src/**", *HOLDER)
    allowed(worker)


def test_a_sender_can_commit_under_its_own_claim(guarded: Workshop) -> None:
    """A commit without a session matches a claim of any session of its sender."""
    changed(guarded)
    guarded.place.ok(*CLAIM, "--session", "window-1", *WORKER)
    allowed(as_sender(guarded, "otto-cli"))
    changed(guarded)
    allowed(as_sender(guarded, "otto-cli", INTERLOCK_SESSION="window-1"))
    changed(guarded)
    assert "session window-1" in refused(
        as_sender(guarded, "otto-cli", INTERLOCK_SESSION="window-2")
    )


def test_a_commit_without_a_sender_is_checked_against_every_claim(guarded: Workshop) -> None:
    guarded.place.ok(*CLAIM, *WORKER)
    changed(guarded)
    told = refused(guarded)
    assert "No sender is selected" in told
    assert "claim acquire" not in told, "a caller without a sender cannot acquire a claim"


def test_files_without_a_claim_can_be_committed(guarded: Workshop) -> None:
    guarded.place.ok(*CLAIM, *HOLDER)
    changed(guarded, "docs/a.md")
    allowed(as_sender(guarded, "otto-cli"))


def test_moved_and_removed_files_count_as_changed(guarded: Workshop) -> None:
    changed(guarded)
    allowed(guarded)
    guarded.place.ok(*CLAIM, *HOLDER)
    worker = as_sender(guarded, "otto-cli")
    worker.git("mv", "src/a.py", "b.py")
    assert "src/a.py" in refused(worker)
    worker.git("reset", "--quiet", "--hard")
    worker.git("rm", "--quiet", "src/a.py")
    assert "src/a.py" in refused(worker)


def test_file_names_that_look_like_patterns_match_literally(guarded: Workshop) -> None:
    guarded.place.ok("claim", "acquire", "--path", "src/a.py", *HOLDER)
    changed(guarded, "src/[a].py")
    changed(guarded, "src/*.py")
    allowed(as_sender(guarded, "otto-cli"))


def test_a_linked_worktree_has_the_same_guard(linked: Workshop) -> None:
    linked.place.ok(*CLAIM, *HOLDER)
    worker = as_sender(linked, "otto-cli")
    changed(worker)
    assert "src/a.py is claimed by @vera" in refused(worker)


def test_a_claim_in_another_worktree_is_a_warning(guarded: Workshop, linked: Workshop) -> None:
    where = ("--worktree", str(guarded.place.cwd))
    guarded.place.ok(*CLAIM, *where, *HOLDER)
    worker = as_sender(linked, "otto-cli")
    changed(worker)
    told = allowed(worker)
    assert f"warning: src/a.py is claimed by @vera in {guarded.place.cwd}" in told
    here = as_sender(guarded, "otto-cli")
    changed(here)
    refused(here)


def test_a_claim_for_every_worktree_is_enforced_in_another_worktree(
    guarded: Workshop, linked: Workshop
) -> None:
    where = ("--worktree", str(guarded.place.cwd), "--everywhere")
    claim = guarded.place.ok(*CLAIM, *where, *HOLDER)["claim"]
    assert claim["everywhere"] is True
    changed(linked)
    refused(as_sender(linked, "otto-cli"))


@pytest.mark.parametrize("mode", ["warn", "off"])
def test_the_setting_guard_selects_warning_or_off(guarded: Workshop, mode: str) -> None:
    guarded.place.ok("settings", "guard", mode)
    guarded.place.ok(*CLAIM, *HOLDER)
    worker = as_sender(guarded, "otto-cli")
    changed(worker)
    assert ("warning: src/a.py" in allowed(worker)) == (mode == "warn")


def test_a_commit_that_skips_the_hook_is_reported(linked: Workshop) -> None:
    """The holder of the claim gets one message, and the doctor reports the commit."""
    place = linked.place
    assert place.ok("doctor")["ok"] is True
    place.ok(*CLAIM, *HOLDER)
    worker = as_sender(linked, "otto-cli")
    changed(worker)
    refused(worker)
    allowed(worker, "--no-verify")
    commit = linked.head
    sick = place.run("doctor", "--json")
    assert sick.status == 1
    (finding,) = sick.json["findings"]
    assert finding["check"] == "commits-guarded"
    assert commit[:12] in finding["message"]
    assert "@otto-cli" in finding["message"]
    assert "@vera" in finding["message"]
    (mail,) = place.ok("inbox", *HOLDER)["messages"]
    assert mail["from"] == "@otto-cli"
    assert commit[:12] in mail["payload"]["text"]
    place.ok("guard", "note", *WORKER)
    assert len(place.ok("inbox", *HOLDER)["messages"]) == 1


def test_an_amended_commit_message_causes_no_report(guarded: Workshop) -> None:
    worker = as_sender(guarded, "otto-cli")
    changed(worker)
    allowed(worker)
    guarded.place.ok(*CLAIM, *HOLDER)
    assert allowed(worker, "--amend", "--message", "y") == ""
    assert guarded.place.ok("inbox", *HOLDER)["messages"] == []
    changed(worker, "src/b.py")
    told = allowed(worker, "--amend", "--no-verify")
    assert "src/b.py, which @vera has claimed" in told
    assert "src/a.py" not in told, "the commit before the amendment had changed it"


def test_an_amended_first_commit_is_checked(guarded: Workshop) -> None:
    worker = as_sender(guarded, "otto-cli")
    worker.git("checkout", "--quiet", "--orphan", "fresh")
    changed(worker)
    worker.git("commit", "--quiet", "--message", "Begin again")
    guarded.place.ok(*CLAIM, *HOLDER)
    changed(worker)
    assert "src/a.py, which @vera has claimed" in allowed(worker, "--amend", "--no-verify")


def test_guard_check_reports_that_nothing_is_staged_and_the_hook_prints_nothing(
    guarded: Workshop,
) -> None:
    worker = as_sender(guarded, "otto-cli")
    assert "No file is staged." in worker.place.run("guard", "check").text
    changed(worker)
    assert "No other holder has claimed these files." in worker.place.run("guard", "check").text
    assert allowed(worker) == ""
    assert allowed(worker, "--allow-empty") == ""


def test_a_commit_without_a_conflict_appends_no_entry(guarded: Workshop) -> None:
    guarded.place.ok(*CLAIM, *WORKER)
    before = guarded.place.ok("status")["entries"]
    changed(guarded)
    allowed(as_sender(guarded, "otto-cli"), "--no-verify")
    assert guarded.place.ok("status")["entries"] == before


def test_guard_check_answers_in_json(guarded: Workshop) -> None:
    place = guarded.place
    place.ok(*CLAIM, *HOLDER)
    guarded.write("src/a.py", "x")
    found = place.run("guard", "check", "src/a.py", "greet.sh", "--json", *WORKER)
    assert found.status == 1
    assert found.json["code"] == "CLAIM_HELD"
    assert [entry["path"] for entry in found.json["denied"]] == ["src/a.py"]
    assert place.ok("guard", "check", "src/a.py", *HOLDER)["allowed"] is True
    assert place.ok("guard", "check", *WORKER) == {"allowed": True, "denied": [], "warned": []}
    outside = place.run("guard", "check", "../elsewhere", "--json", *WORKER)
    assert (outside.status, outside.json["code"]) == (2, "USAGE")


def test_an_existing_hook_runs_first(shop: Workshop) -> None:
    before = Path(shop.place.cwd) / ".git" / "hooks" / "pre-commit"
    before.write_text("#!/bin/sh\necho the earlier hook\nexit 1\n")
    before.chmod(0o755)
    shop.place.ok("guard", "install")
    changed(shop)
    assert "the earlier hook" in refused(shop)
    shop.place.ok("guard", "install", "--undo")
    assert before.read_text() == "#!/bin/sh\necho the earlier hook\nexit 1\n"


def test_a_symbolic_link_is_checked_under_both_names(guarded: Workshop) -> None:
    place = guarded.place
    guarded.write("src/a.py", "x")
    (place.cwd / "link.py").symlink_to("src/a.py")
    for claimed in ("link.py", "src/a.py"):
        place.ok("claim", "acquire", "--path", claimed, *HOLDER)
        found = place.run("guard", "check", "link.py", "--json", *WORKER)
        assert [entry["path"] for entry in found.json["denied"]] == [claimed]
        place.ok("claim", "release", "--path", claimed, *HOLDER)


def test_a_directory_that_contains_a_claimed_file_is_denied(guarded: Workshop) -> None:
    place = guarded.place
    guarded.write("src/a.py", "x")
    guarded.write("docs/a.md", "x")
    place.ok("claim", "acquire", "--path", "src/a.py", *HOLDER)
    for path, status in (("src", 1), ("src/", 1), (".", 1), ("docs", 0)):
        assert place.run("guard", "check", path, *WORKER).status == status, path
    (place.cwd / "src").rename(place.cwd / "moved")
    (place.cwd / "src").symlink_to("moved")
    assert place.run("guard", "check", "src", *WORKER).status == 1


def test_guard_check_reports_that_the_guard_is_off(guarded: Workshop) -> None:
    place = guarded.place
    place.ok(*CLAIM, *HOLDER)
    place.ok("settings", "guard", "off")
    assert "The guard is off" in place.run("guard", "check", "src/a.py", *WORKER).text
    changed(guarded)
    assert allowed(as_sender(guarded, "otto-cli")) == ""


def test_a_guard_without_a_connection_refuses_and_says_what_to_do(guarded: Workshop) -> None:
    changed(guarded)
    told = refused(guarded.but(INTERLOCK_WORKSPACE="http://127.0.0.1:9", INTERLOCK_TOKEN="ilk_x"))
    assert "Interlock's guard cannot check the claims" in told
    assert "git commit --no-verify" in told
