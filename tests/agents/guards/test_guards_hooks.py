"""The hooks in real repositories: install, chain, refuse, undo; and the guards that apply to a
push."""

import fcntl
import os
import shlex
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.guards import commits, hooks
from interlock.agents.guards.commits import Push
from interlock.agents.guards.hooks import HOOKS, KEPT, written
from interlock.errors import Usage
from interlock.local.project import PushGuard

NOTHING = "0" * 40
SOMETHING = "a1" * 20


@pytest.fixture(autouse=True)
def _isolated_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore the git settings of the user who runs the tests."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "home" / "gitconfig"))
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Otto")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "otto@example.org")


def attempt(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", "-C", str(place), *words], capture_output=True, text=True, timeout=60
    )


def git(place: Path, *words: str) -> str:
    done = attempt(place, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(place: Path, name: str, text: str) -> str:
    file = place / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    git(place, "add", "--force", name)
    git(place, "commit", "--quiet", "--message", name)
    return git(place, "rev-parse", "HEAD")


def executable(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a commit, and an empty remote `origin`."""
    place = tmp_path / "a repo"
    git(tmp_path, "init", "--quiet", "--bare", "far.git")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", place.name)
    git(place, "remote", "add", "origin", str(tmp_path / "far.git"))
    commit(place, "file", "one")
    return place


class Stub:
    """A fake Interlock, which writes its arguments and input to files and exits with a given
    status."""

    def __init__(self, directory: Path) -> None:
        self.program = directory / "it's a stub"
        self.answers(0)

    def answers(self, code: int) -> None:
        script = '#!/bin/sh\nprintf "%s\\n" "$@" >"$0.words"\ncat >"$0.input"\nexit '
        executable(self.program, script + str(code))

    def words(self) -> list[str]:
        return self._noted("words").splitlines()

    def input(self) -> str:
        return self._noted("input")

    def was_called(self) -> bool:
        return os.path.exists(f"{self.program}.words")

    def _noted(self, what: str) -> str:
        return Path(f"{self.program}.{what}").read_text()


@pytest.fixture
def stub(tmp_path: Path) -> Stub:
    (tmp_path / "bin").mkdir()
    return Stub(tmp_path / "bin")


def install(place: Path, stub: Stub) -> str:
    """Install the hooks, and return the state of pre-push."""
    return _state(hooks.install(str(place), [str(stub.program)]))


def undo(place: Path) -> str:
    return _state(hooks.undo(str(place)))


def _state(answer: dict[str, Any]) -> str:
    return next(str(hook["state"]) for hook in answer["hooks"] if hook["hook"] == "pre-push")


def hook_file(repo: Path) -> Path:
    return repo / ".git" / "hooks" / "pre-push"


def listing(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Return the content and the mode of each file."""
    return {
        each.name: (each.read_bytes(), stat.S_IMODE(each.lstat().st_mode))
        for each in directory.iterdir()
    }


# The installed hook


def test_a_push_calls_interlock_with_the_arguments_and_input_of_git(
    repo: Path, stub: Stub, tmp_path: Path
) -> None:
    install(repo, stub)
    git(repo, "push", "origin", "main", "main:refs/heads/other")
    head = git(repo, "rev-parse", "HEAD")
    assert stub.words() == ["guard", "push", "origin", str(tmp_path / "far.git")]
    assert sorted(commits.pushes(stub.input()), key=lambda push: push.remote_ref) == [
        Push("refs/heads/main", head, "refs/heads/main", NOTHING),
        Push("refs/heads/main", head, "refs/heads/other", NOTHING),
    ]


def test_a_refusal_stops_the_push(repo: Path, stub: Stub, tmp_path: Path) -> None:
    install(repo, stub)
    stub.answers(1)
    assert attempt(repo, "push", "origin", "main").returncode != 0
    assert git(tmp_path / "far.git", "for-each-ref") == ""
    stub.answers(0)
    git(repo, "push", "origin", "main")
    assert git(tmp_path / "far.git", "for-each-ref") != ""


def test_an_existing_hook_runs_first_with_the_same_arguments_and_input(
    repo: Path, stub: Stub, tmp_path: Path
) -> None:
    before = Stub(tmp_path / "bin")
    before.program = hook_file(repo)
    before.answers(0)
    assert install(repo, stub) == "installed"
    before.program = Path(f"{hook_file(repo)}{KEPT}")
    git(repo, "push", "origin", "main")
    assert before.words() == stub.words()[2:] == ["origin", str(tmp_path / "far.git")]
    assert before.input() == stub.input() != ""


def test_a_refusal_by_an_existing_hook_stops_the_push(
    repo: Path, stub: Stub, tmp_path: Path
) -> None:
    executable(hook_file(repo), "#!/bin/sh\necho not today >&2\nexit 7\n")
    install(repo, stub)
    done = attempt(repo, "push", "origin", "main")
    assert done.returncode != 0
    assert "not today" in done.stderr
    assert not stub.was_called()
    assert git(tmp_path / "far.git", "for-each-ref") == ""


def test_an_existing_hook_that_is_not_executable_does_not_run(repo: Path, stub: Stub) -> None:
    executable(hook_file(repo), "#!/bin/sh\nexit 7\n").chmod(0o644)
    install(repo, stub)
    git(repo, "push", "origin", "main")
    assert stub.was_called()


def run_hook(repo: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run the hook like git does: with SIGPIPE ignored."""
    return subprocess.run(
        [hook_file(repo), "origin", "url"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=repo,
        restore_signals=False,
    )


@pytest.mark.parametrize("text", ["", "\n", "a b\n\n", "no end", "%s \\n $(x)\n", "x" * 3_000_000])
def test_input_arrives_unchanged(repo: Path, stub: Stub, text: str) -> None:
    install(repo, stub)
    assert run_hook(repo, text).returncode == 0
    assert stub.input() == text


def test_an_existing_hook_need_not_read_its_input(repo: Path, stub: Stub) -> None:
    executable(hook_file(repo), "#!/bin/sh\nexit 0\n")
    install(repo, stub)
    done = run_hook(repo, "x" * 3_000_000)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(stub.input()) == 3_000_000


def test_the_hook_refuses_if_interlock_is_missing(
    repo: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(repo, stub)
    stub.program.unlink()
    # A PATH with git and the tools of the shell, but without interlock.
    tools = stub.program.parent
    for tool in ("git", "cat", "sh"):
        found = subprocess.run(["which", tool], capture_output=True, text=True, check=True).stdout
        os.symlink(found.strip(), tools / tool)
    monkeypatch.setenv("PATH", str(tools))
    done = attempt(repo, "push", "origin", "main")
    assert done.returncode != 0
    assert "interlock guard install" in done.stderr
    executable(tools / "interlock", "#!/bin/sh\nexit 0\n")
    git(repo, "push", "origin", "main")


def test_a_hook_without_input_does_not_read_standard_input(tmp_path: Path, stub: Stub) -> None:
    script = written(HOOKS[0], [str(stub.program)])
    hook = executable(tmp_path / "pre-commit", script.decode())
    before = "#!/bin/sh\nread line; test \"$line $1\" = 'first a b'\n"
    executable(Path(f"{hook}{KEPT}"), before)
    done = subprocess.run([hook, "a b"], input="first\nsecond\n", text=True, timeout=60)
    assert done.returncode == 0
    assert stub.words() == ["guard", "check", "a b"]


def test_by_default_the_hook_calls_this_installation(repo: Path) -> None:
    hooks.install(str(repo))
    text = hook_file(repo).read_text()
    called = next(line for line in text.splitlines() if line.startswith("  set -- "))
    assert os.path.dirname(sys.executable) in called
    assert "interlock" in called


# Install and undo


def test_a_second_install_changes_nothing(repo: Path, stub: Stub) -> None:
    executable(hook_file(repo), "#!/bin/sh\nexit 0\n")
    assert install(repo, stub) == "installed"
    once = listing(hook_file(repo).parent)
    assert install(repo, stub) == "unchanged"
    assert listing(hook_file(repo).parent) == once


def test_install_repairs_a_changed_hook(repo: Path, stub: Stub) -> None:
    install(repo, stub)
    good = listing(hook_file(repo).parent)
    hook_file(repo).chmod(0o644)
    assert install(repo, stub) == "updated"
    assert listing(hook_file(repo).parent) == good
    hooks.install(str(repo), ["elsewhere"])
    assert install(repo, stub) == "updated"
    assert listing(hook_file(repo).parent) == good


def test_undo_removes_all_hooks(repo: Path, stub: Stub) -> None:
    before = listing(hook_file(repo).parent)
    install(repo, stub)
    assert listing(hook_file(repo).parent) != before
    assert undo(repo) == "removed"
    assert listing(hook_file(repo).parent) == before
    assert undo(repo) == "absent"


@pytest.mark.parametrize("mode", [0o755, 0o644, 0o700])
def test_undo_restores_an_existing_hook_byte_for_byte(repo: Path, stub: Stub, mode: int) -> None:
    hook_file(repo).write_bytes(b"#!/bin/sh\r\n\xff\0 no newline")
    hook_file(repo).chmod(mode)
    before = listing(hook_file(repo).parent)
    install(repo, stub)
    install(repo, stub)
    assert undo(repo) == "restored"
    assert listing(hook_file(repo).parent) == before
    assert undo(repo) == "absent"


def test_undo_restores_a_symbolic_link(repo: Path, stub: Stub) -> None:
    target = executable(repo / "scripts" / "push.sh", "#!/bin/sh\nexit 7\n")
    os.symlink("../../scripts/push.sh", hook_file(repo))
    install(repo, stub)
    assert attempt(repo, "push", "origin", "main").returncode != 0
    assert target.read_text() == "#!/bin/sh\nexit 7\n"
    assert undo(repo) == "restored"
    assert os.readlink(hook_file(repo)) == "../../scripts/push.sh"


def test_a_symbolic_link_to_a_hook_of_another_repository_counts_as_the_users(
    repo: Path, stub: Stub, tmp_path: Path
) -> None:
    install(tmp_path / "far.git", stub)
    elsewhere = tmp_path / "far.git" / "hooks" / "pre-push"
    os.symlink(elsewhere, hook_file(repo))
    assert install(repo, stub) == "installed"
    assert undo(repo) == "restored"
    assert os.readlink(hook_file(repo)) == str(elsewhere)


def test_undo_keeps_a_hook_that_interlock_did_not_install(repo: Path) -> None:
    executable(hook_file(repo), "#!/bin/sh\n")
    assert undo(repo) == "absent"
    assert hook_file(repo).read_text() == "#!/bin/sh\n"


def test_a_hook_that_was_replaced_after_install_is_reported_and_kept(
    repo: Path, stub: Stub
) -> None:
    executable(hook_file(repo), "#!/bin/sh\n# old\n")
    install(repo, stub)
    executable(hook_file(repo), "#!/bin/sh\n# new\n")
    before = listing(hook_file(repo).parent)
    for act in (hooks.install, hooks.undo):
        with pytest.raises(Usage, match=f"pre-push{KEPT}"):
            act(str(repo))
        assert listing(hook_file(repo).parent) == before


def test_an_interrupted_install_can_be_finished_or_undone(repo: Path, stub: Stub) -> None:
    """The interruption came after the rename of the earlier hook."""
    kept = executable(Path(f"{hook_file(repo)}{KEPT}"), "#!/bin/sh\n# old\n")
    assert undo(repo) == "restored"
    os.rename(hook_file(repo), kept)
    assert install(repo, stub) == "installed"
    assert undo(repo) == "restored"
    assert hook_file(repo).read_text() == "#!/bin/sh\n# old\n"


def test_concurrent_installs_keep_the_existing_hook(repo: Path, stub: Stub) -> None:
    executable(hook_file(repo), "#!/bin/sh\n# old\n")
    with ThreadPoolExecutor(8) as pool:
        states = list(pool.map(lambda _: install(repo, stub), range(16)))
    assert sorted(states) == ["installed"] + ["unchanged"] * 15
    assert undo(repo) == "restored"
    assert hook_file(repo).read_text() == "#!/bin/sh\n# old\n"


def test_install_waits_for_a_concurrent_install(repo: Path, stub: Stub) -> None:
    handle = os.open(hook_file(repo).parent, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        installed = pool.submit(install, repo, stub)
        with pytest.raises(TimeoutError):
            installed.result(timeout=1)
        executable(hook_file(repo), "#!/bin/sh\n# old\n")
        os.close(handle)
        assert installed.result(timeout=30) == "installed"
    assert undo(repo) == "restored"


def test_all_users_can_run_the_hook_of_a_shared_repository(repo: Path, stub: Stub) -> None:
    usual = os.umask(0o077)
    try:
        install(repo, stub)
    finally:
        os.umask(usual)
    assert stat.S_IMODE(hook_file(repo).stat().st_mode) == 0o755


def test_install_and_undo_are_refused_outside_of_a_repository(tmp_path: Path) -> None:
    for act in (hooks.install, hooks.undo):
        with pytest.raises(Usage, match="not in a git repository"):
            act(str(tmp_path))


def test_install_is_refused_if_the_hooks_cannot_be_written(repo: Path, stub: Stub) -> None:
    git(repo, "config", "core.hooksPath", str(repo / "file" / "hooks"))
    with pytest.raises(Usage, match="Cannot change the hooks"):
        install(repo, stub)


# The directory of the hooks


def test_one_install_covers_every_worktree(repo: Path, stub: Stub, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "--quiet", str(linked))
    assert install(linked, stub) == "installed"
    assert install(repo, stub) == "unchanged"
    assert hook_file(repo).exists()
    git(linked, "push", "origin", "linked")
    assert stub.words()[:2] == ["guard", "push"]


def test_install_works_in_a_subdirectory(repo: Path, stub: Stub) -> None:
    (repo / "deep" / "down").mkdir(parents=True)
    install(repo / "deep" / "down", stub)
    assert hook_file(repo).exists()


def test_install_creates_a_missing_hooks_directory(repo: Path, stub: Stub) -> None:
    for sample in hook_file(repo).parent.iterdir():
        sample.unlink()
    hook_file(repo).parent.rmdir()
    assert undo(repo) == "absent"
    assert install(repo, stub) == "installed"
    git(repo, "push", "origin", "main")
    assert stub.was_called()


def test_install_works_in_a_bare_repository(tmp_path: Path, stub: Stub, repo: Path) -> None:
    assert install(tmp_path / "far.git", stub) == "installed"
    assert (tmp_path / "far.git" / "hooks" / "pre-push").exists()


@pytest.mark.parametrize("path", ["own hooks", "~/hooks", "_", "[fg]ile"])
def test_install_uses_core_hookspath(repo: Path, stub: Stub, tmp_path: Path, path: str) -> None:
    git(repo, "config", "core.hooksPath", path)
    answer = hooks.install(str(repo), [str(stub.program)])
    place = (tmp_path / "home" / "hooks" if path[0] == "~" else repo / path) / "pre-push"
    assert str(place) in [hook["path"] for hook in answer["hooks"]]
    code = "HOOKS_ELSEWHERE" if path[0] == "~" else "HOOKS_OF_ONE_WORKTREE"
    assert [notice["code"] for notice in answer["notices"]] == [code]
    git(repo, "push", "origin", "main")
    assert stub.was_called()
    assert undo(repo) == "removed"
    assert not place.exists()


def test_the_command_in_the_notice_shares_the_hooks_with_every_worktree(
    repo: Path, stub: Stub, tmp_path: Path
) -> None:
    git(repo, "config", "core.hooksPath", "own hooks")
    (notice,) = hooks.install(str(repo), [str(stub.program)])["notices"]
    git(repo, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    git(tmp_path / "linked", "push", "origin", "HEAD:refs/heads/a")
    assert not stub.was_called()
    _, _, advice = notice["message"].rpartition(": git ")
    git(repo, *shlex.split(advice))
    git(tmp_path / "linked", "push", "origin", "HEAD:refs/heads/b")
    assert stub.was_called()


def test_hooks_in_the_default_directory_need_no_notice(
    repo: Path, stub: Stub, tmp_path: Path
) -> None:
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "--quiet", str(linked))
    assert "notices" not in hooks.install(str(linked), [str(stub.program)])


LINES = (
    ("pre-commit", 'interlock guard check "$@" || exit 1'),
    ("post-commit", 'interlock guard note "$@" || exit 1'),
    ("pre-push", 'interlock guard push "$@" || exit 1'),
)


@pytest.mark.parametrize(
    ("setting", "file"),
    [
        (".githooks", ".githooks/pre-push"),
        (".githooks", ".githooks/pre-commit"),
        (".husky/_", ".husky/pre-push"),
    ],
)
def test_tracked_hooks_are_not_changed(repo: Path, stub: Stub, setting: str, file: str) -> None:
    commit(repo, file, '#!/bin/sh\n # interlock guard push "$@"\n')
    executable(repo / setting / "h", "#!/bin/sh\n")
    git(repo, "config", "core.hooksPath", setting)
    before = listing(repo / setting)
    with pytest.raises(Usage) as caught:
        install(repo, stub)
    home = (repo / file).parent
    assert caught.value.members == {"add": [{"file": str(home / n), "line": x} for n, x in LINES]}
    for name, line in LINES:
        assert f"to {home / name}: {line}" in caught.value.message
    assert listing(repo / setting) == before


def test_tracked_hooks_that_call_interlock_are_accepted(
    repo: Path, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(repo, "config", "core.hooksPath", ".githooks")
    (repo / ".githooks").mkdir()
    for name, line in LINES:
        executable(repo / ".githooks" / name, f"#!/bin/sh\n{line}\n")
    git(repo, "add", ".githooks")
    before = listing(repo / ".githooks")
    assert install(repo, stub) == "by hand"
    assert undo(repo) == "absent"
    assert listing(repo / ".githooks") == before
    executable(stub.program.parent / "interlock", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", str(stub.program.parent), prepend=os.pathsep)
    assert attempt(repo, "push", "origin", "main").returncode != 0


# The input of the pre-push hook


def test_each_line_of_the_input_is_parsed() -> None:
    text = (
        f"refs/heads/main {SOMETHING} refs/heads/main {'b' * 40}\n"
        f"(delete) {NOTHING} refs/heads/old {SOMETHING}\n"
        f"HEAD^{{/fix the bug}} {'c' * 64} refs/heads/new {'0' * 64}\n"
    )
    changes = commits.pushes(text)
    assert changes == [
        Push("refs/heads/main", SOMETHING, "refs/heads/main", "b" * 40),
        Push("(delete)", NOTHING, "refs/heads/old", SOMETHING),
        Push("HEAD^{/fix the bug}", "c" * 64, "refs/heads/new", "0" * 64),
    ]
    assert [(each.deletes, each.creates) for each in changes] == [
        (False, False),
        (True, False),
        (False, True),
    ]


def test_empty_input_gives_no_pushes() -> None:
    assert commits.pushes("") == []


@pytest.mark.parametrize(
    "text",
    [
        "x",
        f"a {SOMETHING} b",
        f"a {SOMETHING} b {SOMETHING[:-1]}\n",
        f"a {SOMETHING} b --{SOMETHING}\n",
        f"a {SOMETHING.upper()} b {SOMETHING}\n",
        f"a {SOMETHING} b {SOMETHING} \n",
        f"a {SOMETHING} b {SOMETHING}\n\n \n",
    ],
)
def test_invalid_input_is_refused(text: str) -> None:
    with pytest.raises(Usage, match="pre-push"):
        commits.pushes(text)


# The guards in force

RULES = '[[guards]]\ngate = "{gate}"\nremote = "origin"\nbranch = "main"\n'


def rules(gate: str) -> str:
    return RULES.format(gate=gate)


def in_force(repo: Path, *oids: str) -> list[str]:
    return [guard.gate for guard in commits.guards_in_force(str(repo), *oids)]


def test_the_guards_of_the_working_tree_are_in_force(repo: Path) -> None:
    assert in_force(repo, NOTHING) == []
    (repo / "interlock.toml").write_text(rules("mine"))
    assert in_force(repo) == in_force(repo, NOTHING) == ["mine"]


def test_a_push_cannot_drop_its_own_guard(repo: Path) -> None:
    there = commit(repo, "interlock.toml", rules("release"))
    git(repo, "rm", "--quiet", "interlock.toml")
    git(repo, "commit", "--quiet", "--message", "without")
    assert in_force(repo, NOTHING) == []
    assert in_force(repo, there) == ["release"]


def test_guards_of_the_commit_and_the_working_tree_are_in_force_once(repo: Path) -> None:
    there = commit(repo, "interlock.toml", rules("release"))
    assert in_force(repo, there) == ["release"]
    (repo / "interlock.toml").write_text(rules("mine"))
    assert in_force(repo, there) == ["mine", "release"]


def test_an_unknown_commit_has_no_guards(repo: Path) -> None:
    assert in_force(repo, SOMETHING) == []


def test_rules_in_a_subdirectory_are_ignored(repo: Path) -> None:
    there = commit(repo, "below/interlock.toml", "no rules at all")
    assert in_force(repo, there) == []


def test_guards_of_a_tagged_commit_are_in_force(repo: Path) -> None:
    commit(repo, "interlock.toml", rules("release"))
    git(repo, "tag", "--annotate", "--message", "x", "v1")
    tag = git(repo, "rev-parse", "v1")
    (repo / "interlock.toml").unlink()
    assert in_force(repo, tag) == ["release"]


def test_invalid_rules_refuse_the_push(repo: Path) -> None:
    there = commit(repo, "interlock.toml", "guards = 1")
    with pytest.raises(Usage, match=r"interlock\.toml, guards"):
        in_force(repo, NOTHING)
    (repo / "interlock.toml").write_text(rules("mine"))
    with pytest.raises(Usage, match=f"interlock.toml of {there[:12]}, guards"):
        in_force(repo, there)


def test_a_directory_in_place_of_the_rules_refuses_the_push(repo: Path) -> None:
    there = commit(repo, "interlock.toml/file", "x")
    git(repo, "rm", "--quiet", "-r", "interlock.toml")
    with pytest.raises(Usage, match="Cannot read interlock"):
        in_force(repo, there)


def test_git_replace_does_not_hide_the_rules(repo: Path) -> None:
    without = git(repo, "rev-parse", "HEAD")
    there = commit(repo, "interlock.toml", rules("release"))
    git(repo, "rm", "--quiet", "interlock.toml")
    git(repo, "replace", there, without)
    assert in_force(repo, there) == ["release"]


def test_guards_apply_by_remote_and_ref(repo: Path, tmp_path: Path) -> None:
    head = commit(repo, "interlock.toml", rules("release"))
    far = str(tmp_path / "far.git")

    def met(remote: str, url: str, ref: str) -> list[str]:
        push = Push("HEAD", head, ref, NOTHING)
        return [guard.gate for guard in commits.covering(str(repo), remote, url, push)]

    assert met("origin", far, "refs/heads/main") == ["release"]
    assert met("origin", far, "refs/heads/other") == []
    assert met("upstream", str(tmp_path / "up.git"), "refs/heads/main") == []


def test_a_url_or_another_remote_name_does_not_bypass_a_guard(repo: Path, tmp_path: Path) -> None:
    commit(repo, "interlock.toml", rules("release"))
    far = str(tmp_path / "far.git")
    git(repo, "remote", "add", "alias", far)
    push = Push("HEAD", SOMETHING, "refs/heads/main", NOTHING)
    for remote, url in ((far, far), ("alias", far), (f"file://{far}", f"file://{far}")):
        found = commits.covering(str(repo), remote, url, push)
        assert found == (PushGuard("release", "origin", "main"),), remote


def test_guards_of_the_pushed_commit_are_in_force(repo: Path, tmp_path: Path) -> None:
    """The checked-out branch does not matter."""
    head = commit(repo, "interlock.toml", rules("release"))
    git(repo, "checkout", "--quiet", "HEAD~")
    push = Push("refs/heads/main", head, "refs/heads/main", NOTHING)
    found = commits.covering(str(repo), "origin", str(tmp_path / "far.git"), push)
    assert [guard.gate for guard in found] == ["release"]


REFUSES_GUARDED_PUSHES = """\
import os, sys
from interlock.agents.guards import commits
if sys.argv[2] != "push":
    sys.exit()
remote, url = sys.argv[3:]
pushes = commits.pushes(sys.stdin.read())
sys.exit(any(commits.covering(os.getcwd(), remote, url, each) for each in pushes))
"""


@pytest.fixture
def guarded(repo: Path, tmp_path: Path) -> Path:
    """A repository whose `main` is guarded, locally and on the remote. Its hook refuses a push if a
    guard applies."""
    commit(repo, "interlock.toml", rules("release"))
    git(repo, "push", "origin", "main")
    asks = tmp_path / "asks.py"
    asks.write_text(REFUSES_GUARDED_PUSHES)
    hooks.install(str(repo), [sys.executable, str(asks)])
    return repo


def test_a_real_push_to_a_guarded_branch_is_refused(guarded: Path) -> None:
    commit(guarded, "file", "two")
    assert attempt(guarded, "push", "origin", "main").returncode != 0
    assert attempt(guarded, "push", "origin", "main:other").returncode == 0


def test_a_real_push_that_removes_its_guard_is_refused(guarded: Path) -> None:
    git(guarded, "rm", "--quiet", "interlock.toml")
    git(guarded, "commit", "--quiet", "--message", "free at last")
    assert attempt(guarded, "push", "origin", "main").returncode != 0
    assert attempt(guarded, "push", "--force", "origin", "HEAD~2:main").returncode != 0
    assert attempt(guarded, "push", "origin", ":main").returncode != 0


def test_a_real_push_from_a_linked_worktree_is_refused(guarded: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(guarded, "worktree", "add", "--quiet", str(linked), "HEAD~")
    assert not (linked / "interlock.toml").exists()
    commit(linked, "file", "two")
    assert attempt(linked, "push", "--force", "origin", "HEAD:main").returncode != 0
    assert attempt(linked, "push", "origin", "HEAD:refs/heads/other").returncode == 0
