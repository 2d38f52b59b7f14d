"""What a report says about itself: how to check it, what that shows, and what it does not."""

from collections.abc import Sequence

from interlock.doors.cli.report.document import Block, Code, Line, Pairs, Paragraph, Points, Quote
from interlock.verbs.answers import Answer

_COMMAND = "interlock audit check-proof FILE --verifier KEY"
_SHOWN: tuple[Line, ...] = (
    ("The entries named here stood in the log at these positions when the checkpoint was signed.",),
    (
        "By whom, when and in which order they were written; of a run its exit code, commit and "
        "tree, whether that tree was clean, and whether it was interrupted or handed over in a "
        "file; of a verdict its gate, the commit and tree it judged, and the evidence it names; of "
        "a submission its commit and tree. All this is in the entries' headers, which are proven.",
    ),
)
_NOT_SHOWN: tuple[Line, ...] = (
    ("That the text above says the same. The command prints what is proven: compare it.",),
    (
        "The words: titles, briefs, criteria, commands, durations, notes, messages, and the "
        "digests of outputs and files. Each header holds a salted commitment to them, and the "
        "salts are not in this document; whoever has the workspace, or an export of its log, "
        "checks them with ",
        Code("interlock audit verify"),
        ".",
    ),
    (
        "That nothing was left out, or came later. Ask the workspace for this report again, or "
        "look through an export of its log.",
    ),
    (
        "That a command does what its name says, or that whoever ran it had an honest machine. "
        "Run it again on the commit above.",
    ),
)


def how(proofs: Sequence[Answer]) -> tuple[Block, ...]:
    last = proofs[-1]
    return (
        Paragraph(
            (
                "At the end of this document are proofs that need neither the workspace nor a "
                "network. Save the document as a file, get the workspace's verifier key from "
                "somebody you trust, not from here, and type:",
            )
        ),
        Quote("The command", _COMMAND),
        Paragraph(("What it shows:",)),
        Points(_SHOWN),
        Paragraph(("What it does not show:",)),
        Points(_NOT_SHOWN),
        Pairs(
            (
                ("Entries in the log", (str(last["tree_size"]),)),
                ("Root", (Code(last["root"]),)),
                ("Verifier key, to be compared", (Code(last["verifier"]),)),
            )
        ),
        Quote("The signed checkpoint", last["checkpoint"]),
    )
