"""The dashboard's pages about work, in a real browser. Tasks that need a person come first.
Recorded runs and attached evidence never look alike. The pages are read-only."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from interlock.doors.web import task_views
from interlock.node import Node
from interlock.rooms.work.verbs import CreateTask
from interlock.verbs.credentials import Credentials
from world.browsing import (
    HOSTILE,
    SECRET,
    Web,
    ask,
    browser,
    context,
    fresh_token,
    in_every_window,
    is_untouched,
    needs_browser,
    serving,
    sign_in,
    signed_in,
    wider_than_the_window,
)
from world.working import GATE, HOLDER, TASK, WORKER, Workshop

pytestmark = [pytest.mark.long, pytest.mark.every_engine]

__all__ = ["browser", "context"]
KEY = bytes(range(32))


class Office(NamedTuple):
    """A repository with tasks, and its dashboard."""

    web: Web
    shop: Workshop

    def ok(self, *words: str) -> Any:
        return self.shop.place.ok(*words)

    def page(self, context: BrowserContext, path: str = "/work") -> Page:
        """Open a page, and set a mark that a reload would remove."""
        page = signed_in(context, self.web)
        page.goto(f"{self.web.url}{path}")
        expect(page.locator("#line")).to_have_text("Live")
        page.evaluate("window.untouched = true")
        return page

    def proven(self, *command: str, criterion: int = 1) -> str:
        words = ("--task", TASK, "--criterion", str(criterion), "--", *command)
        return str(self.shop.proven(*words)["id"])

    def noted(self, text: str, criterion: int = 1) -> str:
        words = ("--task", TASK, "--criterion", str(criterion), "--note", text)
        return str(self.ok("evidence", "add", *words, *WORKER)["evidence"]["id"])


@pytest.fixture
def office(shop: Workshop) -> Iterator[Office]:
    with serving(shop.place, fresh_token(), KEY) as web:
        yield Office(web, shop)


def task_row(page: Page, id: str = TASK) -> Locator:
    return page.locator(f".tasks li:has(a[href='/work/{id}'])")


def group(page: Page, id: str = TASK) -> Locator:
    """Return the heading of a task's group. Two match while the task moves."""
    return page.locator(f".group:has(a[href='/work/{id}']) :is(h2, summary)")


def entries(page: Page) -> list[str]:
    return page.locator(".story > li > .when > .seq").all_inner_texts()


# --- the list


@needs_browser
def test_tasks_that_need_a_person_come_first_and_ended_tasks_are_collapsed(
    office: Office, context: BrowserContext
) -> None:
    office.shop.create(id="ended-1")
    office.ok("task", "cancel", "ended-1", *HOLDER)
    office.shop.create("--criterion", "a", "--criterion", "b", id="open-1")
    office.shop.create(id="taken-1")
    office.ok("task", "take", "taken-1", *WORKER)
    office.shop.create(id="blocked-1")
    office.ok("blocker", "raise", "blocked-1", "No disk", "--to", "@vera", *WORKER)
    office.shop.submitted()
    page = office.page(context)
    titles = page.locator(".group :is(h2, summary)")
    expect(titles).to_have_text(["Needs a person 2", "Taken 1", "Open 1", "Ended 1"])
    ids = page.locator(".tasks .id").all_text_contents()
    assert ids == [TASK, "blocked-1", "taken-1", "open-1", "ended-1"]
    due = task_row(page)
    for words in ("submitted", "@otto-cli", "1/1 met", f"{GATE} due", "Verdict due on athena"):
        expect(due).to_contain_text(words)
    expect(due).to_contain_text("from @vera")
    expect(task_row(page, "blocked-1")).to_contain_text("blocker @otto-cli: No disk")
    expect(task_row(page, "open-1")).to_contain_text("no worker yet")
    expect(task_row(page, "open-1")).to_contain_text("0/2 met")
    expect(task_row(page, "ended-1")).not_to_be_visible()


