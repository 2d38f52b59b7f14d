"""The work room's tables, and how facts change them.

What people wrote (titles, criteria, notes) stands in the bodies of the facts and is never folded.
"""

from interlock.log.facts import Header
from interlock.rooms.identity.names import agent_of
from interlock.rooms.transaction import State

# map: work_tasks        one row a task, with whoever works on it and what is submitted
#      work_takings      everybody who took a task: none of them may judge it
#      work_submissions  every artifact that was ever submitted
#      work_evidence     what was run, and what was said
#      work_gates        the holders of a gate, as senders or agents
#      work_verdicts     every verdict, with the submission that it judged
#      work_blockers     messages of type blocker, until they are resolved
#      work_story        which facts tell the story of which task
TABLES = """
CREATE TABLE work_tasks(id TEXT PRIMARY KEY, seq INTEGER NOT NULL UNIQUE, state TEXT NOT NULL,
    sender TEXT NOT NULL, at INTEGER NOT NULL, thread TEXT NOT NULL UNIQUE,
    criteria INTEGER NOT NULL, gates TEXT NOT NULL, depends_on TEXT NOT NULL, priority TEXT,
    assignee TEXT, labels TEXT NOT NULL, worker TEXT, session TEXT, fence INTEGER, claim TEXT,
    submission INTEGER, commit_id TEXT, tree TEXT, submitted_at INTEGER, ended INTEGER,
    ended_at INTEGER) STRICT, WITHOUT ROWID;
CREATE INDEX work_by_state ON work_tasks(state, seq);
CREATE INDEX work_by_worker ON work_tasks(worker, seq) WHERE ended IS NULL;
CREATE INDEX work_by_claim ON work_tasks(claim) WHERE claim IS NOT NULL;
CREATE TABLE work_takings(task TEXT NOT NULL, seq INTEGER NOT NULL, sender TEXT NOT NULL,
    agent TEXT NOT NULL, session TEXT, fence INTEGER NOT NULL, PRIMARY KEY (task, seq))
    STRICT, WITHOUT ROWID;
CREATE TABLE work_submissions(task TEXT NOT NULL, seq INTEGER NOT NULL, commit_id TEXT NOT NULL,
    tree TEXT NOT NULL, PRIMARY KEY (task, seq)) STRICT, WITHOUT ROWID;
CREATE INDEX work_commits ON work_submissions(commit_id);
CREATE TABLE work_evidence(id TEXT PRIMARY KEY, seq INTEGER NOT NULL, task TEXT,
    criterion INTEGER, kind TEXT NOT NULL, sender TEXT NOT NULL, at INTEGER NOT NULL,
    exit_code INTEGER, commit_id TEXT, tree TEXT, dirty INTEGER, interrupted INTEGER NOT NULL,
    spooled INTEGER NOT NULL, redacted INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX work_proofs ON work_evidence(task, criterion, seq) WHERE task IS NOT NULL;
CREATE INDEX work_clean_runs ON work_evidence(commit_id) WHERE dirty = 0;
CREATE UNIQUE INDEX work_evidence_seq ON work_evidence(seq);
CREATE TABLE work_gates(name TEXT PRIMARY KEY, seq INTEGER NOT NULL, holders TEXT NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE TABLE work_verdicts(id TEXT PRIMARY KEY, seq INTEGER NOT NULL, task TEXT NOT NULL,
    gate TEXT NOT NULL, sender TEXT NOT NULL, at INTEGER NOT NULL, verdict TEXT NOT NULL,
    submission INTEGER NOT NULL, commit_id TEXT NOT NULL, tree TEXT NOT NULL,
    evidence TEXT NOT NULL, rules TEXT) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX work_verdict_seq ON work_verdicts(seq);
CREATE INDEX work_judged ON work_verdicts(task, gate, seq);
CREATE INDEX work_passed ON work_verdicts(gate, commit_id, seq);
CREATE TABLE work_blockers(id TEXT PRIMARY KEY, seq INTEGER NOT NULL, task TEXT, gate TEXT,
    sender TEXT NOT NULL, recipient TEXT NOT NULL, severity TEXT NOT NULL, at INTEGER NOT NULL,
    resolved INTEGER, resolved_at INTEGER, resolved_by TEXT) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX work_blocker_seq ON work_blockers(seq);
CREATE INDEX work_open_blockers ON work_blockers(task, seq) WHERE resolved IS NULL;
CREATE TABLE work_story(task TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (task, seq))
    STRICT, WITHOUT ROWID;
CREATE INDEX work_told ON work_story(seq);
"""


def _tell(state: State, task: str, fact: Header) -> None:
    state.execute("INSERT OR IGNORE INTO work_story VALUES (?, ?)", (task, fact.seq))


def _fold_created(state: State, fact: Header) -> None:
    said = fact.outcome
    state.execute(
        "INSERT INTO work_tasks(id, seq, state, sender, at, thread, criteria, gates, depends_on, "
        "priority, assignee, labels) VALUES (?, ?, 'open', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            said["task"],
            fact.seq,
            fact.sender,
            fact.at,
            said["thread"],
            said["criteria"],
            " ".join(said["gates"]),
            " ".join(said["depends_on"]),
            said.get("priority"),
            said.get("assignee"),
            " ".join(said["labels"]),
        ),
    )
    _tell(state, said["task"], fact)


