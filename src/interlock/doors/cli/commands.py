"""The commands that are not derived from one verb, and the function that does each."""

from interlock.doors.cli.grammar import Argument, Command, Flag, OneOf

_ID = Argument("ID", "the message: its id, a prefix of 6 or more characters, or #SEQ")
_TEXT = Argument("TEXT|-", "what to say; - reads it from standard input")
_TTL = Flag("--ttl", "D", "how long it lasts: 90s, 15m, 2h, 7d", kind="duration")
_WAIT = Flag("--wait", "D", "wait this long before the answer is no", kind="duration")
_FENCE = Flag("--fence", "N", "the fence you were granted", kind="int", minimum=1)
_LIMIT = Flag("--limit", "N", "at most so many", kind="int", minimum=1, maximum=1000)
_AFTER = Flag("--after", "SEQ", "only what came after this position", kind="int", minimum=0)
_SCOPE = Flag(
    "--scope",
    "SCOPE",
    "mail, claim and work narrow the token to those named; gate:NAME and admin are added",
    many=True,
)
_LABEL = Flag("--label", "TEXT", "for display; it decides nothing")
_TOKEN_ID = Argument("ID", "the token's id, such as tok_1f2e3d4c5b6a", optional=True)
_OF_SENDER = Flag("--sender", "S", "every live token of this sender")

