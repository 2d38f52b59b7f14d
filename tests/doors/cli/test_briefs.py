"""Briefs: the parts that the parser reads from Markdown and front matter, and its refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.doors.cli.briefs import Brief, parse
from interlock.errors import Usage

WHOLE = """\
---
# who and what
id: B-0444
gates: [athena, "vera"]   # both must pass
priority: high
assignee: @otto-cli
labels:
  - login

  # an old one
  - 'it''s urgent'
depends_on: []
---

# Fix the login

People cannot log in.

## Acceptance criteria

- [ ] The tests pass
- [x] No user is
  locked out

## Steps

- [ ] look at the log
"""


def refused(text: str) -> Usage:
    with pytest.raises(Usage) as caught:
        parse(text)
    return caught.value


def criteria(*lines: str) -> tuple[str, ...]:
    return parse("\n".join(("# T", "", *lines))).criteria


def front(*lines: str) -> Brief:
    return parse("\n".join(("---", *lines, "---", "# T")))


def test_a_whole_brief_is_read() -> None:
    brief = parse(WHOLE)
    assert brief == Brief(
        title="Fix the login",
        brief=WHOLE.partition("# Fix the login\n\n")[2].rstrip("\n"),
        criteria=("The tests pass", "No user is locked out"),
        id="B-0444",
        gates=("athena", "vera"),
        priority="high",
        assignee="@otto-cli",
        labels=("login", "it's urgent"),
        depends_on=(),
    )


def test_parts_not_given_are_absent() -> None:
    assert parse("# Fix it") == Brief("Fix it", "")


@pytest.mark.parametrize("ending", ["\r\n", "\r"])
def test_line_endings_and_a_byte_order_mark_change_nothing(ending: str) -> None:
    assert parse("\ufeff" + WHOLE.replace("\n", ending)) == parse(WHOLE)


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("# Plain", "Plain"),
        ("   #   Wide   ", "Wide"),
        ("#\tAfter a tab", "After a tab"),
        ("# Closed ##", "Closed"),
        ("# C#", "C#"),
        ("# F# and C# #", "F# and C#"),
        ("# Ünïcödé ✓", "Ünïcödé ✓"),
    ],
)
def test_first_heading_is_the_title(heading: str, title: str) -> None:
    assert parse(f"{heading}\n\ntext") == Brief(title, "text")


@pytest.mark.parametrize("under", ["=", "=====", "  ===  "])
def test_a_title_may_be_underlined(under: str) -> None:
    assert parse(f"Fix the login\n{under}\n\ntext") == Brief("Fix the login", "text")
    brief = parse(f"---\nid: B-1\n---\n\nFix it\n{under}\nWhen\n---\n- [ ] now\n---\nmore")
    assert (brief.title, brief.criteria) == ("Fix it", ("now",))
    assert brief.brief == "When\n---\n- [ ] now\n---\nmore"


def test_a_section_of_criteria_may_be_underlined() -> None:
    text = "# T\n- [ ] a step\n\nAcceptance criteria\n-----\n- [ ] a\n\nMore\n---\n- [ ] b"
    assert parse(text).criteria == ("a",)


@pytest.mark.parametrize("text", ["- one\n===", "> one\n===", "one\ntwo\n===", "\n==="])
def test_underline_makes_a_title_only_of_a_one_line_paragraph(text: str) -> None:
    refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "\ufeff",
        "text",
        "## Second level",
        "#NoSpace",
        "#",
        "    # code",
        "```\n# T\n```",
    ],
)
def test_a_brief_without_a_title_is_refused(text: str) -> None:
    assert "# Fix the login" in refused(text).message


def test_text_before_the_title_is_kept() -> None:
    assert parse("A note.\n\n# T\n\nText.") == Brief("T", "A note.\n\n\nText.")


def test_title_in_front_matter_takes_precedence_and_keeps_the_heading() -> None:
    brief = parse("---\ntitle: Mine\n---\n# Another\ntext")
    assert (brief.title, brief.brief) == ("Mine", "# Another\ntext")


def test_title_given_twice_is_removed_from_the_text() -> None:
    assert parse("---\ntitle: Mine\n---\n# Mine\ntext") == Brief("Mine", "text")


def test_front_matter_alone_can_have_the_title() -> None:
    assert parse("---\ntitle: Mine\n---\ntext") == Brief("Mine", "text")


# Criteria


@pytest.mark.parametrize(
    "item",
    [
        "- [ ] one", "* [ ] one", "+ [ ] one", "- [x] one", "- [X] one", "1. [ ] one",
        "12) [x] one", "-   [ ]   one  ", "   - [ ] one", "- [ ]\tone",
        "- [ ]\n  one", "- [ ]\n\n  one",
    ],
)  # fmt: skip
def test_a_box_in_any_kind_of_list_is_a_criterion(item: str) -> None:
    assert criteria(item) == ("one",)


def test_without_a_section_of_criteria_every_checklist_counts() -> None:
    assert criteria("- [ ] a", "", "## Later", "", "- plain", "- [ ] b") == ("a", "b")


@pytest.mark.parametrize(
    "heading",
    [
        "## Acceptance criteria",
        "## ACCEPTANCE CRITERIA:",
        "### 3. **Acceptance criteria**",
        "## The acceptance criteria of this task",
        "## Acceptance",
        "## Criteria ##",
        "# Definition of done",
    ],
)
def test_with_a_section_of_criteria_only_its_checklists_count(heading: str) -> None:
    assert criteria("- [ ] a step", heading, "- [ ] a", "# Next", "- [ ] b") == ("a",)


@pytest.mark.parametrize("heading", ["## Criteria for the library", "## Accepted", "Criteria"])
def test_other_headings_are_no_section_of_criteria(heading: str) -> None:
    assert criteria("- [ ] a", "", heading, "", "- [ ] b") == ("a", "b")


def test_section_of_criteria_has_subsections_and_can_repeat() -> None:
    lines = ("## Acceptance", "- [ ] a", "### Server", "- [ ] b", "## Other", "- [ ] no")
    assert criteria(*lines, "### Acceptance", "- [ ] c", "## End", "- [ ] no") == ("a", "b", "c")


def test_a_title_about_criteria_is_a_title() -> None:
    brief = parse("# Acceptance criteria\n\n- [ ] a\n- plain")
    assert (brief.title, brief.criteria) == ("Acceptance criteria", ("a",))


def test_wrapped_lines_belong_to_their_item() -> None:
    lines = ("- [ ] one", "  two", "\tthree", "four", "", "five", "- [ ] six")
    assert criteria(*lines) == ("one two three four", "six")


def test_paragraphs_details_and_code_under_an_item_keep_their_lines() -> None:
    lines = (
        "- [ ] one",
        "",
        "  two",
        "  - three",
        "    four",
        "  ```",
        "  - [ ] five",
        "   six",
        "  ```",
    )
    assert criteria(*lines, "  seven") == (
        "one\ntwo\n- three four\n```\n- [ ] five\n six\n```\nseven",
    )  # fmt: skip


def test_a_box_under_a_box_is_a_criterion_of_its_own() -> None:
    lines = ("- [ ] one", "    - [ ] two", "\t\t- [ ] three", "- [ ] four")
    assert criteria(*lines) == ("one", "two", "three", "four")


@pytest.mark.parametrize("after", ["---", "* * *", "## Heading", "> said", "```\ncode\n```"])
def test_item_ends_where_other_content_starts(after: str) -> None:
    assert criteria("- [ ] one", *after.split("\n"), "text") == ("one",)


@pytest.mark.parametrize(
    "block",
    [
        "```\n- [ ] no\n```",
        "~~~~ text\n~~~\n- [ ] no\n~~~~~",
        "```sh\n``` not the end\n- [ ] no\n```",
        "<!--\n- [ ] no\n-->",
        "<!-- - [ ] no -->",
        "text\n\n    - [ ] no",
        "text\n\n\t- [ ] no",
        "text - [ ] no",
        "- [x](place) no",
        "- [ ] `code`\n<!-- unseen -->",
    ],
)
def test_boxes_in_code_and_comments_are_ignored(block: str) -> None:
    found = criteria(*block.split("\n"), "", "- [ ] yes")
    assert found[-1] == "yes"
    assert not any("no" in each or "unseen" in each for each in found)


def test_inline_code_starts_no_fence() -> None:
    assert criteria("```code``` is code", "", "- [ ] yes") == ("yes",)


@pytest.mark.parametrize("block", ["```\n# A", "~~~\n```", "<!-- note", "````\n```"])
def test_code_or_comment_without_an_end_is_refused(block: str) -> None:
    refusal = refused(f"# T\n\n{block}\n- [ ] lost")
    assert refusal.members["line"] == 3
    assert "has no end" in refusal.message


@pytest.mark.parametrize(
    "item", ["- []", "- [] a", "-[ ] a", "- [ ]a", "* [  ] a", "1.[x] a", "- [x]a"]
)
def test_malformed_box_is_refused(item: str) -> None:
    refusal = refused(f"# T\n\n{item}")
    assert refusal.members["line"] == 3
    assert "- [ ] text" in refusal.message


@pytest.mark.parametrize("item", ["> - [ ] a", ">- [x] a", "> > 1. [ ] a", "> said\n> * [ ] a"])
def test_box_in_a_quotation_is_refused(item: str) -> None:
    refusal = refused(f"# T\n\n- [ ] b\n\n{item}")
    assert refusal.members["line"] == 5 + item.count("\n")
    assert "remove the >" in refusal.message


def test_a_box_without_text_is_refused() -> None:
    assert refused("# T\n- [ ] a\n- [ ]\n- [ ] b").members["line"] == 3


@pytest.mark.parametrize("under", ["", "None.", "```\n- [ ] a\n```"])
def test_a_section_of_criteria_without_a_checklist_is_refused(under: str) -> None:
    refusal = refused(f"# T\n- [ ] a step\n## Acceptance criteria\n{under}")
    assert refusal.members["line"] == 3
    assert "- [ ] The tests pass" in refusal.message


@pytest.mark.parametrize("item", ["- b", "* b", "2. b", "- **b**"])
def test_a_list_item_without_a_box_among_the_criteria_is_refused(item: str) -> None:
    refusal = refused(f"# T\n## Acceptance criteria\n- [ ] a\n{item}\n")
    assert refusal.members["line"] == 4
    assert "has no checkbox" in refusal.message


# Front matter


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("plain", "plain"),
        ("two words", "two words"),
        ("a#b", "a#b"),
        ("a # b", "a"),
        ("http://x", "http://x"),
        ("@otto", "@otto"),
        ('"quoted: # [x]"', "quoted: # [x]"),
        (r'"a \"b\" \\ c"', r'a "b" \ c'),
        ("'it''s'", "it's"),
        (r"'a\n'", r"a\n"),
        ('""', ""),
        ("007", "007"),
        ("'x' # comment", "x"),
    ],
)
def test_a_value_is_a_word_or_quoted(written: str, value: str) -> None:
    assert front(f"id: {written}").id == value
    assert front("gates:", f"- {written}").gates == (value,)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("[]", ()),
        ("[ ]", ()),
        ("[a]", ("a",)),
        ("[a,b ,  c]", ("a", "b", "c")),
        ("""["a, b", 'c]', d e]  # three""", ("a, b", "c]", "d e")),
        ("['a'' # b']", ("a' # b",)),
    ],
)
def test_list_can_be_in_brackets(written: str, values: tuple[str, ...]) -> None:
    assert front(f"labels: {written}").labels == values


