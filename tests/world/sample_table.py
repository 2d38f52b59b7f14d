"""A table of commands as large and as uneven as a real one, for the tests of what it drives."""

from interlock.doors.cli.grammar import Argument, Command, Flag, OneOf

ID = Argument("ID", "the message: its id, a prefix of 6 or more characters, or #SEQ")
TEXT = Argument("TEXT|-", "what to say; - reads it from standard input", optional=True)
ITEM = Flag("--item", "I", "a work item, such as B-0444")
PATH = Flag("--path", "GLOB", "paths of a repository, such as 'src/**'", many=True)
REPO = Flag("--repo", "R", "the repository of the paths; the one you are in if absent")
WORKTREE = Flag("--worktree", "P", "where the work happens")
BRANCH = Flag("--branch", "B", "the branch it happens on")
TTL = Flag("--ttl", "D", "how long it lasts: 90s, 15m, 2h, 7d", kind="duration")
WAIT = Flag("--wait", "D", "wait this long before the answer is no", kind="duration")
NOTE = Flag("--note", "N", "a word to whoever meets it")
REASON = Flag("--reason", "R", "why; it is kept in the log", required=True)
FENCE = Flag("--fence", "N", "the fence you were granted", kind="int", minimum=1)
THING = OneOf(("--item", "--path"), required=True)
CLIENTS = ("claude-code", "codex", "gemini", "cursor", "git")

COMMON = (
    Flag("--json", help="print one JSON document, whether it worked or not"),
    Flag("--workspace", "PATH|URL", "the workspace, instead of INTERLOCK_WORKSPACE"),
    Flag("--from", "SENDER", "who acts, of the credentials kept here"),
    Flag("--session", "S", "the session that acts"),
)

START = (
    Command(
        ("up",),
        "Start the server and the dashboard",
        flags=(
            Flag("--host", "H", "the address to listen on; 127.0.0.1 if absent"),
            Flag("--port", "P", "the port; 7420 if absent", kind="int", minimum=1, maximum=65535),
            Flag("--engine", "URL", "where the log is kept, instead of the embedded one"),
            Flag("--detach", help="return once it answers, and leave it running"),
        ),
    ),
    Command(("down",), "Stop the server"),
    Command(
        ("init",),
        "Make a workspace",
        flags=(Flag("--here", help="for this repository, shared by its worktrees"),),
    ),
    Command(
        ("join",),
        "Register an agent or a person, and keep a token for it",
        (Argument("NAME", "its name: lower-case letters, digits and hyphens"),),
        (
            Flag("--surface", "S", "where it acts: cli, desktop, …"),
            Flag("--kind", help="what it is", choices=("agent", "human")),
            Flag("--label", "TEXT", "for display; it decides nothing"),
            Flag("--scope", "SCOPE", "what its token allows", many=True),
        ),
        examples=(
            "interlock join otto # an agent",
            "interlock join otto --surface cli # otto in a terminal: the sender otto-cli",
            "interlock join vera --kind human # a person",
        ),
    ),
    Command(
        ("run",),
        "Run a client in a session of its own",
        (Argument("SENDER", "who the client is"),),
        rest=True,
        examples=("interlock run otto-cli -- claude --resume",),
        notes="The client, its hooks and its MCP server are one holder. When it ends, its claims "
        "are given up. The exit status is the client's; 125 means that Interlock failed.",
    ),
    Command(("whoami",), "Say who acts here, and what is waiting for them"),
    Command(("agents",), "List who has joined, and how each can be reached"),
    Command(("status",), "Show the state of the workspace"),
)

MAIL = (
    Command(
        ("send",),
        "Send a message to one agent, or to everyone",
        (Argument("TO", "@<identifier> for one agent, AGENT:* for everyone"), TEXT),
        (
            Flag("--type", "T", "the type of the message; send if absent"),
            Flag("--payload", "JSON", "the whole payload, instead of TEXT"),
            Flag("--subject", "S", "a line that lists show"),
            Flag("--thread", "ID", "the thread it belongs to"),
            Flag("--reply-to", "ID", "the message it answers"),
            Flag("--priority", "P", "how urgent", choices=("low", "normal", "high", "critical")),
            Flag("--key", "K", "the same key and body again give the first answer"),
            TTL,
            Flag("--wake", help="wake an idle recipient"),
            Flag("--no-wake", help="let it wait for the recipient's next step"),
        ),
        (OneOf(("--wake", "--no-wake")),),
        examples=(
            "interlock send @vera 'The build is green.'",
            "interlock send AGENT:* 'main is frozen until noon' --priority high",
            "git diff | interlock send @vera - --subject 'for review'",
        ),
        notes="Accepted is not read: interlock receipts ID says how far it got.",
    ),
    Command(
        ("ask",),
        "Ask a question, and wait for the answer",
        (Argument("TO", "who is asked"), Argument("QUESTION", "the question")),
        (Flag("--option", "O", "an answer to choose from", many=True), WAIT),
    ),
    Command(("answer",), "Answer a question", (ID, TEXT._replace(optional=False))),
    Command(
        ("inbox",),
        "List open mail, oldest first",
        flags=(
            Flag("--all", help="also what was acknowledged"),
            Flag("--sent", help="what you sent"),
            Flag("--limit", "N", "at most so many", kind="int", minimum=1, maximum=1000),
            Flag("--after", "SEQ", "only what came after", kind="int", minimum=0),
            WAIT,
        ),
        one_of=(OneOf(("--all", "--sent")),),
    ),
    Command(("read",), "Read a message whole", (ID,), (Flag("--range", "A-B", "bytes A to B"),)),
    Command(
        ("ack",),
        "Acknowledge what is handled",
        (ID._replace(many=True),),
        (Flag("--decline", help="say that it will not be done"), NOTE),
    ),
    Command(("watch",), "Print events as they happen"),
)

