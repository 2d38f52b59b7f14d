"""Stateless checks of acts: shapes, lengths and contracts, before anything is looked at.

`checked(act)` gives the act back, normalised where two spellings mean the same, or refuses it.
"""

import re
from collections.abc import Callable
from typing import Any

from interlock.contracts import acts
from interlock.contracts.addresses import unicode
from interlock.contracts.types import MAIN_MEMBER, plain, sendable
from interlock.errors import InvalidMessage, TooLarge, Usage
from interlock.log.encoding import canonical, digest
from interlock.log.times import LAST_MS

STATES = ("open", "taken", "submitted", "done", "failed", "cancelled")
STEPS = ("start", "prompt", "edit", "tool", "busy", "stop", "rest", "idle", "end")
PRIORITIES = ("low", "normal", "high", "critical")
MAX_TTL_S = 365 * 86_400
MAX_ROWS = 1000
MAX_NAMED = 100
MAX_WINDOW_BYTES = 4096
MAX_BRIEF_BYTES = 256 << 10
MAX_QUERY_LENGTH = 1000
MAX_CLIENT_LENGTH = 4096
_ITEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/#@+-]{0,199}")
SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
_REFERENCE = re.compile(r"#?[A-Za-z0-9-]{1,64}")
_TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_OBJECT = re.compile(r"[0-9a-f]{40,64}")
_ABBREVIATED = re.compile(r"[0-9a-f]{7,64}")
_TOKEN_ID = re.compile(r"[A-Za-z0-9_]{1,64}")
HASH = re.compile(r"[0-9a-f]{64}")
# The members of an imported row, and what each is.
TOKEN_MEMBERS: dict[str, tuple[type, str]] = {
    "token_hash": (str, "text"),
    "agent": (str, "text"),
    "label": (str, "text"),
    "project": (str, "text"),
    "active": (bool, "true or false"),
    "scope": (list, "text, or a list of texts"),
    "display_name": (str, "text"),
    "expires_at": (int, "a time, as 2026-11-18T09:00:00Z or in seconds since 1970"),
    "clear": (bool, "true or false"),
    "short": (bool, "true or false"),
    "odd": (dict, "an object of texts"),
}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def checked(act: Any) -> Any:
    check = _CHECKS.get(type(act))
    return check(act) if check else act


def line(value: str | None, what: str, longest: int = 280) -> None:
    """One line of text: names of things, reasons, notes. Not for messages' bodies."""
    if value is None:
        return
    if not value.strip():
        raise Usage(f"The {what} is empty.")
    if len(value) > longest:
        raise Usage(f"The {what} has {len(value)} characters; at most {longest} are allowed.")
    if _CONTROL.search(value) or not unicode(value):
        raise Usage(f"The {what} holds control characters; it is one line of plain text.")


def session(value: str) -> str:
    if not SESSION.fullmatch(value):
        raise Usage(
            f"{value[:80]!r} cannot be a session: use letters, digits and _ . : -, at most 128."
        )
    return value


def _ttl(value: int | None) -> None:
    if value is not None and not 0 < value <= MAX_TTL_S:
        raise Usage(f"A time is 1 second to 365 days, not {value} s.")


def _rows(limit: int, after: int = 0) -> None:
    if not 0 < limit <= MAX_ROWS:
        raise Usage(f"A limit is 1 to {MAX_ROWS}, not {limit}.")
    if not 0 <= after < 1 << 62:
        raise Usage(f"{after} is not a position in the log.")


def _send(act: acts.SendMessage) -> acts.SendMessage:
    sendable(act.type)
    main = MAIN_MEMBER[act.type]
    payload = act.payload
    # A body that was uploaded is checked as text of one character: its length is the blob's.
    whole = payload | {main: "-"} if act.upload is not None else payload
    if not plain(act.type, whole):
        # Pydantic takes longer to import than a whole command may; text alone needs no model.
        from interlock.contracts.messages import check

        check(act.type, whole)
    line(act.subject, "subject")
    line(act.key, "key", 200)
    _ttl(act.ttl_s)
    if act.priority not in PRIORITIES:
        raise Usage(f"A priority is one of {', '.join(PRIORITIES)}, not {act.priority[:80]!r}.")
    if act.upload is not None:
        return act
    encoded = _encoded(payload, main)
    return act._replace(sha256=digest(encoded), size=len(encoded))