@needs_browser
def test_task_moves_through_its_groups_without_reload(
    office: Office, context: BrowserContext
) -> None:
    page = office.page(context)
    expect(page.locator("main")).to_contain_text("interlock task create --title")
    office.shop.taken()
    expect(group(page)).to_have_text(["Taken 1"])
    expect(task_row(page)).to_contain_text("0/1 met")
    office.proven("true")
    office.ok("task", "submit", TASK, *WORKER)
    expect(group(page)).to_have_text(["Needs a person 1"])
    expect(task_row(page)).to_contain_text("1/1 met")
    expect(page.locator("p.needs")).to_contain_text("1 verdict due")
    office.ok("gate", "fail", TASK, GATE, "--note", "It is rude", *HOLDER)
    expect(task_row(page).locator(".standing")).to_have_text("taken")
    expect(task_row(page)).to_contain_text("blocker @vera: It is rude")
    office.ok("task", "submit", TASK, *WORKER)
    office.ok("gate", "pass", TASK, GATE, *HOLDER)
    expect(group(page)).to_have_text(["Submitted 1"])
    expect(task_row(page)).to_contain_text(f"The worker can run interlock task complete {TASK}")
    expect(page.locator("p.needs")).to_have_count(0)
    office.ok("task", "complete", TASK, *WORKER)
    expect(group(page)).to_have_text(["Ended 1"])
    expect(page.locator(".figures div", has_text="tasks")).to_have_text(re.compile(r"tasks\s*0"))
    assert is_untouched(page)


def test_long_list_of_open_tasks_hides_no_task_that_needs_a_person(office: Office) -> None:
    token = office.ok("token", "mint", "--sender", "vera")["token"]
    with Node(str(office.web.place.workspace)) as node:
        for number in range(103):
            node.call(Credentials(token), CreateTask("Later", f"later-{number}"))
    office.shop.submitted()
    part = ask(office.web, "/parts/work", Cookie=sign_in(office.web)).text
    ids = re.findall(r'href="/work/([^"]+)"', part)
    assert ids == [TASK, *(f"later-{number}" for number in range(100))]
    assert "interlock task list --state open" in part
    assert 'Open <span class="number">103<' in part


@needs_browser
def test_lost_claim_is_shown_next_to_its_worker(office: Office, context: BrowserContext) -> None:
    office.shop.taken()
    page = office.page(context)
    expect(task_row(page)).to_contain_text(re.compile(r"@otto-cli claim expires in \d+m \d\ds"))
    office.ok("claim", "release", "--item", TASK, *WORKER)
    expect(task_row(page)).to_contain_text("@otto-cli has lost the claim")
    assert is_untouched(page)


@needs_browser
def test_list_of_ended_tasks_stays_open_and_focused_when_it_grows(
    office: Office, context: BrowserContext
) -> None:
    for id in ("A-1", "A-2"):
        office.shop.create(id=id)
    office.ok("task", "cancel", "A-1", *HOLDER)
    page = office.page(context)
    summary = page.locator("summary")
    summary.focus()
    page.keyboard.press("Enter")
    expect(task_row(page, "A-1")).to_be_visible()
    office.ok("task", "cancel", "A-2", *HOLDER)
    expect(summary).to_have_text("Ended 2")
    expect(page.locator(".tasks .id")).to_have_text(["A-2", "A-1"])
    expect(task_row(page, "A-2")).to_be_visible()
    expect(summary).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{office.web.url}/work/A-2")
    expect(page.locator("nav [aria-current]")).to_have_text("Work")


# --- one task


@needs_browser
def test_recorded_runs_and_attached_evidence_look_different(
    office: Office, context: BrowserContext
) -> None:
    office.shop.create("--criterion", "runs", "--criterion", "reads well", "--gate", GATE)
    office.ok("task", "take", TASK, *WORKER)
    office.proven("echo", "hello")
    note = office.noted("I read it twice.", criterion=2)
    office.ok("task", "submit", TASK, *WORKER)
    page = office.page(context, f"/work/{TASK}")
    ran, other = page.locator(".criteria > li").all()
    expect(other.locator(".proven").first).to_have_text("not met")
    expect(other).to_contain_text("Its file, URL or note counts when a passing verdict names it.")
    office.ok("gate", "pass", TASK, GATE, "--evidence", note, *HOLDER)
    attached = page.locator(".criteria > li.attached")
    expect(ran.locator(".proven")).to_have_text("recorded run")
    expect(ran.locator(".proof")).to_contain_text("@otto-cli echo hello exit 0 clean tree")
    expect(attached.locator(".proven")).to_have_text("attached")
    expect(attached).to_contain_text("@otto-cli I read it twice. a note, not a recorded run")
    expect(attached).to_contain_text(f"@vera names it in the verdict on the gate {GATE}")
    for style in ("borderLeftStyle", "borderLeftColor"):
        look = f"(item) => getComputedStyle(item).{style}"
        assert ran.evaluate(look) != attached.evaluate(look), style
    look = "(item) => getComputedStyle(item.querySelector('.proven')).backgroundColor"
    assert ran.evaluate(look) != attached.evaluate(look)
    assert is_untouched(page)