_START = (
    Command(
        ("up",),
        "Start the server, with its dashboard",
        flags=(
            Flag("--host", "H", "the address to serve; 127.0.0.1 if absent: this machine alone"),
            Flag("--port", "P", "the port; 7420 if absent", kind="int", minimum=0, maximum=65535),
            Flag("--public-url", "URL", "the address of a TLS proxy before it, such as https://…"),
            Flag(
                "--proxy",
                "ADDRESS",
                "where that proxy asks from, if not from this machine: an address or a network",
                many=True,
            ),
            Flag("--engine", "URL", "where the log is kept; the embedded file if absent"),
            Flag("--key", "FILE", "the key of a workspace that exists on that engine"),
            Flag("--detach", help="start it in the background, and return when it is ready"),
        ),
        examples=("interlock up --detach # ends with: interlock down",),
        notes="Commands, hooks and MCP clients on this machine find the server by themselves, and "
        "work without it too.",
    ),
    Command(("down",), "End the server that runs for the workspace"),
    Command(
        ("init",),
        "Make a workspace",
        flags=(
            Flag("--here", help="for this repository, shared by all its worktrees"),
            Flag("--adopt", help="take over a workspace that was moved here from another host"),
        ),
        notes="Any command makes the user's own workspace when there is none, so init is only "
        "needed for one of its own.",
        examples=("interlock init --here # agents of this repository only",),
    ),
    Command(
        ("join",),
        "Register an agent or a person, and keep a token for it",
        (Argument("NAME", "its name: lower-case letters, digits and hyphens; or an invitation"),),
        (
            Flag("--surface", "S", "where it acts: cli, desktop, …"),
            Flag("--kind", help="what it is; agent if absent", choices=("agent", "human")),
            _LABEL,
            _SCOPE,
        ),
        examples=(
            "interlock join otto # an agent",
            "interlock join otto --surface cli # otto in a terminal: the sender otto-cli",
            "interlock join vera --kind human # a person",
            "interlock join https://interlock.example/invite/ili_… # by an invitation",
        ),
        notes="The token is kept in the workspace, readable by you alone; --json prints it once.",
    ),
    Command(
        ("invite",),
        "Give a person, or another machine, a link to join by",
        (Argument("NAME", "whom: a person, or an agent"),),
        (
            Flag("--surface", "S", "where it acts: laptop, desktop, …"),
            Flag("--own", "AGENT", "an agent that is the person's from then on", many=True),
            Flag(
                "--kind",
                help="what it is, where it has not joined; human if absent",
                choices=("agent", "human"),
            ),
            _TTL._replace(help="how long the link is good; 3d if absent"),
        ),
        examples=(
            "interlock invite vera --own otto # vera, who owns otto",
            "interlock invite otto --surface laptop # otto on another machine",
        ),
        notes="The link is good once. A person opens it in a browser and chooses a password; "
        "another machine takes it with interlock join LINK. No secret has to be sent around.",
    ),
    Command(
        ("run",),
        "Run a client in a session of its own",
        (Argument("SENDER", "who the client is, such as otto-cli"),),
        rest=True,
        examples=("interlock run otto-cli -- claude --resume",),
        notes="The client, its shell, its hooks and its MCP server are one holder. Its claims are "
        "kept while it lives and given up when it ends. The exit status is the client's; 125 "
        "means that Interlock itself failed.",
    ),
    Command(
        ("mcp",),
        "Speak MCP over standard input and output, for a client's configuration",
        flags=(Flag("--channel", help="tell a client that takes channels of what should wake it"),),
        notes="Through the server where one runs. Who acts comes from INTERLOCK_TOKEN and "
        "INTERLOCK_SESSION, as interlock run sets them, or from --from.",
    ),
    Command(
        ("setup",),
        "Set an agent's client up, or see which there are",
        (
            Argument(
                "CLIENT",
                "which",
                optional=True,
                choices=("claude-code", "codex", "gemini", "cursor", "git"),
            ),
        ),
        (
            Flag("--print", help="show what would change, and change nothing"),
            Flag("--undo", help="take it back, as it was before"),
            Flag("--user", help="in your own configuration, for every project"),
            Flag("--plugin", "DIR", "write it as a plugin of Claude Code into this directory"),
        ),
        examples=(
            "interlock setup # what is installed here",
            "interlock setup claude-code --print # what would change",
            "interlock setup claude-code # hooks and MCP for this worktree",
        ),
        notes="Writes files that git does not track, and never a token. Who the client acts as is "
        "--from, else who its files name already, else the one agent that has joined here, else a "
        "sender called after the client.",
    ),
    Command(
        ("hook",),
        "What a client's hooks call, with the client's JSON on standard input",
        (
            Argument("CLIENT", "claude-code, codex, cursor or gemini"),
            Argument("EVENT", "the client's own name of the event, such as Stop"),
        ),
        (
            Flag(
                "--await",
                help="wait beside an idle client until mail may wake it: exit 2 and a line on "
                "standard error",
            ),
        ),
        notes="interlock setup CLIENT puts it into the client's configuration. It never fails the "
        "client: what goes wrong is a line in hooks.log in the workspace.",
    ),
    Command(("status",), "Show how the workspace stands"),
)

