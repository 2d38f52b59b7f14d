"""The release scrub: whether a repository can be opened to the public.

It judges everything that a clone carries: each commit, tag, file name and file content that a ref
reaches. It ignores uncommitted files and unreachable objects. It changes nothing; each finding
names the command that corrects it.
"""

from interlock.scrub.checks import Finding, findings
from interlock.scrub.rules import Rules, rules_of

__all__ = ["Finding", "Rules", "findings", "rules_of"]
