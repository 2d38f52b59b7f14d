"""People, and the clients that they let act for them."""

from urllib.parse import urlsplit

from interlock.doors.cli.output import bold, dim
from interlock.doors.cli.views.parts import table, time
from interlock.machine.hosts import is_loopback
from interlock.verbs.answers import Answer


def _invite(answer: Answer) -> str:
    who = f"{bold('@' + answer['sender'])} ({'a person' if answer['kind'] == 'human' else 'agent'})"
    own = f", who will own {', '.join(answer['own'])}" if "own" in answer else ""
    rows = [f"An invitation for {who}{own}. It is good once, until {time(answer['expires_at'])}:"]
    if "link" in answer:
        rows += ["", f"  {bold(answer['link'])}", ""]
        if answer["kind"] == "human":
            rows.append("The person opens it in a browser; or, on another machine:")
        else:
            rows.append("On the other machine:")
        rows.append(f"  interlock join {answer['link']}")
        if is_loopback(urlsplit(answer["link"]).hostname or ""):
            rows.append(dim("This address is this machine's alone: see interlock up --public-url."))
    else:
        rows += ["", f"  {bold(answer['path'])}", ""]
        rows.append("No server runs here. After interlock up, put its address before it.")
    return "\n".join(rows)


def _connections(answer: Answer) -> str:
    rows = [bold("Connections"), _connection_table(answer)]
    if answer["sessions"]:
        rows += ["", bold("Signed in"), _session_table(answer)]
    if answer["tokens"]:
        rows += ["", bold("Tokens on your machines"), _token_table(answer)]
    if answer["invitations"]:
        rows += ["", bold("Invited"), _invitation_table(answer)]
    return "\n".join(rows)


def _token_table(answer: Answer) -> str:
    return table(
        (
            (found["id"], found["address"], found.get("label", ""), time(found["minted_at"]))
            for found in answer["tokens"]
        ),
        "",
    )


def _invitation_table(answer: Answer) -> str:
    return table(
        (
            (
                found["id"],
                "-".join(
                    ["@" + found["name"], *([found["surface"]] if "surface" in found else [])]
                ),
                f"by {found['invited_by']}",
                f"until {time(found['expires_at'])}",
            )
            for found in answer["invitations"]
        ),
        "",
    )


def _connection_table(answer: Answer) -> str:
    return table(
        (
            (
                found["id"],
                f"{found['address']} for {found['person']}",
                found["name"],
                dim(" ".join(found["scopes"])),
                f"since {time(found['granted_at'])}",
            )
            for found in answer["connections"]
        ),
        "None. A client that is told the server's address asks a person to let it in.",
    )


def _session_table(answer: Answer) -> str:
    return table(
        (
            (found["id"], found["person"], found.get("browser", ""), time(found["signed_in_at"]))
            for found in answer["sessions"]
        ),
        "",
    )


def _named(answer: Answer) -> str:
    return f"{answer['id']} ({answer['address']} for {answer['person']}) is {bold(answer['name'])}."


def _revoked(answer: Answer) -> str:
    if "person" in answer:
        return _locked_out(answer)
    (id,) = answer["revoked"]
    if id.startswith("inv_"):
        return f"Withdrew {id}: nobody can join by it any more."
    return f"Ended {id}: it can do nothing from now on."


def _locked_out(answer: Answer) -> str:
    lines = [f"{answer['person']} is let in no more: the password is void."]
    if answer["revoked"]:
        lines.append(f"Ended: {', '.join(answer['revoked'])}")
    if answer["agents"]:
        lines.append(
            f"Nobody's from now on: {', '.join(answer['agents'])}. Tokens of theirs go on working: "
            + dim("interlock token list")
        )
    if answer["minted"]:
        lines.append(
            f"They made tokens for others, which go on working: {', '.join(answer['minted'])}. "
            + dim("interlock token revoke ID")
        )
    return "\n".join(lines)


VIEWS = {
    "invite": _invite,
    "connection list": _connections,
    "connection name": _named,
    "connection revoke": _revoked,
}