def _fold_taken(state: State, fact: Header) -> None:
    said = fact.outcome
    state.execute(
        "INSERT INTO work_takings VALUES (?, ?, ?, ?, ?, ?)",
        (
            said["task"],
            fact.seq,
            fact.sender,
            agent_of(state, fact.sender),
            fact.session,
            said["fence"],
        ),
    )
    state.execute(
        "UPDATE work_tasks SET state = ?, worker = ?, session = ?, fence = ?, claim = ? "
        "WHERE id = ?",
        (
            said["state"],
            fact.sender,
            fact.session,
            said["fence"],
            said["claim"],
            said["task"],
        ),
    )
    if said["state"] == "taken":
        _clear(state, said["task"])
    _tell(state, said["task"], fact)


def _clear(state: State, task: str) -> None:
    """What another worker submitted is not what this one will."""
    state.execute(
        "UPDATE work_tasks SET submission = NULL, commit_id = NULL, tree = NULL, "
        "submitted_at = NULL WHERE id = ?",
        (task,),
    )


def _fold_submitted(state: State, fact: Header) -> None:
    said = fact.outcome
    state.execute(
        "INSERT INTO work_submissions VALUES (?, ?, ?, ?)",
        (said["task"], fact.seq, said["commit"], said["tree"]),
    )
    state.execute(
        "UPDATE work_tasks SET state = 'submitted', submission = ?, commit_id = ?, tree = ?, "
        "submitted_at = ? WHERE id = ?",
        (fact.seq, said["commit"], said["tree"], fact.at, said["task"]),
    )
    _tell(state, said["task"], fact)


def _fold_ended(state: State, fact: Header) -> None:
    said = fact.outcome
    state.execute(
        "UPDATE work_tasks SET state = ?, ended = ?, ended_at = ? WHERE id = ?",
        (said["status"], fact.seq, fact.at, said["task"]),
    )
    _tell(state, said["task"], fact)


def _fold_evidence(state: State, fact: Header) -> None:
    said = fact.outcome
    state.execute(
        "INSERT INTO work_evidence VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
        (
            said["id"],
            fact.seq,
            said.get("task"),
            said.get("criterion"),
            said["kind"],
            fact.sender,
            fact.at,
            said.get("exit_code"),
            said.get("commit"),
            said.get("tree"),
            int(said["dirty"]) if "dirty" in said else None,
            int(said.get("interrupted", False)),
            int(said.get("spooled", False)),
        ),
    )
    if "task" in said:
        _tell(state, said["task"], fact)


def _fold_gate(state: State, fact: Header) -> None:
    said = fact.outcome
    state.execute(
        "INSERT OR REPLACE INTO work_gates VALUES (?, ?, ?)",
        (said["name"], fact.seq, " ".join(said["holders"])),
    )


def _fold_verdict(state: State, fact: Header) -> None:
    said = fact.outcome
    state.execute(
        "INSERT INTO work_verdicts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            said["id"],
            fact.seq,
            said["task"],
            said["gate"],
            fact.sender,
            fact.at,
            said["verdict"],
            said["submission"],
            said["commit"],
            said["tree"],
            " ".join(said["evidence"]),
            said.get("rules"),
        ),
    )
    if said["verdict"] == "fail":
        state.execute("UPDATE work_tasks SET state = 'taken' WHERE id = ?", (said["task"],))
    _tell(state, said["task"], fact)


def _fold_message(state: State, fact: Header) -> None:
    """A message in a task's thread belongs to its story; a blocker stands until it is resolved."""
    said = fact.outcome
    about = said.get("about", {})
    task = about.get("task")
    if task is None and said["thread"] != said["id"]:
        row = state.execute("SELECT id FROM work_tasks WHERE thread = ?", (said["thread"],))
        task = next((found[0] for found in row), None)
    if said["type"] == "blocker" and "severity" in about:
        state.execute(
            "INSERT INTO work_blockers VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
            (
                said["id"],
                fact.seq,
                about.get("task"),
                about.get("gate"),
                fact.sender,
                said["to"],
                about["severity"],
                fact.at,
            ),
        )
    if task is not None:
        _tell(state, task, fact)


def _fold_resolved(state: State, fact: Header) -> None:
    said = fact.outcome
    state.execute(
        "UPDATE work_blockers SET resolved = ?, resolved_at = ?, resolved_by = ? WHERE id = ?",
        (fact.seq, fact.at, fact.sender, said["id"]),
    )
    if "task" in said:
        _tell(state, said["task"], fact)


def _fold_claim_ended(state: State, fact: Header) -> None:
    row = state.execute("SELECT id FROM work_tasks WHERE claim = ?", (fact.outcome["id"],))
    for (task,) in row.fetchall():
        state.execute("UPDATE work_tasks SET claim = NULL WHERE id = ?", (task,))
        _tell(state, task, fact)


def _fold_redacted(state: State, fact: Header) -> None:
    """That something was taken out of a task's story is a part of it."""
    target = fact.outcome["target"]
    state.execute("UPDATE work_evidence SET redacted = ? WHERE seq = ?", (fact.seq, target))
    row = state.execute("SELECT task FROM work_story WHERE seq = ?", (target,)).fetchone()
    if row is not None:
        _tell(state, row[0], fact)


FOLDS = {
    "task_created": _fold_created,
    "task_taken": _fold_taken,
    "task_submitted": _fold_submitted,
    "task_ended": _fold_ended,
    "evidence_added": _fold_evidence,
    "gate_created": _fold_gate,
    "verdict_given": _fold_verdict,
    "message_sent": _fold_message,
    "blocker_resolved": _fold_resolved,
    "claim_released": _fold_claim_ended,
    "claim_expired": _fold_claim_ended,
    "body_redacted": _fold_redacted,
}
