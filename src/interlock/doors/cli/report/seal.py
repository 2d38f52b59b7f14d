"""The proofs inside a report: how they are packed, found again in a file, and checked.

They show who did what when, and with which outcome. They do not show that the rest of the document
says the same; for that, whoever checks is given the facts to compare it with.
"""

import json
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from interlock.errors import LogDamaged, Usage
from interlock.log.encoding import decode
from interlock.log.facts import Header, parse_header
from interlock.log.notes import parse_verifier_key
from interlock.log.times import rfc3339
from interlock.node import proofs
from interlock.verbs.addresses import address
from interlock.verbs.answers import Answer

VERSION = 1
_INFO = "json interlock-proofs"
_ID = "interlock-proofs"
# As JSON these mean what they are, and neither Markdown nor HTML sees them.
_HIDDEN = {ord(character): f"\\u{ord(character):04x}" for character in "<>&`"}
_NAMED = ("seq", "at", "kind", "by")


def packed(shown: Answer, proven: Sequence[Answer]) -> str:
    """The proofs, with the entries that the document names, as JSON that no text can end early."""
    named = [{name: entry[name] for name in _NAMED} for entry in shown["story"]]
    block = {
        "interlock_report": VERSION,
        "task": shown["task"]["id"],
        "story": named,
        "proofs": list(proven),
    }
    return json.dumps(block, indent=1).translate(_HIDDEN)


def found(data: bytes) -> str:
    """The one block of proofs in a report; `Usage` if there is none."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Usage("That file is neither a proof nor a report: it is not text.") from None
    is_page = text.lstrip("\ufeff \t\r\n")[:9].lower() == "<!doctype"
    blocks = _in_page(text) if is_page else _in_markdown(text)
    if len(blocks) != 1:
        raise Usage(
            "That file is neither JSON, and so not a proof, nor a report with its proofs: a report "
            f"has one block of them, and this has {len(blocks)}. Get the report again, whole."
        )
    return blocks[0]


def _in_markdown(text: str) -> list[str]:
    """What stands in the fences that are ours. A fence inside a longer one is only text."""
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


class _Page(HTMLParser):
    """Gathers the scripts that have our id."""

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


def _in_page(text: str) -> list[str]:
    page = _Page()
    page.feed(text)
    page.close()
    return page.blocks


def check(text: str, verifier: str | None) -> Answer:
    """Whether the proofs hold, and prove every entry that the document names."""
    _refuse_key(verifier)
    try:
        block = decode(text)
        if block["interlock_report"] != VERSION:
            raise Usage("Another version of Interlock wrote that report. Check it with that one.")
        answers = [_holds(proof, verifier) for proof in block["proofs"]]
        facts = _named(block)
        if len({answer["signed_by"] for answer in answers}) != 1:
            raise ValueError("they are of several logs")
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        return _no(f"The proofs of that report were changed: {wrong}.")
    except LogDamaged as damaged:
        return {"ok": False} | damaged.as_dict()
    return answers[-1] | {
        "proof": "report",
        "task": block["task"],
        "seqs": [fact.seq for fact in facts],
        "facts": [_shown(fact) for fact in facts],
    }


def _refuse_key(verifier: str | None) -> None:
    try:
        if verifier is not None:
            parse_verifier_key(verifier)
    except ValueError as wrong:
        raise Usage(f"{verifier!r:.200} is no verifier key: {wrong}.") from None


def _no(message: str) -> Answer:
    return {"ok": False} | LogDamaged(message).as_dict()


def _holds(proof: Any, verifier: str | None) -> Answer:
    """The answer about one bundle of proofs, or `LogDamaged` naming the first that is wrong."""
    if proof["proof"] != "inclusions":
        raise ValueError("they prove something else")
    try:
        answer = proofs.check_proof(proof, verifier)
    except Usage as refused:
        raise LogDamaged(f"The proofs of that report do not hold. {refused.message}") from None
    if answer["ok"]:
        return answer
    for entry in proof["entries"]:
        if not proofs.check_proof(proof | {"entries": [entry]}, verifier)["ok"]:
            seq = entry["seq"]
            raise LogDamaged(f"The proof of entry {seq} does not hold.", seq=seq)
    raise LogDamaged("The proofs of that report do not hold.")


def _named(block: Any) -> list[Header]:
    """The proven header of each entry that the document names, which must say the same of it."""
    headers = [
        parse_header(entry["header"].encode())
        for proof in block["proofs"]
        for entry in proof["entries"]
    ]
    proven = {header.seq: header for header in headers}
    if not block["story"]:
        raise ValueError("they name no entry")
    return [_agreeing(named, proven.get(named["seq"]), block["task"]) for named in block["story"]]


def _agreeing(named: Any, fact: Header | None, task: str) -> Header:
    seq = named["seq"]
    if fact is None:
        raise LogDamaged(f"Entry {seq} is named in that report and not proven.", seq=seq)
    said = {"seq": fact.seq, "at": rfc3339(fact.at), "kind": fact.kind, "by": address(fact.sender)}
    if said != {name: named[name] for name in _NAMED} or fact.outcome.get("task", task) != task:
        raise LogDamaged(f"Entry {seq} is not what that report says of it.", seq=seq)
    return fact


def _shown(fact: Header) -> Answer:
    """The fact as `audit show` has it."""
    return {
        "seq": fact.seq,
        "at": rfc3339(fact.at),
        "kind": fact.kind,
        "sender": address(fact.sender),
        "outcome": fact.outcome,
    }