@needs_browser
def test_each_missing_item_has_its_command(office: Office, context: BrowserContext) -> None:
    office.shop.create(id="first")
    office.shop.create("--criterion", "it says hello", "--gate", GATE, "--depends-on", "first")
    page = office.page(context, f"/work/{TASK}")
    wanted = {need["do"] for need in office.shop.show()["missing"]}
    assert len(wanted) == 3
    assert set(page.locator(".missing code").all_text_contents()) == wanted
    page.get_by_role("link", name="first").click()
    expect(page.locator(".missing code")).to_have_text("interlock task take first")
    expect(page.locator(".missing")).to_contain_text("No worker has taken first.")


@needs_browser
def test_history_follows_the_order_of_the_log(office: Office, context: BrowserContext) -> None:
    office.shop.submitted()
    page = office.page(context, f"/work/{TASK}")
    office.ok("gate", "fail", TASK, GATE, "--note", "It is rude", "--fix", "make kind", *HOLDER)
    blocker = page.locator(".blockers > li")
    expect(blocker).to_contain_text("@vera → @otto-cli from the gate athena")
    expect(blocker.locator(".text")).to_have_text("It is rude")
    expect(blocker.locator(".fixes code")).to_have_text("make kind")
    expect(page.locator(".gates")).to_contain_text("fail athena by @vera")
    office.ok("task", "submit", TASK, *WORKER)
    office.ok("gate", "pass", TASK, GATE, "--note", "Kind now", *HOLDER)
    office.ok("task", "complete", TASK, *WORKER)
    expect(page.locator(".headline .chip")).to_have_text("done")
    expect(blocker).to_have_count(0)
    expect(page.locator(".missing")).to_have_count(0)
    expect(page.locator(".gates")).to_contain_text("Kind now")
    story = office.shop.show()["story"]
    assert entries(page) == [f"#{entry['seq']}" for entry in story]
    told = " ".join(page.locator(".story .event > p:first-child").all_inner_texts())
    steps = ("created", "took", "for criterion 1", "submitted", "fail", "pass", "ended the task")
    places = [told.index(step) for step in steps]
    assert places == sorted(places)
    assert page.locator(".story").inner_text().count("It is rude") == 1
    assert is_untouched(page)


@needs_browser
def test_brief_is_shown_whole_as_plain_text(office: Office, context: BrowserContext) -> None:
    brief = "# Why\n\n- [x] *one*\n\n<b>two</b> [three](javascript:alert(1))\n" + "more\n" * 200
    office.ok("task", "create", "--title", "Read", "--id", TASK, "--brief", brief, *HOLDER)
    page = office.page(context, f"/work/{TASK}")
    assert page.locator("pre.text").text_content() == brief
    assert page.locator("pre.text *").count() == 0


@needs_browser
def test_long_evidence_is_shortened_and_whole_on_its_own_page(
    office: Office, context: BrowserContext
) -> None:
    office.shop.taken()
    command = ("echo", *(f"word-{number}" for number in range(900)))
    office.proven(*command)
    note = "I looked at it. " * 400
    office.noted(note)
    page = office.page(context, f"/work/{TASK}")
    ran, attached = page.locator(".story .proof").all()
    expect(ran.locator(".mark").first).to_have_text("shortened command")
    expect(attached.locator(".quoted")).to_have_text(re.compile("^I looked at it.*…$"))
    attached.get_by_role("link", name="Read all").click()
    assert page.locator("pre.text").text_content() == note
    page.go_back()
    ran.get_by_role("link", name="Output").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(" ".join(command))


