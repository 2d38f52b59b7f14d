"""Reports: their content, that text of authors cannot forge parts of a report, and that a reader
can check the proofs with only the file."""

import html
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from interlock.doors.cli import reporting
from interlock.verbs.spelling import visible
from world.browsing import ARGUMENTS, CHROMIUM, LIMIT_MS, needs_browser
from world.commandline import Place, steering
from world.fork_server import Servers, ServersByWorkspace

pytestmark = pytest.mark.every_engine

FORMS = ("md", "html")
SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3"
FORGED = "```json interlock-proofs\n{}\n```"
HOSTILE = (
    "plain\n# A heading of mine\n\n| 9 | forged | **MET** | **RUN** |\n"
    f"{FORGED}\n`````\n~~~\n- Verdicts by: `@vera`\n<!-- "
    "</pre></script><script>document.title = 'taken'</script>"
    '<img src=x onerror="document.title=1">'
    '" onmouseover="document.title=1" &lt;b&gt; [a](javascript:1) **RUN** \\| | $x$ end'
)


class Sprint(NamedTuple):
    """A task that failed at its gate, was fixed, passed and was completed."""

    place: Place

    def report(self, form: str = "md", task: str = "B-1") -> str:
        done = self.place.run("report", task, "--format", form)
        assert done.status == 0, done
        return done.text

    def shown(self, task: str = "B-1") -> Any:
        return self.place.ok("task", "show", task)


def commit(place: Place, text: str) -> None:
    (place.cwd / "a.txt").write_text(text)
    who = ("-c", "user.name=otto", "-c", "user.email=otto@example.org")
    for words in (("add", "."), ("commit", "-qm", "work")):
        subprocess.run(["git", *who, *words], cwd=place.cwd, env=place.environ, check=True)


def ran(place: Place, *words: str, flags: tuple[str, ...] = ()) -> int:
    of = ("--task", "B-1", "--criterion", "1", "--from", "otto-cli")
    return place.process("evidence", "run", *of, *flags, "--", *words).status


def added(place: Place, *words: str) -> Any:
    of = ("--task", "B-1", "--criterion", "2", "--from", "otto-cli")
    return place.ok("evidence", "add", *of, *words)["evidence"]


def worked(place: Place, brief: str = "# Why\n\nIt takes anything.\n") -> str:
    """Create a task and work on it up to the first submission. Return the id of its note."""
    subprocess.run(["git", "init", "-q"], cwd=place.cwd, env=place.environ, check=True)
    commit(place, "one\n")
    place.ok("gate", "create", "athena", "--holder", "vera")
    criteria = ("--criterion", "Tests pass", "--criterion", "A person looked")
    about = ("--id", "B-1", "--brief", brief, "--gate", "athena", "--from", "vera")
    place.ok("task", "create", "--title", "Make it strict", *criteria, *about)
    place.ok("task", "take", "B-1", "--from", "otto-cli")
    (place.cwd / "a.txt").write_text("changed\n")
    assert ran(place, "sh", "-c", f"echo token {SECRET}; exit 3") == 3
    commit(place, "two\n")
    spool = place.root / "spool"
    spool.mkdir()
    ran(place, "echo", "from afar", flags=("--spool", str(spool)))
    (handed,) = spool.iterdir()
    place.ok(
        *("evidence", "add", "--task", "B-1", "--spool", str(handed)),
        *("--criterion", "1", "--from", "otto-cli"),
    )
    note = str(added(place, "--note", "I looked at it")["id"])
    place.ok("task", "submit", "B-1", "--from", "otto-cli")
    return note


def played(place: Place) -> Sprint:
    note = worked(place)
    put_right = ("--note", "a.txt is wrong", "--fix", "echo three > a.txt")
    place.ok("gate", "fail", "B-1", "athena", *put_right, "--from", "vera")
    commit(place, "three\n")
    ran(place, "echo", "all well")
    place.ok("task", "submit", "B-1", "--from", "otto-cli")
    place.ok("gate", "pass", "B-1", "athena", "--evidence", note, "--from", "vera")
    place.ok("task", "complete", "B-1", "--from", "otto-cli")
    return Sprint(place)


