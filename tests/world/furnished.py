"""A workspace with data for every verb. The rows of the table run in copies of it."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import interlock
from interlock.client import Client
from interlock.errors import TokenExpired
from interlock.local.workspace import CredentialStore
from interlock.rooms.identity.token_format import hashed, token_id
from world.commandline import Place, until
from world.fork_server import ServersByWorkspace
from world.row import PROOF, PROVED, RAN
from world.signed_in_people import let_in


class Furnished:
    """A workspace, the tokens of its callers, and the names by which rows refer to its content.

    The senders are otto-cli (a surface of the agent otto), the agent nova, the person vera and the
    admin dora. Lena lacks the scope mail, and mira has only that scope. Vera has signed in and
    connected a client that acts as her. Rita is invited. The callers' directory is a git
    repository.

    Dora holds the gate athena and created the tasks. T-1 is open, and T-2 depends on it. Nova works
    on T-3, and raised a blocker. Nova submitted T-4, and dora cancelled T-5."""

    def __init__(self, root: Path) -> None:
        self.place = Place(root)
        self.tokens = {"stranger": "of-somebody-else", "typo": "ilk_mistyped"}
        self.names: dict[str, Any] = {"backup": str(root / "made.db")}
        with interlock.connect(self.place.workspace) as owner:
            self._join(owner)
            self._invite(owner)
            self._send_and_claim(owner)
            self._commit()
            self._create_tasks(owner)
            self.names["checkpoint"] = owner.checkpoint()["checkpoint"]
            owner.backup(self.names["backup"])
            # A list shows an invitation until it expires. All doors must show the same list.
            until(lambda: "tina" not in json.dumps(owner.connections()))
        until(lambda: self._is_expired("late"))

    def _join(self, owner: Client) -> None:
        for name, given in (
            ("otto", {"surface": "cli"}),
            ("vera", {"kind": "human"}),
            ("dora", {"kind": "human", "scopes": ["admin"]}),
            ("nova", {}),
            ("lena", {"scopes": ["claim", "work"]}),
            ("mira", {"scopes": ["mail"]}),
        ):
            joined = owner.join(name, **given)
            self.tokens[joined["sender"]] = joined["token"]
            self.names[f"{name}_token"] = joined["token_id"]
        self.names["its_token"] = self.tokens["vera"]
        self.tokens["late"] = owner.mint_token("nova", ttl_s=1)["token"]

    def _invite(self, owner: Client) -> None:
        browser, connection = let_in(self.place.workspace, "vera", "robo")
        self.tokens |= {"vera's browser": browser, "vera's connection": connection.token}
        self.names |= {"connection": connection.id, "signed_in": token_id(hashed(browser))}
        rita = owner.invite("rita", surface="laptop", own=["rex"])
        self.names |= {"invitation": rita["invitation"], "invited": rita["id"]}
        self.names["late_invitation"] = owner.invite("tina", ttl_s=1)["invitation"]

    def _send_and_claim(self, owner: Client) -> None:
        workspace = self.place.workspace
        owner.create_group("team", ["@otto-cli", "@vera"])
        with interlock.connect(workspace, self.tokens["otto-cli"]) as otto:
            mail = otto.send("@vera", "hello vera", subject="first")["message"]
            ask = otto.send("@vera", "ready?", type="ask")["message"]
            held = otto.acquire("B-1", branch="b", note="n")
            assert held["acquired"]
            self.names |= {"fence": held["claim"]["fence"], "claim": held["claim"]["id"]}
        with interlock.connect(workspace, self.tokens["vera"]) as vera:
            letter = vera.send("@otto-cli", "hello otto", priority="high")["message"]
            vera.acquire(paths=["src/**"], repo="example.com/r")
        self.names |= {"mail": mail["id"], "mail_seq": mail["seq"], "ask": ask["id"]}
        self.names |= {"letter": letter["id"], "letter_seq": letter["seq"]}

    def _commit(self) -> None:
        (self.place.cwd / PROOF).write_bytes(PROVED)
        self._git("init", "--quiet", "--template=")
        self._git("add", PROOF)
        author = ("-c", "user.name=Otto", "-c", "user.email=otto@example.com")
        self._git(*author, "commit", "--quiet", "--message", "Sort the list")
        self.names["commit"] = self._git("rev-parse", "HEAD")
        self.names["tree"] = self._git("rev-parse", "HEAD^{tree}")

    def _git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.place.cwd,
            env=self.place.environ,
            stdout=subprocess.PIPE,
            check=True,
        )
        return done.stdout.decode().strip()

    def _create_tasks(self, owner: Client) -> None:
        workspace = self.place.workspace
        owner.create_gate("athena", ["@dora"])
        with interlock.connect(workspace, self.tokens["dora"]) as dora:
            criteria = ["make test passes", "it reads well"]
            dora.create_task("Sort the list", criteria=criteria, gates=["athena"], brief="By name.")
            dora.create_task("Show it", depends_on=["T-1"])
            for title in ("Say it", "Count it"):
                dora.create_task(title, criteria=criteria[:1], gates=["athena"])
            dora.create_task("Print it")
            dora.cancel("T-5", note="not needed")
        with interlock.connect(workspace, self.tokens["nova"]) as nova:
            said = {"kind": "note", "text": "it works", "task_id": "T-3", "criterion": 1}
            taken = nova.take("T-3")
            assert taken["taken"]
            self.names["work_fence"] = taken["claim"]["fence"]
            self.names["said"] = nova.add_evidence(said)["evidence"]["id"]
            stuck = nova.raise_blocker("there is no list", task="T-3")
            self.names["blocker"] = stuck["blocker"]["id"]
            nova.take("T-4")
            upload = nova.put_chunk(PROVED, len(PROVED))["upload"]
            ran = self.filled(RAN) | {"task_id": "T-4", "criterion": 1}
            self.names["ran"] = nova.add_evidence(ran, upload=upload)["evidence"]["id"]
            nova.submit("T-4", self.names["commit"], tree=self.names["tree"])

    def copied(self, root: Path, served: ServersByWorkspace | None = None) -> Place:
        """Copy the workspace, and store the tokens of its senders in it, for `--from`."""
        place = self.place.copied(root, served)
        store = CredentialStore(str(place.workspace))
        for sender in ("otto-cli", "vera", "dora", "nova", "lena", "mira"):
            with store.slot() as keep:
                keep(sender, self.tokens[sender])
        return place

    def filled(self, fields: Mapping[str, Any]) -> Any:
        return filled(dict(fields), self.names)

    def _is_expired(self, sender: str) -> bool:
        with interlock.connect(self.place.workspace, self.tokens[sender]) as client:
            try:
                client.whoami()
            except TokenExpired:
                return True
        return False


def filled(value: Any, names: Mapping[str, Any]) -> Any:
    """Return the value with its `$names` replaced."""
    if isinstance(value, dict):
        return {name: filled(inner, names) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [filled(inner, names) for inner in value]
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    name, slash, rest = value[1:].partition("/")
    return names[name] if not slash else f"{names[name]}/{rest}"