def _encoded(payload: dict[str, Any], main: str) -> bytes:
    """The bytes that sha256 and size speak of: the main text, or the whole payload without."""
    try:
        return payload[main].encode() if main in payload else canonical(payload)
    except (UnicodeEncodeError, TypeError):
        raise InvalidMessage(f"The member {main} is not text that UTF-8 can hold.") from None


def _ask(act: acts.Ask) -> acts.Ask:
    _ttl(act.wait_s)
    return act


def _chunk(act: acts.PutChunk) -> acts.PutChunk:
    if act.number < 0 or act.size < 1:
        raise Usage("A chunk has a number from 0, and belongs to a body of 1 byte or more.")
    return act


def _answer(act: acts.AnswerAsk) -> acts.AnswerAsk:
    _reference(act.message)
    if not act.text:
        raise InvalidMessage("An answer needs text.", type="answer")
    if not unicode(act.text):
        raise InvalidMessage("The answer is not text that UTF-8 can hold.", type="answer")
    if len(act.text.encode()) > 1 << 20:
        raise TooLarge("An answer has at most 1 MiB. Use send --reply-to for more.")
    line(act.key, "key", 200)
    return act


def _reference(message: str) -> None:
    """What may name a message; whether it does, the state shows."""
    if not _REFERENCE.fullmatch(message):
        raise Usage(
            f"{message[:80]!r} cannot name a message. Give its id, at least 6 characters of it, "
            "or #SEQ."
        )


def _message(act: Any) -> Any:
    _reference(act.message)
    return act


def _ack(act: acts.AckMessages) -> acts.AckMessages:
    if not 0 < len(act.messages) <= MAX_ROWS:
        raise Usage(f"Name 1 to {MAX_ROWS} messages.")
    line(act.note, "note", 4096)
    for message in act.messages:
        _reference(message)
    return act


def _read(act: acts.ReadMessage) -> acts.ReadMessage:
    _reference(act.message)
    start, stop = act.start or 0, act.stop
    if start < 0 or (stop is not None and stop <= start):
        raise Usage("A range is FIRST-LAST in bytes, for example 0-999.")
    return act


def _held(act: Any) -> Any:
    """A claim that somebody holds can be named by its id too."""
    if act.id is None:
        return _target(act)
    if act.item is not None or act.paths or act.repo is not None:
        raise Usage("Name the claim by its id, or by what it is on; not by both.")
    line(act.id, "claim's id", 64)
    return act


def _target(act: Any) -> Any:
    from interlock.contracts.globs import canonical as canonical_glob

    if (act.item is None) == (not act.paths):
        raise Usage("A claim is on one item (--item B-0444) or on paths (--path 'src/**').")
    if act.item is not None:
        if not _ITEM.fullmatch(act.item):
            raise Usage(
                f"{act.item[:80]!r} cannot be an item: use letters, digits and _ . : / # @ + -, "
                "beginning with a letter or digit, at most 200."
            )
        if act.repo is not None:
            raise Usage("A repository goes with paths, not with an item.")
        return act
    if act.repo is None:
        raise Usage("Paths are relative to a repository: name it with --repo, or stand in one.")
    line(act.repo, "repository", 1024)
    if len(act.paths) > 100:
        raise Usage("A claim is on at most 100 paths. Use a glob such as 'src/**'.")
    paths = tuple(canonical_glob(path) for path in act.paths)
    for path in paths:
        if path.startswith("!"):
            raise Usage(
                f"{path[:200]!r} would leave something out, and a claim cannot: name only what you "
                "need. For a name that begins with !, write ? in its place.",
                path=path[:200],
            )
    return act._replace(paths=paths)


def _claim(act: Any) -> Any:
    act = _target(act)
    line(act.branch, "branch", 255)
    line(act.worktree, "worktree", 4096)
    line(act.note, "note", 1024)
    _ttl(act.ttl_s)
    return act