_MAIL = (
    Command(
        ("send",),
        "Send a message to one agent, or to everyone",
        (
            Argument("TO", "@<identifier> for one agent, AGENT:* for everyone"),
            _TEXT._replace(optional=True),
        ),
        (
            Flag(
                "--type", "T", "send (the default), command, blocker, announce, wake, ask, answer"
            ),
            Flag("--payload", "JSON", "the payload's members, with or without TEXT"),
            Flag("--why", "W", "for a command: why it should be run"),
            Flag("--subject", "S", "a line that lists show"),
            Flag("--thread", "ID", "the thread it belongs to"),
            Flag("--reply-to", "ID", "the message it answers"),
            Flag("--priority", help="how urgent", choices=("low", "normal", "high", "critical")),
            Flag("--key", "K", "the same key and body again give the first answer"),
            _TTL._replace(help="when it expires if nobody reads it: 90s, 15m, 2h, 7d"),
            Flag("--wake", help="wake an idle recipient, even for a broadcast"),
            Flag("--no-wake", help="let it wait for the recipient's next step"),
        ),
        (OneOf(("--wake", "--no-wake")),),
        examples=(
            "interlock send @vera 'The build is green.'",
            "interlock send 'AGENT:*' 'main is frozen until noon' --priority high",
            "git diff | interlock send @vera - --subject 'for review'",
            "interlock send @otto 'make test' --type command --why 'before the merge'",
        ),
        notes="Accepted is not read: interlock receipts ID says how far it got.",
    ),
    Command(
        ("ask",),
        "Ask a question, and wait for the answer",
        (Argument("TO", "who is asked"), Argument("QUESTION|-", "the question")),
        (
            Flag("--option", "O", "an answer to choose from", many=True),
            _WAIT._replace(help="how long to wait for the answer; 20s if absent"),
        ),
        notes="Exit 1 when nobody answered in time. A late answer arrives in the inbox.",
    ),
    Command(
        ("inbox",),
        "List open mail, oldest first",
        flags=(
            Flag("--all", help="also what was acknowledged"),
            Flag("--sent", help="what you sent, and how far it got"),
            _LIMIT,
            _AFTER,
            _WAIT._replace(help="wait this long for mail to come"),
        ),
        one_of=(OneOf(("--all", "--sent")),),
        notes="Mail stays open until you acknowledge it: interlock ack ID",
    ),
    Command(
        ("read",),
        "Read a message whole, or a range of it",
        (_ID,),
        (Flag("--range", "A-B", "only the bytes A to B of the body, such as 0-999"),),
    ),
    Command(
        ("watch",),
        "Print mail as it arrives",
        flags=(
            _AFTER._replace(help="begin after this position instead of now"),
            Flag("--one-line", help="print a line that points to new mail when it should wake you"),
        ),
        one_of=(OneOf(("--after", "--one-line")),),
        notes="With --json, one JSON document a line.",
    ),
)


_TASK = Argument("ID", "the task, such as B-0444")
_GATE = (Argument("TASK", "the submitted task"), Argument("GATE", "the gate you hold"))
_ON_COMMIT = Flag("--commit", "C", "the commit you looked at; refused if another is submitted")
_RELIED_ON = Flag("--evidence", "ID", "evidence that you relied on", many=True)
_CRITERION = Flag(
    "--criterion", "N", "the criterion's number in task show", kind="int", minimum=1, maximum=100
)
_OF_TASK = Flag("--task", "T", "the task it is about")
_TITLE = Flag("--title", "T", "a line that lists show")
_VERDICT_NOTE = Flag("--note", "N", "what you saw")

