"""People, and the clients that they let act for them."""

from interlock.doors.cli.output import bold, dim
from interlock.doors.cli.views.parts import Answer, members, table, time


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
    else:
        rows += ["", f"  {bold(answer['path'])}", ""]
        rows.append("No server runs here. After interlock up, put its address before it.")
    return "\n".join(rows)


def _connections(answer: Answer) -> str:
    rows = [bold("Connections"), _connection_table(answer)]
    if answer["sessions"]:
        rows += ["", bold("Signed in"), _session_table(answer)]
    return "\n".join(rows)


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


def _revoked(answer: Answer) -> str:
    return f"Ended {', '.join(answer['revoked'])}: it can do nothing from now on."


VIEWS = {
    "invite": _invite,
    "connection list": _connections,
    "connection name": members,
    "connection revoke": _revoked,
}
