"""Answers as people read them. Every body is quoted line by line behind a bar, so that text which
another agent wrote can never pass for a line of ours."""

from collections.abc import Callable, Iterable
from typing import Any

from interlock.doors.cli.output import bold, dim, green, yellow

Answer = dict[str, Any]
BAR = "│ "


def text(command: str, answer: Answer) -> str:
    return _RENDERERS.get(command, _members)(answer)


def _members(answer: Answer, indent: str = "") -> str:
    """What has no form of its own: one member a line."""
    left = max((len(name) for name in answer), default=0)
    rows = []
    for name, value in answer.items():
        if isinstance(value, dict):
            rows.append(f"{indent}{name}\n{_members(value, indent + '  ')}")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list) else value
            rows.append(f"{indent}{dim(name.ljust(left))}  {shown}")
    return "\n".join(rows)


def table(rows: Iterable[tuple[str, ...]], empty: str) -> str:
    lines = [list(row) for row in rows]
    if not lines:
        return dim(empty)
    widths = [max(len(row[i]) for row in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in lines
    )


def _time(at: str) -> str:
    return at[:19].replace("T", " ") + "Z"


def _quoted(body: str) -> str:
    return "\n".join(BAR + line for line in body.split("\n"))


# --- identity


def _init(answer: Answer) -> str:
    what = "Made a workspace" if answer["created"] else "There is a workspace"
    return (
        f"{what} in {bold(answer['directory'])}\n"
        f"Next: interlock join NAME {dim('gives an agent or a person a name and a token')}"
    )


def _join(answer: Answer) -> str:
    sender = answer["sender"]
    return (
        f"{bold(answer['address'])} has joined ({answer['kind']}, scopes "
        f"{', '.join(answer['scopes'])}).\n"
        f"Its token is kept in {answer['kept']}\n"
        f"Next: interlock run {sender} -- COMMAND {dim('starts its client')}\n"
        f"      interlock send @NAME TEXT --from {sender}"
    )


def _whoami(answer: Answer) -> str:
    rows = [
        f"You are {bold(answer['address'])}, {answer['kind']} {answer['agent']}"
        + (f" on {answer['surface']}" if "surface" in answer else "")
        + (f", session {answer['session']}" if "session" in answer else ""),
        f"Scopes: {', '.join(answer['scopes'])}",
        f"Mail: {answer['unread']} unread, {answer['open']} open",
    ]
    if answer["claims"]:
        rows.append("You hold:")
        rows += [f"  {_claim_line(claim)}" for claim in answer["claims"]]
    return "\n".join(rows)


def _agents(answer: Answer) -> str:
    return table(
        (
            (
                agent["address"],
                agent["kind"],
                agent["reach"],
                f"seen {_time(agent['last_seen'])}" if "last_seen" in agent else "never seen",
            )
            for agent in answer["agents"]
        ),
        "Nobody has joined yet. interlock join NAME",
    )


def _token(answer: Answer) -> str:
    secret = answer.pop("token", None)
    shown = _members(answer)
    if secret is not None:
        shown += f"\n\n{bold(secret)}\n{dim('This is shown once.')}"
    return shown


def _tokens(answer: Answer) -> str:
    return table(
        (
            (
                token["id"],
                token["address"],
                " ".join(token["scopes"]),
                _token_state(token),
                token.get("label", ""),
            )
            for token in answer["tokens"]
        ),
        "There are no tokens.",
    )


def _token_state(token: Answer) -> str:
    if "revoked_at" in token:
        return f"revoked {_time(token['revoked_at'])}"
    if "suspended" in token:
        return "suspended"
    return f"until {_time(token['expires_at'])}" if "expires_at" in token else "active"


def _identified(answer: Answer) -> str:
    if not answer["known"]:
        return "Nobody's: this workspace does not know that token."
    return _members(answer)


def _groups(answer: Answer) -> str:
    rows = ((group["address"], " ".join(group["members"])) for group in answer["groups"])
    return table(rows, "There are no groups.")


# --- mail


def _sent(answer: Answer) -> str:
    message = answer["message"]
    rows = [f"{green('Accepted')} {message['id']} (#{message['seq']}) to {message['to']}"]
    rows += [
        f"  {delivery['recipient']}  {_REACH[delivery['reach']]}"
        for delivery in answer["deliveries"]
    ]
    for notice in answer["notices"]:
        rows.append(yellow(f"Note: {notice['message']}"))
        if near := notice.get("did_you_mean"):
            rows.append(f"  Did you mean {' or '.join(near)}?")
    return "\n".join(rows)


_REACH = {
    "wakes": "is listening and sees it at once",
    "working": "is working and sees it at its next step",
    "waits": "sees it when it next looks",
    "offline": "is offline",
    "unknown": "was never seen here",
}


def _asked(answer: Answer) -> str:
    if not answer["answered"]:
        return f"{yellow(answer['error'])}: {answer['message']}\nThe ask is {answer['id']}"
    return _message(answer["answer"])


def _message(message: Answer) -> str:
    head = (
        f"{bold(message['from'])} to {message['to']}  {message['type']}  {_time(message['at'])}  "
        f"#{message['seq']}  {dim(message['id'])}"
    )
    rows = [head]
    if "subject" in message:
        rows.append(f"Subject: {message['subject']}")
    if message["priority"] != "normal":
        rows.append(yellow(f"Priority: {message['priority']}"))
    if "taken_by" in message:
        rows.append(dim(f"Taken by {message['taken_by']}"))
    if message.get("redacted"):
        rows.append(dim("The body was redacted."))
    payload = message.get("payload", {})
    for name, value in payload.items():
        if isinstance(value, str):
            rows += [] if name in ("text", "question") else [f"{name}:"]
            rows.append(_quoted(value))
        else:
            shown = value if isinstance(value, list) else [value]
            rows += [f"{name}:", *(_quoted(str(item)) for item in shown)]
    if message.get("part"):
        more = message.get("next_offset")
        rest = f"; the rest: interlock read {message['id']}" if more is not None else ""
        rows.append(yellow(f"A part: {message['shown']} of {message['size']} bytes{rest}"))
    return "\n".join(rows)


def _inbox(answer: Answer) -> str:
    rows = [_message(message) + _progress(message) for message in answer["messages"]]
    foot = f"{answer['unread']} unread, {answer['open']} open"
    if "next" in answer:
        foot += f"; more: --after {answer['next']}"
    return "\n\n".join([*rows, dim(foot)])


def _progress(message: Answer) -> str:
    return "".join(
        f"\n{dim(delivery['recipient'])} {delivery['state']}"
        for delivery in message.get("deliveries", ())
    )


def _conversation(answer: Answer) -> str:
    rows = [_message(message) for message in answer["messages"]]
    return "\n\n".join(rows) or dim("Nothing found.")


def _receipts(answer: Answer) -> str:
    rows = []
    for delivery in answer["deliveries"]:
        rows.append(f"{bold(delivery['recipient'])}  {delivery['state']}")
        for step in delivery["history"]:
            by = f" by {step['by']}" if "by" in step else ""
            through = f" through {step['adapter']}" if "adapter" in step else ""
            rows.append(f"  {_time(step['at'])}  {step['state']}{by}{through}")
            if "note" in step:
                rows.append(f"    {_quoted(step['note'])}")
    return "\n".join(rows)


def _acked(answer: Answer) -> str:
    return "\n".join(f"{state} {id}" for state, ids in answer.items() for id in ids)


def _explained(answer: Answer) -> str:
    message = answer["message"]
    rows = [
        f"{message['id']} is #{message['seq']} of the log, accepted {_time(message['at'])}.",
        f"Sender: {bold(answer['sender'])}, agent {answer['agent']}"
        + (f", session {answer['session']}" if "session" in answer else ""),
    ]
    if token := answer.get("token"):
        label = f"labelled {token['label']!r}, which decides nothing" if "label" in token else ""
        rows += [
            f"Token: {token['id']}, bound to {token['address']} {label}".rstrip(),
            f"Minted by {token['minted_by']} at {_time(token['minted_at'])}, #{token['seq']}.",
        ]
        if "revoked_at" in token:
            rows.append(yellow(f"Revoked since {_time(token['revoked_at'])}."))
    else:
        rows.append("Written by Interlock itself; no token is behind it.")
    return "\n".join(rows)


# --- claims


def _on(claim: Answer) -> str:
    return claim["item"] if "item" in claim else f"{' '.join(claim['paths'])} in {claim['repo']}"


def _claim_line(claim: Answer) -> str:
    where = "".join(
        f"  {name} {claim[name]}" for name in ("branch", "worktree", "session") if name in claim
    )
    note = f"  {claim['note']}" if "note" in claim else ""
    return (
        f"{bold(_on(claim))}  {claim['holder']}  fence {claim['fence']}  until "
        f"{_time(claim['expires_at'])}{where}{note}"
    )


def _acquired(answer: Answer) -> str:
    if not answer["acquired"]:
        held = [f"  {_claim_line(claim)}" for claim in answer["held_by"]]
        return "\n".join([f"{yellow(answer['error'])}: {answer['message']}", *held])
    notices = [yellow(f"Note: {notice['message']}") for notice in answer.get("notices", ())]
    return "\n".join([f"{green('Yours:')} {_claim_line(answer['claim'])}", *notices])


def _renewed(answer: Answer) -> str:
    return f"{green('Renewed:')} {_claim_line(answer['claim'])}"


def _released(answer: Answer) -> str:
    return green("Released.") if answer["released"] else "Nobody held it."


def _claims(answer: Answer) -> str:
    return "\n".join(_claim_line(claim) for claim in answer["claims"]) or dim("Free.")


def _claim_list(answer: Answer) -> str:
    return "\n".join(_claim_line(claim) for claim in answer["claims"]) or dim("No claims.")


# --- audit and upkeep


def _verified(answer: Answer) -> str:
    if not answer["ok"]:
        return f"{yellow(answer['error'])}: {answer['message']}"
    return (
        f"{green('The log is whole:')} {answer['entries']} entries, {answer['checkpoints']} "
        f"checkpoints, root {answer['root']}"
    )


def _facts(answer: Answer) -> str:
    rows = [
        f"#{fact['seq']}  {_time(fact['at'])}  {bold(fact['kind'])}  {fact['sender']}  "
        + dim(", ".join(f"{k} {v}" for k, v in fact["outcome"].items() if not _long(v)))
        for fact in answer["facts"]
    ]
    if "next" in answer:
        rows.append(dim(f"more: --after {answer['next']}"))
    return "\n".join(rows) or dim("Nothing.")


def _long(value: Any) -> bool:
    return len(str(value)) > 60


def _checkpoint(answer: Answer) -> str:
    return str(answer["checkpoint"])


def _status(answer: Answer) -> str:
    rows = [
        f"{bold(answer['directory'])}  {answer['engine']}, workspace {answer['workspace']}",
        f"{answer['entries']} entries, epoch {answer['epoch']}, {answer['bytes']} bytes",
        f"{answer['agents']} agents, {answer['messages']} messages, "
        f"{answer['open_deliveries']} deliveries open",
        f"{answer['claims']} claims, {answer['waiting']} waiting",
    ]
    if answer["refusals"]:
        rows.append(f"{answer['refusals']} refusals on record: interlock review")
    if answer["paused"]:
        rows.append(yellow(f"Paused: {answer.get('pause_reason', 'no reason given')}"))
    rows.append(f"Credentials here: {' '.join(answer['credentials']) or 'none'}")
    return "\n".join(rows)


def _settings(answer: Answer) -> str:
    if "settings" not in answer:
        return f"{answer['name']} is now {answer['value']!r}"
    return table(
        (
            (found["name"], found["value"] or '""', dim(f"default {found['default'] or 'none'}"))
            for found in answer["settings"]
        ),
        "",
    )


def _review(answer: Answer) -> str:
    sections: list[tuple[str, list[str]]] = [
        (
            "Asks without an answer",
            [
                f"{a['from']} to {a['to']}  {_time(a['at'])}  {a['id']}"
                for a in answer["unanswered"]
            ],
        ),
        (
            "Mail that expired unread",
            [f"{m['from']} to {m['to']}  {_time(m['at'])}  {m['id']}" for m in answer["expired"]],
        ),
        (
            "Refusals",
            [
                f"#{r['seq']}  {_time(r['at'])}  {r['sender']}  {r['code']}"
                for r in answer["refusals"]
            ],
        ),
        (
            "Holders whose lease ended",
            [
                f"{d['holder']}  {d['on']}  since {_time(d['since'])}"
                for d in answer["dead_holders"]
            ],
        ),
    ]
    shown = [
        f"{bold(title)}\n" + "\n".join(f"  {row}" for row in rows)
        for title, rows in sections
        if rows
    ]
    return "\n\n".join(shown) or green("Nothing needs a person.")


def _restored(answer: Answer) -> str:
    return (
        f"{green('Restored')} as epoch {answer['epoch']}, {answer['entries']} entries. What was "
        f"there before is kept in {answer['abandoned']}\n"
        "Every token is suspended until you trust it again: interlock token reaffirm --all"
    )


def _paused(answer: Answer) -> str:
    if answer["paused"]:
        return yellow("Paused.") + " Nothing is written until interlock resume."
    return green("Writes go on.")


_RENDERERS: dict[str, Callable[[Answer], str]] = {
    "init": _init,
    "join": _join,
    "whoami": _whoami,
    "agents": _agents,
    "token list": _tokens,
    "token mint": _token,
    "token rotate": _token,
    "token identify": _identified,
    "group list": _groups,
    "send": _sent,
    "answer": _sent,
    "ask": _asked,
    "read": _message,
    "inbox": _inbox,
    "thread": _conversation,
    "search": _conversation,
    "receipts": _receipts,
    "ack": _acked,
    "explain": _explained,
    "claim acquire": _acquired,
    "claim take-over": _acquired,
    "claim renew": _renewed,
    "claim release": _released,
    "claim check": _claims,
    "claim list": _claim_list,
    "audit verify": _verified,
    "audit show": _facts,
    "audit checkpoint": _checkpoint,
    "status": _status,
    "settings": _settings,
    "review": _review,
    "restore": _restored,
    "pause": _paused,
    "resume": _paused,
}
