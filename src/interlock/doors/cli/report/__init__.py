"""The history of a task as a document, for a reader who has no workspace.

`content` makes the content from the parts in `document`. `markdown` and `page` write it and escape
every text. `proof_block` packs the proofs, finds them in a file and checks them.
"""