def _acquire(act: acts.AcquireClaim) -> acts.AcquireClaim:
    _ttl(act.wait_s)
    asked: acts.AcquireClaim = _claim(act)
    return asked


def _files(act: Any) -> Any:
    """Names of files from a repository's root."""
    line(act.repo, "repository", 1024)
    line(act.worktree, "worktree", 4096)
    if len(act.paths) > acts.MAX_FILES:
        raise Usage(f"At most {acts.MAX_FILES} files are looked at once, not {len(act.paths)}.")
    for path in act.paths:
        if not path or len(path) > 4096 or "\0" in path or not unicode(path):
            raise Usage(f"{path[:80]!r} is no name of a file.")
        if path.startswith("/") or ".." in path.split("/"):
            raise Usage(f"{path[:80]!r} is not inside the repository. Name files from its root.")
    return act


def _check_paths(act: acts.CheckPaths) -> acts.CheckPaths:
    if len(act.commits) > acts.MAX_FILES:
        raise Usage(f"At most {acts.MAX_FILES} commits are looked at once.")
    for commit in act.commits:
        _whole_object(commit, "commit")
    asked: acts.CheckPaths = _files(act)
    return asked


def _report(act: acts.ReportCommit) -> acts.ReportCommit:
    _whole_object(act.commit, "commit")
    reported: acts.ReportCommit = _files(act)
    return reported


def _attend(act: acts.Attend) -> acts.Attend:
    if act.step not in STEPS:
        raise Usage(f"{act.step[:80]!r} is no step. There are: {', '.join(STEPS)}.")
    line(act.adapter, "adapter", 64)
    _ttl(act.wait_s)
    if act.wait_s is not None and act.step != "idle":
        raise Usage("Only who is idle can wait for what wakes it.")
    if (act.step == "edit") != (act.repo is not None):
        raise Usage("An edit, and nothing else, is of files of a repository.")
    if act.until_ms is not None and not 0 <= act.until_ms < 1 << 62:
        raise Usage(f"{act.until_ms} is no moment.")
    if not _is_short(act.window):
        raise Usage("That is more than anybody needs to know of a client's window.")
    attended: acts.Attend = _files(act)
    return attended


def _is_short(window: Any) -> bool:
    try:
        return len(canonical(window)) <= MAX_WINDOW_BYTES
    except (TypeError, UnicodeEncodeError):
        return False


def _mute(act: acts.Mute) -> acts.Mute:
    _looked_for(act.name, "name")
    _ttl(act.ttl_s)
    if act.off and act.ttl_s is not None:
        raise Usage("Say for how long nothing wakes it, or that it may be woken again; not both.")
    return act


def _renew(act: acts.RenewClaim) -> acts.RenewClaim:
    _ttl(act.ttl_s)
    renewed: acts.RenewClaim = _held(act)
    return renewed


def _take_over(act: acts.TakeOverClaim) -> acts.TakeOverClaim:
    line(act.reason, "reason", 1024)
    taken: acts.TakeOverClaim = _claim(act)
    return taken


def _hash(token_hash: str) -> None:
    if token_hash and not HASH.fullmatch(token_hash):
        raise Usage("A token's hash is its SHA-256, as 64 hexadecimal digits in lower case.")


def _rotate(act: acts.RotateToken) -> acts.RotateToken:
    _hash(act.token_hash)
    rotated: acts.RotateToken = _tokens(act)
    return rotated


def _tokens(act: Any) -> Any:
    """One token by its id, or all of a sender's."""
    _looked_for(act.id, "token's id")
    _looked_for(act.sender, "sender")
    return act


def _identify(act: acts.IdentifyToken) -> acts.IdentifyToken:
    _looked_for(act.token_hash, "hash")
    return act


def _show_token(act: acts.ShowToken) -> acts.ShowToken:
    _token_name(act.id)
    return act


def _token_name(id: str) -> None:
    if not _TOKEN_ID.fullmatch(id):
        raise Usage(f"{id[:80]!r} cannot be a token's id, such as tok_1f2e3d4c5b6a.")


