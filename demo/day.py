"""The steps of the scripted day."""

from demo.stage import Stage
from interlock.client import Client

BROKEN = "def total(prices):\n    return sum(prices)\n"
FIXED = "def total(prices):\n    return round(sum(prices), 2)\n"
TEST = """import unittest

from shop import total


class Totals(unittest.TestCase):
    def test_cents_add_up(self):
        self.assertEqual(total([0.1, 0.2]), 0.3)


if __name__ == "__main__":
    unittest.main()
"""
RUN_TESTS = ("--", "python3", "-m", "unittest", "-q")


def run_day(stage: Stage) -> None:
    stage.write("shop.py", "def total(prices):\n    return 0\n")
    stage.write(".gitignore", "__pycache__/\n")
    stage.commit("Open the shop")
    vera = stage.joined("vera", person=True)
    otto = stage.joined("otto", "cli")
    iris = stage.joined("iris")
    nova = stage.joined("nova")
    stage.gate("athena", "iris")
    stage.tell("The person vera and the agents otto, iris and nova join. iris holds a gate.")
    _morning(stage, vera, otto, nova)
    _work(stage, vera, otto, iris)
    _evening(stage, vera, otto, nova)


def _morning(stage: Stage, vera: Client, otto: Client, nova: Client) -> None:
    plan = vera.send("AGENT:*", "Today the shop learns to add. Claim before you change anything.")
    stage.tell("vera tells all agents the plan for the day.")
    otto.read(plan["message"]["id"])
    otto.ack(plan["message"]["id"])
    vera.create_task(
        "Totals are right to the cent",
        id="B-12",
        brief="Customers see 0.30000000000000004. They should not.",
        criteria=["the tests pass", "the rounding is explained"],
        gates=["athena"],
        assignee="@otto",
    )
    vera.create_task("Show the total at checkout", id="B-13", depends_on=["B-12"])
    stage.tell("vera creates two tasks. The second depends on the first.")
    nova.take("B-13")
    stage.tell("nova tries to take the second task. Interlock names the task that it waits for.")
    nova.acquire(paths=["docs/**"], repo="acme/shop", note="Wording")
    stage.tell("nova claims the documentation instead.")
    vera.send("@otoo", "Can you start with B-12?")
    stage.tell("vera misspells a name. Interlock warns that the name is not registered.")


def _work(stage: Stage, vera: Client, otto: Client, iris: Client) -> None:
    otto.take("B-12", branch="cents")
    stage.tell("otto takes B-12.")
    stage.write("shop.py", BROKEN)
    stage.write("test_shop.py", TEST)
    stage.commit("Add prices up")
    status = stage.run(
        "otto-cli", "evidence", "run", "--task", "B-12", "--criterion", "1", *RUN_TESTS
    )
    stage.tell(f"otto runs the tests. Interlock records the run: exit {status}.")
    stage.run("otto-cli", "task", "submit", "B-12")
    stage.tell("otto submits anyway. Interlock asks iris for a verdict.")
    iris.judge(
        "B-12",
        "athena",
        "fail",
        note="0.1 + 0.2 is still 0.30000000000000004",
        fix=["python3 -m unittest -q"],
    )
    stage.tell("iris fails the submission. otto receives the blocker.")
    otto.inbox(wait_s=5)
    stage.write("shop.py", FIXED)
    commit = stage.commit("Round to the cent")
    stage.run("otto-cli", "evidence", "run", "--task", "B-12", "--criterion", "1", *RUN_TESTS)
    note = otto.add_evidence(
        {"kind": "note", "task_id": "B-12", "criterion": 2, "text": "See the commit's message."}
    )
    stage.run("otto-cli", "task", "submit", "B-12")
    stage.tell("otto fixes the code, runs the tests again, and submits.")
    otto.complete("B-12")
    stage.tell("otto tries to complete B-12. Interlock lists what is missing.")
    iris.judge("B-12", "athena", "pass", commit=commit, evidence=[note["evidence"]["id"]])
    otto.complete("B-12")
    stage.tell("iris passes that commit, and otto completes B-12.")


def _evening(stage: Stage, vera: Client, otto: Client, nova: Client) -> None:
    nova.take("B-13")
    stage.tell("nova takes B-13, which no longer waits for a task.")
    nova.send("@vera", "Is the total shown with or without tax?", type="ask")
    stage.tell("nova asks vera, who is offline. interlock review lists the question.")
    otto.send("@vera", "B-12 is done. Read the report: interlock report B-12")
    stage.tell("otto reports to vera.")