@pytest.fixture(scope="module")
def first_sprint(first_joined: Place, tmp_path_factory: pytest.TempPathFactory) -> Sprint:
    return played(first_joined.copied(tmp_path_factory.mktemp("sprint")))


@pytest.fixture
def sprint(first_sprint: Sprint, tmp_path: Path) -> Sprint:
    return Sprint(first_sprint.place.copied(tmp_path))


def spoken(text: str, form: str) -> str:
    """Return the visible text on one line, without markup and escapes."""
    if form == "html":
        inline = re.sub(r"</?(?:a|bdi|code|strong)\b[^>]*>", "", text)
        bare = re.sub(r"<[^>]+>", " ", inline)
    else:
        bare = re.sub(r"[`*\\]", "", re.sub(r"(?m)^- ([\w -]+): ", r"\1 ", text))
    return " ".join(html.unescape(bare).split())


# --- the content


@pytest.mark.parametrize("form", FORMS)
def test_report_names_creator_worker_reviewer_and_commit(sprint: Sprint, form: str) -> None:
    seen = spoken(sprint.report(form), form)
    task = sprint.shown()["task"]
    head = ("B-1: Make it strict", "DONE", "Created by @vera", "Worked on by @otto-cli")
    commit, tree = task["artifact"]["commit"], task["artifact"]["tree"]
    submitted = (f"Submitted commit {commit}", f"Tree of the commit {tree}")
    for part in (*head, "Verdicts by @vera", *submitted):
        assert part in seen, part
    assert "# Why" in seen
    assert "It takes anything." in seen


@pytest.mark.parametrize("form", FORMS)
def test_report_has_every_entry_of_the_history_in_order(sprint: Sprint, form: str) -> None:
    text = sprint.report(form)
    head = r'<article id="entry-(\d+)"' if form == "html" else r"(?m)^### `#(\d+)` "
    told = [int(seq) for seq in re.findall(head, text)]
    assert told == [entry["seq"] for entry in sprint.shown()["story"]]


@pytest.mark.parametrize("form", FORMS)
def test_report_has_all_details_of_a_run(sprint: Sprint, form: str) -> None:
    seen = spoken(sprint.report(form), form)
    runs = [entry["evidence"] for entry in sprint.shown()["story"] if "evidence" in entry]
    runs = [found for found in runs if found["kind"] == "run"]
    assert len(runs) == 3
    for found in runs:
        kept = f"{found['output']['size']} bytes, SHA-256 {found['output']['sha256']}"
        get = f"interlock evidence show {found['id']} --raw"
        for part in (kept, get, found["tree"], found["commit"], f"{found['duration_ms']} ms"):
            assert part in seen, part
    for part in ("EXIT 3", "EXIT 0", "DIRTY", "CLEAN", "OFFLINE", "2 SECRETS", "[masked]"):
        assert part in seen, part
    assert SECRET not in seen


@pytest.mark.parametrize("form", FORMS)
def test_runs_and_attached_evidence_look_different(sprint: Sprint, form: str) -> None:
    text = sprint.report(form)
    by_run, by_note = (found["by"] for found in sprint.shown()["task"]["criteria"])
    assert (by_run, by_note) == ("run", "note")
    if form == "md":
        rows = [line for line in text.split("\n") if re.match(r"\| [12] \|", line)]
        assert "**RUN**" in rows[0]
        assert "**ATTACHED**" not in rows[0]
    else:
        rows = re.findall(r"<tr><td.*?</tr>", text)[:2]
        assert 'class="mark run"' in rows[0]
        assert 'class="mark attached"' not in rows[0]
        assert 'class="mark attached"' in rows[1]
    seen = spoken(rows[1], form)
    assert "ATTACHED note by @otto-cli" in seen
    assert "accepted by @vera at the gate athena" in seen
    assert "RUN" not in seen


