"""Verbs: the operations of Interlock, each declared once beside the rule that decides it.

`verb` has the class that declarations inherit from, `types` the types of their fields, and `http`,
`usage` and `client_source` derive the requests, the command lines and the client's methods.
"""
