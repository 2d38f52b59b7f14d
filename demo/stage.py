"""The setting of the day: a workspace, a repository, and the clients of its agents."""

import os
import subprocess
import sys
import time
from typing import Any

from interlock.client import Client

Answer = dict[str, Any]


class Stage:
    """Prints each step on the terminal, and pauses after it."""

    def __init__(self, place: str, pace_s: float) -> None:
        self.workspace = os.path.join(place, "workspace")
        self.repository = os.path.join(place, "shop")
        self._pace_s = pace_s
        self._tokens: dict[str, str] = {}
        os.mkdir(self.repository)
        self.git("init", "--quiet", "--initial-branch", "main")

    def joined(self, name: str, surface: str | None = None, *, person: bool = False) -> Client:
        with Client(self.workspace) as owner:
            answer = owner.join(name, surface=surface, kind="human" if person else "agent")
        self._tokens[answer["sender"]] = answer["token"]
        return Client(self.workspace, answer["token"])

    def gate(self, name: str, holder: str) -> None:
        with Client(self.workspace) as owner:
            owner.create_gate(name, [holder])

    def tell(self, text: str) -> None:
        print(f"  {text}", flush=True)
        time.sleep(self._pace_s)

    def write(self, name: str, text: str) -> None:
        with open(os.path.join(self.repository, name), "w", encoding="utf-8") as file:
            file.write(text)

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=Demo", "-c", "user.email=demo@example.com"]
        done = subprocess.run(  # noqa: S603 - our own arguments, no shell
            ["git", "-C", self.repository, *who, *words],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def run(self, sender: str, *words: str) -> int:
        """Run an `interlock` command, as an agent does in its shell. Return its exit code."""
        environment = os.environ | {
            "INTERLOCK_WORKSPACE": self.workspace,
            "INTERLOCK_TOKEN": self._tokens[sender],
        }
        done = subprocess.run(  # noqa: S603 - our own command
            [sys.executable, "-m", "interlock", *words],
            cwd=self.repository,
            env=environment,
            capture_output=True,
            check=False,
        )
        return done.returncode

    def verified(self) -> str:
        with Client(self.workspace) as owner:
            found = owner.verify()
        if not found["ok"]:
            return "Its log is DAMAGED."
        return f"Its log verifies: {found['entries']} entries."