def test_a_list_may_have_a_line_for_each_entry() -> None:
    brief = front("labels:  # of two", "- a", "", "# more", "   -   b  # b", "id: c")
    assert (brief.labels, brief.id) == (("a", "b"), "c")


def test_empty_front_matter_sets_nothing() -> None:
    assert front() == Brief("T", "")


def test_horizontal_rule_in_the_text_is_not_front_matter() -> None:
    assert parse("# T\n---\nid: x\n---").id is None


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        (["id: a", "id: b"], 3),
        (["gates: [a]", "gates: [b]"], 3),
        (["nonsense"], 2),
        (["id:a"], 2),
        (["- a"], 2),
        (["  id: a"], 2),
        (["id: a", "  more"], 3),
        (["id:"], 2),
        (["id: # nothing"], 2),
        (["id: ~"], 2),
        (["id: null"], 2),
        (["id: [a]"], 2),
        (["id:", "- a"], 2),
        (["title: |", "  text"], 2),
        (["title: >-", "  text"], 2),
        (["title: a: b"], 2),
        (["title: &a b"], 2),
        (["title: *a"], 2),
        (["title: !!str b"], 2),
        (["title: {a: b}"], 2),
        (['title: "a'], 2),
        (["title: 'a"], 2),
        (['title: "a" b'], 2),
        ([r'title: "a\n"'], 2),
        (["gates: a"], 2),
        (["gates: a, b"], 2),
        (["gates:"], 2),
        (["gates:", "id: a"], 2),
        (["gates:", "- a", "-"], 4),
        (["gates:", "- a: b"], 3),
        (["gates:", "- [a]"], 3),
        (["gates:", "- a", "b"], 4),
        (["gates: [a"], 2),
        (["gates: [a,", "b]"], 2),
        (["gates: [a # b]"], 2),
        (["gates: [a, ]"], 2),
        (["gates: [, a]"], 2),
        (["gates: [a]]"], 2),
        (["gates: [a] b"], 2),
        (["gates: [[a]]"], 2),
        (["gates: [a: b]"], 2),
        (["gates: [{a}]"], 2),
    ],
)
def test_other_front_matter_is_refused_with_its_line(lines: list[str], number: int) -> None:
    refusal = refused("\n".join(("---", *lines, "---", "# T")))
    assert refusal.members["line"] == number
    assert f"Line {number} of the brief" in refusal.message


