"""Views of the commands about agents, people, tokens and connections."""

from interlock.doors.cli.output import bold, dim, yellow
from interlock.doors.cli.views import claim_line, count, members, table, time
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.verbs.answers import Answer

_REACH = {
    "wakes": "idle (mail wakes it)",
    "working": "working",
    "waits": "idle",
    "offline": "offline",
    "unknown": "not connected",
}


def _kind(kind: str) -> str:
    return "person" if kind == "human" else kind


def init(answer: Answer) -> str:
    what = "Created a workspace" if answer["created"] else "There is already a workspace"
    return (
        f"{what} in {bold(answer['directory'])}\nTo add an agent or a person: interlock join NAME"
    )


def join(answer: Answer) -> str:
    sender, address = answer["sender"], bold(answer["address"])
    if "kept" in answer:
        token = f"The token is stored in {answer['kept']}"
    else:
        why = answer.get("not_kept", "another token is stored")
        token = (
            f"The token is not stored here ({why}). Copy it now, because Interlock shows it only "
            f"once: {answer['token']}"
        )
    if "workspace" in answer:
        return (
            f"{address} has joined the workspace at {answer['workspace']}.\n{token}\n"
            f"To see your identity: interlock --workspace {answer['workspace']} whoami"
        )
    kind, scopes = _kind(answer["kind"]), ", ".join(answer["scopes"])
    rows = [f"{address} has joined ({kind}, scopes {scopes}).", token]
    if kind != "person":
        rows.append(f"To start its client: interlock run {sender} -- COMMAND")
    return "\n".join([*rows, f"To send a message: interlock send @NAME TEXT --from {sender}"])


def whoami(answer: Answer) -> str:
    rows = [
        f"You are {bold(answer['address'])}: {_kind(answer['kind'])} {answer['agent']}"
        + (f" on the surface {answer['surface']}" if "surface" in answer else "")
        + (f", session {answer['session']}" if "session" in answer else ""),
        f"Scopes: {', '.join(answer['scopes'])}",
        f"Mail: {answer['unread']} unread, {answer['open']} open",
    ]
    if answer["claims"]:
        rows.append("Your claims:")
        rows += [f"  {claim_line(claim)}" for claim in answer["claims"]]
    if answer["tasks"]:
        rows.append("Your tasks:")
        rows += [f"  {task['id']}  {task['state']}  {task['title']}" for task in answer["tasks"]]
    if answer["verdicts_due"]:
        rows.append("Verdicts due from you:")
        rows += [
            f"  {due['task']}  gate {due['gate']}  worker {due['worker']}\n    {dim(due['do'])}"
            for due in answer["verdicts_due"]
        ]
    return "\n".join(rows)


def agents(answer: Answer) -> str:
    rows = []
    for agent in answer["agents"]:
        seen = f"last seen {time(agent['last_seen'])}" if "last_seen" in agent else "never seen"
        rows.append((agent["address"], _kind(agent["kind"]), _REACH[agent["reach"]], seen))
    return table(rows, "No agents yet. To add one: interlock join NAME")


# --- tokens and groups


def token_mint(answer: Answer) -> str:
    secret = answer.pop("token", None)
    shown = members(answer)
    if secret is not None:
        once = "Copy this token now. Interlock shows it only once."
        shown += f"\n\n{bold(secret)}\n{dim(once)}"
    return shown


token_rotate = token_mint


def token_list(answer: Answer) -> str:
    rows, wrong = [], []
    for token in answer["tokens"]:
        about = (token["id"], token["address"], " ".join(token["scopes"]))
        rows.append((*about, _token_state(token), token.get("label", "")))
        if "contradiction" in token:
            command = f"interlock token label {token['id']} {token['sender']}"
            wrong.append(f"{token['id']}: {yellow(token['contradiction'])}\n  {dim(command)}")
    return "\n".join([table(rows, "There are no tokens."), *wrong])


def _token_state(token: Answer) -> str:
    if "revoked_at" in token:
        return f"revoked {time(token['revoked_at'])}"
    if "suspended" in token:
        return "suspended"
    if "expires_at" in token:
        expires = "expires" if token.get("active", True) else "expired"
        return f"{expires} {time(token['expires_at'])}"
    return "active"


def token_identify(answer: Answer) -> str:
    if not answer["known"]:
        return "This workspace does not know this token."
    state = "active" if answer["active"] else _token_state(answer)
    return (
        f"The token {answer['id']} belongs to {bold(answer['address'])}: {state}, scopes "
        f"{', '.join(answer['scopes'])}.\n{answer['minted_by']} created it at "
        f"{time(answer['minted_at'])}, log entry #{answer['seq']}."
    )


def token_revoke(answer: Answer) -> str:
    rows = [f"{what} {id}" for what, ids in answer.items() for id in ids]
    return "\n".join(rows) or "No token was changed."


token_reaffirm = token_revoke


