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
RUNS = {"cli": "it runs them itself", "mcp": "no tool runs anything"}

ROWS: Rows = {
    work.CreateTask: (
        done("a task", OTTO, {"title": "Name it"}),
        done(
            "a task with its brief",
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
            "a task for somebody",
            OTTO,
            {"title": "Name it", "assignee": "@vera", "priority": "high", "labels": ["ui", "list"]},
            not_at={"mcp": NO_WORD},
            has={"task": {"priority": "high", "assignee": "@vera", "labels": ["ui", "list"]}},
        ),
        done(
            "a task for a name that nobody has",
            OTTO,
            {"title": "Name it", "assignee": "@ghost"},
            not_at={"mcp": NO_WORD},
        ),
        refused(
            "GATE_HAS_NO_HOLDER",
            "a gate that nobody holds",
            OTTO,
            {"title": "Name it", "gates": ["atena"]},
            has={"gate": "atena", "did_you_mean": ["athena"]},
        ),
        refused(
            "GATE_HAS_NO_HOLDER",
            "a gate that only the worker holds",
            OTTO,
            {"title": "Name it", "gates": ["athena"], "assignee": "@dora"},
            not_at={"mcp": NO_WORD},
            has={"gate": "athena"},
        ),
        refused("NAME_TAKEN", "a task that is there", OTTO, {"title": "x", "id": "T-1"}),
        refused(
            "NOT_FOUND", "a task that depends on none", OTTO, {"title": "x", "depends_on": ["T-9"]}
        ),
        refused(
            "USAGE",
            "a task that depends on itself",
            OTTO,
            {"title": "x", "id": "B-7", "depends_on": ["B-7"]},
        ),
        refused("USAGE", "a title that is too long", OTTO, {"title": "x" * 281}),
        refused(
            "INVALID_MESSAGE",
            "a gate that cannot be one",
            OTTO,
            {"title": "x", "gates": ["Pallas Athene"]},
        ),
        refused(
            "MISSING_SCOPE", "a task without the scope", MIRA, {"title": "x"}, has={"scope": "work"}
        ),
        refused("PAUSED", "a task in a pause", OTTO, {"title": "x"}, first=(PAUSED,)),
    ),
    work.ListTasks: (
        done("the tasks that live", OTTO, {"state": "live"}),
        done("every task, for the owner", OWNER, not_at={"mcp": NO_WORD}),
        done(
            "the tasks that are not wanted",
            OTTO,
            {"state": "cancelled"},
            not_at={"mcp": NO_WORD},
            has={"tasks": [{"id": "T-5"}]},
        ),
        done(
            "one's own tasks",
            NOVA,
            {"mine": True},
            not_at={"mcp": "whoami lists them"},
            has={"tasks": [{"id": "T-3"}, {"id": "T-4"}]},
        ),
        done(
            "tasks in pages",
            VERA,
            {"limit": 2},
            not_at={"mcp": NO_WORD},
            has={"tasks": [{"id": "T-1"}, {"id": "T-2"}]},
        ),
        refused(
            "USAGE",
            "a state that there is not",
            OTTO,
            {"state": "asleep"},
            own_words=True,
            not_at={"mcp": NO_WORD},
        ),
    ),
    work.ShowTask: (
        done("a task that waits", OTTO, {"id": "T-1"}),
        done(
            "a task that somebody works on",
            VERA,
            {"id": "T-3"},
            has={"task": {"state": "taken", "worker": "@nova"}},
        ),
        done("a task that is submitted", VERA, {"id": "T-4"}),
        done("a task, for the owner", OWNER, {"id": "T-3"}, not_at=NO_SENDER),
        refused("NOT_FOUND", "a task that there is not", OTTO, {"id": "T-99"}),
        refused("USAGE", "a task that cannot be one", OTTO, {"id": "T 1"}),
    ),
    work.TakeTask: (
        done("a task is taken", OTTO, {"id": "T-1", "note": "mine"}, has={"taken": True}),
        done(
            "a task is taken, and where",
            S1,
            {**WHERE, "id": "T-1", "ttl_s": 600},
            not_at={"mcp": NO_WORD},
            has={"claim": {"holder": "@otto-cli", **WHERE}},
        ),
        done("one's own task again", NOVA, {"id": "T-3"}, has={"taken": True}),
        no("CLAIM_HELD", "another's task", OTTO, {"id": "T-3"}, has={"taken": False}),
        no(
            "GATES_NOT_PASSED",
            "a task that waits for another",
            OTTO,
            {"id": "T-2"},
            has={"taken": False},
        ),
        refused("ALREADY_DONE", "a task that is not wanted", OTTO, {"id": "T-5"}),
        refused("NOT_FOUND", "no task to take", OTTO, {"id": "T-99"}),
        refused("MISSING_SCOPE", "taken without the scope", MIRA, {"id": "T-1"}),
    ),
    work.SubmitTask: (
        done(
            "a commit is submitted",
            NOVA,
            {**SUBMITTED, "fence": "$work_fence"},
            first=RAN_BEFORE,
            has={
                "submitted": True,
                "task": {"state": "submitted", "artifact": {"commit": "$commit", "tree": "$tree"}},
            },
        ),
        refused(
            "USAGE", "a commit that is none", NOVA, {"id": "T-3", "commit": "x"}, own_words=True
        ),
        refused(
            "USAGE", "a commit whose tree nobody knows", NOVA, {"id": "T-3", "commit": NOT_THERE}
        ),
        refused("NOT_HOLDER", "another's task is submitted", OTTO, SUBMITTED),
        refused(
            "STALE_FENCE",
            "submitted under a lost claim",
            NOVA,
            {**SUBMITTED, "fence": "$work_fence"},
            first=LOST,
        ),
        refused("STALE_FENCE", "submitted where the claim was lost", NOVA, SUBMITTED, first=LOST),
        refused("ALREADY_DONE", "submitted too late", NOVA, {**SUBMITTED, "id": "T-5"}),
    ),
    work.CompleteTask: (
        done(
            "a task is done",
            NOVA,
            {"id": "T-4"},
            first=(PASS,),
            has={"completed": True, "task": {"state": "done"}},
        ),
        no(
            "GATES_NOT_PASSED",
            "done without a pass",
            NOVA,
            {"id": "T-4"},
            has={"completed": False, "missing": [{"what": "gate"}]},
        ),
        no("GATES_NOT_PASSED", "done with nothing to show", NOVA, {"id": "T-3"}),
        no(
            "GATES_NOT_PASSED",
            "done with a verdict on what was submitted before",
            NOVA,
            {"id": "T-4"},
            first=(PASS, Step(NOVA, work.SubmitTask, {**SUBMITTED, "id": "T-4"})),
        ),
        refused(
            "ALREADY_DONE",
            "done twice",
            NOVA,
            {"id": "T-4"},
            first=(PASS, Step(NOVA, work.CompleteTask, {"id": "T-4"})),
            has={"task": "T-4", "state": "done"},
        ),
        refused(
            "STALE_FENCE",
            "done under a lost claim",
            NOVA,
            {"id": "T-3", "fence": "$work_fence"},
            first=LOST,
        ),
        refused("NOT_HOLDER", "another's task is done", OTTO, {"id": "T-4"}),
    ),
    work.FailTask: (
        done(
            "a task is given up",
            NOVA,
            {"id": "T-3", "note": "it cannot be"},
            has={"task": {"state": "failed"}},
        ),
        refused(
            "STALE_FENCE",
            "given up under a lost claim",
            NOVA,
            {"id": "T-3", "fence": "$work_fence"},
            first=LOST,
        ),
        refused("NOT_HOLDER", "another's task is given up", OTTO, {"id": "T-3"}),
        refused("ALREADY_DONE", "given up too late", NOVA, {"id": "T-5"}),
    ),
    work.CancelTask: (
        done(
            "a task is not wanted",
            DORA,
            {"id": "T-1", "note": "no time"},
            has={"task": {"state": "cancelled"}},
        ),
        done("a person does not want it", VERA, {"id": "T-3"}),
        refused("MISSING_SCOPE", "an agent does not want it", OTTO, {"id": "T-1"}),
        refused("ALREADY_DONE", "cancelled twice", DORA, {"id": "T-5"}),
    ),
    work.PrepareEvidence: (
        done(
            "evidence of the worker would be taken",
            NOVA,
            {"task": "T-3", "criterion": 1},
            has={"task": "T-3", "fence": "$work_fence", "lease_s": 3600},
        ),
        done("evidence of a reader would be taken", VERA, {"task": "T-3"}, has={"task": "T-3"}),
        refused(
            "USAGE",
            "evidence of a criterion that there is not would not be taken",
            NOVA,
            {"task": "T-3", "criterion": 2},
        ),
        refused(
            "STALE_FENCE",
            "evidence of who lost it would not be taken",
            NOVA,
            {"task": "T-3"},
            first=LOST,
        ),
        refused(
            "STALE_FENCE",
            "evidence under another fence would not be taken",
            NOVA,
            {"task": "T-3", "fence": 999},
        ),
    ),
    work.AddEvidence: (
        done("a note", NOVA, {"payload": {**SAID, "criterion": 1, "title": "seen"}}),
        done("a note of a reader", VERA, {"payload": SAID}, has={"counts": False}),
        done(
            "a page",
            NOVA,
            {"payload": {"kind": "url", "url": "https://example.com/ci/7", "task_id": "T-3"}},
        ),
        done(
            "a file",
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
            "a run",
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
            "a run that failed",
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
            "a run with other bytes than it says",
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
            "a run whose bytes were not uploaded",
            NOVA,
            {"payload": {**RAN, "task_id": "T-3"}},
            not_at=RUNS,
        ),
        refused(
            "USAGE", "a criterion that there is not", NOVA, {"payload": {**SAID, "criterion": 9}}
        ),
        refused(
            "INVALID_MESSAGE",
            "a page that is none",
            NOVA,
            {"payload": {"kind": "url", "url": "over there", "task_id": "T-3"}},
        ),
        refused(
            "STALE_FENCE",
            "a note under a lost claim",
            NOVA,
            {"payload": SAID, "fence": "$work_fence"},
            first=LOST,
            not_at={"mcp": NO_WORD},
        ),
        refused("STALE_FENCE", "a note of who lost it", NOVA, {"payload": SAID}, first=LOST),
        refused("ALREADY_DONE", "a note too late", NOVA, {"payload": {**SAID, "task_id": "T-5"}}),
        refused("MISSING_SCOPE", "a note without the scope", MIRA, {"payload": SAID}),
    ),
    work.ShowEvidence: (
        done(
            "what was run",
            VERA,
            {"id": "$ran"},
            has={"counts": True, "content": {"text": PROVED.decode()}},
        ),
        done(
            "what was said",
            OWNER,
            {"id": "$said"},
            has={"counts": False, "evidence": {"text": "it works"}},
        ),
        done("a part of what was run", VERA, {"id": "$ran", "start": 2, "stop": 5}),
        refused(
            "USAGE",
            "a part beyond its end",
            VERA,
            {"id": "$ran", "start": 99, "stop": 100},
            has={"size": len(PROVED)},
        ),
        refused("NOT_FOUND", "evidence that there is not", VERA, {"id": ABSENT}),
    ),
    work.CreateGate: (
        done(
            "a gate",
            OWNER,
            {"name": "hera", "holders": ["@vera", "nova"]},
            has={"gate": {"name": "hera", "holders": ["@nova", "@vera"]}},
        ),
        done(
            "other holders of a gate",
            DORA,
            {"name": "athena", "holders": ["@vera"], "replace": True},
            has={"gate": {"holders": ["@vera"]}},
        ),
        refused(
            "NAME_TAKEN", "a gate that is there", OWNER, {"name": "athena", "holders": ["@vera"]}
        ),
        refused(
            "GATE_HAS_NO_HOLDER",
            "a gate held by nobody",
            OWNER,
            {"name": "hera", "holders": ["@ver"]},
            has={"gate": "hera", "did_you_mean": ["@vera"]},
        ),
        refused("USAGE", "a gate of no name", OWNER, {"name": "He ra", "holders": ["@vera"]}),
        refused(
            "MISSING_SCOPE", "an agent makes no gate", OTTO, {"name": "hera", "holders": ["@vera"]}
        ),
    ),
    work.ListGates: (
        done(
            "the gates",
            OTTO,
            has={"gates": [{"name": "athena", "can_judge": ["@dora"], "due": ["T-4"]}]},
        ),
    ),
    work.PrepareVerdict: (
        done(
            "a verdict would be taken",
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
            "a verdict of the worker would not be taken",
            NOVA,
            {"task": "T-4", "gate": "athena"},
        ),
    ),
    work.GiveVerdict: (
        done("a pass", DORA, {**PASSED, "note": "well done"}),
        done("a pass that relies on evidence", DORA, {**PASSED, "evidence": ["$ran"]}),
        done(
            "a pass on whatever is submitted",
            DORA,
            {"task": "T-4", "gate": "athena", "verdict": "pass"},
            not_at={"mcp": "the tool has to say which commit was looked at"},
        ),
        done(
            "a fail",
            DORA,
            {**PASSED, "verdict": "fail", "note": "it is red", "fix": ["make fix", "make test"]},
            has={
                "verdict": {"fix": ["make fix", "make test"]},
                "task": {"state": "taken"},
                "blocker": {"to": "@nova"},
            },
        ),
        done("a fail without a word", DORA, {**PASSED, "verdict": "fail"}),
        refused("OWN_WORK", "one's own work", NOVA, PASSED, has={"task": "T-4", "gate": "athena"}),
        refused(
            "MISSING_SCOPE",
            "a gate that one does not hold",
            VERA,
            PASSED,
            has={"scope": "gate:athena"},
        ),
        refused(
            "NOT_SUBMITTED",
            "another commit than the submitted one",
            DORA,
            {**PASSED, "commit": NOT_THERE},
            has={"task": "T-4", "submitted": {"commit": "$commit", "tree": "$tree"}},
        ),
        refused(
            "NOT_SUBMITTED",
            "nothing that could be judged",
            DORA,
            {**PASSED, "task": "T-3"},
            has={"task": "T-3", "state": "taken"},
        ),
        refused(
            "NOT_FOUND",
            "a gate that the task has not",
            DORA,
            {**PASSED, "gate": "hera"},
            has={"gates": ["athena"]},
        ),
        refused(
            "NOT_FOUND",
            "a verdict that relies on another's evidence",
            DORA,
            {**PASSED, "evidence": ["$said"]},
        ),
        refused("ALREADY_DONE", "a verdict too late", DORA, {**PASSED, "task": "T-5"}),
    ),
    work.CheckGate: (
        done(
            "a commit that passed",
            OTTO,
            {"gate": "athena", "commit": "$commit"},
            first=(PASS,),
            has={"passed": True},
        ),
        no(
            "GATES_NOT_PASSED",
            "a commit that has not passed",
            OWNER,
            {"gate": "athena", "commit": "$commit"},
            has={"passed": False},
        ),
    ),
    work.RaiseBlocker: (
        done(
            "a blocker of a task",
            VERA,
            {"what": "it is slow", "task": "T-3", "severity": "warn", "fix": ["make fast"]},
            has={
                "blocker": {"to": "@nova", "fix": ["make fast"]},
                "deliveries": [{"recipient": "@nova"}],
            },
        ),
        done("a blocker for somebody", NOVA, {"what": "it is slow", "task": "T-3", "to": "@vera"}),
        done(
            "a blocker of no task",
            NOVA,
            {"what": "it is slow", "to": "@vera"},
            not_at={"cli": NO_WORD},
            has={"blocker": {"severity": "stop"}},
        ),
        done("a blocker for whoever can be found", DORA, {"what": "it is slow", "task": "T-1"}),
        refused(
            "MISSING_SCOPE",
            "a blocker without the scope",
            MIRA,
            {"what": "it is slow", "task": "T-3"},
        ),
        refused("ALREADY_DONE", "a blocker too late", VERA, {"what": "it is slow", "task": "T-5"}),
    ),
    work.ListBlockers: (
        done("what stands in the way", OTTO, has={"blockers": [{"id": "$blocker"}]}),
        done(
            "what stood in the way of a task",
            OWNER,
            {"task": "T-3", "all": True},
            first=(Step(NOVA, work.ResolveBlocker, {"id": "$blocker"}),),
            has={"blockers": [{"id": "$blocker", "resolved_by": "@nova"}]},
        ),
        refused("NOT_FOUND", "what stands in no task's way", OTTO, {"task": "T-99"}),
    ),
    work.ResolveBlocker: (
        done("one's own blocker is resolved", NOVA, {"id": "$blocker"}),
        done(
            "a person resolves a blocker",
            VERA,
            {"id": "$blocker", "note": "there it is"},
            has={"blocker": {"resolved_by": "@vera"}},
        ),
        refused(
            "OWN_WORK",
            "the worker resolves no blocker",
            NOVA,
            {"id": "$raised"},
            first=(RAISED,),
            has={"task": "T-3"},
        ),
        refused("MISSING_SCOPE", "another agent resolves none", OTTO, {"id": "$blocker"}),
        refused("NOT_FOUND", "a blocker that there is not", VERA, {"id": ABSENT}),
    ),
}
