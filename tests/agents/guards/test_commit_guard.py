"""The guard on commits: real git refuses a commit that touches what another holder has claimed, in
every worktree, and a commit that went by the guard does not go by unnoticed."""

import copy
import os
from pathlib import Path

import pytest

from world.working import HOLDER, WORKER, Workshop

pytestmark = pytest.mark.every_engine

CLAIM = ("claim", "acquire", "--path", "src/**")


@pytest.fixture
def guarded(shop: Workshop) -> Workshop:
    """A workshop whose repository has the guard installed."""
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
    """What whoever commits is told. Nothing is committed."""
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


def test_a_commit_on_anothers_paths_is_refused_and_names_the_holder(guarded: Workshop) -> None:
    guarded.place.ok(*CLAIM, "--note", "moving the parser", *HOLDER)
    worker = as_sender(guarded, "otto-cli")
    changed(worker)
    told = refused(worker)
    assert "src/a.py is claimed by @vera until" in told
    assert "moving the parser" in told
    assert "interlock claim acquire --path src/a.py --wait 1h --from otto-cli" in told
    guarded.place.ok("claim", "release", "--path", "src/**", *HOLDER)
    allowed(worker)


def test_nobody_is_kept_from_their_own(guarded: Workshop) -> None:
    """Whichever session it was claimed in, where the commit comes from none that is known."""
    changed(guarded)
    guarded.place.ok(*CLAIM, "--session", "window-1", *WORKER)
    allowed(as_sender(guarded, "otto-cli"))
    changed(guarded)
    allowed(as_sender(guarded, "otto-cli", INTERLOCK_SESSION="window-1"))
    changed(guarded)
    assert "session window-1" in refused(
        as_sender(guarded, "otto-cli", INTERLOCK_SESSION="window-2")
    )


def test_whoever_is_nobody_here_meets_every_claim(guarded: Workshop) -> None:
    guarded.place.ok(*CLAIM, *WORKER)
    changed(guarded)
    told = refused(guarded)
    assert "No sender is selected" in told
    assert "claim acquire" not in told, "which would be refused to nobody"


def test_other_files_are_free(guarded: Workshop) -> None:
    guarded.place.ok(*CLAIM, *HOLDER)
    changed(guarded, "docs/a.md")
    allowed(as_sender(guarded, "otto-cli"))


def test_what_is_moved_away_and_what_is_removed_count_too(guarded: Workshop) -> None:
    changed(guarded)
    allowed(guarded)
    guarded.place.ok(*CLAIM, *HOLDER)
    worker = as_sender(guarded, "otto-cli")
    worker.git("mv", "src/a.py", "b.py")
    assert "src/a.py" in refused(worker)
    worker.git("reset", "--quiet", "--hard")
    worker.git("rm", "--quiet", "src/a.py")
    assert "src/a.py" in refused(worker)


def test_names_that_look_like_patterns_are_names(guarded: Workshop) -> None:
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


def test_unless_the_claim_is_for_everywhere(guarded: Workshop, linked: Workshop) -> None:
    where = ("--worktree", str(guarded.place.cwd), "--everywhere")
    claim = guarded.place.ok(*CLAIM, *where, *HOLDER)["claim"]
    assert claim["everywhere"] is True
    changed(linked)
    refused(as_sender(linked, "otto-cli"))


@pytest.mark.parametrize("mode", ["warn", "off"])
def test_the_setting_decides_how_strict_it_is(guarded: Workshop, mode: str) -> None:
    guarded.place.ok("settings", "guard", mode)
    guarded.place.ok(*CLAIM, *HOLDER)
    worker = as_sender(guarded, "otto-cli")
    changed(worker)
    assert ("warning: src/a.py" in allowed(worker)) == (mode == "warn")


def test_a_commit_without_verification_is_noticed(linked: Workshop) -> None:
    """Its claim's holder is told, and the doctor names it, once."""
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


def test_another_message_for_the_last_commit_alarms_nobody(guarded: Workshop) -> None:
    worker = as_sender(guarded, "otto-cli")
    changed(worker)
    allowed(worker)
    guarded.place.ok(*CLAIM, *HOLDER)
    assert allowed(worker, "--amend", "--message", "y") == ""
    assert guarded.place.ok("inbox", *HOLDER)["messages"] == []
    changed(worker, "src/b.py")
    told = allowed(worker, "--amend", "--no-verify")
    assert "src/b.py, which @vera has claimed" in told
    assert "src/a.py" not in told, "which was there before"