CLAIMS = (
    Command(
        ("claim", "acquire"),
        "Take a claim, or extend your own",
        flags=(ITEM, PATH, REPO, WORKTREE, BRANCH, TTL, WAIT, NOTE),
        one_of=(THING,),
        examples=(
            "interlock claim acquire --item B-0444 --ttl 2h",
            "interlock claim acquire --path 'src/**' --worktree . # nobody else edits there",
        ),
        notes="Exit 0: it is yours, with a fence. Exit 1: another holds it, and the answer says "
        "who and until when.",
    ),
    Command(("claim", "renew"), "Extend a claim", flags=(ITEM, PATH, TTL, FENCE), one_of=(THING,)),
    Command(("claim", "release"), "Give a claim up", flags=(ITEM, PATH, FENCE), one_of=(THING,)),
    Command(("claim", "check"), "Say whether it is claimed", flags=(ITEM, PATH), one_of=(THING,)),
    Command(("claim", "list"), "List the claims that live"),
    Command(
        ("claim", "take-over"),
        "Take another's claim, with a reason",
        flags=(ITEM, PATH, REASON),
        one_of=(THING,),
    ),
    Command(
        ("guard", "install"),
        "Guard a repository by a git hook",
        flags=(Flag("--undo", help="take it back"),),
    ),
    Command(
        ("guard", "check"),
        "Say whether paths are another's",
        (Argument("PATH", "paths; what git has staged if absent", optional=True, many=True),),
    ),
)

WORK = (
    Command(
        ("task", "create"),
        "Make a task",
        flags=(
            Flag("--title", "T", "what is to be done, in a line", required=True),
            Flag("--id", "ID", "its id; made up if absent"),
            Flag("--brief", "TEXT|-", "what is to be done, at length"),
            Flag("--criterion", "C", "what has to be shown", many=True),
            Flag("--gate", "G", "who has to agree", many=True),
        ),
    ),
    Command(("task", "list"), "List tasks"),
    Command(("task", "show"), "Show a task", (Argument("ID", "the task"),)),
    Command(
        ("evidence", "run"),
        "Run a command, and keep what it did as evidence",
        flags=(
            Flag("--task", "T", "the task it is evidence for"),
            Flag("--criterion", "N", "the criterion it shows"),
        ),
        rest=True,
        examples=("interlock evidence run --task B-12 -- pytest -q",),
    ),
    Command(
        ("evidence", "add"),
        "Attach a file, an address or a note",
        flags=(
            Flag("--task", "T", "the task", required=True),
            Flag("--file", "F", "a file"),
            Flag("--url", "U", "an address"),
            NOTE,
        ),
        one_of=(OneOf(("--file", "--url", "--note"), required=True),),
    ),
    Command(
        ("gate", "pass"),
        "Let a task through a gate",
        (Argument("TASK", "the task"), Argument("GATE", "the gate")),
        (NOTE,),
    ),
)

CARE = (
    Command(("audit", "verify"), "Check the whole log"),
    Command(
        ("audit", "prove"),
        "Prove that an entry is in the log",
        (Argument("SEQ", "the entry's number", kind="int", minimum=0),),
    ),
    Command(
        ("setup",),
        "Write a client's configuration",
        (Argument("CLIENT", "the client", optional=True, choices=CLIENTS),),
        (Flag("--print", help="show it first"), Flag("--undo", help="take it back")),
    ),
    Command(
        ("completion",),
        "Print a shell's completion script",
        (Argument("SHELL", "the shell", choices=("bash", "zsh", "fish")),),
        examples=('eval "$(interlock completion bash)" # in ~/.bashrc',),
    ),
    Command(("pause",), "Stop all writing", flags=(REASON._replace(required=False),)),
    Command(("resume",), "Allow writing again"),
    Command(("redact",), "Remove a message's body everywhere", (ID,), (REASON,)),
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
