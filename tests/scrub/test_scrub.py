"""The release scrub, on repositories that each test builds. The tests join secrets at run time, so
that this file contains none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.errors import Usage
from interlock.rooms.identity import token_format
from interlock.scrub import Finding, Rules, findings, rules_of

KEY = "AKIA" + "QWERTYUIOPASDFGH"
PRIVATE = Rules(words=("falcon",), paths=("/home/otto",))
# Acts as a person's editor: deletes the line at which it opens the file.
EDITOR = """
import sys
number, path = int(sys.argv[1][1:]), sys.argv[2]
with open(path, "rb") as file:
    lines = file.readlines()
del lines[number - 1]
with open(path, "wb") as file:
    file.writelines(lines)
"""


class Repo:
    """A repository in its own directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        place.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str | bytes, stdin: bytes | None = None) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.place, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "replace").strip()

    def commit(self, message: str, files: dict[str | bytes, bytes | str | None]) -> str:
        """Write the files (None deletes one), commit all changes, and return the commit's id."""
        for name, content in files.items():
            path = os.path.join(os.fsencode(self.place), os.fsencode(name))
            if content is None:
                os.unlink(path)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def scrub(self, rules: Rules = PRIVATE) -> list[Finding]:
        return findings(str(self.place), rules)

    def type(self, command: str) -> None:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.place, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stderr)

    def apply_fixes(self, rules: Rules = PRIVATE) -> None:
        """Run the fix of the first finding, until there are no findings."""
        for _ in range(30):
            found = self.scrub(rules)
            if not found:
                return
            self.type(found[0].fix.replace("NEW-NAME", "renamed"))
        pytest.fail(f"still found: {found}")