@pytest.mark.parametrize("form", FORMS)
def test_report_has_verdicts_and_blockers_with_suggested_fixes(sprint: Sprint, form: str) -> None:
    seen = spoken(sprint.report(form), form)
    assert "FAILED @vera gave the verdict of the gate athena" in seen
    assert "PASSED @vera gave the verdict of the gate athena" in seen
    assert "STOP @vera raised a blocker for @otto-cli, for the gate athena" in seen
    assert "echo three > a.txt" in seen
    assert "RESOLVED by @interlock" in seen
    assert "Open requirements" not in seen


@pytest.mark.parametrize("form", FORMS)
def test_report_of_an_open_task_lists_its_requirements(joined: Place, form: str) -> None:
    worked(joined)
    joined.ok("blocker", "raise", "B-1", "Not like this", "--from", "vera")
    seen = spoken(Sprint(joined).report(form), form)
    assert "Open requirements" in seen
    for need in joined.ok("task", "show", "B-1")["missing"]:
        assert f"{need['message']} {need['do']}" in seen
    assert "NOT MET" in seen
    assert "DUE" in seen
    assert "OPEN" in seen
    assert "Verdicts by no verdict yet" in seen


@pytest.mark.parametrize("form", FORMS)
def test_redacted_evidence_is_absent_and_marked(sprint: Sprint, form: str) -> None:
    story = sprint.shown()["story"]
    run = next(entry["evidence"] for entry in story if "evidence" in entry)
    sprint.place.ok("redact", run["id"], "--reason", "a secret")
    text = sprint.report(form)
    assert "The record of the run was deleted (redacted)" in text
    assert run["output"]["sha256"] not in text
    kept = sprint.place.root / "report"
    kept.write_text(text)
    assert sprint.place.ok("audit", "check-proof", str(kept))["ok"] is True


def test_text_of_hidden_mail_is_left_out_of_the_report(sprint: Sprint) -> None:
    place = sprint.place
    story = sprint.shown()["story"]
    told = next(e["message"]["id"] for e in story if e.get("message", {}).get("to") == "@otto-cli")
    place.join("dora")
    place.ok("send", "@vera", "between us", "--reply-to", told, "--from", "otto-cli")
    assert "between us" in sprint.report()
    seen = place.run("report", "B-1", "--from", "dora")
    assert seen.status == 0, seen
    assert "between us" not in seen.text
    assert "because the report's creator may not read it" in seen.text


def test_report_is_the_same_for_the_same_task(sprint: Sprint) -> None:
    for form in FORMS:
        before = sprint.report(form)
        assert sprint.report(form) == before
        sprint.place.ok("send", "@vera", f"of something else: {form}", "--from", "otto-cli")
        after = sprint.report(form)
        assert after != before
        mark = "How to verify this report"
        assert after.partition(mark)[0] == before.partition(mark)[0]


def test_a_report_through_a_server_is_the_same(
    sprint: Sprint, tmp_path: Path, servers: Servers
) -> None:
    direct = {form: sprint.report(form) for form in FORMS}
    served = ServersByWorkspace(servers)
    try:
        asked = Sprint(Place(tmp_path, served))
        assert {form: asked.report(form) for form in FORMS} == direct
    finally:
        served.close()


# --- the command


def test_report_never_overwrites_a_file(sprint: Sprint) -> None:
    place = sprint.place
    answer = place.ok("report", "B-1", "--format", "html", "--output", "new.html")
    assert answer == {"format": "html", "file": "new.html"}
    written = (place.cwd / "new.html").read_text()
    assert written == sprint.report("html")
    refused = place.no("USAGE", "report", "B-1", "--output", "new.html")
    assert "already exists" in refused["message"]
    assert (place.cwd / "new.html").read_text() == written
    (place.cwd / "dangling").symlink_to("nowhere")
    place.no("USAGE", "report", "B-1", "--output", "dangling")
    assert not (place.cwd / "nowhere").exists()
    place.no("USAGE", "report", "B-1", "--output", "no/such/directory")