def _label_token(act: acts.LabelToken) -> acts.LabelToken:
    _token_name(act.id)
    line(act.label, "label")
    return act


def _import(act: acts.ImportTokens) -> acts.ImportTokens:
    if not 0 < len(act.rows) <= MAX_ROWS:
        split = " Split the file." if act.rows else ""
        raise Usage(f"1 to {MAX_ROWS} rows are imported at once, not {len(act.rows)}.{split}")
    for number, row in enumerate(act.rows, 1):
        _token_row(number, row)
    labels = {row.get("label") for row in act.rows}
    for label, agent in (act.map or {}).items():
        line(agent, "agent")
        if label not in labels:
            raise Usage(f"No row has the label {label[:80]!r}. It is compared whole.")
    return act


def _token_row(number: int, row: dict[str, Any]) -> None:
    """No secret comes so far, and what is wrong is named without being repeated."""
    for name, value in row.items():
        if name == "token":
            raise Usage(f"Row {number} holds a token. Give its SHA-256 instead, as token_hash.")
        if name not in TOKEN_MEMBERS:
            raise Usage(f"Row {number}: {name[:80]!r} is none of {', '.join(TOKEN_MEMBERS)}.")
        wrong = odd_member(name, value)
        if wrong is not None:
            raise Usage(f"Row {number}: {wrong}")
    _hash(row.get("token_hash", ""))


def odd_member(name: str, value: Any) -> str | None:
    """What is wrong with a member of an imported row, in a sentence that does not repeat it."""
    kind, what = TOKEN_MEMBERS[name]
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if isinstance(value, dict):
        texts = [*value, *value.values()]
    is_good = isinstance(value, kind) and all(isinstance(text, str) for text in texts)
    if not is_good or (kind is int and not 0 <= value < LAST_MS):
        return f"{name} must be {what}."
    try:
        for text in texts:
            line(text, name)
    except Usage as wrong:
        return wrong.message
    return None


def _review(act: acts.Review) -> acts.Review:
    _ttl(act.since_s)
    return act


def _join(act: acts.Join) -> acts.Join:
    line(act.label, "label")
    _hash(act.token_hash)
    if act.kind not in (None, "agent", "human"):
        raise Usage("A kind is agent or human.")
    return act


def _mint(act: acts.MintToken) -> acts.MintToken:
    _looked_for(act.sender, "sender")
    line(act.label, "label")
    _hash(act.token_hash)
    _ttl(act.ttl_s)
    return act


def _invite(act: acts.Invite) -> acts.Invite:
    _looked_for(act.name, "name")
    _hash(act.code_hash)
    _ttl(act.ttl_s)
    if act.kind not in (None, "agent", "human"):
        raise Usage("A kind is agent or human.")
    if len(act.own) > MAX_NAMED:
        raise Usage(f"A person can be given {MAX_NAMED} agents at once, not {len(act.own)}.")
    return act


def _accept(act: acts.AcceptInvitation) -> acts.AcceptInvitation:
    _looked_for(act.code, "code")
    _hash(act.token_hash)
    return act


def _connection(act: Any) -> Any:
    if not _TOKEN_ID.fullmatch(act.id):
        raise Usage(f"{act.id[:80]!r} is no connection's id. interlock connection list shows them.")
    return act


def _revoke_connection(act: acts.RevokeConnection) -> acts.RevokeConnection:
    _looked_for(act.id, "name")
    revoked: acts.RevokeConnection = act if act.id.startswith("@") else _connection(act)
    return revoked


def _name_connection(act: acts.NameConnection) -> acts.NameConnection:
    line(act.name, "name", 80)
    named: acts.NameConnection = _connection(act)
    return named


def _signed(act: acts.Enrol | acts.SignIn) -> Any:
    line(act.label, "browser's name")
    _hash(act.token_hash)
    return act


