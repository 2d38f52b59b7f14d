"""JSON with comments, edited in place: an edit changes its entry and no other byte."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.setup import jsonc

MESSY = """\
// settings of the team
{
\t"a": 1, // one
\t/* two */ "b": [1, 2,],
\t"c": {}, // empty
\t// the end
}
"""


def test_a_new_member_follows_the_last_one_and_its_comment() -> None:
    assert jsonc.put('{\n  "a": 1 // one\n}\n', ("b",), [2]) == (
        '{\n  "a": 1, // one\n  "b": [\n    2\n  ]\n}\n'
    )


def test_a_file_with_trailing_commas_keeps_them() -> None:
    assert jsonc.put('{\n  "a": 1,\n}', ("b",), 2) == '{\n  "a": 1,\n  "b": 2,\n}'


def test_an_object_on_one_line_stays_on_one_line() -> None:
    assert jsonc.put('{"a": 1}', ("b", "c"), [2]) == '{"a": 1, "b": {"c": [2]}}'
    assert jsonc.put('{"a": {}}', ("a", "b"), 2) == '{"a": {"b": 2}}'
    assert jsonc.append('{"a": [1]}', ("a",), 2) == '{"a": [1, 2]}'


def test_a_member_in_an_empty_object_gets_its_own_line() -> None:
    assert jsonc.put("{}", ("a",), 1) == '{\n  "a": 1\n}'
    assert jsonc.put("{ // nothing yet\n}\n", ("a",), 1) == '{ // nothing yet\n  "a": 1\n}\n'


def test_new_text_has_the_line_ends_and_indentation_of_the_file() -> None:
    assert jsonc.put('{\r\n\t"a": 1\r\n}', ("b",), {"c": 2}) == (
        '{\r\n\t"a": 1,\r\n\t"b": {\r\n\t\t"c": 2\r\n\t}\r\n}'
    )


def test_an_edit_keeps_every_comment() -> None:
    text = jsonc.append(jsonc.put(MESSY, ("c", "d"), 3), ("b",), 4)
    assert text == MESSY.replace("[1, 2,]", "[1, 2, 4,]").replace(
        '"c": {}', '"c": {\n\t\t"d": 3\n\t}'
    )


def test_drop_reverts_put() -> None:
    for path in (("z",), ("c", "z"), ("new", "z")):
        put = jsonc.put(MESSY, path, {"x": [1]})
        assert jsonc.drop(put, path[:1] if path[0] == "new" else path) == MESSY


@pytest.mark.parametrize(
    ("text", "path", "left"),
    [
        ('{"a": 1, "b": 2}', ("a",), '{"b": 2}'),
        ('{"a": 1, "b": 2}', ("b",), '{"a": 1}'),
        ('{"a": [1, 2, 3]}', ("a", 1), '{"a": [1, 3]}'),
        ('{"a": [1]}', ("a", 0), '{"a": []}'),
        ('{\n "a": 1,\n "b": 2\n}', ("a",), '{\n "b": 2\n}'),
        ('{\n "a": 1, // one\n "b": 2\n}', ("b",), '{\n "a": 1 // one\n}'),
        ('{\n "a": 1,\n "b": 2,\n}', ("b",), '{\n "a": 1,\n}'),
        ('{\n "a": 1 }', ("a",), "{}"),
        ('{\n // left\n "a": 1\n}', ("a",), "{\n // left\n}"),
    ],
)
def test_a_member_or_element_is_removed_with_its_comma(
    text: str, path: tuple[str | int, ...], left: str
) -> None:
    assert jsonc.drop(text, path) == left


def test_of_two_members_with_one_name_the_last_is_changed() -> None:
    assert jsonc.put('{"a": 1, "a": 2}', ("a",), 3) == '{"a": 1, "a": 3}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1", '{"a"}', '{"a": }', '{"a": 1 "b": 2}', "{,}", "[,]", "{} {}", "nope"),
        *("'a'", '{"a": 01}', '{"a": "\n"}', "{a: 1}", "/* open", '{"a": /', "[" * 10_000),
    ],
)
def test_invalid_json_is_refused(text: str) -> None:
    with pytest.raises(jsonc.NotJson):
        jsonc.load(text)


def test_the_error_names_the_invalid_line() -> None:
    with pytest.raises(jsonc.NotJson, match="line 3"):
        jsonc.load('{\n"a": 1\n"b": 2}')


def test_a_member_of_another_shape_is_not_replaced() -> None:
    with pytest.raises(jsonc.NotJson, match="a is not an object"):
        jsonc.put('{"a": [1]}', ("a", "b"), 1)
    with pytest.raises(jsonc.NotJson, match="a is not a list"):
        jsonc.append('{"a": {}}', ("a",), 1)


names = st.text(max_size=4) | st.sampled_from(["a", "b", "//", '"', "{"])
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
blanks = st.sampled_from(["", " ", "\n", "\r\n\t", " // c\n", "/* c, */", "\n  "])


def written(data: st.DataObject, value: Any) -> str:
    """Return the value as JSON with random blanks, comments and trailing commas."""

    def blank() -> str:
        return data.draw(blanks)

    if isinstance(value, dict):
        parts = [
            f"{blank()}{json.dumps(name)}{blank()}:{blank()}{written(data, each)}{blank()}"
            for name, each in value.items()
        ]
    elif isinstance(value, list):
        parts = [f"{blank()}{written(data, each)}{blank()}" for each in value]
    else:
        return json.dumps(value)
    has_comma = data.draw(st.booleans()) and bool(parts)
    body = ",".join(parts) + "," * has_comma + blank()
    return f"{{{body}}}" if isinstance(value, dict) else f"[{body}]"


@given(st.data(), st.dictionaries(names, plain, max_size=4), names, plain)
def test_any_object_in_any_format_can_be_changed_and_restored(
    data: st.DataObject, before: dict[str, Any], name: str, value: Any
) -> None:
    text = written(data, before)
    assert jsonc.load(text) == before
    after = jsonc.put(text, (name,), value)
    assert jsonc.load(after) == before | {name: value}
    assert jsonc.load(jsonc.drop(after, (name,))) == {k: v for k, v in before.items() if k != name}
    if name not in before:
        comments = text.count("// c"), text.count("/* c, */")
        assert (after.count("// c"), after.count("/* c, */")) == comments
    back = jsonc.drop(jsonc.put(text, ("fresh",), value), ("fresh",))
    assert "".join(back.split()) == "".join(text.split())


@given(st.data(), st.lists(plain, max_size=4), plain)
def test_any_list_in_any_format_can_grow_and_shrink(
    data: st.DataObject, before: list[Any], value: Any
) -> None:
    text = '{"list": ' + written(data, before) + "}"
    after = jsonc.append(text, ("list",), value)
    assert jsonc.load(after) == {"list": [*before, value]}
    for number in range(len(before)):
        left = jsonc.load(jsonc.drop(text, ("list", number)))["list"]
        assert left == before[:number] + before[number + 1 :]
