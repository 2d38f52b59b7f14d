"""The story of a task as a document for a reader who has no workspace.

`telling` makes the content from the parts in `document`. `markdown` and `page` write it and escape
every text. `seal` contains the proofs.
"""