def test_unknown_key_is_refused_with_near_matches() -> None:
    refusal = refused("---\nlabel: a\n---\n# T")
    assert refusal.members["did_you_mean"] == ["labels"]
    assert "depends_on" in refusal.message


def test_toml_front_matter_is_refused_with_the_valid_form() -> None:
    refusal = refused('+++\ntitle = "T"\n+++\n# T')
    assert refusal.members["line"] == 1
    assert "between lines of ---" in refusal.message


def test_front_matter_without_an_end_is_refused() -> None:
    assert "Close it with a line of ---" in refused("---\nid: a\n# T").message


# Any text at all

MARKDOWN = st.lists(
    st.sampled_from(
        ["---", "# T", "## Criteria", "- [ ] a", "  b", "- c", "```", "<!--", "-->", "id: a", ""]
    )
    | st.text(max_size=20),
    max_size=12,
).map("\n".join)


def outcome(text: str) -> Brief | Usage:
    try:
        return parse(text)
    except Usage as refusal:
        return refusal


@given(MARKDOWN)
def test_any_text_is_read_or_refused(text: str) -> None:
    met = outcome(text)
    if isinstance(met, Usage):
        assert met.members["line"] >= 1
    else:
        assert met.title
        assert all(each.strip() for each in met.criteria)


HUGE = 400_000


@pytest.mark.parametrize(
    "text",
    [
        "# T\n" + "- [ ] a\n  b\n" * (HUGE // 10),
        "# T\n" + "- [ ] a" + " b" * HUGE,
        "# T\n- [ ] a\n" + "  b\n" * (HUGE // 4),
        "# " + "#" * HUGE + " " * HUGE + "x",
        "# T\n" + " " * HUGE + "x\n" + "- " * HUGE,
        "# T\n" + "`" * HUGE,
        "# T\n" + "## Criteria\n- [ ] a\n" * (HUGE // 20),
        "---\ngates: [" + "a," * HUGE + "a]\n---\n# T",
        "---\ngates: [" + "'a'," * HUGE,
        '---\ntitle: "' + '\\"' * HUGE + "\n---\n# T",
        "---\ntitle: '" + "''" * HUGE + "\n---\n# T",
        "---\ngates:\n" + "- a\n" * (HUGE // 4) + "---\n# T",
        "---\n" * HUGE,
    ],
    ids=range(13),
)
def test_huge_brief_is_read_in_linear_time(text: str) -> None:
    """In quadratic time, these would take too long."""
    met = outcome(text)
    assert not isinstance(met, Usage) or len(met.message) < 500
