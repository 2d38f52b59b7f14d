"""The proofs inside a report: pack them, find them in a file, check them.

The proofs cover the sender, the time and the outcome of each entry. They do not cover the text of
the report. So the check returns the proven facts, and the reader compares the report with them.
"""

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from interlock.errors import LogDamaged, Usage
from interlock.log.encoding import decode
from interlock.log.facts import parse_header
from interlock.log.notes import parse_verifier_key
from interlock.log.times import rfc3339
from interlock.node import proofs
from interlock.verbs.addresses import address
from interlock.verbs.answers import Answer

VERSION = 1
_INFO = "json interlock-proofs"
_ID = "interlock-proofs"
# Escaped in JSON, so that they mean nothing in Markdown and HTML.
_HIDDEN = {ord(character): f"\\u{ord(character):04x}" for character in "<>&`"}
_NAMED = ("seq", "at", "kind", "by")


def packed(shown: Answer, proven: Sequence[Answer]) -> str:
    """Return the proofs and the named entries, as JSON that no text in it can end early."""
    named = [{name: entry[name] for name in _NAMED} for entry in shown["story"]]
    block = {
        "interlock_report": VERSION,
        "task": shown["task"]["id"],
        "story": named,
        "proofs": list(proven),
    }
    return json.dumps(block, indent=1).translate(_HIDDEN)


def found(data: bytes) -> str:
    """Return the one block of proofs in a report; raise `Usage` if there is not exactly one."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Usage(
            "This file is neither a proof nor a report: it is not UTF-8 text. Name a file that "
            "audit prove --json or report wrote."
        ) from None
    if text.lstrip("\ufeff \t\r\n")[:9].lower() == "<!doctype":
        page = _Scripts()
        page.feed(text)
        page.close()
        blocks = page.blocks
    else:
        blocks = _in_markdown(text)
    if len(blocks) != 1:
        raise Usage(
            "This file is neither a proof in JSON nor a complete report. A report has one block of "
            f"proofs, and this file has {len(blocks)}. Get the complete report again."
        )
    return blocks[0]


def _in_markdown(text: str) -> list[str]:
    """Return the content of our fences. A fence inside a longer one is only text."""
    blocks, fence, info, since = [], "", "", 0
    lines = text.replace("\r\n", "\n").split("\n")
    for number, line in enumerate(lines):
        mark = re.match("(`{3,})([^`]*)$", line)
        if mark is None:
            continue
        if not fence:
            fence, info, since = mark[1], mark[2].strip(), number
        elif mark[1].startswith(fence) and not mark[2].strip():
            blocks += ["\n".join(lines[since + 1 : number])] if info == _INFO else []
            fence = ""
    return blocks


class _Scripts(HTMLParser):
    """Collects the content of the scripts with our id."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and dict(attrs).get("id") == _ID
        if self._inside:
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.blocks[-1] += data


def check(text: str, verifier: str | None) -> Answer:
    """Check that the proofs are valid, and that they prove every entry that the report names.

    Raises `Usage` for a bad verifier key, and for a report of another version.
    """
    try:
        if verifier is not None:
            parse_verifier_key(verifier)
    except ValueError as wrong:
        raise Usage(
            f"{verifier!r:.200} is not a verifier key: {wrong}. Copy the whole key."
        ) from None
    try:
        block = decode(text)
        if block["interlock_report"] != VERSION:
            raise Usage(
                "Another version of Interlock wrote this report. Check it with that version."
            )
        answers = [_checked(proof, verifier) for proof in block["proofs"]]
        facts = _proven_facts(block)
        if len({answer["signed_by"] for answer in answers}) != 1:
            raise ValueError("they belong to several logs")
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        changed = LogDamaged(f"The proofs of this report were changed: {wrong}.")
        return {"ok": False} | changed.as_dict()
    except LogDamaged as damaged:
        return {"ok": False} | damaged.as_dict()
    return answers[-1] | {
        "proof": "report",
        "task": block["task"],
        "seqs": [fact["seq"] for fact in facts],
        "facts": facts,
    }


def _checked(proof: Any, verifier: str | None) -> Answer:
    """Return the answer about one bundle of proofs, or raise `LogDamaged` for its first bad one."""
    if proof["proof"] != "inclusions":
        raise ValueError("they prove something else")
    try:
        answer = proofs.check_proof(proof, verifier)
    except Usage as refused:
        raise LogDamaged(f"The proofs of this report are not valid. {refused.message}") from None
    if answer["ok"]:
        return answer
    for entry in proof["entries"]:
        if not proofs.check_proof(proof | {"entries": [entry]}, verifier)["ok"]:
            seq = entry["seq"]
            raise LogDamaged(f"The proof of entry {seq} is not valid.", seq=seq)
    raise LogDamaged("The proofs of this report are not valid.")


def _proven_facts(block: Any) -> list[Answer]:
    """Return the proven fact of each entry that the report names, in the form of `audit show`.

    Raises `LogDamaged` if a fact is not proven, or differs from the report.
    """
    headers = [
        parse_header(entry["header"].encode())
        for proof in block["proofs"]
        for entry in proof["entries"]
    ]
    proven = {header.seq: header for header in headers}
    if not block["story"]:
        raise ValueError("they name no entry")
    facts: list[Answer] = []
    for named in block["story"]:
        seq = named["seq"]
        if (fact := proven.get(seq)) is None:
            raise LogDamaged(f"The report names entry {seq} and does not prove it.", seq=seq)
        by, at = address(fact.sender), rfc3339(fact.at)
        shown = {"seq": fact.seq, "at": at, "kind": fact.kind, "by": by}
        is_of_task = fact.outcome.get("task", block["task"]) == block["task"]
        if shown != {name: named[name] for name in _NAMED} or not is_of_task:
            raise LogDamaged(f"The proof of entry {seq} differs from the report.", seq=seq)
        facts.append(
            {"seq": seq, "at": at, "kind": fact.kind, "sender": by, "outcome": fact.outcome}
        )
    return facts