@pytest.fixture(autouse=True)
def person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let git ignore the settings of the user who runs the tests, and set an editor."""
    editor = tmp_path / "editor"
    editor.write_text(f"#!{sys.executable}\n{EDITOR}\n")
    editor.chmod(0o700)
    settings = {
        "EDITOR": str(editor),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Vera",
        "GIT_AUTHOR_EMAIL": "vera@example.com",
        "GIT_COMMITTER_NAME": "Vera",
        "GIT_COMMITTER_EMAIL": "vera@example.com",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.commit("Begin", {"README.md": "Hello\n"})
    return made


def only(found: list[Finding]) -> Finding:
    assert len(found) == 1, found
    return found[0]


def test_a_clean_repository_passes(repo: Repo) -> None:
    assert repo.scrub() == []


def test_private_content_is_found_and_the_fixes_remove_it(repo: Repo) -> None:
    old = repo.commit("Configure", {"src/settings.py": f"# settings\nkey = '{KEY}'\n"})
    repo.commit("Configure better", {"src/settings.py": "# settings\n"})
    told = repo.commit("Fix\n\nsee /home/otto/notes", {})
    stored = repo.commit("Work", {"data/cache.bin": b"SQLite format 3\0" + bytes(100)})
    repo.git("branch", "leftover")
    repo.git("checkout", "-q", "--orphan", "elsewhere")
    root = repo.commit("Another beginning", {})
    repo.git("checkout", "-q", "main")
    repo.git("merge", "-q", "--allow-unrelated-histories", "-m", "Join", "elsewhere")
    repo.git("branch", "-D", "elsewhere")

    found = {finding.check: finding for finding in repo.scrub()}
    assert len(repo.scrub()) == len(found) == 5
    secret = found["secret"]
    assert (secret.commit, secret.path, secret.line) == (old, "src/settings.py", 2)
    path = found["path"]
    assert (path.commit, path.path, path.line) == (told, None, 3)
    database = found["generated"]
    assert (database.commit, database.path) == (stored, "data/cache.bin")
    assert "SQLite" in database.what
    assert found["root"].commit == root
    assert "refs/heads/leftover" in found["ref"].what
    assert all(finding.fix.startswith(("git ", "${EDITOR")) for finding in found.values())

    repo.apply_fixes()
    assert repo.git("ls-files").split() == ["README.md", "src/settings.py"]
    assert repo.git("show-ref", "--head", "-d").count("\n") == 1
    assert repo.git("status", "--porcelain") == "?? data/"


def test_a_new_orphan_branch_passes(repo: Repo) -> None:
    repo.commit("Configure", {"a.txt": KEY})
    repo.commit("Configure better", {"a.txt": "nothing\n"})
    assert only(repo.scrub()).check == "secret"
    repo.type("git checkout -q --orphan public && git commit -q -m Public && git branch -M main")
    assert repo.scrub() == []


def test_the_secret_itself_is_never_shown(repo: Repo) -> None:
    phrase, field = "correct-horse-battery-staple", "pass" + "word"
    repo.commit("Oops", {"a.py": f"k = '{KEY}'\n{field} = '{phrase}'\n"})
    found = repo.scrub()
    assert [finding.line for finding in found] == [1, 2]
    assert KEY[:4] in found[0].what
    for finding in found:
        assert KEY[:5] not in str(finding.view())
        assert phrase[:4] not in str(finding.view())


def test_a_finding_omits_absent_members(repo: Repo) -> None:
    repo.git("branch", "leftover")
    assert only(repo.scrub()).view().keys() == {"check", "what", "fix", "fingerprint"}


def test_a_secret_in_many_versions_is_reported_once_with_its_first_commit(
    repo: Repo,
) -> None:
    first = repo.commit("One", {"a.txt": f"{KEY}\n"})
    repo.commit("Two", {"a.txt": f"above\n{KEY}\n"})
    repo.commit("Three", {"a.txt": f"further\nabove\n{KEY}\n"})
    finding = only(repo.scrub())
    assert (finding.commit, finding.line) == (first, 1)
    assert "+3 ./a.txt" in finding.fix
    repo.apply_fixes()
    assert (repo.place / "a.txt").read_text() == "further\nabove\n"


def test_two_files_with_the_same_content_are_two_findings(repo: Repo) -> None:
    repo.commit("Twice", {"a.txt": f"{KEY}\n", "b/c.txt": f"{KEY}\n"})
    assert [each.path for each in repo.scrub()] == ["a.txt", "b/c.txt"]
    repo.apply_fixes()
    assert (repo.place / "b" / "c.txt").read_text() == ""


def test_the_fix_is_for_the_current_version_even_if_it_was_restored(repo: Repo) -> None:
    repo.commit("One", {"a.txt": f"{KEY}\n"})
    repo.commit("Two", {"a.txt": f"above\n{KEY}\n"})
    repo.commit("One again", {"a.txt": f"{KEY}\n"})
    assert "+1 ./a.txt" in only(repo.scrub()).fix


def test_every_line_with_a_private_word_is_a_finding(repo: Repo) -> None:
    repo.commit("Words", {"a.txt": "the Falcon\nnothing\nfalcon_key\nfalconer\n"})
    assert [(each.check, each.line) for each in repo.scrub()] == [("word", 1), ("word", 3)]
    repo.apply_fixes()
    assert (repo.place / "a.txt").read_text() == "nothing\nfalconer\n"


def test_content_that_only_a_merge_adds_is_found_in_the_merge(repo: Repo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    aside = repo.commit("Aside", {"side.txt": "falcon\n"})
    repo.git("checkout", "-q", "main")
    repo.commit("Main", {"main.txt": "main\n"})
    repo.git("merge", "-q", "--no-commit", "side")
    merge = repo.commit("Merge", {"evil.txt": f"{KEY}\n"})
    repo.git("branch", "-d", "side")
    secret, word = repo.scrub()
    assert (secret.path, secret.commit) == ("evil.txt", merge)
    assert (word.path, word.commit) == ("side.txt", aside)


def test_tags_are_findings_unless_allowed_and_their_messages_are_checked(repo: Repo) -> None:
    repo.git("tag", "-a", "-m", "All about\nfalcon", "v1")
    repo.git("tag", "-a", "-m", "A tag of a tag by /home/otto", "v2", "v1")
    assert [each.check for each in repo.scrub()] == ["ref", "ref", "word", "word", "path"]
    rules = PRIVATE._replace(refs=("refs/tags/v*",))
    found = repo.scrub(rules)
    assert {(each.check, each.line) for each in found} == {("word", 2), ("path", 1)}
    repo.apply_fixes(rules)
    assert repo.git("tag") == ""


def test_an_allowed_ref_that_leads_to_no_commit_is_found(repo: Repo) -> None:
    repo.git("tag", "v1", repo.git("hash-object", "-w", "--stdin", stdin=KEY.encode()))
    finding = only(repo.scrub(Rules(refs=("refs/tags",))))
    assert finding.check == "ref"
    assert "blob" in finding.what


def test_a_new_history_deletes_allowed_tags_of_the_old_history(repo: Repo) -> None:
    repo.commit("falcon", {})
    repo.git("tag", "v1")
    repo.git("tag", "-a", "-m", "two", "v2")
    rules = PRIVATE._replace(refs=("refs/tags/v*",))
    repo.type(only(repo.scrub(rules)).fix)
    assert repo.scrub(rules) == []


@pytest.mark.parametrize(
    "make",
    [
        "git branch other",
        "git update-ref refs/remotes/origin/main HEAD",
        "git symbolic-ref refs/remotes/origin/HEAD refs/heads/main",
        "git notes add -m note",
        "echo change >> README.md && git stash -q",
        "git replace -f HEAD $(git commit-tree -m other HEAD^{tree})",
        "git update-ref refs/pull/1/head HEAD",
        "git update-ref 'refs/heads/it'\"'\"'s;odd' HEAD",
    ],
)
def test_every_kind_of_stray_ref_is_found_and_can_be_deleted(repo: Repo, make: str) -> None:
    before = repo.git("show-ref")
    repo.type(make)
    stray = [each for each in repo.scrub() if each.check == "ref"]
    repo.type(only(stray).fix)
    assert repo.scrub() == []
    assert repo.git("show-ref") == before


def test_content_that_only_a_stray_ref_reaches_is_removed_with_the_ref(repo: Repo) -> None:
    repo.git("checkout", "-q", "--orphan", "other")
    root = repo.commit("Other", {"b.txt": f"{KEY}\n"})
    repo.git("checkout", "-q", "main")
    found = repo.scrub()
    assert [each.check for each in found] == ["root", "ref", "secret"]
    assert {each.commit for each in found} == {root, None}
    for each in found:
        assert each.fix == "git update-ref --no-deref -d refs/heads/other"
    repo.type(found[2].fix)
    assert repo.scrub() == []


def test_replacements_and_grafts_hide_nothing(repo: Repo) -> None:
    bad = repo.commit("Bad", {"a.txt": KEY})
    repo.commit("Good", {"a.txt": "good\n"})
    (repo.place / ".git" / "info").mkdir(exist_ok=True)
    (repo.place / ".git" / "info" / "grafts").write_text(repo.git("rev-parse", "HEAD") + "\n")
    assert only(repo.scrub()).commit == bad
    repo.git("replace", "-f", bad, repo.git("rev-parse", f"{bad}^"))
    assert [each.commit for each in repo.scrub() if each.check == "secret"] == [bad]


ODD = [
    b"new\nline.db",
    b"it's.db",
    b"-rf.db",
    b":(top).db",
    b"*.db",
    b"\xff\xfe.db",
    b" .db",
    b"\\.db",
]


@pytest.mark.parametrize("name", ODD)
def test_file_names_with_special_characters_are_quoted(repo: Repo, name: bytes) -> None:
    repo.commit("Odd", {name: "x", "beside.txt": "stays\n"})
    finding = only(repo.scrub())
    assert finding.check == "generated"
    assert finding.path is not None
    assert finding.path.isprintable()
    assert "\n" not in finding.fix
    repo.apply_fixes()
    assert repo.git("ls-files").split() == ["README.md", "beside.txt"]


@pytest.mark.parametrize("name", [b"new\nline", b"it's", b"-x", b":x", b"*", b"\xff\xfe"])
def test_a_file_with_special_characters_in_its_name_can_be_edited(repo: Repo, name: bytes) -> None:
    repo.commit("Odd", {name: "good\nfalcon\n"})
    repo.apply_fixes()
    assert (Path(os.fsdecode(os.fsencode(repo.place) + b"/" + name))).read_text() == "good\n"


def test_a_private_word_in_a_files_name_is_found(repo: Repo) -> None:
    repo.commit("Name", {"docs/falcon.md": "x\n"})
    finding = only(repo.scrub())
    assert (finding.check, finding.path) == ("word", "docs/falcon.md")
    repo.apply_fixes()
    assert repo.git("ls-files").split() == ["README.md", "renamed"]


def test_a_symbolic_link_to_a_private_path_is_found(repo: Repo) -> None:
    (repo.place / "link").symlink_to("/home/otto/secret")
    repo.commit("Link", {})
    assert (only(repo.scrub()).check, only(repo.scrub()).path) == ("path", "link")
    repo.apply_fixes()
    assert repo.git("ls-files") == "README.md"


@pytest.mark.parametrize(
    "name",
    [
        "a/__pycache__/b.txt",
        "node_modules/x/y.js",
        "x.pyc",
        "log.db",
        "log.db-wal",
        "dump.rdb",
        ".DS_Store",
        ".venv/bin/python",
        ".interlock/log",
        "a.egg-info/PKG-INFO",
    ],
)
def test_caches_and_databases_are_recognised_by_name(repo: Repo, name: str) -> None:
    repo.commit("Made", {name: "made\n", "dir/made.txt": "x\n"})
    assert only(repo.scrub()).check == "generated"
    repo.apply_fixes()
    assert repo.git("ls-files").split() == ["README.md", "dir/made.txt"]


def test_a_cache_directory_is_one_finding_for_all_its_files(repo: Repo) -> None:
    repo.commit("Made", {f"web/node_modules/{n}/index.js": f"{n}\n" for n in range(20)})
    assert only(repo.scrub()).path == "web/node_modules"


@pytest.mark.parametrize(
    "start",
    [b"SQLite format 3\0", b"REDIS0011\xfa", b"\x37\x7f\x06\x82", b"PGDMP\1", b"-- MySQL dump 10"],
)
def test_databases_are_recognised_by_their_first_bytes(repo: Repo, start: bytes) -> None:
    made = repo.commit("Made", {"notes.txt": start + b"\0rest"})
    finding = only(repo.scrub())
    assert (finding.check, finding.path, finding.commit) == ("generated", "notes.txt", made)


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (".env", True),
        ("a/.env.local", True),
        (".env.example", False),
        ("id_rsa", True),
        ("x.p12", True),
        ("environment.py", False),
        (".netrc", True),
    ],
)
def test_files_for_secrets_are_recognised_by_name(repo: Repo, name: str, kept: bool) -> None:
    repo.commit("Add", {name: "nothing\n"})
    assert [each.check for each in repo.scrub()] == ["secret"] * kept


def test_a_path_that_is_not_allowed_is_found(repo: Repo) -> None:
    rules = Rules(allow=("README.md", "src/**"))
    repo.commit("In", {"src/a/b.py": "x\n"})
    assert repo.scrub(rules) == []
    out = repo.commit("Out", {"notes/todo.md": "x\n"})
    head = repo.git("rev-parse", "HEAD")
    repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    repo.git("commit", "-q", "-m", "Submodule")
    found = repo.scrub(rules)
    assert [(each.check, each.path) for each in found] == [
        ("outside", "notes/todo.md"),
        ("outside", "sub"),
    ]
    assert found[0].commit == out


def test_secrets_in_binary_and_in_other_encodings_are_found(repo: Repo) -> None:
    repo.commit(
        "Bytes",
        {
            "a.bin": bytes(range(256)) + b"\n\0" + KEY.encode() + b"\0",
            "b.txt": f"first\n{KEY}\n".encode("utf-16"),
            "c.txt": "M\xfcller\n".encode("latin-1"),
            "d.txt": "Mu\u0308ller\n",
            "e.txt": f"first\n{KEY}\n".encode("utf-16-le"),
            "f.txt": f"first\n\n{KEY}\n".encode("utf-16-be"),
        },
    )
    found = repo.scrub(Rules(words=("Müller",)))
    assert [(each.check, each.path) for each in found] == [
        ("secret", "a.bin"),
        ("secret", "b.txt"),
        ("secret", "e.txt"),
        ("secret", "f.txt"),
        ("word", "c.txt"),
        ("word", "d.txt"),
    ]
    assert [each.line for each in found[1:4]] == [2, 2, 3]


@pytest.mark.parametrize("beyond", [-10, 0, 700_000])
def test_a_secret_at_the_boundary_of_two_pieces_is_found(repo: Repo, beyond: int) -> None:
    lines = ["x" * 99] * ((1 << 20) // 100 + beyond // 100)
    filler = "\n".join(lines) + "\n" + "y" * ((1 << 20) % 100 + beyond % 100 - 10)
    repo.commit("Large", {"large.txt": f"{filler} {KEY}\n" + "z\n" * 10})
    finding = only(repo.scrub())
    assert (finding.check, finding.line) == ("secret", len(lines) + 1)


def test_a_secret_at_the_end_of_a_very_long_line_is_found(repo: Repo) -> None:
    repo.commit("Minified", {"a.js": "//a:b;password" * 15_000 + f" {KEY}"})
    assert "AKIA" in only(repo.scrub()).what


def test_a_private_name_or_address_is_reported_once(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "otto@falcon.example")
    first = repo.commit("One", {})
    repo.commit("Two", {})
    finding = only(repo.scrub())
    assert (finding.check, finding.commit, finding.line) == ("word", first, None)
    monkeypatch.delenv("GIT_AUTHOR_NAME")
    monkeypatch.delenv("GIT_AUTHOR_EMAIL")
    repo.type(finding.fix.replace("ADDRESS", "us@example.com"))
    assert repo.scrub() == []
    assert repo.git("log", "--format=%an <%ae>") == "NAME <us@example.com>"


def test_a_private_word_in_the_branchs_name_is_found(repo: Repo) -> None:
    repo.git("branch", "-m", "falcon")
    assert only(repo.scrub()).check == "word"
    repo.apply_fixes()


def test_comments_for_the_scanner_have_no_effect(repo: Repo) -> None:
    pragma = "pragma: allowlist " + "secret"
    repo.commit("Oops", {"a.py": f"# {pragma}\nk = '{KEY}'  # {pragma}\n"})
    assert only(repo.scrub()).line == 2


def test_ignored_findings_and_paths_are_omitted(repo: Repo) -> None:
    repo.commit("Samples", {"tests/sample.py": f"k = '{KEY}'\n"})
    finding = only(repo.scrub())
    assert repo.scrub(rules_of({"ignore": [finding.fingerprint]})) == []
    assert repo.scrub(rules_of({"ignore": ["tests/**"]})) == []
    repo.commit("Move", {"tests/sample.py": f"\n\nk = '{KEY}'\n"})
    assert only(repo.scrub()).fingerprint == finding.fingerprint
    repo.commit("Copy", {"src/other.py": f"k = '{KEY}'\n"})
    assert [each.path for each in repo.scrub(rules_of({"ignore": ["tests"]}))] == ["src/other.py"]
    repo.git("branch", "other")
    assert repo.scrub(rules_of({"ignore": ["**"]}))[0].check == "ref"


def test_interlocks_tokens_are_found_only_with_a_valid_checksum(repo: Repo) -> None:
    token = token_format.compose(bytes(range(25)))
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    repo.commit("Tokens", {"a.txt": f"{wrong}\n{token}\n"})
    finding = only(repo.scrub())
    assert (finding.check, finding.line) == ("secret", 2)
    assert finding.what == "Interlock token (ilk_…)"


def test_unquoted_values_are_found_in_settings_and_scripts(repo: Repo) -> None:
    field = "pass" + "word"
    line = f"{field}: hunter2correcthorse9\n"
    repo.commit(
        "Oops",
        {
            "conf/app.yaml": line,
            "notes.md": f"Notes\n{line}",
            "deploy": f"#!/usr/bin/env bash\nexport DB_{field.upper()}=hunter2correcthorse9\n",
        },
    )
    found = repo.scrub()
    assert [(each.path, each.line) for each in found] == [("conf/app.yaml", 1), ("deploy", 2)]
    assert {each.what for each in found} == {"Password or key"}


def test_each_of_two_tokens_in_a_file_is_a_finding(repo: Repo) -> None:
    one, two = ("gh" + "p_" + letters * 9 for letters in ("a1B2", "c3D4"))
    repo.commit("Oops", {"a.txt": f"{one}\n{two}\n"})
    first, second = repo.scrub()
    assert repo.scrub(rules_of({"ignore": [first.fingerprint]})) == [second]


def test_random_text_and_ip_addresses_are_no_secrets(repo: Repo) -> None:
    repo.commit(
        "Plain",
        {"a.py": f"digest = '{'0f1e2d3c4b5a6978' * 4}'\nurl = 'https://203.0.113.7/{'aB3' * 9}'\n"},
    )
    assert repo.scrub() == []


def test_the_scrub_does_not_use_the_network(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    tried: list[object] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *words, **_: tried.append(words))
    repo.commit(
        "Oops", {"a.txt": "xox" + "b-123456789012-abcdefghijkl\n" + "sk" + "_live_" + "a1B2" * 6}
    )
    assert len(repo.scrub()) == 2
    assert tried == []


def test_the_scrub_is_refused_without_detect_secrets(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("detect_secrets", "detect_secrets.core.plugins.util"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(Usage, match=re.escape("pip install 'interlock[scrub]'")):
        repo.scrub()


def test_uncommitted_files_are_ignored(repo: Repo) -> None:
    (repo.place / "untracked.txt").write_text(KEY)
    (repo.place / "README.md").write_text("falcon")
    assert repo.scrub() == []


def test_a_repository_without_commits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="no commit yet"):
        Repo(tmp_path / "empty").scrub()


def test_a_path_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="not a readable git repository"):
        findings(str(tmp_path / "absent"), Rules())


def test_a_shallow_clone_is_a_finding(repo: Repo, tmp_path: Path) -> None:
    repo.commit("Two", {})
    clone = Repo(tmp_path / "clone")
    clone.git("fetch", "-q", "--depth=1", f"file://{repo.place}", "main:new")
    clone.git("checkout", "-q", "new")
    clone.git("remote", "add", "origin", f"file://{repo.place}")
    finding = only(clone.scrub())
    assert (finding.check, finding.fix) == ("root", "git fetch --unshallow")
    clone.type(finding.fix)
    assert [each.check for each in clone.scrub()] == ["ref"]


def test_a_partial_clone_is_refused(repo: Repo) -> None:
    repo.git("config", "remote.origin.promisor", "true")
    with pytest.raises(Usage, match="partial clone"):
        repo.scrub()


def test_a_missing_object_is_refused(repo: Repo) -> None:
    repo.commit("Lose", {"a.txt": "lost\n"})
    blob = repo.git("rev-parse", "HEAD:a.txt")
    (repo.place / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(Usage, match=blob):
        repo.scrub()


def test_bare_repositories_and_worktrees_have_the_same_findings(repo: Repo, tmp_path: Path) -> None:
    repo.commit("Oops", {"a.txt": KEY})
    repo.commit("Better", {"a.txt": "x\n"})
    expected = repo.scrub()
    assert only(expected).check == "secret"
    repo.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    assert findings(str(tmp_path / "bare"), PRIVATE) == expected
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    (elsewhere,) = findings(str(tmp_path / "tree"), PRIVATE)
    assert elsewhere._replace(fix="") == expected[0]._replace(fix="")
    repo.type(f"cd {tmp_path / 'bare'} && {expected[0].fix}")
    assert findings(str(tmp_path / "bare"), PRIVATE) == []


def test_a_detached_head_must_be_at_the_commit_of_the_branch(repo: Repo) -> None:
    repo.commit("Two", {})
    repo.git("checkout", "-q", "--detach")
    assert repo.scrub() == []
    repo.git("checkout", "-q", "HEAD~1")
    assert only(repo.scrub()).fix == "git checkout -q main"
    repo.apply_fixes()
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"


def test_a_detached_head_selects_the_branch_at_its_commit(repo: Repo) -> None:
    repo.git("branch", "earlier")
    repo.commit("Two", {})
    repo.git("checkout", "-q", "--detach")
    assert "refs/heads/earlier" in only(repo.scrub()).what


def test_a_new_history_from_a_detached_head_moves_the_branch(repo: Repo) -> None:
    repo.commit("falcon", {})
    repo.git("checkout", "-q", "--detach")
    repo.apply_fixes()
    assert repo.git("rev-list", "--count", "main") == "1"


@pytest.mark.parametrize(
    "files", [{"a.txt": KEY}, {"falcon.txt": "a"}, {"app.sqlite3": "SQLite format 3\0"}]
)
def test_a_fix_from_a_detached_head_is_made_on_the_branch(
    repo: Repo, files: dict[str | bytes, bytes | str | None]
) -> None:
    repo.commit("Oops", files)
    repo.git("checkout", "-q", "--detach")
    assert repo.scrub()[0].fix.startswith("git checkout -q main && ")
    repo.apply_fixes()
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert "README.md" in repo.git("ls-tree", "--name-only", "main").split()


def test_a_head_without_an_existing_branch_is_found(repo: Repo) -> None:
    repo.git("symbolic-ref", "HEAD", "refs/heads/unborn")
    assert repo.scrub()[0].what == "HEAD points to refs/heads/unborn, which does not exist"
    repo.apply_fixes()
    assert repo.git("symbolic-ref", "HEAD") == "refs/heads/main"


def test_git_variables_of_a_hook_do_not_change_the_repository(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repo(tmp_path / "other")
    other.commit("Oops", {"a.txt": KEY})
    monkeypatch.setenv("GIT_DIR", str(repo.place / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(repo.place / ".git" / "index"))
    assert only(other.scrub()).check == "secret"


def test_thousands_of_commits_need_only_a_few_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = Repo(tmp_path / "long")
    repo.git("fast-import", "--quiet", stdin=history(2000, oops=1234))
    started: list[object] = []
    start = subprocess.Popen.__init__

    def counted(self: object, *words: object, **options: object) -> None:
        started.append(words)
        start(self, *words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess.Popen, "__init__", counted)
    finding = only(repo.scrub())
    assert len(started) < 20
    assert (finding.path, finding.line) == ("file4.txt", 2)
    assert repo.git("log", "-1", "--format=%s", str(finding.commit)) == "Commit 1234"


def history(length: int, oops: int) -> bytes:
    """Return input for git fast-import: commits that change ten files in turn."""
    parts = []
    for number in range(length):
        text = f"line {number}\n{KEY if number == oops else 'fine'}\n"
        parts.append(
            f"commit refs/heads/main\ncommitter Vera <vera@example.com> {number} +0000\n"
            f"data <<END\nCommit {number}\nEND\n"
            f"M 100644 inline file{number % 10}.txt\ndata {len(text)}\n{text}\n"
        )
    return "".join(parts).encode()
