"""A table of commands as large and as uneven as a real one, to test the parser, the help and the
completion."""

from interlock.doors.cli.grammar import Argument, Command, Flag, OneOf

ID = Argument("ID", "the message: its id, a prefix of 6 or more characters, or #SEQ")
TEXT = Argument("TEXT|-", "the text; - reads it from standard input", optional=True)
ITEM = Flag("--item", "I", "a work item, such as B-0444")
PATH = Flag("--path", "GLOB", "paths of a repository, such as 'src/**'", many=True)
REPO = Flag("--repo", "R", "the repository of the paths (default: the current one)")
WORKTREE = Flag("--worktree", "P", "the worktree of the work")
BRANCH = Flag("--branch", "B", "the branch of the work")
TTL = Flag("--ttl", "D", "the lifetime: 90s, 15m, 2h, 7d", kind="duration")
WAIT = Flag("--wait", "D", "wait for this long", kind="duration")
NOTE = Flag("--note", "N", "a note for readers")
REASON = Flag("--reason", "R", "the reason, which the log stores", required=True)
FENCE = Flag("--fence", "N", "the fence of your claim", kind="int", minimum=1)
THING = OneOf(("--item", "--path"), required=True)
CLIENTS = ("claude-code", "codex", "gemini", "cursor", "git")

COMMON = (
    Flag("--json", help="print one JSON document, on success and on failure"),
    Flag("--workspace", "PATH|URL", "the workspace (default: INTERLOCK_WORKSPACE)"),
    Flag("--from", "SENDER", "act as this sender, with its stored credential"),
    Flag("--session", "S", "act in this session"),
)

START = (
    Command(
        ("up",),
        "Start the server and the dashboard",
        flags=(
            Flag("--host", "H", "the address to listen on (default: 127.0.0.1)"),
            Flag("--port", "P", "the port", kind="int", minimum=1, maximum=65535),
            Flag("--engine", "URL", "the URL of the engine that stores the log"),
            Flag("--detach", help="start it in the background, and return when it is ready"),
        ),
    ),
    Command(("down",), "Stop the server"),
    Command(
        ("init",),
        "Create a workspace",
        flags=(Flag("--here", help="create it for this repository and its worktrees"),),
    ),
    Command(
        ("join",),
        "Register an agent or a person, and store its token",
        (Argument("NAME", "the new name: lower-case letters, digits and hyphens"),),
        (
            Flag("--surface", "S", "the surface: cli, desktop, …"),
            Flag("--kind", help="the kind of the name", choices=("agent", "human")),
            Flag("--label", "TEXT", "a label for display; it grants nothing"),
            Flag("--scope", "SCOPE", "a scope of its token", many=True),
        ),
        examples=(
            "interlock join otto # add an agent",
            "interlock join otto --surface cli # add the sender otto-cli",
            "interlock join vera --kind human # add a person",
        ),
    ),
    Command(
        ("run",),
        "Run a client in a session of its own",
        (Argument("SENDER", "the sender that the client acts as"),),
        rest=True,
        examples=("interlock run otto-cli -- claude --resume",),
        notes="The client, its hooks and its MCP server are one holder. When the client ends, "
        "Interlock releases its claims. The exit status is the client's. Exit 125: Interlock "
        "failed.",
    ),
    Command(("whoami",), "Show your identity and your open work"),
    Command(("agents",), "List agents and people, and how to reach each of them"),
    Command(("status",), "Show the state of the workspace"),
)

MAIL = (
    Command(
        ("send",),
        "Send a message to one agent, or to everyone",
        (Argument("TO", "@<identifier> for one agent, AGENT:* for everyone"), TEXT),
        (
            Flag("--type", "T", "the type of the message (default: send)"),
            Flag("--payload", "JSON", "the whole payload, instead of TEXT"),
            Flag("--subject", "S", "a subject of one line"),
            Flag("--thread", "ID", "the thread of the message"),
            Flag("--reply-to", "ID", "the message that this one answers"),
            Flag("--priority", "P", "the urgency", choices=("low", "normal", "high", "critical")),
            Flag("--key", "K", "the idempotency key"),
            TTL,
            Flag("--wake", help="wake an idle recipient"),
            Flag("--no-wake", help="do not wake the recipient"),
        ),
        (OneOf(("--wake", "--no-wake")),),
        examples=(
            "interlock send @vera 'The build is green.'",
            "interlock send AGENT:* 'main is frozen until noon' --priority high",
            "git diff | interlock send @vera - --subject 'for review'",
        ),
        notes="To see how far the message got: interlock receipts ID",
    ),
    Command(
        ("ask",),
        "Ask a question, and wait for the answer",
        (Argument("TO", "the recipient"), Argument("QUESTION", "the question")),
        (Flag("--option", "O", "an answer to choose from", many=True), WAIT),
    ),
    Command(("answer",), "Answer a question", (ID, TEXT._replace(optional=False))),
    Command(
        ("inbox",),
        "List open mail, oldest first",
        flags=(
            Flag("--all", help="list acknowledged mail too"),
            Flag("--sent", help="list the mail that you sent"),
            Flag("--limit", "N", "the most entries to list", kind="int", minimum=1, maximum=1000),
            Flag("--after", "SEQ", "only entries after this position", kind="int", minimum=0),
            WAIT,
        ),
        one_of=(OneOf(("--all", "--sent")),),
    ),
    Command(("read",), "Read a message whole", (ID,), (Flag("--range", "A-B", "bytes A to B"),)),
    Command(
        ("ack",),
        "Acknowledge messages",
        (ID._replace(many=True),),
        (Flag("--decline", help="decline the messages"), NOTE),
    ),
    Command(("watch",), "Print events as they happen"),
)