_WORK = (
    Command(
        ("task", "import"),
        "Create a task from a brief in Markdown",
        (Argument("FILE|-", "the brief; - reads it from standard input"),),
        notes="The title is the first heading, the criteria are the checklist. Front matter may "
        "say id, gates, priority, assignee, labels and depends_on.",
    ),
    Command(
        ("task", "list"),
        "List tasks",
        flags=(
            Flag(
                "--state",
                "S",
                "live if absent",
                choices=(
                    "all",
                    "live",
                    "open",
                    "taken",
                    "submitted",
                    "done",
                    "failed",
                    "cancelled",
                ),
            ),
            Flag("--mine", help="only yours"),
            _LIMIT,
            _AFTER,
        ),
    ),
    Command(
        ("task", "submit"),
        "Hand in a commit, for the gates to judge",
        (_TASK,),
        (
            Flag("--commit", "C", "what is handed in; HEAD if absent"),
            Flag("--tree", "TREE", "its tree, where the commit is in no repository here"),
            _FENCE,
        ),
        notes="Verdicts on what was submitted before do not count for it.",
    ),
    Command(
        ("evidence", "run"),
        "Run a command, and keep what came of it as evidence",
        flags=(
            _OF_TASK,
            _CRITERION,
            _TITLE,
            Flag("--time-limit", "D", "end it after so long: 90s, 15m, 2h", kind="duration"),
            Flag(
                "--output-limit",
                "BYTES",
                "keep at most so much of its output; 64 MiB if absent",
                kind="int",
                minimum=1024,
                maximum=256 << 20,
            ),
            Flag("--memory-limit", "BYTES", "what it may use", kind="int", minimum=1 << 20),
            Flag("--spool", "DIR", "write to a file there instead of the workspace"),
            _FENCE,
        ),
        rest=True,
        examples=("interlock evidence run --task B-12 --criterion 1 -- pytest -q",),
        notes="The exit status is the command's own; 125 means that Interlock itself failed. What "
        "looks like a token is masked in what is kept. A shell that reaches neither the workspace "
        "nor a server writes a file, for the evidence tool or interlock evidence add --spool.",
    ),
    Command(
        ("evidence", "add"),
        "Attach a file, a page or a note",
        flags=(
            _OF_TASK._replace(required=True),
            _CRITERION,
            _TITLE,
            Flag("--file", "F", "a file; its bytes are kept"),
            Flag("--url", "U", "a page"),
            Flag("--note", "N", "what you say"),
            Flag("--spool", "FILE", "what evidence run wrote in a shell that reached nobody"),
            _FENCE,
        ),
        one_of=(OneOf(("--file", "--url", "--note", "--spool"), required=True),),
        notes="What was said meets a criterion only when a passing verdict names it.",
    ),
    Command(
        ("evidence", "show"),
        "Show evidence, and the end of what it kept",
        (Argument("ID", "the evidence: its id, a prefix of 6 or more characters, or #SEQ"),),
        (
            Flag("--range", "A-B", "the bytes A to B of what it kept, such as 0-999"),
            Flag("--raw", help="write all that it kept, byte for byte, and nothing else"),
        ),
        (OneOf(("--range", "--raw")),),
    ),
    Command(
        ("gate", "pass"),
        "Pass what is submitted",
        _GATE,
        (_VERDICT_NOTE, _ON_COMMIT, _RELIED_ON),
    ),
    Command(
        ("gate", "fail"),
        "Fail what is submitted, with what would put it right",
        _GATE,
        (
            Flag("--fix", "CMD", "a command that would put it right", many=True),
            Flag("--note", "N", "what is wrong"),
            _ON_COMMIT,
            _RELIED_ON,
        ),
        examples=(
            "interlock gate fail B-12 athena --note 'the linter complains' --fix 'make fmt'",
        ),
    ),
    Command(
        ("gate", "run"),
        "Run the checks of interlock.toml, and give their verdicts",
        (Argument("TASK", "the submitted task"),),
        (
            Flag("--gate", "G", "only this gate"),
            Flag("--rules", "FILE", "the interlock.toml to go by; the repository's if absent"),
            Flag("--new-rules", help="judge by other checks than the last time"),
        ),
        notes="In a fresh checkout of the submitted commit, as a sender that holds the gates. Exit "
        "1 when one failed.",
    ),
    Command(
        ("report",),
        "Write the story of a task as a document, with proofs",
        (Argument("TASK", "the task"),),
        (
            Flag("--format", "F", "if absent, by the file's ending, or md", choices=("md", "html")),
            Flag("--output", "FILE", "where to; standard output if absent"),
        ),
        notes="interlock audit check-proof FILE checks its proofs, with no workspace at hand.",
    ),
    Command(
        ("scrub",),
        "Look whether this repository can be opened to the public",
        flags=(Flag("--rules", "FILE", "the interlock.toml to go by; the repository's if absent"),),
        notes="Exit 1 when it found something. What is private, and what may be there, stands in "
        "the table [scrub] of interlock.toml.",
    ),
    Command(
        ("guard", "install"),
        "Put the git hooks in place that ask before a commit and a push",
        flags=(Flag("--undo", help="take them out again"),),
        notes="A commit must touch nothing that another holder has claimed; the setting guard says "
        "deny, warn or off. Which gate guards which remote and branch stands in interlock.toml.",
    ),
    Command(
        ("guard", "check"),
        "Say whether files may be changed, or another holds them",
        (Argument("PATH", "a file; all that are staged if absent", optional=True, many=True),),
        notes="Exit 1 when another holder's claim is on one of them. The pre-commit hook asks it.",
        examples=("interlock guard check src/a.py",),
    ),
    Command(
        ("guard", "note"),
        "What the post-commit hook says: which files the last commit touched",
        notes="So that a commit made with --no-verify does not go unnoticed: its claims' holders "
        "are told, and interlock doctor names it.",
    ),
    Command(
        ("guard", "push"),
        "What the pre-push hook asks: may this be pushed?",
        (Argument("REMOTE", "its name"), Argument("URL", "where it is")),
        notes="Reads the refs as git hands them to the hook. Exit 1 when a gate has not passed, or "
        "a commit that is not there yet touches what another holder has claimed.",
    ),
)

