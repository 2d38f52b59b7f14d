"""Rows of the verbs of work: tasks, evidence, gates and blockers."""

from interlock.rooms.claims import verbs as claims
from interlock.rooms.mail import verbs as mail
from interlock.rooms.work import verbs as work
from world.row import (
    ABSENT,
    DORA,
    KEPT,
    MIRA,
    NO_SENDER,
    NO_WORD,
    NOVA,
    OTTO,
    OWNER,
    PAUSED,
    PROOF,
    PROVED,
    RAN,
    S1,
    VERA,
    WHERE,
    Rows,
    Step,
    done,
    no,
    refused,
)

NOT_THERE = "0" * 40
PASSED = {"task": "T-4", "gate": "athena", "verdict": "pass", "commit": "$commit"}
PASS = Step(DORA, work.GiveVerdict, PASSED)
SUBMITTED = {"id": "T-3", "commit": "$commit", "tree": "$tree"}
SAID = {"kind": "note", "text": "it works", "task_id": "T-3"}
RAN_T3 = {**RAN, "task_id": "T-3", "criterion": 1}
UPLOADED = Step(NOVA, mail.PutChunk, {"data": PROVED, "size": len(PROVED)}, {"upload": "upload"})
RAN_BEFORE = (UPLOADED, Step(NOVA, work.AddEvidence, {"payload": RAN_T3, "upload": "$upload"}))
# Nova lost T-3 to otto.
LOST = (
    Step(NOVA, claims.ReleaseClaim, {"item": "T-3"}),
    Step(OTTO, work.TakeTask, {"id": "T-3"}, {"new_fence": "claim.fence"}),
)
RAISED = Step(
    VERA,
    work.RaiseBlocker,
    {"what": "it is slow", "task": "T-3", "fix": ["make fast"]},
    {"raised": "blocker.id"},
)
RUNS = {"cli": "the command runs them itself", "mcp": "no tool runs anything"}

