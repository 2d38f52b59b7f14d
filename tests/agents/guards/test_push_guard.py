"""The guard of a branch: a real `git push` fails until the gate has passed exactly the pushed
commit."""

import subprocess

import pytest

from world.server import free_port
from world.working import GATE, HOLDER, TASK, WORKER, Workshop

pytestmark = pytest.mark.every_engine

GUARD = f'[[guards]]\ngate = "{GATE}"\nremote = "origin"\nbranch = "main"\n'


@pytest.fixture
def guarded(shop: Workshop) -> Workshop:
    """A repository with the hooks installed, and a bare remote whose branch main is guarded."""
    remote = str(shop.place.root / "remote.git")
    shop.git("init", "--quiet", "--bare", remote)
    shop.git("remote", "add", "origin", remote)
    shop.commit(**{"interlock.toml": GUARD})
    hooks = shop.place.ok("guard", "install")["hooks"]
    assert ("pre-push", "installed") in [(hook["hook"], hook["state"]) for hook in hooks]
    return shop


def pushed(shop: Workshop, *words: str) -> "subprocess.CompletedProcess[str]":
    return shop.tried("git", "push", *words)


def refused(shop: Workshop, *words: str) -> str:
    """Push, check that git refuses and the remote is unchanged, and return the output."""
    before = remote_branches(shop)
    done = pushed(shop, *words)
    assert done.returncode != 0, done
    assert remote_branches(shop) == before
    return done.stdout + done.stderr


def allowed(shop: Workshop, *words: str) -> None:
    done = pushed(shop, *words)
    assert done.returncode == 0, done.stderr


def remote_branches(shop: Workshop) -> dict[str, str]:
    """Return the commits of the remote's branches."""
    lines = shop.git("ls-remote", "--heads", "origin").splitlines()
    return {ref: commit for commit, _, ref in (line.partition("\t") for line in lines)}


def judge(shop: Workshop, verdict: str) -> None:
    """Submit the checked-out commit, and give it a verdict."""
    shop.place.ok("task", "submit", TASK, *WORKER)
    note = ("--note", "not yet") if verdict == "fail" else ()
    shop.place.ok("gate", verdict, TASK, GATE, *note, *HOLDER)


def test_a_push_is_refused_until_the_gate_has_passed_its_commit(guarded: Workshop) -> None:
    told = refused(guarded, "origin", "main")
    assert f"The gate {GATE} has not passed the commit {guarded.head[:12]}" in told
    guarded.taken()
    guarded.place.ok("task", "submit", TASK, *WORKER)
    refused(guarded, "origin", "main")
    guarded.place.ok("gate", "pass", TASK, GATE, *HOLDER)
    allowed(guarded, "origin", "main")
    assert remote_branches(guarded) == {"refs/heads/main": guarded.head}
    guarded.commit(**{"greet.sh": "echo hello\n"})
    refused(guarded, "origin", "main")
    judge(guarded, "fail")
    assert f"The gate {GATE} has failed the commit" in refused(guarded, "origin", "main")
    judge(guarded, "pass")
    allowed(guarded, "origin", "main")
    assert remote_branches(guarded) == {"refs/heads/main": guarded.head}


def test_the_refusal_for_a_missing_gate_says_how_to_create_it(guarded: Workshop) -> None:
    rules = guarded.place.cwd / "interlock.toml"
    guarded.write("interlock.toml", rules.read_text().replace(GATE, "minerva"))
    guarded.commit()
    told = refused(guarded, "origin", "main")
    assert (
        "The gate does not exist. Create it: interlock gate create minerva --holder SENDER" in told
    )
    assert "nobody" not in told
    guarded.place.ok("gate", "create", "minerva", "--holder", HOLDER[1])
    assert f"ask a holder (@{HOLDER[1]}) for a verdict" in refused(guarded, "origin", "main")