def _grant(act: acts.GrantConnection) -> acts.GrantConnection:
    line(act.client_name, "client's name", 80)
    line(act.name, "connection's name", 80)
    _hash(act.code_hash)
    for what, value in (("client", act.client), ("address", act.redirect_uri)):
        line(value, what, MAX_CLIENT_LENGTH)
    return act


def _given(act: acts.OpenConnection | acts.RefreshConnection) -> Any:
    _hash(act.token_hash)
    _hash(act.refresh_hash)
    return act


def _session(act: Any) -> Any:
    session(act.id)
    return act


def _reason(act: Any) -> Any:
    line(act.reason, "reason", 1024)
    return act


def _redact(act: acts.Redact) -> acts.Redact:
    if not _TASK.fullmatch(act.message):
        _reference(act.message)
    redaction: acts.Redact = _reason(act)
    return redaction


def _thread(act: acts.ShowThread) -> acts.ShowThread:
    _reference(act.message)
    shown: acts.ShowThread = _listing(act)
    return shown


def _looked_for(value: str | None, what: str) -> None:
    """What is only compared may be any text, within what every door can carry."""
    if value is not None and not unicode(value):
        raise Usage(f"The {what} is not text that UTF-8 can hold.")
    if value is not None and len(value) > MAX_QUERY_LENGTH:
        raise Usage(
            f"The {what} has {len(value)} characters; at most {MAX_QUERY_LENGTH} are allowed."
        )


def _agents(act: acts.ListAgents) -> acts.ListAgents:
    _looked_for(act.name, "name")
    return act


def _log(act: acts.ShowLog) -> acts.ShowLog:
    _looked_for(act.kind, "kind")
    listed: acts.ShowLog = _listing(act)
    return listed


def _listing(act: Any) -> Any:
    _rows(act.limit, getattr(act, "after", 0))
    return act


def _inbox(act: acts.ListInbox) -> acts.ListInbox:
    if act.which not in ("open", "all", "sent"):
        raise Usage("An inbox shows open, all or sent mail.")
    line(act.adapter, "adapter", 64)
    _ttl(act.wait_s)
    _rows(act.limit, act.after)
    return act


def _task_id(value: str) -> None:
    if not _TASK.fullmatch(value):
        raise Usage(
            f"{value[:80]!r} cannot be a task: use letters, digits and _ . -, beginning with a "
            "letter or digit, at most 64."
        )


def _contract(type: str, payload: dict[str, Any]) -> None:
    """Holds what an act says against the contract of the message that tells of it."""
    from interlock.contracts.messages import check

    check(type, {name: value for name, value in payload.items() if value not in (None, [])})


def _create_task(act: acts.CreateTask) -> acts.CreateTask:
    line(act.title, "title")
    said = {n: list(v) if isinstance(v, tuple) else v for n, v in act._asdict().items()}
    task_id = said.pop("id")
    _contract("task_created", said | {"task_id": task_id if task_id is not None else "T-1"})
    if len((act.brief or "").encode()) > MAX_BRIEF_BYTES:
        raise TooLarge(f"A brief has at most {MAX_BRIEF_BYTES} bytes. Put the rest into a file.")
    return act


def _task(act: Any) -> Any:
    _task_id(act.id)
    line(getattr(act, "note", None), "note", 4096)
    return act


def _tasks(act: acts.ListTasks) -> acts.ListTasks:
    if act.state not in (None, "live", *STATES):
        raise Usage(f"A state is live or one of {', '.join(STATES)}, not {act.state[:80]!r}.")
    _rows(act.limit, act.after)
    return act


def _take(act: acts.TakeTask) -> acts.TakeTask:
    _task_id(act.id)
    where = act.branch, act.worktree, act.note
    _claim(acts.AcquireClaim(act.id, (), None, *where, act.ttl_s))
    return act


def _submit(act: acts.SubmitTask) -> acts.SubmitTask:
    _task_id(act.id)
    _whole_object(act.commit, "commit")
    _whole_object(act.tree, "tree")
    return act


def _whole_object(value: str | None, what: str) -> None:
    if value is not None and not _OBJECT.fullmatch(value):
        raise Usage(
            f"{value[:80]!r} is no {what}: give its whole id of 40 to 64 hexadecimal digits, from "
            "git rev-parse."
        )


