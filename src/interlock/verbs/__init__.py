"""Verbs: the operations of Interlock, each declared once beside the rule that decides it.

`verb` has the class that declarations inherit from, `types` the types of their fields, `http` the
routes and the encoding of requests, and `flows` the verbs that take several requests.
"""