def test_the_next_submission_of_a_commit_clears_its_pass(guarded: Workshop) -> None:
    guarded.taken()
    judge(guarded, "pass")
    guarded.place.ok("task", "submit", TASK, *WORKER)
    refused(guarded, "origin", "main")


def test_a_branch_without_a_guard_can_be_pushed(guarded: Workshop) -> None:
    allowed(guarded, "origin", "main:draft")
    assert remote_branches(guarded) == {"refs/heads/draft": guarded.head}


def test_no_other_form_of_push_bypasses_the_guard(guarded: Workshop) -> None:
    """The forms are: another branch, the URL, another remote, --force, --all, and a commit that
    removes the guard."""
    url = guarded.git("remote", "get-url", "origin")
    guarded.git("branch", "draft")
    guarded.git("remote", "add", "mirror", url)
    for words in (
        ("origin", "draft:main"),
        (url, "main"),
        ("mirror", "main"),
        ("--force", "origin", "HEAD:refs/heads/main"),
        ("--all", "origin"),
    ):
        refused(guarded, *words)
    guarded.taken()
    judge(guarded, "pass")
    allowed(guarded, "origin", "main")
    guarded.git("rm", "--quiet", "interlock.toml")
    guarded.commit()
    refused(guarded, "origin", "main")


def test_a_guarded_branch_cannot_be_deleted(guarded: Workshop) -> None:
    guarded.taken()
    judge(guarded, "pass")
    allowed(guarded, "origin", "main", "main:draft")
    assert "deletion" in refused(guarded, "origin", "--delete", "main")
    allowed(guarded, "origin", "--delete", "draft")


def test_the_guard_refuses_if_it_cannot_reach_the_workspace(guarded: Workshop) -> None:
    guarded.taken()
    judge(guarded, "pass")
    alone = guarded.but(INTERLOCK_WORKSPACE=f"http://127.0.0.1:{free_port()}", INTERLOCK_TOKEN="x")
    refused(alone, "origin", "main")
    guarded.write("interlock.toml", "[[guards]]\ngates = 'athena'\n")
    assert "interlock.toml" in refused(guarded, "origin", "main")
    guarded.git("checkout", "--quiet", "interlock.toml")
    allowed(guarded, "origin", "main")


def test_the_guard_applies_to_an_agent_in_its_session(guarded: Workshop) -> None:
    push = ("git", "push", "--quiet", "origin", "main")
    guarded.taken()
    assert guarded.place.process("run", "otto-cli", "--", *push).status != 0
    assert remote_branches(guarded) == {}
    judge(guarded, "pass")
    assert guarded.place.process("run", "otto-cli", "--", *push).status == 0
    assert remote_branches(guarded) == {"refs/heads/main": guarded.head}


def test_undo_removes_the_guard(guarded: Workshop) -> None:
    refused(guarded, "origin", "main")
    hooks = guarded.place.ok("guard", "install", "--undo")["hooks"]
    assert {hook["state"] for hook in hooks} == {"removed"}
    allowed(guarded, "origin", "main")


def test_an_existing_hook_still_runs_and_still_refuses(guarded: Workshop) -> None:
    guarded.place.ok("guard", "install", "--undo")
    hook = guarded.place.cwd / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\ncat > ../told\ntest ! -e ../refuse\n")
    hook.chmod(0o755)
    hooks = guarded.place.ok("guard", "install")["hooks"]
    assert [each.get("runs_first") for each in hooks] == [None, None, f"{hook}.before-interlock"]
    refused(guarded, "origin", "main")
    told = (guarded.place.root / "told").read_text()
    assert told.startswith(f"refs/heads/main {guarded.head} refs/heads/main ")
    guarded.taken()
    judge(guarded, "pass")
    (guarded.place.root / "refuse").touch()
    refused(guarded, "origin", "main")
    (guarded.place.root / "refuse").unlink()
    allowed(guarded, "origin", "main")
    guarded.place.ok("guard", "install", "--undo")
    assert hook.read_text().startswith("#!/bin/sh\ncat")


# --- claims