CLAIMS = (
    Command(
        ("claim", "acquire"),
        "Acquire a claim, or extend your own",
        flags=(ITEM, PATH, REPO, WORKTREE, BRANCH, TTL, WAIT, NOTE),
        one_of=(THING,),
        examples=(
            "interlock claim acquire --item B-0444 --ttl 2h",
            "interlock claim acquire --path 'src/**' --worktree . # claim a directory",
        ),
        notes="Exit 0: you hold the claim, with a fence. Exit 1: the answer names the other holder "
        "and the expiry.",
    ),
    Command(("claim", "renew"), "Extend a claim", flags=(ITEM, PATH, TTL, FENCE), one_of=(THING,)),
    Command(("claim", "release"), "Release a claim", flags=(ITEM, PATH, FENCE), one_of=(THING,)),
    Command(("claim", "check"), "Check for claims", flags=(ITEM, PATH), one_of=(THING,)),
    Command(("claim", "list"), "List the live claims"),
    Command(
        ("claim", "take-over"),
        "Take over another holder's claim, with a reason",
        flags=(ITEM, PATH, REASON),
        one_of=(THING,),
    ),
    Command(
        ("guard", "install"),
        "Install git hooks that check each commit",
        flags=(Flag("--undo", help="remove the hooks"),),
    ),
    Command(
        ("guard", "check"),
        "Check whether another holder has claimed files",
        (Argument("PATH", "the files (default: all staged)", optional=True, many=True),),
    ),
)

WORK = (
    Command(
        ("task", "create"),
        "Create a task",
        flags=(
            Flag("--title", "T", "the title, on one line", required=True),
            Flag("--id", "ID", "the id (default: a new one)"),
            Flag("--brief", "TEXT|-", "the brief"),
            Flag("--criterion", "C", "an acceptance criterion", many=True),
            Flag("--gate", "G", "a gate that must pass", many=True),
        ),
    ),
    Command(("task", "list"), "List tasks"),
    Command(("task", "show"), "Show a task", (Argument("ID", "the task"),)),
    Command(
        ("evidence", "run"),
        "Run a command, and store its result as evidence",
        flags=(
            Flag("--task", "T", "the task of the evidence"),
            Flag("--criterion", "N", "the number of the criterion"),
        ),
        rest=True,
        examples=("interlock evidence run --task B-12 -- pytest -q",),
    ),
    Command(
        ("evidence", "add"),
        "Attach a file, a URL or a note",
        flags=(
            Flag("--task", "T", "the task", required=True),
            Flag("--file", "F", "a file"),
            Flag("--url", "U", "a URL"),
            NOTE,
        ),
        one_of=(OneOf(("--file", "--url", "--note"), required=True),),
    ),
    Command(
        ("gate", "pass"),
        "Give a passing verdict on a task",
        (Argument("TASK", "the task"), Argument("GATE", "the gate")),
        (NOTE,),
    ),
)

CARE = (
    Command(("audit", "verify"), "Verify the log"),
    Command(
        ("audit", "prove"),
        "Prove that an entry is in the log",
        (Argument("SEQ", "the entry's number", kind="int", minimum=0),),
    ),
    Command(
        ("setup",),
        "Write a client's configuration",
        (Argument("CLIENT", "the client", optional=True, choices=CLIENTS),),
        (Flag("--print", help="show the changes"), Flag("--undo", help="undo the changes")),
    ),
    Command(
        ("completion",),
        "Print a shell's completion script",
        (Argument("SHELL", "the shell", choices=("bash", "zsh", "fish")),),
        examples=('eval "$(interlock completion bash)" # in ~/.bashrc',),
    ),
    Command(("pause",), "Refuse all writes", flags=(REASON._replace(required=False),)),
    Command(("resume",), "Allow writes again"),
    Command(("redact",), "Delete the body of a message", (ID,), (REASON,)),
)

COMMANDS = tuple(
    command._replace(group=heading)
    for heading, rows in (
        ("Start", START),
        ("Mail", MAIL),
        ("Claims", CLAIMS),
        ("Work", WORK),
        ("Care", CARE),
    )
    for command in rows
)

ODD = (
    Command(
        ("pick",),
        'Pick a colon: it\'s "odd" and costs $HOME\nor `more`',
        (Argument("WORD", choices=("it's", "two words", "$HOME", "a:b", "back\\slash")),),
        (Flag("--odd", "O", "it's $HOME", choices=("x y", "*")),),
    ),
)