def _prepare(act: acts.PrepareEvidence) -> acts.PrepareEvidence:
    _task_id(act.task)
    return act


def _judge(act: acts.PrepareVerdict) -> acts.PrepareVerdict:
    _task_id(act.task)
    line(act.gate, "gate", 64)
    return act


def _evidence(act: acts.AddEvidence) -> acts.AddEvidence:
    from interlock.contracts.messages import check

    check("evidence", act.payload)
    if "criterion" in act.payload and "task_id" not in act.payload:
        raise Usage("A criterion is one of a task's: name the task too.")
    line(act.payload.get("title"), "title")
    line(act.key, "key", 200)
    text = act.payload.get("text", "")
    if len(text.encode()) > MAX_BRIEF_BYTES:
        raise TooLarge(f"A note has at most {MAX_BRIEF_BYTES} bytes. Attach a file instead.")
    return act._replace(payload=_without_secrets(act.payload))


def _without_secrets(payload: dict[str, Any]) -> dict[str, Any]:
    """What was said, with what looks like a token masked, and how often that was so."""
    from interlock.contracts.secrets import masked_text, masked_words

    said = dict(payload)
    count = 0
    for name in ("text", "url", "title", "name", "command"):
        value = said.get(name)
        if isinstance(value, str):
            said[name], found = masked_text(value)
            count += found
        elif isinstance(value, list):
            said[name], found = masked_words(value)
            count += found
    return said | {"masked": said.get("masked", 0) + count} if count else said


def _show_evidence(act: acts.ShowEvidence) -> acts.ShowEvidence:
    _reference(act.id)
    if (act.start or 0) < 0 or (act.stop is not None and act.stop <= (act.start or 0)):
        raise Usage("A range is FIRST-LAST in bytes, for example 0-999.")
    return act


def _gate(act: acts.CreateGate) -> acts.CreateGate:
    if not 0 < len(act.holders) <= 100:
        raise Usage("A gate has 1 to 100 holders: --holder vera --holder otto-desktop")
    for holder in act.holders:
        line(holder, "holder", 254)
    return act


def _verdict(act: acts.GiveVerdict) -> acts.GiveVerdict:
    placeholder = {"commit": "0" * 40, "tree": "0" * 40}
    said = {"task_id": act.task, "gate": act.gate, "verdict": act.verdict, "note": act.note}
    said["rules"] = act.rules
    lists = {"fix": list(act.fix), "artifact": placeholder}
    if len(act.evidence) > MAX_NAMED:
        raise Usage(f"A verdict names at most {MAX_NAMED} pieces of evidence.")
    for named in act.evidence:
        _reference(named)
    _contract("gate_verdict", said | lists)
    if act.commit is not None:
        _abbreviated(act.commit)
    _whole_object(act.tree, "tree")
    if act.verdict == "pass" and act.fix:
        raise Usage("What has passed needs no fix. Give a note, or fail it.")
    return act


def _abbreviated(commit: str) -> None:
    if not _ABBREVIATED.fullmatch(commit):
        raise Usage(
            f"{commit[:80]!r} is no commit: give 7 or more hexadecimal digits of its id, from git "
            "rev-parse."
        )


def _check_gate(act: acts.CheckGate) -> acts.CheckGate:
    line(act.gate, "gate", 64)
    _whole_object(act.commit, "commit")
    _whole_object(act.tree, "tree")
    return act


def _raise(act: acts.RaiseBlocker) -> acts.RaiseBlocker:
    said = {"what": act.what, "severity": act.severity, "fix": list(act.fix), "task_id": act.task}
    _contract("blocker", said)
    if act.task is None and act.to is None:
        raise Usage("Say what it blocks, or to whom it goes: a TASK, or --to @NAME.")
    return act


def _resolve(act: acts.ResolveBlocker) -> acts.ResolveBlocker:
    _reference(act.id)
    line(act.note, "note", 4096)
    return act