def test_unknown_ids_answer_404(office: Office) -> None:
    cookie = sign_in(office.web)
    for path in ("/work/none", "/work/%3Cb%3E", "/evidence/none", "/evidence/0123456789"):
        reply = ask(office.web, path, Cookie=cookie)
        assert reply.status == 404, path
        assert "not found" in reply.text, path
    for path in ("/parts/task/none", "/parts/evidence/none", "/parts/none/none", "/parts/none"):
        assert ask(office.web, path, Cookie=cookie).status == 404, path


# --- evidence


@needs_browser
def test_run_shows_its_result_and_the_end_of_its_output(
    office: Office, context: BrowserContext
) -> None:
    office.shop.taken()
    script = "import sys\nfor n in range(9000): print('line', n)\nprint('3 passed in 0.12s')\n"
    office.shop.commit(**{"long.py": script + "sys.exit(4)\n"})
    id = office.proven("python3", "long.py")
    page = office.page(context, f"/work/{TASK}")
    proof = page.locator(".story .proof")
    expect(proof).to_contain_text(re.compile(r"python3 long.py exit 4 clean tree \d+\.\d s"))
    expect(page.locator(".criteria .why")).to_have_text("Its last run exited 4.")
    proof.get_by_role("link", name="Output").click()
    expect(page).to_have_url(f"{office.web.url}/evidence/{id}")
    output = page.locator("pre.output")
    expect(output).to_contain_text("line 8999\n3 passed in 0.12s")
    assert "line 1\n" not in (output.text_content() or "")
    expect(page.locator(".part")).to_contain_text(re.compile(r"the last 16\.\d kB of \d+\.\d kB"))
    expect(page.locator(".part code")).to_have_text(f"interlock evidence show {id} --raw")
    page.get_by_role("link", name=f"Back to {TASK}").click()
    expect(page).to_have_url(f"{office.web.url}/work/{TASK}")


@needs_browser
def test_runs_with_uncommitted_changes_secrets_or_a_spool_file_are_marked(
    office: Office, context: BrowserContext, tmp_path: Any
) -> None:
    office.shop.taken()
    office.shop.write("greet.sh", "echo changed\n")
    office.proven("sh", "-c", "echo 2 passed, 1 failed in 0.10s; echo token=ghp_" + "a1B2" * 9)
    office.shop.commit()
    spool = tmp_path / "spool"
    spool.mkdir()
    words = ("--spool", str(spool), "--task", TASK, "--criterion", "1", "--", "true")
    file = office.shop.run(*WORKER, "--json", *words).json["spooled"]
    office.ok("evidence", "add", "--spool", file, "--task", TASK, *WORKER)
    page = office.page(context, f"/work/{TASK}")
    dirty, spooled = page.locator(".story .proof").all()
    expect(dirty.locator(".mark")).to_have_text(["uncommitted changes", "2 secrets masked"])
    expect(spooled.locator(".mark")).to_have_text(["clean tree", "imported from a file"])
    dirty.get_by_role("link", name="Output").click()
    expect(page.locator("pre.output")).to_contain_text("token=")
    assert "a1B2a1B2" not in page.content()


@needs_browser
def test_attached_files_and_urls_are_shown_by_kind_and_not_linked(
    office: Office, context: BrowserContext
) -> None:
    office.shop.taken()
    (office.shop.place.cwd / "picture.png").write_bytes(b"\x89PNG\xff\x00" * 3)
    add = ("evidence", "add", "--task", TASK, *WORKER)
    office.ok(*add, "--file", "picture.png")
    office.ok(*add, "--url", "https://ci.example/runs/7")
    page = office.page(context, f"/work/{TASK}")
    file, url = page.locator(".story .proof").all()
    expect(file).to_contain_text("picture.png a file of 18 bytes, not a recorded run")
    expect(url).to_contain_text("https://ci.example/runs/7 a url, not a recorded run")
    assert page.locator("a[href*='ci.example']").count() == 0
    file.get_by_role("link", name="Show").click()
    expect(page.locator("pre.output")).to_have_text("89504e47ff00" * 3)


