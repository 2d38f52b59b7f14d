"""Answers as the pages of people show them: who asks, whose senders there are, which browsers."""

import re
from itertools import count
from urllib.parse import urlencode, urlsplit

from interlock.doors.web.views import REACH, face, legible
from interlock.machine.hosts import is_loopback
from interlock.verbs.addresses import NAME
from interlock.verbs.answers import Answer

BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("Chrom", "Chrome"),
    ("CriOS/", "Chrome"),
    ("Safari/", "Safari"),
)
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
SCOPES = {
    "mail": "read and write messages under that name",
    "claim": "reserve items and files, so that nobody else changes them meanwhile",
    "work": "take tasks, hand in work, and give evidence for it",
}
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_ORIGIN = re.compile(r"[a-z0-9.-]+(:[0-9]{1,5})?")
MAX_SURFACE_LENGTH = 24


def browser(agent: str) -> str:
    """What a person would call the browser, from what it says of itself."""
    name = next((name for mark, name in BROWSERS if mark in agent), "A browser")
    system = next((name for mark, name in SYSTEMS if mark in agent), None)
    return f"{name} on {system}" if system else name


# --- the client that asks


def asking(wanted: Answer) -> Answer:
    """Who asks: what the client calls itself, and where the answer goes, which is what counts."""
    address = urlsplit(wanted["redirect_uri"])
    where = "host"
    if address.scheme not in ("https", "http"):
        where = "scheme"
    elif is_loopback(address.hostname or ""):
        where = "here"
    return {
        "name": legible(wanted["client_name"]),
        "where": where,
        "host": legible(address.netloc.rpartition("@")[2]),
        "scheme": legible(address.scheme),
        "publisher": legible(urlsplit(wanted["client"]).netloc),
        "everything": not wanted["resource"].endswith("/mcp"),
    }


def form_action(redirect_uri: str) -> str:
    """Where the form on the page of consent may lead: back to the client that asked. Browsers hold
    the redirection after a form to the same rule as the form."""
    address = urlsplit(redirect_uri)
    if not _SCHEME.fullmatch(address.scheme):
        return "'self'"
    if address.scheme not in ("https", "http") or address.netloc.startswith("["):
        # The rule has no way to write the host of an address like [::1].
        return f"'self' {address.scheme}:"
    host = address.netloc.lower()
    return f"'self' {address.scheme}://{host}" if _ORIGIN.fullmatch(host) else "'self'"


def answered(wanted: Answer, **members: str) -> str:
    """The client's address with the answer. `iss` says whose answer it is (RFC 9207)."""
    address, _, _ = wanted["redirect_uri"].partition("#")
    if "state" in wanted:
        members["state"] = wanted["state"]
    query = urlencode(members | {"iss": wanted["issuer"]})
    return f"{address}{'&' if '?' in address else '?'}{query}"


# --- whom it may be


def agents(person: Answer, known: Answer) -> list[Answer]:
    """The person and their agents, each with its senders and how those can be reached."""
    reached = {agent["address"]: agent for agent in known["agents"]}
    return [
        {
            "agent": own["agent"],
            "is_person": "@" + own["agent"] == person["person"],
            "senders": [
                reached[address] | face(address) | {"reach_means": REACH[reached[address]["reach"]]}
                for address in own["senders"]
                if address in reached
            ],
        }
        for own in person["agents"]
    ]


def choices(own: list[Answer], connections: list[Answer], surface: str) -> list[Answer]:
    """The same as things to choose from. `value` is what the form sends; `connected` are the
    clients that have that name already, and `surface` is what a new one may be called."""
    offered = []
    for agent in own:
        taken = [sender.get("surface") for sender in agent["senders"]]
        senders = [
            sender
            | {
                "value": " ".join(("own", agent["agent"], sender.get("surface", ""))).strip(),
                "connected": [
                    legible(c["name"]) for c in connections if c["address"] == sender["address"]
                ],
            }
            for sender in agent["senders"]
        ]
        fresh = (f"{surface}{number}" for number in count(2))
        new = surface if surface not in taken else next(s for s in fresh if s not in taken)
        offered.append(agent | {"senders": senders, "new": f"new {agent['agent']}", "surface": new})
    return offered


def first_choice(offered: list[Answer], surface: str) -> str | None:
    """What is chosen unless the person says otherwise: the surface that the client is called
    after, where only one agent can be meant. Among several, only the person knows."""
    agents = [agent for agent in offered if not agent["is_person"]] or offered
    if len(agents) != 1:
        return None
    (agent,) = agents
    for sender in agent["senders"]:
        if sender.get("surface") == surface and not sender["connected"]:
            return str(sender["value"])
    return str(agent["new"])


def chosen(form: dict[str, str]) -> tuple[str, str | None] | None:
    """The agent and the surface that a form says."""
    match form.get("sender", "").split():
        case ["new", agent]:
            surface = form.get(f"surface {agent}", "").strip()
            return (agent, surface) if surface else None
        case ["own", agent]:
            return agent, None
        case ["own", agent, surface]:
            return agent, surface
    return None


def surface_of(client: str) -> str:
    """What a surface for this client may be called, from what the client calls itself."""
    letters = "".join(c for c in client.lower() if c.isascii() and c.isalnum())
    short = letters.lstrip("0123456789")[:MAX_SURFACE_LENGTH]
    return short if NAME.fullmatch(short) else "connector"
