"""The name of a repository and the paths in it, from the caller's directory."""

import subprocess
from pathlib import Path

import pytest

from interlock.errors import Usage
from interlock.local.repository import name_and_paths


def test_all_forms_of_a_repository_give_one_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", clone], check=True)
    url = "https://user:secret@GitHub.com/acme/shop.git"
    subprocess.run(["git", "-C", clone, "remote", "add", "origin", url], check=True)
    monkeypatch.chdir(clone)
    spelled = [None, url, "git@github.com:acme/shop.git", ".", str(clone), "github.com/acme/shop"]
    assert {name_and_paths(repo, ["src/**"])[0] for repo in spelled} == {"github.com/acme/shop"}
    assert name_and_paths("a-name", ["src/**"])[0] == "a-name"


def test_brackets_in_the_current_directory_are_no_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "app" / "[id]").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "app" / "[id]")
    assert name_and_paths(None, ["./page.tsx"])[1] == ("app/[[]id]/page.tsx",)
    assert name_and_paths(None, ["../x.ts"])[1] == ("app/x.ts",)


def test_a_path_outside_of_the_repository_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "shop"
    subprocess.run(["git", "init", "-q", root], check=True)
    monkeypatch.chdir(root)
    for path in ("/etc/hosts", "../other/a.py", ".."):
        with pytest.raises(Usage, match="is outside of the repository"):
            name_and_paths(None, [path])
    assert name_and_paths(None, ["./..a/b"])[1] == ("..a/b",)