def test_file_name_decides_the_format_unless_a_flag_does(sprint: Sprint) -> None:
    place = sprint.place
    for name, words, form in (
        ("a.html", (), "html"),
        ("b.HTM", (), "html"),
        ("c.md", (), "md"),
        ("d", (), "md"),
        ("e.html", ("--format", "md"), "md"),
    ):
        answer = place.ok("report", "B-1", "--output", name, *words)
        assert answer == {"format": form, "file": name}
        assert (place.cwd / name).read_text() == sprint.report(form)


def test_default_format_is_markdown(sprint: Sprint) -> None:
    answer = sprint.place.ok("report", "B-1")
    assert answer == {"format": "md", "report": sprint.report("md")}
    sprint.place.no("USAGE", "report", "B-1", "--format", "pdf")


def test_report_of_a_missing_task_is_refused(joined: Place) -> None:
    joined.no("NOT_FOUND", "report", "B-9", "--output", "new.md")
    assert not (joined.cwd / "new.md").exists()


# --- the proofs


def block(text: str, form: str) -> Any:
    start = "```json interlock-proofs\n" if form == "md" else 'id="interlock-proofs">\n'
    end = "\n```" if form == "md" else "\n</script>"
    inside = text[text.rindex(start) + len(start) :]
    return json.loads(inside[: inside.rindex(end)])


def changed(text: str, form: str, change: Callable[[Any], object]) -> str:
    """Return the report with changed proofs, in the same format."""
    found = block(text, form)
    start = text.rindex('{\n "interlock_report"')
    end = text.rindex("\n}") + len("\n}")
    change(found)
    return text[:start] + json.dumps(found, indent=1) + text[end:]


def checked(place: Place, text: str, *flags: str) -> Any:
    """Check the file like an outside reader, without a workspace."""
    file = place.root / "stranger" / "report"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    away = place.but(INTERLOCK_WORKSPACE=str(place.root / "nowhere"))
    done = away.run("audit", "check-proof", str(file), *flags, "--json")
    assert not (place.root / "nowhere").exists()
    return done.status, done.json


@pytest.mark.parametrize("form", FORMS)
def test_proofs_are_valid_without_the_workspace(sprint: Sprint, form: str) -> None:
    text, shown = sprint.report(form), sprint.shown()
    verifier = sprint.place.ok("audit", "checkpoint")["verifier"]
    status, answer = checked(sprint.place, text, "--verifier", verifier)
    assert (status, answer["ok"], answer["verifier"]) == (0, True, "given")
    assert (answer["proof"], answer["task"]) == ("report", "B-1")
    named = [(entry["seq"], entry["kind"], entry["by"]) for entry in shown["story"]]
    assert [(f["seq"], f["kind"], f["sender"]) for f in answer["facts"]] == named
    assert answer["seqs"] == [seq for seq, _, _ in named]
    verdicts = [f["outcome"]["verdict"] for f in answer["facts"] if f["kind"] == "verdict_given"]
    assert verdicts == ["fail", "pass"]


def test_check_proof_lists_the_proven_entries(sprint: Sprint) -> None:
    file = sprint.place.cwd / "report.md"
    sprint.place.ok("report", "B-1", "--output", "report.md")
    done = sprint.place.run("audit", "check-proof", str(file))
    assert done.status == 0
    assert "The proof is valid" in done.text
    assert "Compare the report with them" in done.text
    for entry in sprint.shown()["story"]:
        assert f"#{entry['seq']} " in done.text


def test_json_answer_of_a_report_can_be_checked(sprint: Sprint) -> None:
    whole = sprint.place.run("report", "B-1", "--json").text
    assert checked(sprint.place, whole)[0] == 0


def test_report_with_changed_line_ends_can_be_checked(sprint: Sprint) -> None:
    for form in FORMS:
        assert checked(sprint.place, sprint.report(form).replace("\n", "\r\n"))[0] == 0


