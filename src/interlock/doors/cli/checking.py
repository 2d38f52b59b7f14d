"""Automatic gates: the checks of interlock.toml on what is submitted, and the scrub."""

import sys

from interlock.doors.cli import output
from interlock.doors.cli.context import Context
from interlock.errors import GatesNotPassed
from interlock.evidence.judging import Judge, Told, root_here, rules_at
from interlock.verbs.answers import Answer


def run(context: Context) -> Answer:
    """Runs the checks of each gate on the submitted commit."""
    root, task = root_here(), context.values["task"]
    rules = rules_at(root, context.get("rules"))
    judge = Judge(context.call, task, root, rules, output.live(sys.stderr))
    try:
        judged = judge.judge(context.get("gate"), new_rules=context.get("new_rules", False))
    except Told:
        raise KeyboardInterrupt from None
    failed = [found["gate"] for found in judged if found["verdict"] == "fail"]
    if not failed:
        return {"task": task, "gates": judged}
    refusal = GatesNotPassed(f"Failed: {', '.join(failed)}. Its worker was told.")
    return {"task": task, "gates": judged} | refusal.as_dict()


def scrub(context: Context) -> Answer:
    """What keeps this repository from being opened to the public."""
    from interlock.scrub import findings, rules_of

    root = root_here()
    said = rules_at(root, context.get("rules")).project.scrub
    found = [finding.view() for finding in findings(root, rules_of(said))]
    answer: Answer = {"clean": not found, "findings": found, "rules": sorted(said)}
    if not found:
        return answer
    many = "1 finding" if len(found) == 1 else f"{len(found)} findings"
    refusal = GatesNotPassed(f"{many}: it cannot be opened to the public yet.")
    return answer | refusal.as_dict()