_AUDIT = (
    Command(
        ("audit", "verify"),
        "Check the whole log, and name the first bad entry",
        (Argument("EXPORT", "a file that audit export wrote, instead of the log", optional=True),),
        (Flag("--checkpoint", "FILE", "a checkpoint that you kept"),),
        notes="Exit 1 when it found damage.",
    ),
    Command(
        ("audit", "show"),
        "Print the facts of the log",
        flags=(_LIMIT, _AFTER, Flag("--kind", "KIND", "only facts of this kind")),
    ),
    Command(
        ("audit", "check-proof"),
        "Check a proof, with no workspace at hand",
        (Argument("FILE", "what audit prove --json or report wrote"),),
        (Flag("--verifier", "KEY", "the workspace's verifier key, as you know it"),),
    ),
    Command(
        ("audit", "export"),
        "Write the whole log into a new file",
        (Argument("FILE", "where to"),),
    ),
)

_CONNECTION = Argument("ID", "the connection, such as con_1f2e3d4c5b6a")

_ADMIN = (
    Command(
        ("token", "mint"),
        "Make another token for a sender, and print it once",
        flags=(
            _OF_SENDER._replace(help="whose token it will be", required=True),
            _LABEL,
            _SCOPE,
            _TTL._replace(help="when it expires: 90s, 15m, 2h, 7d; never if absent"),
            Flag("--keep", help="keep it here as the sender's credential"),
        ),
    ),
    Command(("token", "rotate"), "Replace a token by a new one", (_TOKEN_ID,), (_OF_SENDER,)),
    Command(
        ("token", "reaffirm"),
        "Trust tokens again that a restore suspended",
        (_TOKEN_ID,),
        (_OF_SENDER, Flag("--all", help="all of them")),
    ),
    Command(
        ("token", "import"),
        "Take over the tokens of another bus, from its file",
        (Argument("FILE|-", "a JSON array of rows: token_hash or token, agent, label, …"),),
        (
            Flag("--map", "LABEL=AGENT", "whose the tokens of a label are", many=True),
            Flag("--apply", help="import them; without it, nothing is changed"),
        ),
        notes="Says for each row what would become of it. Exit 1 when a row is not ready. The old "
        "tokens go on working here until they are rotated.",
        examples=(
            "interlock token import tokens.json",
            "interlock token import tokens.json --map 'Neo GPT=neo-gpt' --apply",
        ),
    ),
    Command(
        ("token", "identify"),
        "Say whose a token is",
        (Argument("TOKEN|-", "- reads it from standard input, which keeps it out of histories"),),
    ),
    Command(
        ("settings",),
        "List the workspace's settings, or change one",
        (
            Argument("NAME", "the setting", optional=True),
            Argument("VALUE", "its new value", optional=True),
        ),
        examples=("interlock settings recipients strict # refuse mail to unknown names",),
    ),
    Command(("backup",), "Copy the workspace while it is in use", (Argument("FILE", "where to"),)),
    Command(
        ("restore",),
        "Put a backup in place, as a new epoch",
        (Argument("FILE", "what backup wrote"),),
        notes="Every token is suspended until you trust it again: interlock token reaffirm --all",
    ),
    Command(
        ("migrate",),
        "Move the log to an engine that several nodes can share",
        flags=(Flag("--to", "URL", "redis://… or postgres://…, ?workspace=NAME", required=True),),
        notes="Every entry, sequence and proof stays. End the server first: interlock down.",
        examples=("interlock migrate --to 'redis://10.0.0.5:6379/0?workspace=team'",),
    ),
    Command(
        ("repair",),
        "Show what the engine has lost and this node has",
        flags=(
            Flag("--restore", help="put it back, from this node's copy"),
            Flag("--engine", "URL", "with --restore: onto another engine, for good"),
            Flag("--give-up", help="let go of it, as a new epoch"),
            Flag("--discard-aside", help="delete what strangers wrote into the engine"),
        ),
        notes="What is put back or let go of is written into the log. A new epoch suspends every "
        "token until you trust it again: interlock token reaffirm --all",
    ),
    Command(
        ("doctor",),
        "Look for what is wrong, each with the command that puts it right",
        notes="The smallest change comes first. Exit 0: nothing was found; exit 1: something was. "
        "What each check looks at is in docs/doctor.md.",
    ),
    Command(
        ("schema",),
        "Print the JSON Schema of a message type, or of all",
        (Argument("TYPE", "the type", optional=True),),
    ),
    Command(
        ("completion",),
        "Print a completion script for your shell",
        (Argument("SHELL", "which", choices=("bash", "zsh", "fish")),),
        examples=("source <(interlock completion bash)",),
    ),
)


