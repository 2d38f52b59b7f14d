"""Who is who."""

from collections.abc import Iterator

from interlock.doors.cli.output import bold, dim, yellow
from interlock.doors.cli.views.claims import claim_line
from interlock.doors.cli.views.parts import count, members, table, time
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.verbs.answers import Answer


def _init(answer: Answer) -> str:
    what = "Made a workspace" if answer["created"] else "There is a workspace"
    return (
        f"{what} in {bold(answer['directory'])}\n"
        f"Next: interlock join NAME {dim('gives an agent or a person a name and a token')}"
    )


def _join(answer: Answer) -> str:
    sender = answer["sender"]
    if "workspace" in answer:
        return (
            f"{bold(answer['address'])} has joined at {answer['workspace']}.\n"
            f"{_where_kept(answer)}\n"
            f"Next: interlock --workspace {answer['workspace']} whoami"
        )
    return (
        f"{bold(answer['address'])} has joined ({answer['kind']}, scopes "
        f"{', '.join(answer['scopes'])}).\n"
        f"{_where_kept(answer)}\n"
        f"Next: interlock run {sender} -- COMMAND {dim('starts its client')}\n"
        f"      interlock send @NAME TEXT --from {sender}"
    )


def _where_kept(answer: Answer) -> str:
    if "kept" in answer:
        return f"Its token is kept in {answer['kept']}"
    why = answer.get("not_kept", "another is kept")
    return f"Its token is not kept here ({why}), and shown once: {answer['token']}"


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
        rows += [f"  {claim_line(claim)}" for claim in answer["claims"]]
    if answer["tasks"]:
        rows.append("You work on:")
        rows += [f"  {task['id']}  {task['state']}  {task['title']}" for task in answer["tasks"]]
    if answer["verdicts_due"]:
        rows.append("Verdicts due from you:")
        rows += [
            f"  {due['task']}  {due['gate']}  of {due['worker']}\n    {dim(due['do'])}"
            for due in answer["verdicts_due"]
        ]
    return "\n".join(rows)


def _agents(answer: Answer) -> str:
    return table(
        (
            (
                agent["address"],
                agent["kind"],
                agent["reach"],
                f"seen {time(agent['last_seen'])}" if "last_seen" in agent else "never seen",
            )
            for agent in answer["agents"]
        ),
        "Nobody. interlock join NAME registers somebody.",
    )


def _token(answer: Answer) -> str:
    secret = answer.pop("token", None)
    shown = members(answer)
    if secret is not None:
        shown += f"\n\n{bold(secret)}\n{dim('This is shown once.')}"
    return shown


def _tokens(answer: Answer) -> str:
    listed = table(
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
    wrong = [token for token in answer["tokens"] if "contradiction" in token]
    return "\n".join([listed, *(f"{token['id']}: {_contradicted(token)}" for token in wrong)])


def _contradicted(token: Answer) -> str:
    command = f"interlock token label {token['id']} {token['sender']}"
    return f"{yellow(token['contradiction'])}\n  {dim(command)}"


def _import(answer: Answer) -> str:
    rows = []
    width = max(len(row.get("address", "-")) for row in answer["rows"])
    for row in answer["rows"]:
        about = f"{row['number']:>4}  {row['verdict']:<17}  {row.get('address', '-'):<{width}}"
        rows.append(f"{about}  {row.get('label', '')}".rstrip())
        if row["verdict"] != "ready":
            rows.append(f"      {row['message']}")
        elif row.get("scopes", list(BASIC_SCOPES)) != list(BASIC_SCOPES):
            rows.append(f"      With {', '.join(row['scopes'])} alone.")
        if "do" in row:
            rows.append(f"      {dim(row['do'])}")
    return "\n".join([*rows, *_import_summary(answer)])


def _import_summary(answer: Answer) -> Iterator[str]:
    verdicts = [row["verdict"] for row in answer["rows"]]
    counted = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
    yield f"{count(len(verdicts), 'row')}: {counted}."
    if "projects" in answer:
        yield f"They are of several projects ({', '.join(answer['projects'])}), and come into one."
    if "foreign_scopes" in answer:
        words = answer["foreign_scopes"]
        yield f"These words of their scope mean nothing here: {', '.join(words)}."
        if any(word == "admin" or word.startswith("gate:") for word in words):
            mint = "interlock token mint --sender SENDER --scope admin"
            yield f"Nobody becomes an admin or holds a gate by an import. To grant it: {mint}"
    if "ignored" in answer:
        yield f"Nobody here knows these members of theirs: {', '.join(answer['ignored'])}."
    if answer["applied"]:
        yield f"{bold('Imported')} {count(answer['imported'], 'token')}."
    elif answer["importable"]:
        tokens = count(answer["importable"], "token")
        yield f"{bold('Nothing was changed.')} With --apply, {tokens} would be imported."
    else:
        yield "There is nothing to import."


def _token_state(token: Answer) -> str:
    if "revoked_at" in token:
        return f"revoked {time(token['revoked_at'])}"
    if "suspended" in token:
        return "suspended"
    return f"until {time(token['expires_at'])}" if "expires_at" in token else "active"


def _identified(answer: Answer) -> str:
    if not answer["known"]:
        return "Nobody's: this workspace does not know that token."
    state = "active" if answer["active"] else _token_state(answer)
    return (
        f"{bold(answer['address'])}'s: {answer['id']}, {state}, scopes "
        f"{', '.join(answer['scopes'])}.\nMinted by {answer['minted_by']} at "
        f"{time(answer['minted_at'])}, #{answer['seq']}."
    )


def _groups(answer: Answer) -> str:
    rows = ((group["address"], " ".join(group["members"])) for group in answer["groups"])
    return table(rows, "There are no groups.")


def _changed_tokens(answer: Answer) -> str:
    return "\n".join(f"{what} {id}" for what, ids in answer.items() for id in ids) or "None."


def _group(answer: Answer) -> str:
    return f"{bold(answer['address'])} reaches {' '.join(answer['members'])}"


VIEWS = {
    "token revoke": _changed_tokens,
    "token reaffirm": _changed_tokens,
    "group create": _group,
    "init": _init,
    "join": _join,
    "whoami": _whoami,
    "agents": _agents,
    "token list": _tokens,
    "token mint": _token,
    "token rotate": _token,
    "token identify": _identified,
    "token import": _import,
    "group list": _groups,
}