def test_a_first_commit_that_is_made_again_is_looked_at_too(guarded: Workshop) -> None:
    worker = as_sender(guarded, "otto-cli")
    worker.git("checkout", "--quiet", "--orphan", "fresh")
    changed(worker)
    worker.git("commit", "--quiet", "--message", "Begin again")
    guarded.place.ok(*CLAIM, *HOLDER)
    changed(worker)
    assert "src/a.py, which @vera has claimed" in allowed(worker, "--amend", "--no-verify")


def test_who_asks_with_nothing_staged_is_told_so_and_a_hook_says_nothing(
    guarded: Workshop,
) -> None:
    worker = as_sender(guarded, "otto-cli")
    assert "No file is staged." in worker.place.run("guard", "check").text
    changed(worker)
    assert "No other holder has claimed these files." in worker.place.run("guard", "check").text
    assert allowed(worker) == ""
    assert allowed(worker, "--allow-empty") == ""


def test_a_commit_that_crosses_nothing_leaves_no_trace(guarded: Workshop) -> None:
    guarded.place.ok(*CLAIM, *WORKER)
    before = guarded.place.ok("status")["entries"]
    changed(guarded)
    allowed(as_sender(guarded, "otto-cli"), "--no-verify")
    assert guarded.place.ok("status")["entries"] == before


def test_scripts_can_ask(guarded: Workshop) -> None:
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


def test_a_hook_that_was_there_runs_first(shop: Workshop) -> None:
    before = Path(shop.place.cwd) / ".git" / "hooks" / "pre-commit"
    before.write_text("#!/bin/sh\necho the one before\nexit 1\n")
    before.chmod(0o755)
    shop.place.ok("guard", "install")
    changed(shop)
    assert "the one before" in refused(shop)
    shop.place.ok("guard", "install", "--undo")
    assert before.read_text() == "#!/bin/sh\necho the one before\nexit 1\n"


def test_a_link_is_asked_about_by_both_of_its_names(guarded: Workshop) -> None:
    place = guarded.place
    guarded.write("src/a.py", "x")
    (place.cwd / "link.py").symlink_to("src/a.py")
    for claimed in ("link.py", "src/a.py"):
        place.ok("claim", "acquire", "--path", claimed, *HOLDER)
        found = place.run("guard", "check", "link.py", "--json", *WORKER)
        assert [entry["path"] for entry in found.json["denied"]] == [claimed]
        place.ok("claim", "release", "--path", claimed, *HOLDER)


def test_a_directory_is_denied_where_a_claim_lies_in_it(guarded: Workshop) -> None:
    place = guarded.place
    guarded.write("src/a.py", "x")
    guarded.write("docs/a.md", "x")
    place.ok("claim", "acquire", "--path", "src/a.py", *HOLDER)
    for path, status in (("src", 1), ("src/", 1), (".", 1), ("docs", 0)):
        assert place.run("guard", "check", path, *WORKER).status == status, path
    (place.cwd / "src").rename(place.cwd / "moved")
    (place.cwd / "src").symlink_to("moved")
    assert place.run("guard", "check", "src", *WORKER).status == 1


def test_a_guard_that_is_off_is_not_taken_for_a_yes(guarded: Workshop) -> None:
    place = guarded.place
    place.ok(*CLAIM, *HOLDER)
    place.ok("settings", "guard", "off")
    assert "The guard is off" in place.run("guard", "check", "src/a.py", *WORKER).text
    changed(guarded)
    assert allowed(as_sender(guarded, "otto-cli")) == ""


def test_a_guard_that_cannot_ask_says_that_it_refuses_and_what_to_do(guarded: Workshop) -> None:
    changed(guarded)
    told = refused(guarded.but(INTERLOCK_WORKSPACE="http://127.0.0.1:9", INTERLOCK_TOKEN="ilk_x"))
    assert "Interlock's guard cannot check the claims" in told
    assert "git commit --no-verify" in told
