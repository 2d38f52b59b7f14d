"""The work room's tables, and how facts change them.

Texts (titles, criteria, notes) are in the bodies of the facts, and are never folded.
"""

from interlock.log.facts import Header
from interlock.rooms.transaction import FactKind, FoldedState, everyone, sql_fold

# map: work_tasks        one row a task, with its worker and its submission
#      work_takings      the agents that took a task: none of them may give a verdict on it
#      work_submissions  every artifact that was ever submitted
#      work_evidence     runs, files, URLs and notes
#      work_gates        the holders of a gate, as senders or agents
#      work_verdicts     every verdict, with the submission that it passed or failed
#      work_blockers     messages of type blocker, until they are resolved
#      work_story        the facts in the history of each task
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


RUN_MEMBERS = ("exit_code", "commit", "tree", "dirty", "interrupted", "spooled")
STORY = "INSERT OR IGNORE INTO work_story SELECT :task, :fact_seq WHERE :task IS NOT NULL"


def _fold_message(state: FoldedState, fact: Header) -> None:
    """A message in a task's thread belongs to the task's history. A message of the type blocker is
    a blocker until it is resolved."""
    outcome = fact.outcome
    about = outcome.get("about", {})
    task = about.get("task")
    if task is None and outcome["thread"] != outcome["id"]:
        row = state.execute("SELECT id FROM work_tasks WHERE thread = ?", (outcome["thread"],))
        task = next((found[0] for found in row), None)
    if outcome["type"] == "blocker" and "severity" in about:
        blocker = outcome["id"], fact.seq, about.get("task"), about.get("gate"), fact.sender
        state.execute(
            "INSERT INTO work_blockers VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
            (*blocker, outcome["to"], about["severity"], fact.at),
        )
    state.execute(STORY, {"task": task, "fact_seq": fact.seq})


_fold_claim_ended = sql_fold(
    "INSERT OR IGNORE INTO work_story SELECT id, :fact_seq FROM work_tasks WHERE claim = :id",
    "UPDATE work_tasks SET claim = NULL WHERE claim = :id",
)

FACTS = {
    "task_created": FactKind(
        "A caller created a [task](work.md).",
        everyone,
        sql_fold(
            "INSERT INTO work_tasks(id, seq, state, sender, at, thread, criteria, gates, "
            "depends_on, priority, assignee, labels) VALUES (:task, :fact_seq, 'open', "
            ":fact_sender, :fact_at, :thread, :criteria, :gates, :depends_on, :priority, "
            ":assignee, :labels)",
            STORY,
            optional=("priority", "assignee"),
            words=("gates", "depends_on", "labels"),
        ),
    ),
    "task_taken": FactKind(
        "A worker took a task.",
        everyone,
        sql_fold(
            "INSERT INTO work_takings SELECT :task, :fact_seq, :fact_sender, "
            "coalesce((SELECT agent FROM identity_senders WHERE sender = :fact_sender), "
            ":fact_sender), :fact_session, :fence",
            "UPDATE work_tasks SET state = :state, worker = :fact_sender, session = :fact_session, "
            "fence = :fence, claim = :claim WHERE id = :task",
            # A new worker has submitted nothing yet.
            "UPDATE work_tasks SET submission = NULL, commit_id = NULL, tree = NULL, "
            "submitted_at = NULL WHERE id = :task AND :state = 'taken'",
            STORY,
        ),
    ),
    "task_submitted": FactKind(
        "A worker submitted a commit to the gates of a task.",
        everyone,
        sql_fold(
            "INSERT INTO work_submissions VALUES (:task, :fact_seq, :commit, :tree)",
            "UPDATE work_tasks SET state = 'submitted', submission = :fact_seq, "
            "commit_id = :commit, tree = :tree, submitted_at = :fact_at WHERE id = :task",
            STORY,
        ),
    ),
    "task_ended": FactKind(
        "A task is done, failed or cancelled.",
        everyone,
        sql_fold(
            "UPDATE work_tasks SET state = :status, ended = :fact_seq, ended_at = :fact_at "
            "WHERE id = :task",
            STORY,
        ),
    ),
    "evidence_added": FactKind(
        "A sender added a run, a file, a URL or a note as evidence.",
        everyone,
        sql_fold(
            "INSERT INTO work_evidence VALUES (:id, :fact_seq, :task, :criterion, :kind, "
            ":fact_sender, :fact_at, :exit_code, :commit, :tree, :dirty, "
            "coalesce(:interrupted, 0), coalesce(:spooled, 0), 0)",
            STORY,
            optional=("task", "criterion", *RUN_MEMBERS),
        ),
    ),
    "gate_created": FactKind(
        "A caller created a gate, or changed its holders.",
        everyone,
        sql_fold(
            "INSERT OR REPLACE INTO work_gates VALUES (:name, :fact_seq, :holders)",
            words=("holders",),
        ),
    ),
    "verdict_given": FactKind(
        "A holder of a gate passed or failed a submission.",
        everyone,
        sql_fold(
            "INSERT INTO work_verdicts VALUES (:id, :fact_seq, :task, :gate, :fact_sender, "
            ":fact_at, :verdict, :submission, :commit, :tree, :evidence, :rules)",
            "UPDATE work_tasks SET state = 'taken' WHERE id = :task AND :verdict = 'fail'",
            STORY,
            optional=("rules",),
            words=("evidence",),
        ),
    ),
    "blocker_resolved": FactKind(
        "A sender resolved a blocker.",
        everyone,
        sql_fold(
            "UPDATE work_blockers SET resolved = :fact_seq, resolved_at = :fact_at, "
            "resolved_by = :fact_sender WHERE id = :id",
            STORY,
            optional=("task",),
        ),
    ),
}
# Facts of other rooms that change the tables of this room too.
FOLDS = {
    "message_sent": _fold_message,
    "claim_released": _fold_claim_ended,
    "claim_expired": _fold_claim_ended,
    "body_redacted": sql_fold(
        "UPDATE work_evidence SET redacted = :fact_seq WHERE seq = :target",
        # The history of a task shows that one of its facts was redacted.
        "INSERT OR IGNORE INTO work_story SELECT task, :fact_seq FROM work_story "
        "WHERE seq = :target LIMIT 1",
    ),
}
