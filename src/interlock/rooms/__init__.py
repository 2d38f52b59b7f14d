"""The rules, one room for each subject. A room owns its verbs, its rules, its tables and its folds.

Rooms use no clock, no randomness, no environment and no network. So the same log always gives the
same state.
"""
