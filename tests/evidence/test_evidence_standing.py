"""Finding the commit and tree of a run in real repositories, without changes to them."""

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

from interlock.evidence import Standing, artifact, standing
from interlock.evidence.standing import unchanged

Git = Callable[..., str]


def git_in(place: str) -> Git:
    def git(*words: str) -> str:
        named = ["-c", "user.name=Otto", "-c", "user.email=otto@example.org"]
        done = subprocess.run(
            ["git", "-C", place, *named, *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    return git


def write(place: str, name: str, text: str) -> None:
    path = os.path.join(place, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def everything(place: str) -> dict[str, bytes]:
    """Return every file below a directory, with its content."""
    found = {}
    for folder, _, names in os.walk(place):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[path] = file.read()
    return found


@pytest.fixture(autouse=True)
def alone(tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git ignore repositories above the test's directory, and the user's settings."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", os.path.realpath(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def made(tmp_path: os.PathLike[str], *options: str) -> tuple[str, Git]:
    place = os.path.join(os.path.realpath(tmp_path), "repo")
    os.mkdir(place)
    git = git_in(place)
    git("init", "--quiet", *options)
    write(place, "a.txt", "one\n")
    write(place, ".gitignore", "ignored\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "first")
    return place, git


def tree_of_everything(place: str, git: Git) -> str:
    """Return the id of the working tree by git itself, which writes into the repository."""
    git("add", "--all")
    return git("write-tree")


def test_a_clean_checkout_has_the_tree_of_its_commit(tmp_path: os.PathLike[str]) -> None:
    place, git = made(tmp_path)
    write(place, "ignored", "noise")
    expected = Standing(git("rev-parse", "HEAD"), git("rev-parse", "HEAD^{tree}"), False, place)
    assert standing(place) == expected
    os.mkdir(os.path.join(place, "below"))
    assert standing(os.path.join(place, "below")) == expected


@pytest.mark.parametrize("objects", ["sha1", "sha256"])
@pytest.mark.parametrize("change", ["modified", "staged", "untracked", "deleted", "both", "mode"])
def test_a_dirty_tree_has_the_id_that_a_commit_would_have(
    tmp_path: os.PathLike[str], change: str, objects: str
) -> None:
    place, git = made(tmp_path, f"--object-format={objects}")
    match change:
        case "modified":
            write(place, "a.txt", "two\n")
        case "staged":
            write(place, "a.txt", "two\n")
            git("add", ".")
        case "untracked":
            write(place, "sub/new file.txt", "new\n")
        case "deleted":
            os.unlink(os.path.join(place, "a.txt"))
        case "both":
            write(place, "a.txt", "two\n")
            git("add", ".")
            write(place, "a.txt", "three\n")
        case "mode":
            os.chmod(os.path.join(place, "a.txt"), 0o755)
    found = standing(place)
    assert found is not None
    assert (found.commit, found.dirty) == (git("rev-parse", "HEAD"), True)
    assert found.tree == tree_of_everything(place, git)
    assert found.tree != git("rev-parse", "HEAD^{tree}")


def test_finding_the_tree_does_not_change_the_repository(tmp_path: os.PathLike[str]) -> None:
    place, git = made(tmp_path)
    write(place, "a.txt", "two\n")
    write(place, "new.txt", "new\n")
    write(place, ".git/hooks/post-index-change", "#!/bin/sh\ntouch hooked\n")
    os.chmod(os.path.join(place, ".git/hooks/post-index-change"), 0o755)
    git("config", "core.splitIndex", "true")
    os.utime(os.path.join(place, ".gitignore"), (1, 1))
    before = everything(place)
    found = standing(os.path.join(place, ".git", ".."))
    assert found is not None
    assert found.tree is not None
    assert everything(place) == before


def test_a_touched_file_with_the_same_contents_is_clean(tmp_path: os.PathLike[str]) -> None:
    place, _ = made(tmp_path)
    os.utime(os.path.join(place, "a.txt"), (1, 1))
    found = standing(place)
    assert found is not None
    assert not found.dirty


@pytest.mark.parametrize("mark", ["assume-unchanged", "skip-worktree"])
def test_a_change_of_a_file_that_the_index_ignores_is_detected(
    tmp_path: os.PathLike[str], mark: str
) -> None:
    place, git = made(tmp_path)
    git("update-index", f"--{mark}", "a.txt")
    assert standing(place) == Standing(*(artifact("HEAD", place) or ("", "")), False, place)
    write(place, "a.txt", "other\n")
    found = standing(place)
    assert found is not None
    assert found.dirty
    git("update-index", f"--no-{mark}", "a.txt")
    assert found.tree == tree_of_everything(place, git)


def test_a_sparse_checkout_is_not_dirty(
    tmp_path: os.PathLike[str],
) -> None:
    place, git = made(tmp_path)
    write(place, "far/b.txt", "b\n")
    git("add", ".")
    git("commit", "--quiet", "-m", "more")
    git("sparse-checkout", "set", "near")
    assert not os.path.exists(os.path.join(place, "far"))
    found = standing(place)
    assert found == Standing(*(artifact("HEAD", place) or ("", "")), False, place)
    write(place, "a.txt", "two\n")
    changed = standing(place)
    assert changed is not None
    assert changed.dirty
    assert changed.tree == tree_of_everything(place, git)


def test_a_change_at_the_time_of_adding_is_detected(tmp_path: os.PathLike[str]) -> None:
    """The file has the same size and time: only the time of the index shows that git must read the
    file."""
    place, git = made(tmp_path)
    git("config", "core.trustctime", "false")
    path, index = os.path.join(place, "a.txt"), os.path.join(place, ".git", "index")
    moment = 1_700_000_000_000_000_000
    os.utime(path, ns=(moment, moment))
    git("update-index", "--refresh")
    write(place, "a.txt", "two\n")
    for file in (path, index):
        os.utime(file, ns=(moment, moment))
    found = standing(place)
    assert found is not None
    assert found.dirty
    assert found.tree == tree_of_everything(place, git)
    assert found.tree != git("rev-parse", "HEAD^{tree}")


def test_untracked_files_count_even_if_the_settings_hide_them(tmp_path: os.PathLike[str]) -> None:
    place, git = made(tmp_path)
    git("config", "status.showUntrackedFiles", "no")
    write(place, "new.txt", "new\n")
    found = standing(place)
    assert found is not None
    assert found.dirty


def test_before_the_first_commit_a_checkout_has_a_tree_and_no_commit(
    tmp_path: os.PathLike[str],
) -> None:
    place = os.path.join(os.path.realpath(tmp_path), "repo")
    os.mkdir(place)
    git = git_in(place)
    git("init", "--quiet")
    write(place, "a.txt", "one\n")
    found = standing(place)
    assert found == Standing(None, tree_of_everything(place, git), True, place)


def test_outside_a_repository_or_without_git_the_result_is_none(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert standing(str(tmp_path)) is None
    place, git = made(tmp_path)
    bare = os.path.join(tmp_path, "bare")
    git("clone", "--quiet", "--bare", place, bare)
    assert standing(bare) is None
    assert standing(os.path.join(place, ".git")) is None
    assert standing(os.path.join(tmp_path, "nowhere")) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert standing(place) is None
    assert artifact("HEAD", place) is None


def test_a_repository_that_git_refuses_to_read_gives_none(
    tmp_path: os.PathLike[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _ = made(tmp_path)
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert standing(place) is None


def test_a_linked_worktree_has_its_own_tree(tmp_path: os.PathLike[str]) -> None:
    place, git = made(tmp_path)
    linked = os.path.join(os.path.realpath(tmp_path), "linked:tree")
    git("worktree", "add", "--quiet", "-b", "side", linked)
    write(linked, "b.txt", "two\n")
    assert standing(place) == Standing(*(artifact("HEAD", place) or ("", "")), False, place)
    found = standing(linked)
    assert found is not None
    assert (found.root, found.dirty) == (linked, True)
    assert found.tree == tree_of_everything(linked, git_in(linked))


def test_a_directory_with_special_characters_works(
    tmp_path: os.PathLike[str],
) -> None:
    place, _ = made(tmp_path)
    odd = os.path.join(os.path.realpath(tmp_path), 'a:b "c" \\d \n')
    shutil.move(place, odd)
    write(odd, "b.txt", "two\n")
    found = standing(odd)
    assert found is not None
    assert found.root == odd
    assert found.tree == tree_of_everything(odd, git_in(odd))


def test_a_submodule_counts_by_its_commit_and_its_changes_make_the_tree_dirty(
    tmp_path: os.PathLike[str],
) -> None:
    place, git = made(tmp_path)
    other = os.path.join(os.path.realpath(tmp_path), "other")
    git("clone", "--quiet", place, other)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", other, "part")
    git("commit", "--quiet", "-m", "with a part")
    clean = standing(place)
    assert clean is not None
    assert not clean.dirty
    write(place, "part/a.txt", "changed\n")
    found = standing(place)
    assert found == clean._replace(dirty=True)
    inside = standing(os.path.join(place, "part"))
    assert inside is not None
    assert (inside.root, inside.dirty) == (os.path.join(place, "part"), True)


def test_a_tree_that_cannot_be_hashed_is_dirty_and_has_no_id(tmp_path: os.PathLike[str]) -> None:
    place, _ = made(tmp_path)
    git_in(place)("init", "--quiet", "empty-inside")
    found = standing(place)
    assert found is not None
    assert (found.tree, found.dirty) == (None, True)


def test_a_run_that_changes_head_or_tracked_files_is_detected(
    tmp_path: os.PathLike[str],
) -> None:
    place, git = made(tmp_path)
    before = standing(place)
    assert before is not None
    write(place, "report.txt", "left by the run\n")
    assert unchanged(before)
    write(place, "a.txt", "two\n")
    assert not unchanged(before)
    git("add", "a.txt")
    assert not unchanged(before)
    git("commit", "--quiet", "-m", "second")
    assert not unchanged(before)
    git("reset", "--quiet", "--hard", "HEAD~1")
    assert unchanged(before)
    shutil.rmtree(os.path.join(place, ".git"))
    assert not unchanged(before)


def test_artifact_returns_commit_and_tree_of_a_revision(tmp_path: os.PathLike[str]) -> None:
    place, git = made(tmp_path)
    git("tag", "-a", "v1", "-m", "first")
    full, tree = git("rev-parse", "HEAD"), git("rev-parse", "HEAD^{tree}")
    for name in ("HEAD", "v1", full, full[:8], "HEAD~0"):
        assert artifact(name, place) == (full, tree)
    for name in ("nowhere", "HEAD~5", "", "-h", "--all", "a\0b", tree, "HEAD:a.txt"):
        assert artifact(name, place) is None