@needs_browser
def test_redacted_evidence_disappears_from_every_page(
    office: Office, context: BrowserContext
) -> None:
    office.shop.taken()
    run = office.shop.proven("--task", TASK, "--criterion", "1", "--", "echo", SECRET)
    page = office.page(context, f"/work/{TASK}")
    expect(page.locator(".story .proof")).to_contain_text(SECRET)
    other = office.page(context, f"/evidence/{run['id']}")
    expect(other.locator("pre.output")).to_have_text(f"{SECRET}\n")
    office.ok("redact", f"#{run['seq']}", "--reason", "a password")
    expect(page.locator(".story .proof")).to_have_text("redacted")
    expect(other.get_by_role("heading", level=1)).to_have_text("Redacted")
    assert SECRET not in page.content() + other.content()
    assert is_untouched(page)


# --- the review


@needs_browser
def test_review_lists_every_item_with_its_command(office: Office, context: BrowserContext) -> None:
    page = office.page(context, "/review")
    expect(page.locator("main")).to_contain_text("Nothing needs a person.")
    office.shop.submitted()
    office.shop.create(id="stuck")
    office.ok("blocker", "raise", "stuck", "No disk", "--to", "@vera", *WORKER)
    office.ok("send", "@vara", "Who are you?", *WORKER)
    office.ok("send", "@vera", "Which one?", "--type", "ask", *WORKER)
    office.ok("send", "@vera", "Quickly.", "--ttl", "1s", *WORKER)
    office.shop.place.no("OWN_WORK", "gate", "pass", TASK, GATE, *WORKER)
    expect(page.locator(".group h2")).to_have_text(
        [
            "Verdicts due 1",
            "Blockers 1",
            "Unanswered asks 1",
            "Mail to unregistered names 1",
            "Mail that expired unread 1",
            "Refusals 1",
        ]
    )
    found = office.ok("review")
    wanted = [row["do"] for name, _, _ in task_views.REVIEW for row in found[name]]
    assert page.locator(".do code").all_text_contents() == wanted
    expect(page.locator("p.needs")).to_contain_text("1 verdict due, 1 blocker, 1 unanswered ask")
    expect(page.locator("p.needs")).to_contain_text("1 unregistered recipient")
    for words in (
        "B-12 needs a verdict on the gate athena from @vera",
        "No disk",
        "Did the sender mean @vera?",
        "Interlock refused a request of @otto-cli: OWN_WORK",
    ):
        expect(page.locator("main")).to_contain_text(words)
    assert is_untouched(page)
    page.goto(office.web.url)
    page.get_by_role("link", name="Show the commands").click()
    page.get_by_role("link", name=TASK).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Add a greeting")


# --- text of agents is data, and the pages are read-only


@needs_browser
def test_hostile_texts_about_work_stay_texts(office: Office, context: BrowserContext) -> None:
    troubles: list[str] = []
    context.on("dialog", lambda dialog: troubles.append(dialog.message))
    context.on("console", lambda message: troubles.append(message.text))
    made = ("--brief", HOSTILE, "--criterion", HOSTILE, "--criterion", "b", "--gate", GATE)
    office.ok("task", "create", "--title", HOSTILE, "--id", TASK, *made, *HOLDER)
    office.ok("task", "take", TASK, *WORKER)
    ran = office.proven("echo", HOSTILE)
    office.noted(HOSTILE, criterion=2)
    office.ok("task", "submit", TASK, *WORKER)
    office.ok("gate", "fail", TASK, GATE, "--note", HOSTILE, "--fix", HOSTILE, *HOLDER)
    page = office.page(context)
    assert task_row(page).locator(".title").text_content() == HOSTILE
    expect(task_row(page)).to_contain_text(HOSTILE[:60])
    page.goto(f"{office.web.url}/review")
    expect(page.locator(".todo .text")).to_contain_text(HOSTILE[:60])
    page.goto(f"{office.web.url}/evidence/{ran}")
    assert page.locator("pre.output").text_content() == f"{HOSTILE}\n"
    page.goto(f"{office.web.url}/work/{TASK}")
    expect(page.locator("#line")).to_have_text("Live")
    for place in ("h1", "pre.text", ".criteria .text bdi", ".blockers .text", ".blockers code"):
        assert page.locator(place).first.text_content() == HOSTILE, place
    expect(page.locator(".story .quoted")).to_have_text(HOSTILE)
    assert page.title() == "Task · Interlock"
    assert page.locator("main :is(script, img, [onfocus], [onerror], b)").count() == 0
    assert troubles == []


