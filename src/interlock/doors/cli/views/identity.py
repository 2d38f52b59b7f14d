"""Views of the commands about agents, people, tokens and connections."""

from interlock.doors.cli.output import bold, dim, yellow
from interlock.doors.cli.views import claim_line, count, members, table, time
from interlock.rooms.identity.scopes import BASIC_SCOPES
from interlock.verbs.answers import Answer


def init(answer: Answer) -> str:
    what = "Made a workspace" if answer["created"] else "There is a workspace"
    return (
        f"{what} in {bold(answer['directory'])}\n"
        f"Next: interlock join NAME {dim('gives an agent or a person a name and a token')}"
    )


def join(answer: Answer) -> str:
    sender, address = answer["sender"], bold(answer["address"])
    if "kept" in answer:
        token = f"Its token is kept in {answer['kept']}"
    else:
        why = answer.get("not_kept", "another is kept")
        token = f"Its token is not kept here ({why}), and shown once: {answer['token']}"
    if "workspace" in answer:
        return (
            f"{address} has joined at {answer['workspace']}.\n{token}\n"
            f"Next: interlock --workspace {answer['workspace']} whoami"
        )
    return (
        f"{address} has joined ({answer['kind']}, scopes {', '.join(answer['scopes'])}).\n{token}\n"
        f"Next: interlock run {sender} -- COMMAND {dim('starts its client')}\n"
        f"      interlock send @NAME TEXT --from {sender}"
    )


def whoami(answer: Answer) -> str:
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


def agents(answer: Answer) -> str:
    rows = []
    for agent in answer["agents"]:
        seen = f"seen {time(agent['last_seen'])}" if "last_seen" in agent else "never seen"
        rows.append((agent["address"], agent["kind"], agent["reach"], seen))
    return table(rows, "No agents yet. To add one: interlock join NAME")


# --- tokens and groups


def token_mint(answer: Answer) -> str:
    secret = answer.pop("token", None)
    shown = members(answer)
    if secret is not None:
        shown += f"\n\n{bold(secret)}\n{dim('This is shown once.')}"
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
    return f"until {time(token['expires_at'])}" if "expires_at" in token else "active"


def token_identify(answer: Answer) -> str:
    if not answer["known"]:
        return "This workspace does not know that token."
    state = "active" if answer["active"] else _token_state(answer)
    return (
        f"{bold(answer['address'])}'s: {answer['id']}, {state}, scopes "
        f"{', '.join(answer['scopes'])}.\nMinted by {answer['minted_by']} at "
        f"{time(answer['minted_at'])}, #{answer['seq']}."
    )


def token_revoke(answer: Answer) -> str:
    return "\n".join(f"{what} {id}" for what, ids in answer.items() for id in ids) or "None."


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
            rows.append(f"      With {', '.join(row['scopes'])} alone.")
        if "do" in row:
            rows.append(f"      {dim(row['do'])}")

    verdicts = [row["verdict"] for row in answer["rows"]]
    counted = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
    rows.append(f"{count(len(verdicts), 'row')}: {counted}.")
    if "projects" in answer:
        projects = ", ".join(answer["projects"])
        rows.append(f"They are of several projects ({projects}), and come into one.")
    if words := answer.get("foreign_scopes"):
        rows.append(f"These words of their scope mean nothing here: {', '.join(words)}.")
        if any(word == "admin" or word.startswith("gate:") for word in words):
            rows.append(
                "Nobody becomes an admin or holds a gate by an import. To grant it: "
                "interlock token mint --sender SENDER --scope admin"
            )
    if "ignored" in answer:
        rows.append(f"Interlock ignores these members of theirs: {', '.join(answer['ignored'])}.")
    if answer["applied"]:
        rows.append(f"{bold('Imported')} {count(answer['imported'], 'token')}.")
    elif answer["importable"]:
        tokens = count(answer["importable"], "token")
        rows.append(f"{bold('Nothing was changed.')} With --apply, {tokens} would be imported.")
    else:
        rows.append("There is nothing to import.")
    return "\n".join(rows)


def group_list(answer: Answer) -> str:
    rows = ((group["address"], " ".join(group["members"])) for group in answer["groups"])
    return table(rows, "There are no groups.")


def group_create(answer: Answer) -> str:
    return f"{bold(answer['address'])} reaches {' '.join(answer['members'])}"


# --- people and their connections


def invite(answer: Answer) -> str:
    from urllib.parse import urlsplit

    from interlock.machine.hosts import is_loopback

    is_human = answer["kind"] == "human"
    who = f"{bold('@' + answer['sender'])} ({'a person' if is_human else 'agent'})"
    own = f", who will own {', '.join(answer['own'])}" if "own" in answer else ""
    rows = [f"An invitation for {who}{own}. It is good once, until {time(answer['expires_at'])}:"]
    if "link" not in answer:
        rows += ["", f"  {bold(answer['path'])}", ""]
        rows.append("No server runs here. After interlock up, put its address before it.")
        return "\n".join(rows)
    link = answer["link"]
    person = "The person opens it in a browser; or, on another machine:"
    rows += ["", f"  {bold(link)}", "", person if is_human else "On the other machine:"]
    rows.append(f"  interlock join {link}")
    if is_loopback(urlsplit(link).hostname or ""):
        rows.append(dim("This address is this machine's alone: see interlock up --public-url."))
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
    none = "None. A client that is told the server's address asks a person to let it in."
    rows = [bold("Connections"), table(connections, none)]
    if answer["sessions"]:
        sessions = (
            (found["id"], found["person"], found.get("browser", ""), time(found["signed_in_at"]))
            for found in answer["sessions"]
        )
        rows += ["", bold("Signed in"), table(sessions)]
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
        rows += ["", bold("Invited"), table(invitations)]
    return "\n".join(rows)


def connection_name(answer: Answer) -> str:
    return f"{answer['id']} ({answer['address']} for {answer['person']}) is {bold(answer['name'])}."


def connection_revoke(answer: Answer) -> str:
    if "person" not in answer:
        (id,) = answer["revoked"]
        if id.startswith("inv_"):
            return f"Withdrew {id}: nobody can join by it any more."
        return f"Ended {id}: it can do nothing from now on."
    rows = [f"{answer['person']} is let in no more: the password is void."]
    if answer["revoked"]:
        rows.append(f"Ended: {', '.join(answer['revoked'])}")
    if answer["agents"]:
        rows.append(
            f"Nobody's from now on: {', '.join(answer['agents'])}. Tokens of theirs go on working: "
            + dim("interlock token list")
        )
    if answer["minted"]:
        rows.append(
            f"They made tokens for others, which go on working: {', '.join(answer['minted'])}. "
            + dim("interlock token revoke ID")
        )
    return "\n".join(rows)