ROWS: Rows = {
    work.CreateTask: (
        done("create a task", OTTO, {"title": "Name it"}),
        done(
            "create a task with a brief",
            OTTO,
            {
                "title": "Name it",
                "id": "B-7",
                "brief": "# Names\n\nAll of them.",
                "criteria": ["make test passes", "it reads well"],
                "gates": ["athena"],
                "depends_on": ["T-1", "T-2"],
            },
            has={"task": {"id": "B-7", "state": "open", "gates": ["athena"], "criteria": 2}},
        ),
        done(
            "create a task with an assignee",
            OTTO,
            {"title": "Name it", "assignee": "@vera", "priority": "high", "labels": ["ui", "list"]},
            not_at={"mcp": NO_WORD},
            has={"task": {"priority": "high", "assignee": "@vera", "labels": ["ui", "list"]}},
        ),
        done(
            "create a task for an unregistered name",
            OTTO,
            {"title": "Name it", "assignee": "@ghost"},
            not_at={"mcp": NO_WORD},
        ),
        refused(
            "GATE_HAS_NO_HOLDER",
            "create a task with an unknown gate",
            OTTO,
            {"title": "Name it", "gates": ["atena"]},
            has={"gate": "atena", "did_you_mean": ["athena"]},
        ),
        refused(
            "GATE_HAS_NO_HOLDER",
            "create a task with a gate that only the assignee holds",
            OTTO,
            {"title": "Name it", "gates": ["athena"], "assignee": "@dora"},
            not_at={"mcp": NO_WORD},
            has={"gate": "athena"},
        ),
        refused("NAME_TAKEN", "create a task with a used id", OTTO, {"title": "x", "id": "T-1"}),
        refused(
            "NOT_FOUND",
            "create a task with an unknown dependency",
            OTTO,
            {"title": "x", "depends_on": ["T-9"]},
        ),
        refused(
            "USAGE",
            "create a task that depends on itself",
            OTTO,
            {"title": "x", "id": "B-7", "depends_on": ["B-7"]},
        ),
        refused("USAGE", "create a task with a long title", OTTO, {"title": "x" * 281}),
        refused(
            "INVALID_MESSAGE",
            "create a task with a bad gate name",
            OTTO,
            {"title": "x", "gates": ["Pallas Athene"]},
        ),
        refused(
            "MISSING_SCOPE",
            "create a task without the scope work",
            MIRA,
            {"title": "x"},
            has={"scope": "work"},
        ),
        refused("PAUSED", "create a task in a pause", OTTO, {"title": "x"}, first=(PAUSED,)),
    ),
    work.ListTasks: (
        done("list live tasks", OTTO, {"state": "live"}),
        done("list every task as the owner", OWNER, not_at={"mcp": NO_WORD}),
        done(
            "list cancelled tasks",
            OTTO,
            {"state": "cancelled"},
            not_at={"mcp": NO_WORD},
            has={"tasks": [{"id": "T-5"}]},
        ),
        done(
            "list one's own tasks",
            NOVA,
            {"mine": True},
            not_at={"mcp": "whoami lists them"},
            has={"tasks": [{"id": "T-3"}, {"id": "T-4"}]},
        ),
        done(
            "list a page of tasks",
            VERA,
            {"limit": 2},
            not_at={"mcp": NO_WORD},
            has={"tasks": [{"id": "T-1"}, {"id": "T-2"}]},
        ),
        refused(
            "USAGE",
            "list tasks in an unknown state",
            OTTO,
            {"state": "asleep"},
            own_words=True,
            not_at={"mcp": NO_WORD},
        ),
    ),
    work.ShowTask: (
        done("show an open task", OTTO, {"id": "T-1"}),
        done(
            "show a taken task",
            VERA,
            {"id": "T-3"},
            has={"task": {"state": "taken", "worker": "@nova"}},
        ),
        done("show a submitted task", VERA, {"id": "T-4"}),
        done("show a task as the owner", OWNER, {"id": "T-3"}, not_at=NO_SENDER),
        refused("NOT_FOUND", "show an unknown task", OTTO, {"id": "T-99"}),
        refused("USAGE", "show a task with a bad id", OTTO, {"id": "T 1"}),
    ),
    work.TakeTask: (
        done("take a task", OTTO, {"id": "T-1", "note": "mine"}, has={"taken": True}),
        done(
            "take a task with branch and worktree",
            S1,
            {**WHERE, "id": "T-1", "ttl_s": 600},
            not_at={"mcp": NO_WORD},
            has={"claim": {"holder": "@otto-cli", **WHERE}},
        ),
        done("take one's own task again", NOVA, {"id": "T-3"}, has={"taken": True}),
        no("CLAIM_HELD", "take another worker's task", OTTO, {"id": "T-3"}, has={"taken": False}),
        no(
            "GATES_NOT_PASSED",
            "take a task with an open dependency",
            OTTO,
            {"id": "T-2"},
            has={"taken": False},
        ),
        refused("ALREADY_DONE", "take a cancelled task", OTTO, {"id": "T-5"}),
        refused("NOT_FOUND", "take an unknown task", OTTO, {"id": "T-99"}),
        refused("MISSING_SCOPE", "take a task without the scope work", MIRA, {"id": "T-1"}),
    ),
    work.SubmitTask: (
        done(
            "submit a commit",
            NOVA,
            {**SUBMITTED, "fence": "$work_fence"},
            first=RAN_BEFORE,
            has={
                "submitted": True,
                "task": {"state": "submitted", "artifact": {"commit": "$commit", "tree": "$tree"}},
            },
        ),
        refused(
            "USAGE", "submit a bad commit id", NOVA, {"id": "T-3", "commit": "x"}, own_words=True
        ),
        refused(
            "USAGE",
            "submit a commit without a known tree",
            NOVA,
            {"id": "T-3", "commit": NOT_THERE},
        ),
        refused("NOT_HOLDER", "submit another worker's task", OTTO, SUBMITTED),
        refused(
            "STALE_FENCE",
            "submit with the fence of a lost claim",
            NOVA,
            {**SUBMITTED, "fence": "$work_fence"},
            first=LOST,
        ),
        refused("STALE_FENCE", "submit after the claim was lost", NOVA, SUBMITTED, first=LOST),
        refused("ALREADY_DONE", "submit an ended task", NOVA, {**SUBMITTED, "id": "T-5"}),
    ),
    work.CompleteTask: (
        done(
            "complete a task",
            NOVA,
            {"id": "T-4"},
            first=(PASS,),
            has={"completed": True, "task": {"state": "done"}},
        ),
        no(
            "GATES_NOT_PASSED",
            "complete a task without a pass",
            NOVA,
            {"id": "T-4"},
            has={"completed": False, "missing": [{"what": "gate"}]},
        ),
        no("GATES_NOT_PASSED", "complete a task without a submission", NOVA, {"id": "T-3"}),
        no(
            "GATES_NOT_PASSED",
            "complete a task with a verdict on an older submission",
            NOVA,
            {"id": "T-4"},
            first=(PASS, Step(NOVA, work.SubmitTask, {**SUBMITTED, "id": "T-4"})),
        ),
        refused(
            "ALREADY_DONE",
            "complete a task twice",
            NOVA,
            {"id": "T-4"},
            first=(PASS, Step(NOVA, work.CompleteTask, {"id": "T-4"})),
            has={"task": "T-4", "state": "done"},
        ),
        refused(
            "STALE_FENCE",
            "complete with the fence of a lost claim",
            NOVA,
            {"id": "T-3", "fence": "$work_fence"},
            first=LOST,
        ),
        refused("NOT_HOLDER", "complete another worker's task", OTTO, {"id": "T-4"}),
    ),
    work.FailTask: (
        done(
            "fail a task",
            NOVA,
            {"id": "T-3", "note": "it cannot be"},
            has={"task": {"state": "failed"}},
        ),
        refused(
            "STALE_FENCE",
            "fail with the fence of a lost claim",
            NOVA,
            {"id": "T-3", "fence": "$work_fence"},
            first=LOST,
        ),
        refused("NOT_HOLDER", "fail another worker's task", OTTO, {"id": "T-3"}),
        refused("ALREADY_DONE", "fail an ended task", NOVA, {"id": "T-5"}),
    ),
    work.CancelTask: (
        done(
            "cancel a task",
            DORA,
            {"id": "T-1", "note": "no time"},
            has={"task": {"state": "cancelled"}},
        ),
        done("cancel a task as a person", VERA, {"id": "T-3"}),
        refused("MISSING_SCOPE", "cancel another agent's task as an agent", OTTO, {"id": "T-1"}),
        refused("ALREADY_DONE", "cancel a task twice", DORA, {"id": "T-5"}),
    ),
    work.PrepareEvidence: (
        done(
            "prepare evidence as the worker",
            NOVA,
            {"task": "T-3", "criterion": 1},
            has={"task": "T-3", "fence": "$work_fence", "lease_s": 3600},
        ),
        done("prepare evidence as a reader", VERA, {"task": "T-3"}, has={"task": "T-3"}),
        refused(
            "USAGE",
            "prepare evidence for an unknown criterion",
            NOVA,
            {"task": "T-3", "criterion": 2},
        ),
        refused(
            "STALE_FENCE",
            "prepare evidence after the claim was lost",
            NOVA,
            {"task": "T-3"},
            first=LOST,
        ),
        refused(
            "STALE_FENCE",
            "prepare evidence with another fence",
            NOVA,
            {"task": "T-3", "fence": 999},
        ),
    ),
    work.AddEvidence: (
        done("add a note", NOVA, {"payload": {**SAID, "criterion": 1, "title": "seen"}}),
        done("add a note as a reader", VERA, {"payload": SAID}, has={"counts": False}),
        done(
            "add a URL",
            NOVA,
            {"payload": {"kind": "url", "url": "https://example.com/ci/7", "task_id": "T-3"}},
        ),
        done(
            "add a file",
            NOVA,
            {
                "payload": {"kind": "file", "name": PROOF, **KEPT, "task_id": "T-3"},
                "upload": "$upload",
            },
            first=(UPLOADED,),
            not_at={"mcp http": "the file is on another machine"},
            has={"evidence": {"kind": "file", "by": "@nova", "task": "T-3"}},
        ),
        done(
            "add a run",
            NOVA,
            {
                "payload": RAN_T3,
                "upload": "$upload",
                "fence": "$work_fence",
            },
            first=(UPLOADED,),
            not_at=RUNS,
            has={"counts": True},
        ),
        done(
            "add a failed run",
            NOVA,
            {
                "payload": {**RAN_T3, "exit_code": 2},
                "upload": "$upload",
            },
            first=(UPLOADED,),
            not_at=RUNS,
            has={"counts": False, "why": "The run exited 2."},
        ),
        refused(
            "DIGEST_MISMATCH",
            "add a run with other bytes than announced",
            NOVA,
            {
                "payload": {**RAN, "task_id": "T-3", "output": {**KEPT, "sha256": "0" * 64}},
                "upload": "$upload",
            },
            first=(UPLOADED,),
            not_at=RUNS,
        ),
        refused(
            "USAGE",
            "add a run without its bytes",
            NOVA,
            {"payload": {**RAN, "task_id": "T-3"}},
            not_at=RUNS,
        ),
        refused(
            "USAGE",
            "add a note for an unknown criterion",
            NOVA,
            {"payload": {**SAID, "criterion": 9}},
        ),
        refused(
            "INVALID_MESSAGE",
            "add a bad URL",
            NOVA,
            {"payload": {"kind": "url", "url": "over there", "task_id": "T-3"}},
        ),
        refused(
            "STALE_FENCE",
            "add a note with the fence of a lost claim",
            NOVA,
            {"payload": SAID, "fence": "$work_fence"},
            first=LOST,
            not_at={"mcp": NO_WORD},
        ),
        refused(
            "STALE_FENCE",
            "add a note after the claim was lost",
            NOVA,
            {"payload": SAID},
            first=LOST,
        ),
        refused(
            "ALREADY_DONE",
            "add a note to an ended task",
            NOVA,
            {"payload": {**SAID, "task_id": "T-5"}},
        ),
        refused("MISSING_SCOPE", "add a note without the scope work", MIRA, {"payload": SAID}),
    ),
    work.ShowEvidence: (
        done(
            "show a run",
            VERA,
            {"id": "$ran"},
            has={"counts": True, "content": {"text": PROVED.decode()}},
        ),
        done(
            "show a note",
            OWNER,
            {"id": "$said"},
            has={"counts": False, "evidence": {"text": "it works"}},
        ),
        done("show a part of a run's output", VERA, {"id": "$ran", "start": 2, "stop": 5}),
        refused(
            "USAGE",
            "show a range beyond the end",
            VERA,
            {"id": "$ran", "start": 99, "stop": 100},
            has={"size": len(PROVED)},
        ),
        refused("NOT_FOUND", "show unknown evidence", VERA, {"id": ABSENT}),
    ),
    work.CreateGate: (
        done(
            "create a gate",
            OWNER,
            {"name": "hera", "holders": ["@vera", "nova"]},
            has={"gate": {"name": "hera", "holders": ["@nova", "@vera"]}},
        ),
        done(
            "replace the holders of a gate",
            DORA,
            {"name": "athena", "holders": ["@vera"], "replace": True},
            has={"gate": {"holders": ["@vera"]}},
        ),
        refused(
            "NAME_TAKEN",
            "create a gate that exists",
            OWNER,
            {"name": "athena", "holders": ["@vera"]},
        ),
        refused(
            "GATE_HAS_NO_HOLDER",
            "create a gate for an unregistered holder",
            OWNER,
            {"name": "hera", "holders": ["@ver"]},
            has={"gate": "hera", "did_you_mean": ["@vera"]},
        ),
        refused(
            "USAGE", "create a gate with a bad name", OWNER, {"name": "He ra", "holders": ["@vera"]}
        ),
        refused(
            "MISSING_SCOPE",
            "create a gate as an agent",
            OTTO,
            {"name": "hera", "holders": ["@vera"]},
        ),
    ),
    work.ListGates: (
        done(
            "list the gates",
            OTTO,
            has={"gates": [{"name": "athena", "can_judge": ["@dora"], "due": ["T-4"]}]},
        ),
    ),
    work.PrepareVerdict: (
        done(
            "prepare a verdict",
            DORA,
            {"task": "T-4", "gate": "athena"},
            has={
                "task": "T-4",
                "gate": "athena",
                "artifact": {"commit": "$commit", "tree": "$tree"},
            },
        ),
        refused(
            "OWN_WORK",
            "prepare a verdict as the worker",
            NOVA,
            {"task": "T-4", "gate": "athena"},
        ),
    ),
    work.GiveVerdict: (
        done("pass a task", DORA, {**PASSED, "note": "well done"}),
        done("pass a task and name evidence", DORA, {**PASSED, "evidence": ["$ran"]}),
        done(
            "pass a task without naming the commit",
            DORA,
            {"task": "T-4", "gate": "athena", "verdict": "pass"},
            not_at={"mcp": "the tool needs the reviewed commit"},
        ),
        done(
            "fail a task at a gate",
            DORA,
            {**PASSED, "verdict": "fail", "note": "it is red", "fix": ["make fix", "make test"]},
            has={
                "verdict": {"fix": ["make fix", "make test"]},
                "task": {"state": "taken"},
                "blocker": {"to": "@nova"},
            },
        ),
        done("fail a task at a gate without a note", DORA, {**PASSED, "verdict": "fail"}),
        refused(
            "OWN_WORK", "pass one's own work", NOVA, PASSED, has={"task": "T-4", "gate": "athena"}
        ),
        refused(
            "MISSING_SCOPE",
            "pass a gate of another holder",
            VERA,
            PASSED,
            has={"scope": "gate:athena"},
        ),
        refused(
            "NOT_SUBMITTED",
            "pass another commit than the submitted one",
            DORA,
            {**PASSED, "commit": NOT_THERE},
            has={"task": "T-4", "submitted": {"commit": "$commit", "tree": "$tree"}},
        ),
        refused(
            "NOT_SUBMITTED",
            "pass a task without a submission",
            DORA,
            {**PASSED, "task": "T-3"},
            has={"task": "T-3", "state": "taken"},
        ),
        refused(
            "NOT_FOUND",
            "pass a gate that the task does not have",
            DORA,
            {**PASSED, "gate": "hera"},
            has={"gates": ["athena"]},
        ),
        refused(
            "NOT_FOUND",
            "pass with evidence of another task",
            DORA,
            {**PASSED, "evidence": ["$said"]},
        ),
        refused("ALREADY_DONE", "pass an ended task", DORA, {**PASSED, "task": "T-5"}),
    ),
    work.CheckGate: (
        done(
            "check a gate for a passed commit",
            OTTO,
            {"gate": "athena", "commit": "$commit"},
            first=(PASS,),
            has={"passed": True},
        ),
        no(
            "GATES_NOT_PASSED",
            "check a gate for a commit without a pass",
            OWNER,
            {"gate": "athena", "commit": "$commit"},
            has={"passed": False},
        ),
    ),
    work.RaiseBlocker: (
        done(
            "raise a blocker on a task",
            VERA,
            {"what": "it is slow", "task": "T-3", "severity": "warn", "fix": ["make fast"]},
            has={
                "blocker": {"to": "@nova", "fix": ["make fast"]},
                "deliveries": [{"recipient": "@nova"}],
            },
        ),
        done(
            "raise a blocker with a recipient",
            NOVA,
            {"what": "it is slow", "task": "T-3", "to": "@vera"},
        ),
        done(
            "raise a blocker without a task",
            NOVA,
            {"what": "it is slow", "to": "@vera"},
            not_at={"cli": NO_WORD},
            has={"blocker": {"severity": "stop"}},
        ),
        done("raise a blocker on one's own task", DORA, {"what": "it is slow", "task": "T-1"}),
        refused(
            "MISSING_SCOPE",
            "raise a blocker without the scope work",
            MIRA,
            {"what": "it is slow", "task": "T-3"},
        ),
        refused(
            "ALREADY_DONE",
            "raise a blocker on an ended task",
            VERA,
            {"what": "it is slow", "task": "T-5"},
        ),
    ),
    work.ListBlockers: (
        done("list open blockers", OTTO, has={"blockers": [{"id": "$blocker"}]}),
        done(
            "list all blockers of a task",
            OWNER,
            {"task": "T-3", "all": True},
            first=(Step(NOVA, work.ResolveBlocker, {"id": "$blocker"}),),
            has={"blockers": [{"id": "$blocker", "resolved_by": "@nova"}]},
        ),
        refused("NOT_FOUND", "list blockers of an unknown task", OTTO, {"task": "T-99"}),
    ),
    work.ResolveBlocker: (
        done("resolve one's own blocker", NOVA, {"id": "$blocker"}),
        done(
            "resolve a blocker as a person",
            VERA,
            {"id": "$blocker", "note": "there it is"},
            has={"blocker": {"resolved_by": "@vera"}},
        ),
        refused(
            "OWN_WORK",
            "resolve another sender's blocker as the worker",
            NOVA,
            {"id": "$raised"},
            first=(RAISED,),
            has={"task": "T-3"},
        ),
        refused("MISSING_SCOPE", "resolve a blocker as another agent", OTTO, {"id": "$blocker"}),
        refused("NOT_FOUND", "resolve an unknown blocker", VERA, {"id": ABSENT}),
    ),
}