def _blockers(act: acts.ListBlockers) -> acts.ListBlockers:
    if act.task is not None:
        _task_id(act.task)
    return act


def _proofs(act: acts.ProveMany) -> acts.ProveMany:
    if not 0 < len(act.seqs) <= MAX_ROWS:
        raise Usage(f"Name 1 to {MAX_ROWS} entries.")
    return act


def _proof(act: acts.Prove) -> acts.Prove:
    if (act.seq is None) == (act.since is None):
        raise Usage("Name an entry by its SEQ, or the log's earlier size with --since.")
    return act


def _file(act: Any) -> Any:
    if not act.file.startswith("/") or "\0" in act.file or not unicode(act.file):
        raise Usage("Name the file by its absolute path.")
    return act


def _mail(act: acts.ListMail) -> acts.ListMail:
    if act.message is not None:
        _reference(act.message)
    _rows(act.limit)
    return act


def _search(act: acts.Search) -> acts.Search:
    if not act.query.strip() or "\0" in act.query or not unicode(act.query):
        raise Usage("Say what to search for, in words.")
    if len(act.query) > 1000:
        raise Usage("A query has at most 1000 characters.")
    _rows(act.limit)
    return act


_CHECKS: dict[type, Callable[[Any], Any]] = {
    acts.SendMessage: _send,
    acts.Ask: _ask,
    acts.PutChunk: _chunk,
    acts.AnswerAsk: _answer,
    acts.AckMessages: _ack,
    acts.ReadMessage: _read,
    acts.FindAnswer: _message,
    acts.ShowReceipts: _message,
    acts.Explain: _message,
    acts.RotateToken: _rotate,
    acts.RevokeToken: _tokens,
    acts.ReaffirmTokens: _tokens,
    acts.IdentifyToken: _identify,
    acts.ShowToken: _show_token,
    acts.LabelToken: _label_token,
    acts.ImportTokens: _import,
    acts.Review: _review,
    acts.AcquireClaim: _acquire,
    acts.TakeOverClaim: _take_over,
    acts.RenewClaim: _renew,
    acts.ReleaseClaim: _held,
    acts.CheckClaim: _target,
    acts.CheckPaths: _check_paths,
    acts.ReportCommit: _report,
    acts.Attend: _attend,
    acts.Mute: _mute,
    acts.StopWaiting: _target,
    acts.Join: _join,
    acts.MintToken: _mint,
    acts.Invite: _invite,
    acts.AcceptInvitation: _accept,
    acts.NameConnection: _name_connection,
    acts.RevokeConnection: _revoke_connection,
    acts.Enrol: _signed,
    acts.SignIn: _signed,
    acts.GrantConnection: _grant,
    acts.OpenConnection: _given,
    acts.RefreshConnection: _given,
    acts.StartSession: _session,
    acts.EndSession: _session,
    acts.KeepSession: _session,
    acts.FindSession: _session,
    acts.Pause: _reason,
    acts.Redact: _redact,
    acts.ListInbox: _inbox,
    acts.ShowThread: _thread,
    acts.ShowLog: _log,
    acts.ListAgents: _agents,
    acts.ListMail: _mail,
    acts.ListEvents: _listing,
    acts.CreateTask: _create_task,
    acts.ListTasks: _tasks,
    acts.ShowTask: _task,
    acts.TakeTask: _take,
    acts.SubmitTask: _submit,
    acts.CompleteTask: _task,
    acts.FailTask: _task,
    acts.CancelTask: _task,
    acts.PrepareEvidence: _prepare,
    acts.AddEvidence: _evidence,
    acts.ShowEvidence: _show_evidence,
    acts.CreateGate: _gate,
    acts.PrepareVerdict: _judge,
    acts.GiveVerdict: _verdict,
    acts.CheckGate: _check_gate,
    acts.RaiseBlocker: _raise,
    acts.ResolveBlocker: _resolve,
    acts.ListBlockers: _blockers,
    acts.Prove: _proof,
    acts.ProveMany: _proofs,
    acts.ExportLog: _file,
    acts.Backup: _file,
    acts.Restore: _file,
    acts.Search: _search,
}
