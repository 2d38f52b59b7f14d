"""The story of a task as a document for somebody who has no workspace at hand.

`telling` decides what it says, in the blocks of `document`; `markdown` and `page` write those
blocks down, and nothing reaches a reader but through their escaping. `seal` carries the proofs.
"""

from collections.abc import Sequence

from interlock.verbs.answers import Answer


def write(form: str, shown: Answer, proofs: Sequence[Answer]) -> str:
    """The document, in Markdown (`md`) or HTML; the same answers give the same text."""
    from interlock.doors.cli.report import markdown, page, seal, telling

    writers = {"md": markdown.write, "html": page.write}
    return writers[form](telling.document(shown, proofs), seal.packed(shown, proofs))