def test_long_history_is_proven_in_several_bundles(
    sprint: Sprint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporting, "PROVEN_AT_ONCE", 7)
    text = sprint.report()
    assert len(block(text, "md")["proofs"]) > 2
    status, answer = checked(sprint.place, text)
    assert (status, len(answer["seqs"])) == (0, len(sprint.shown()["story"]))
    damaged = changed(text, "md", lambda found: found["proofs"].pop())
    assert checked(sprint.place, damaged)[1]["code"] == "LOG_DAMAGED"


def _entry(found: Any, number: int = 3) -> Any:
    return found["proofs"][0]["entries"][number]


def _other_digit(digits: str) -> str:
    return digits[:-1] + ("0" if digits[-1] != "0" else "1")


def _header(found: Any, old: str, new: str) -> None:
    entry = next(e for e in found["proofs"][0]["entries"] if old in e["header"])
    entry["header"] = entry["header"].replace(old, new)


TAMPERED: dict[str, Callable[[Any], object]] = {
    "a verdict": lambda found: _header(found, '"verdict":"fail"', '"verdict":"pass"'),
    "an exit code": lambda found: _header(found, '"exit_code":3', '"exit_code":0'),
    "a header that is none": lambda found: _entry(found).update(header="{}"),
    "a path": lambda found: _entry(found)["path"].append(_entry(found)["path"].pop()[::-1]),
    "a path that is none": lambda found: _entry(found).update(path=["no"]),
    "a position": lambda found: _entry(found).update(seq=_entry(found)["seq"] + 1),
    "a leaf": lambda found: _entry(found).update(leaf_index=1),
    "an entry taken out": lambda found: found["proofs"][0]["entries"].pop(),
    "all proofs taken out": lambda found: found["proofs"].clear(),
    "proofs that are none": lambda found: found.update(proofs=7),
    "a proof of another kind": lambda found: found["proofs"][0].update(proof="inclusion"),
    "an entry named besides": lambda found: found["story"].append(
        found["story"][-1] | {"seq": 1, "kind": "task_ended"}
    ),
    "no entry named": lambda found: found["story"].clear(),
    "who did it": lambda found: found["story"][-1].update(by="@vera"),
    "what was done": lambda found: found["story"][-1].update(kind="verdict_given"),
    "when it was done": lambda found: found["story"][-1].update(at="2020-01-01T00:00:00.000Z"),
    "whose story it is": lambda found: found.update(task="B-2"),
    "the root": lambda found: found["proofs"][0].update(
        root=_other_digit(found["proofs"][0]["root"])
    ),
    "the size": lambda found: found["proofs"][0].update(tree_size=99),
    "the checkpoint": lambda found: found["proofs"][0].update(
        checkpoint=found["proofs"][0]["checkpoint"].replace("\n", "\n9", 1)
    ),
    "the key": lambda found: found["proofs"][0].update(verifier="interlock/x+00000000+AAAA"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_change_of_the_proofs_is_found(first_sprint: Sprint, form: str) -> None:
    text = first_sprint.report(form)
    assert checked(first_sprint.place, changed(text, form, lambda found: None))[0] == 0
    for what, change in TAMPERED.items():
        status, answer = checked(first_sprint.place, changed(text, form, change))
        assert (status, answer.get("code")) == (1, "LOG_DAMAGED"), what
        assert answer["ok"] is False, what


def test_the_entry_whose_proof_is_wrong_is_named(first_sprint: Sprint) -> None:
    text = first_sprint.report()
    seq = _entry(block(text, "md"))["seq"]
    damaged = changed(text, "md", lambda found: _entry(found).update(leaf_index=1))
    assert checked(first_sprint.place, damaged)[1]["seq"] == seq


@pytest.mark.parametrize("form", FORMS)
def test_report_signed_by_another_workspace_fails_with_the_verifier_key(
    sprint: Sprint, form: str, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Place(tmp_path / "other").ok("audit", "checkpoint")["verifier"]
    status, answer = checked(sprint.place, sprint.report(form), "--verifier", other)
    assert (status, answer["code"]) == (1, "LOG_DAMAGED")
    status, answer = checked(sprint.place, sprint.report(form), "--verifier", "no key")
    assert (status, answer["code"]) == (2, "USAGE")


@pytest.mark.parametrize("form", FORMS)
def test_report_without_proofs_or_with_two_blocks_is_refused(sprint: Sprint, form: str) -> None:
    text = sprint.report(form)
    start = "```json interlock-proofs" if form == "md" else "<script "
    without, tail = text[: text.rindex(start)], text[text.rindex(start) :]
    ended = without + ("</body></html>" if form == "html" else "")
    for wrong in (ended, text.replace(tail, tail + tail), "Nothing at all", "", "\ufeff"):
        status, answer = checked(sprint.place, wrong)
        assert (status, answer["code"]) == (2, "USAGE")


def test_proofs_of_a_later_version_are_refused(sprint: Sprint) -> None:
    text = changed(sprint.report(), "md", lambda found: found.update(interlock_report=2))
    assert checked(sprint.place, text)[1]["code"] == "USAGE"


# --- text of authors


@pytest.fixture(scope="module")
def first_hostile(first_joined: Place, tmp_path_factory: pytest.TempPathFactory) -> Sprint:
    """A task with forged markup in every text that an author can write."""
    place = first_joined.copied(tmp_path_factory.mktemp("hostile"))
    subprocess.run(["git", "init", "-q"], cwd=place.cwd, env=place.environ, check=True)
    commit(place, "one\n")
    line = HOSTILE.replace("\n", " ")
    place.ok("gate", "create", "athena", "--holder", "vera")
    about = ("--id", "B-1", "--brief", HOSTILE, "--criterion", line, "--criterion", line)
    gate = ("--gate", "athena", "--from", "vera")
    place.ok("task", "create", "--title", line[:280], *about, *gate)
    place.ok("task", "take", "B-1", "--from", "otto-cli")
    told = place.ok("inbox", "--from", "vera")["messages"][0]["id"]
    # The header contains the key, and the proofs contain the header.
    key = ("--key", "</script><script>document.title='taken'</script>")
    place.ok("send", "@otto-cli", HOSTILE, "--reply-to", told, *key, "--from", "vera")
    ran(place, "printf", HOSTILE, flags=("--title", line[:200]))
    note = added(place, "--note", HOSTILE, "--title", line[:200])
    name = place.cwd / "`a` | <b> # c"
    name.write_text("x")
    added(place, "--file", name.name)
    added(place, "--url", "https://example.org/?a=`|<script>")
    name.unlink()
    place.ok("blocker", "raise", "B-1", HOSTILE, "--fix", HOSTILE, "--from", "vera")
    place.ok("task", "submit", "B-1", "--from", "otto-cli")
    fail = ("--note", HOSTILE, "--fix", HOSTILE, "--evidence", note["id"], "--from", "vera")
    place.ok("gate", "fail", "B-1", "athena", *fail)
    place.ok("task", "fail", "B-1", "--note", line, "--from", "otto-cli")
    return Sprint(place)


def outside_fences(text: str) -> tuple[list[str], list[str]]:
    """Return the lines outside of fences, and the info string of each fence."""
    lines, opened, fence = [], [], ""
    for line in text.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})(.*)", line)
        if fence:
            ends = mark is not None and mark[1].startswith(fence) and not mark[2].strip()
            fence = "" if ends else fence
        elif mark:
            fence = mark[1]
            opened.append(mark[2])
        else:
            lines.append(line)
    assert not fence
    return lines, opened


def test_text_of_authors_cannot_forge_lines_of_the_report(first_hostile: Sprint) -> None:
    text = first_hostile.report()
    lines, opened = outside_fences(text)
    titles = ["About this report", "Brief", "Acceptance criteria", "Gates", "Blockers"]
    titles += ["History", "How to verify this report"]
    assert [line[3:] for line in lines if line.startswith("## ")] == titles
    entries = [line for line in lines if line.startswith("### ")]
    assert len(entries) == len(first_hostile.shown()["story"])
    assert len([line for line in lines if re.match(r"#+ ", line)]) == 1 + len(titles + entries)
    assert len([line for line in lines if re.match(r"\| \d", line)]) == 2
    assert opened.count("json interlock-proofs") == 1
    assert set(opened) == {"text", "json interlock-proofs"}
    assert not [line for line in lines if "<" in line or "](" in line.replace("\\]", "")]
    assert all(line.count(" | ") == 3 for line in lines if re.match(r"\| \d", line))
    assert checked(first_hostile.place, text)[0] == 0


def test_text_of_authors_is_complete(first_hostile: Sprint) -> None:
    brief = first_hostile.shown()["task"]["brief"]
    assert brief == HOSTILE
    assert HOSTILE in first_hostile.report("md")
    assert html.escape(HOSTILE) in first_hostile.report("html")


def test_text_of_authors_makes_no_html_elements(first_hostile: Sprint) -> None:
    text = first_hostile.report("html")
    assert text.count("<script") == 1
    assert "<img" not in text
    assert not re.search(r"<[^>]*\son\w+=", text)
    assert not re.search(r"(?:src|href)=\"(?!#entry-\d+\")", text)
    assert checked(first_hostile.place, text)[0] == 0


def test_invisible_characters_are_shown(joined: Place) -> None:
    unseen = "a\u202eb\u200bc\x1b[31md\u2028e\rf\U000e0041\u2065"
    joined.ok("task", "create", "--title", "T", "--id", "B-1", "--brief", unseen, "--from", "vera")
    for form in FORMS:
        done = joined.run("report", "B-1", "--format", form)
        assert "a⟨U+202E⟩b⟨U+200B⟩c⟨U+001B⟩[31md⟨U+2028⟩e⟨U+000D⟩f⟨U+E0041⟩⟨U+2065⟩" in done.text
        assert not steering(done.text)


def test_text_of_any_script_is_unchanged() -> None:
    for text in ("naïve · 漢字", "\u0645\u06cc\u200c\u062e", "👩\u200d💻 ✔️", "a\tb\nc"):
        assert visible(text) == text


# --- in a browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()


class Seen(NamedTuple):
    page: Page
    complaints: list[str]
    asked_for: list[str]


def opened(browser: Browser, file: Path, width: int) -> Seen:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(LIMIT_MS)
    seen = Seen(page, [], [])
    page.on("console", lambda message: seen.complaints.append(message.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("request", lambda request: seen.asked_for.append(request.url))
    page.goto(file.as_uri())
    return seen


@needs_browser
@pytest.mark.parametrize("width", [1200, 360])
def test_page_in_a_browser_runs_and_loads_nothing(
    first_hostile: Sprint, browser: Browser, tmp_path: Path, width: int
) -> None:
    file = tmp_path / "report.html"
    file.write_text(first_hostile.report("html"))
    page, complaints, asked_for = opened(browser, file, width)
    try:
        assert complaints == []
        assert asked_for == [file.as_uri()]
        assert page.title().startswith("B-1: plain # A heading")
        assert page.locator("h2").count() == 7
        assert page.locator("article").count() == len(first_hostile.shown()["story"])
        assert page.locator("figure pre").first.inner_text() == HOSTILE
        assert page.locator("script").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        held = page.evaluate("JSON.parse(document.getElementById('interlock-proofs').textContent)")
        assert held == block(file.read_text(), "html")
    finally:
        page.close()


@needs_browser
def test_runs_and_attached_evidence_differ_without_colours(
    first_sprint: Sprint, browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(first_sprint.report("html"))
    page = opened(browser, file, 1200).page
    try:
        edges = [
            page.locator(f"article.{look}").first.evaluate(
                "e => getComputedStyle(e).borderLeftStyle"
            )
            for look in ("run", "attached")
        ]
        assert edges == ["solid", "dashed"]
    finally:
        page.close()