def as_worker(shop: Workshop) -> Workshop:
    return shop.but(INTERLOCK_TOKEN=shop.place.token_of("otto-cli"))


@pytest.fixture
def remote(shop: Workshop) -> Workshop:
    """A repository with the hooks installed, and a bare remote that has all its commits."""
    where = str(shop.place.root / "remote.git")
    shop.git("init", "--quiet", "--bare", where)
    shop.git("remote", "add", "origin", where)
    shop.commit(**{"src/a.py": "1\n"})
    shop.git("push", "--quiet", "origin", "main")
    shop.place.ok("guard", "install")
    return shop


CLAIMED = ("claim", "acquire", "--path", "src/**", *HOLDER)


def test_a_push_of_commits_on_another_holders_claim_is_refused(remote: Workshop) -> None:
    remote.place.ok(*CLAIMED)
    worker = as_worker(remote)
    worker.write("src/a.py", "2\n")
    worker.git("commit", "--quiet", "--no-verify", "--all", "--message", "x")
    told = refused(worker, "origin", "main")
    assert "src/a.py is claimed by @vera until" in told
    assert "ask @vera" in told
    assert "src/a.py is claimed by @vera" in refused(worker, "origin", "HEAD:refs/heads/other")
    remote.place.ok("settings", "guard", "warn")
    done = pushed(worker, "origin", "HEAD:refs/heads/other")
    assert done.returncode == 0
    assert "warning: src/a.py is claimed by @vera" in done.stdout + done.stderr
    remote.place.ok("settings", "guard", "deny")
    remote.place.ok("claim", "release", "--path", "src/**", *HOLDER)
    allowed(worker, "origin", "main")


def test_commits_on_the_remote_and_unclaimed_files_can_be_pushed(remote: Workshop) -> None:
    remote.place.ok(*CLAIMED)
    worker = as_worker(remote)
    allowed(worker, "origin", "HEAD:refs/heads/other")
    worker.commit(**{"docs/a.md": "x\n"})
    allowed(worker, "origin", "main")
    allowed(worker, "origin", "--delete", "other")


def test_a_commit_from_before_the_claim_can_be_pushed(remote: Workshop) -> None:
    worker = as_worker(remote)
    worker.commit(**{"src/a.py": "2\n"})
    remote.place.ok(*CLAIMED)
    allowed(worker, "origin", "main")


def test_a_later_commit_does_not_hide_one_on_a_claim(remote: Workshop) -> None:
    remote.place.ok(*CLAIMED)
    worker = as_worker(remote)
    worker.write("src/a.py", "2\n")
    worker.git("commit", "--quiet", "--no-verify", "--all", "--message", "x")
    worker.git("config", "log.showSignature", "true")
    worker.but(GIT_COMMITTER_DATE="2020-01-01T00:00:00Z").commit(**{"docs/a.md": "x\n"})
    assert "src/a.py is claimed by @vera" in refused(worker, "origin", "main")


def test_any_sender_can_push_the_holders_commits(remote: Workshop) -> None:
    remote.place.ok("claim", "acquire", "--path", "src/**", *WORKER)
    worker = as_worker(remote)
    worker.commit(**{"src/a.py": "2\n"})
    allowed(worker, "origin", "main")
    worker.commit(**{"src/a.py": "3\n"})
    allowed(remote, "origin", "main")


def test_a_merge_of_pushed_commits_can_be_pushed(remote: Workshop) -> None:
    remote.place.ok(*CLAIMED)
    holder = remote.but(INTERLOCK_TOKEN=remote.place.token_of("vera"))
    holder.git("checkout", "--quiet", "-b", "theirs")
    holder.commit(**{"src/a.py": "2\n"})
    holder.git("push", "--quiet", "origin", "theirs")
    worker = as_worker(remote)
    worker.git("checkout", "--quiet", "main")
    worker.commit(**{"docs/a.md": "x\n"})
    worker.git("merge", "--quiet", "--no-edit", "theirs")
    allowed(worker, "origin", "main")
