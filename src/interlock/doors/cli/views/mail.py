"""Views of the commands about mail."""

from interlock.doors.cli.output import bold, dim, green, yellow
from interlock.doors.cli.views import failure, quoted, time
from interlock.verbs.answers import Answer

_REACH = {
    "wakes": "sees it now, because Interlock wakes it or it is listening",
    "working": "is working and sees it at its next step",
    "waits": "sees it when it next reads its mail",
    "offline": "is offline and sees it when it next connects",
    "unknown": "has not connected yet",
}
# These members of a payload come before the others.
_FIRST = ("task_id", "title", "gate", "verdict", "status")


def send(answer: Answer) -> str:
    message = answer["message"]
    rows = [f"{green('Accepted')} {message['id']} (#{message['seq']}) to {message['to']}"]
    rows += [f"  {each['recipient']}  {_REACH[each['reach']]}" for each in answer["deliveries"]]
    for notice in answer["notices"]:
        rows.append(yellow(f"Note: {notice['message']}"))
        if near := notice.get("did_you_mean"):
            rows.append(f"  Did you mean {' or '.join(near)}?")
    return "\n".join(rows)


answer = send


def ask(answer: Answer) -> str:
    if not answer["answered"]:
        return f"{failure(answer)}\nThe id of the question is {answer['id']}"
    return read(answer["answer"])


def read(message: Answer) -> str:
    rows = [
        f"{bold(message['from'])} to {message['to']}  {message['type']}  {time(message['at'])}  "
        f"#{message['seq']}  {dim(message['id'])}"
    ]
    if "subject" in message:
        rows.append(f"Subject: {message['subject']}")
    if message["priority"] != "normal":
        rows.append(yellow(f"Priority: {message['priority']}"))
    if "taken_by" in message:
        rows.append(dim(f"Taken by {message['taken_by']}"))
    if message.get("redacted"):
        rows.append(dim("The body was deleted (redacted)."))
    payload = message.get("payload", {})
    for name, value in sorted(payload.items(), key=lambda item: item[0] not in _FIRST):
        if not (isinstance(value, str) and name in ("text", "question")):
            rows.append(f"{name}:")
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                item = "  ".join(f"{inner} {held}" for inner, held in item.items())
            rows.append(quoted(str(item)))
    if message.get("part"):
        more = message.get("next_offset")
        rest = f" To read the rest: interlock read {message['id']}" if more is not None else ""
        rows.append(yellow(f"Only {message['shown']} of {message['size']} bytes are shown.{rest}"))
    return "\n".join(rows)


def inbox(answer: Answer) -> str:
    shown = []
    for message in answer["messages"]:
        deliveries = message.get("deliveries", ())
        states = [f"{dim(each['recipient'])} {each['state']}" for each in deliveries]
        shown.append("\n".join([read(message), *states]))
    foot = f"{answer['unread']} unread, {answer['open']} open"
    if "next" in answer:
        foot += f". To list more: --after {answer['next']}"
    return "\n\n".join([*shown, dim(foot)])


def thread(answer: Answer) -> str:
    return "\n\n".join(map(read, answer["messages"])) or dim("No messages found.")


search = thread


def receipts(answer: Answer) -> str:
    rows = []
    for delivery in answer["deliveries"]:
        rows.append(f"{bold(delivery['recipient'])}  {delivery['state']}")
        for step in delivery["history"]:
            by = f" by {step['by']}" if "by" in step else ""
            through = f" through {step['adapter']}" if "adapter" in step else ""
            rows.append(f"  {time(step['at'])}  {step['state']}{by}{through}")
            if "note" in step:
                rows.append(f"    {quoted(step['note'])}")
        for tried in delivery.get("wakes", []):
            if tried["outcome"] == "woken":
                continue
            why = f": {tried['why']}" if "why" in tried else ""
            rows.append(
                f"  {time(tried['at'])}  wake through {tried['adapter']} {tried['outcome']}{why}"
            )
    return "\n".join(rows)


def mute(answer: Answer) -> str:
    if not answer["muted"]:
        return f"Mail wakes {answer['address']} again."
    until = f" until {time(answer['until'])}" if "until" in answer else ""
    return f"Mail does not wake {answer['address']}{until}. It still arrives in the inbox."


def ack(answer: Answer) -> str:
    return "\n".join(f"{state} {id}" for state, ids in answer.items() for id in ids)


def explain(answer: Answer) -> str:
    message = answer["message"]
    rows = [
        f"The message {message['id']} is log entry #{message['seq']}, accepted "
        f"{time(message['at'])}.",
        f"Sender: {bold(answer['sender'])}, agent {answer['agent']}"
        + (f", session {answer['session']}" if "session" in answer else ""),
    ]
    token = answer.get("token")
    if not token:
        return "\n".join([*rows, "Interlock itself wrote the message, without a token."])
    label = f", with the label {token['label']!r}, which grants nothing" if "label" in token else ""
    rows += [
        f"Token: {token['id']}, which belongs to {token['address']}{label}",
        f"{token['minted_by']} created the token at {time(token['minted_at'])}, log entry "
        f"#{token['seq']}.",
    ]
    if found := answer.get("connection"):
        rows.append(
            f"Connection: {found['name']!r}. The client {found['client']!r} acts for "
            f"{bold(found['person'])}."
        )
    if token["address"] != answer["sender"]:
        rows.append(yellow(f"The token belonged to {answer['sender']} when it sent the message."))
    if "contradiction" in answer:
        rows += [yellow(answer["contradiction"]), f"  {dim(answer['do'])}"]
    if "revoked_at" in token:
        rows.append(yellow(f"The token was revoked at {time(token['revoked_at'])}."))
    return "\n".join(rows)


def redact(answer: Answer) -> str:
    position = f"#{answer['seq']}"
    what = position if answer["id"] == position else f"{answer['id']} ({position})"
    return f"{green('Redacted')} {what}. Its body is deleted permanently."