def test_direction_marks_in_texts_about_work_are_shown_as_code_points(office: Office) -> None:
    turned = "invoice\u202efdp.exe"
    office.ok("task", "create", "--title", turned, "--id", TASK, "--criterion", turned, *HOLDER)
    office.ok("task", "take", TASK, *WORKER)
    id = office.noted(turned)
    office.ok("blocker", "raise", TASK, turned, *WORKER)
    cookie = sign_in(office.web)
    for path in ("/work", "/review", f"/work/{TASK}", f"/evidence/{id}"):
        text = ask(office.web, path, Cookie=cookie).text
        assert "invoice⟨U+202E⟩fdp.exe" in text, path
        assert "\u202e" not in text, path


def test_hidden_tags_and_soft_hyphens_are_shown_as_code_points(office: Office) -> None:
    hidden = "plain\U000e0041\u00ad text"
    office.ok("task", "create", "--title", hidden, "--id", TASK, *HOLDER)
    text = ask(office.web, f"/work/{TASK}", Cookie=sign_in(office.web)).text
    assert "plain⟨U+E0041⟩⟨U+00AD⟩ text" in text
    joined = "\u0645\u06cc\u200c\u062e 👩\u200d💻"
    office.ok("blocker", "raise", TASK, joined, *HOLDER)
    assert joined in ask(office.web, "/review", Cookie=sign_in(office.web)).text


@needs_browser
def test_no_text_about_work_makes_a_page_wider_than_its_window(
    office: Office, context: BrowserContext
) -> None:
    word, id = "W" * 270, "I" * 64
    made = ("--brief", word * 9, "--criterion", word, "--gate", GATE, "--label", "l" * 60)
    office.ok("task", "create", "--title", word, "--id", id, *made, *HOLDER)
    office.ok("task", "take", id, "--branch", "b" * 200, *WORKER)
    run = office.shop.proven("--task", id, "--criterion", "1", "--", "echo", word)["id"]
    office.ok("task", "submit", id, *WORKER)
    office.ok("gate", "fail", id, GATE, "--note", word, "--fix", word, *HOLDER)
    office.ok("send", "@" + "n" * 120, word, *WORKER)
    page = signed_in(context, office.web)
    for path in ("/", "/work", f"/work/{id}", f"/evidence/{run}", "/review"):
        page.goto(f"{office.web.url}{path}")
        expect(page.locator("#line")).to_have_text("Live")
        assert page.locator("main :is(li, pre)").count() > 0, path
        for window, _ in in_every_window(page):
            assert wider_than_the_window(page) == [], (path, window)


def test_pages_about_work_show_nothing_without_a_cookie_or_to_other_sites(office: Office) -> None:
    office.ok("task", "create", "--title", SECRET, "--id", TASK, "--criterion", "a", *HOLDER)
    office.ok("task", "take", TASK, *WORKER)
    id = office.noted(SECRET)
    cookie = sign_in(office.web)
    pages = ["/work", "/review", f"/work/{TASK}", f"/evidence/{id}"]
    parts = ["/parts/work", "/parts/review", f"/parts/task/{TASK}", f"/parts/evidence/{id}"]
    for path in (*pages, *parts):
        stranger = ask(office.web, path)
        assert stranger.status == (200 if path in pages else 401), path
        other = ask(office.web, path, Cookie=cookie, Origin="http://evil.example")
        assert other.status == 403, path
        assert SECRET not in stranger.text + other.text, path
        assert TASK not in stranger.text + other.text, path
        assert ask(office.web, path, Cookie=cookie).status == 200, path


def test_pages_about_work_have_no_form_but_sign_out(office: Office) -> None:
    office.shop.submitted()
    cookie = sign_in(office.web)
    for path in ("/work", "/review", f"/work/{TASK}"):
        page = ask(office.web, path, Cookie=cookie)
        assert re.findall(r'<form[^>]* action="([^"]*)"', page.text) == ["/sign-out"], path
        assert ask(office.web, path, "POST", {}, Cookie=cookie).status == 405, path
        assert "unsafe" not in page.headers["content-security-policy"], path


@pytest.mark.parametrize(
    ("ms", "words"),
    [(0, "0.0 s"), (9_940, "9.9 s"), (59_999, "59 s"), (125_000, "2m 05s"), (7_260_000, "2h 01m")],
)
def test_duration_format(ms: int, words: str) -> None:
    assert task_views.duration(ms) == words