def token_import(answer: Answer) -> str:
    rows = []
    width = max(len(row.get("address", "-")) for row in answer["rows"])
    for row in answer["rows"]:
        about = f"{row['number']:>4}  {row['verdict']:<17}  {row.get('address', '-'):<{width}}"
        rows.append(f"{about}  {row.get('label', '')}".rstrip())
        if row["verdict"] != "ready":
            rows.append(f"      {row['message']}")
        elif row.get("scopes", list(BASIC_SCOPES)) != list(BASIC_SCOPES):
            rows.append(f"      The token gets only the scopes {', '.join(row['scopes'])}.")
        if "do" in row:
            rows.append(f"      {dim(row['do'])}")

    verdicts = [row["verdict"] for row in answer["rows"]]
    counted = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
    rows.append(f"{count(len(verdicts), 'row')}: {counted}.")
    if "projects" in answer:
        projects = ", ".join(answer["projects"])
        rows.append(f"The rows are of several projects ({projects}). They join one workspace.")
    if words := answer.get("foreign_scopes"):
        rows.append(f"Interlock ignores these scopes of the rows: {', '.join(words)}.")
        if any(word == "admin" or word.startswith("gate:") for word in words):
            rows.append(
                "An import never grants admin or a gate. To grant it: "
                "interlock token mint --sender SENDER --scope admin"
            )
    if "ignored" in answer:
        rows.append(f"Interlock ignores these members of the rows: {', '.join(answer['ignored'])}.")
    if answer["applied"]:
        rows.append(f"{bold('Imported')} {count(answer['imported'], 'token')}.")
    elif answer["importable"]:
        tokens = count(answer["importable"], "token")
        rows.append(f"{bold('Nothing was changed.')} To import {tokens}, add --apply.")
    else:
        rows.append("There is nothing to import.")
    return "\n".join(rows)


def group_list(answer: Answer) -> str:
    rows = ((group["address"], " ".join(group["members"])) for group in answer["groups"])
    return table(rows, "There are no groups.")


def group_create(answer: Answer) -> str:
    return f"Mail to {bold(answer['address'])} goes to {' '.join(answer['members'])}"


# --- people and their connections


def invite(answer: Answer) -> str:
    from urllib.parse import urlsplit

    from interlock.machine.hosts import is_loopback

    is_human = answer["kind"] == "human"
    who = f"{bold('@' + answer['sender'])} ({'person' if is_human else 'agent'})"
    own = f", who will own {', '.join(answer['own'])}" if "own" in answer else ""
    until = time(answer["expires_at"])
    rows = [f"An invitation for {who}{own}. The link works once, until {until}:"]
    if "link" not in answer:
        rows += ["", f"  {bold(answer['path'])}", ""]
        rows.append(
            "No server runs here. Start one with interlock up, and put its address before this "
            "path."
        )
        return "\n".join(rows)
    link = answer["link"]
    person = "The person opens the link in a browser. Or, on another machine:"
    rows += ["", f"  {bold(link)}", "", person if is_human else "On the other machine:"]
    rows.append(f"  interlock join {link}")
    if is_loopback(urlsplit(link).hostname or ""):
        rows.append(
            dim(
                "This address works only on this machine. For others: interlock up --public-url URL"
            )
        )
    return "\n".join(rows)


def connection_list(answer: Answer) -> str:
    connections = (
        (
            found["id"],
            f"{found['address']} for {found['person']}",
            found["name"],
            dim(" ".join(found["scopes"])),
            f"since {time(found['granted_at'])}",
        )
        for found in answer["connections"]
    )
    none = "None. To connect a client, give it the server's URL. A person then approves it."
    rows = [bold("Connected clients"), table(connections, none)]
    if answer["sessions"]:
        sessions = (
            (found["id"], found["person"], found.get("browser", ""), time(found["signed_in_at"]))
            for found in answer["sessions"]
        )
        rows += ["", bold("Browser sessions"), table(sessions)]
    if answer["tokens"]:
        tokens = (
            (found["id"], found["address"], found.get("label", ""), time(found["minted_at"]))
            for found in answer["tokens"]
        )
        rows += ["", bold("Tokens on your machines"), table(tokens)]
    if answer["invitations"]:
        invitations = []
        for found in answer["invitations"]:
            name = "-".join(found[part] for part in ("name", "surface") if part in found)
            until = f"until {time(found['expires_at'])}"
            invitations.append((found["id"], f"@{name}", f"by {found['invited_by']}", until))
        rows += ["", bold("Open invitations"), table(invitations)]
    return "\n".join(rows)


def connection_name(answer: Answer) -> str:
    connection = f"{answer['id']} ({answer['address']} for {answer['person']})"
    return f"The connection {connection} now has the name {bold(answer['name'])}."


def connection_revoke(answer: Answer) -> str:
    if "person" not in answer:
        (id,) = answer["revoked"]
        if id.startswith("inv_"):
            return f"Revoked the invitation {id}. Its link no longer works."
        return f"Revoked {id}. From now on, Interlock refuses its requests."
    rows = [f"{answer['person']} can no longer sign in: the password is not valid any more."]
    if answer["revoked"]:
        rows.append(f"Revoked: {', '.join(answer['revoked'])}")
    if answer["agents"]:
        rows.append(
            f"These agents have no owner now: {', '.join(answer['agents'])}. Their tokens stay "
            "valid. To list the tokens: " + dim("interlock token list")
        )
    if answer["minted"]:
        rows.append(
            f"{answer['person']} created tokens for others, and they stay valid: "
            f"{', '.join(answer['minted'])}. To revoke one: " + dim("interlock token revoke ID")
        )
    return "\n".join(rows)