COMMANDS = (*_START, *_MAIL, *_WORK, *_AUDIT, *_ADMIN)

# The module of this package and its function, for each command.
ACTIONS = {
    "up": ("serving", "up"),
    "down": ("serving", "down"),
    "mcp": ("mcp_stdio", "mcp"),
    "setup": ("setting_up", "setup"),
    "init": ("identity", "init"),
    "join": ("identity", "join"),
    "invite": ("people", "invite"),
    "run": ("running", "run"),
    "hook": ("hooking", "hook"),
    "status": ("upkeep", "status"),
    "send": ("mail", "send"),
    "ask": ("mail", "ask"),
    "inbox": ("mail", "inbox"),
    "read": ("mail", "read"),
    "watch": ("mail", "watch"),
    "task import": ("tasks", "import_brief"),
    "task list": ("tasks", "list_tasks"),
    "task submit": ("tasks", "submit"),
    "evidence run": ("evidence", "run"),
    "evidence add": ("evidence", "add"),
    "evidence show": ("evidence", "show"),
    "gate pass": ("gates", "give_pass"),
    "gate fail": ("gates", "give_fail"),
    "gate run": ("checking", "run"),
    "report": ("reporting", "report"),
    "scrub": ("checking", "scrub"),
    "guard install": ("guarding", "install"),
    "guard check": ("guarding", "check"),
    "guard note": ("guarding", "note"),
    "guard push": ("guarding", "push"),
    "audit verify": ("audit", "verify"),
    "audit show": ("audit", "show"),
    "audit check-proof": ("audit", "check_proof"),
    "audit export": ("audit", "export"),
    "token mint": ("identity", "mint"),
    "token rotate": ("identity", "rotate"),
    "token reaffirm": ("identity", "reaffirm"),
    "token import": ("identity", "import_tokens"),
    "token identify": ("identity", "identify"),
    "settings": ("upkeep", "settings"),
    "backup": ("upkeep", "backup"),
    "restore": ("upkeep", "restore"),
    "migrate": ("engines", "migrate"),
    "repair": ("engines", "repair"),
    "doctor": ("doctor", "doctor"),
    "schema": ("upkeep", "schema"),
    "completion": ("upkeep", "completion"),
}
