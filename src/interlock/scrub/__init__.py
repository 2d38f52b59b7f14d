"""The release scrub: check whether a repository can become public.

The scrub checks everything that a clone contains: each commit, tag, file name and file content that
a ref reaches. It ignores uncommitted files and unreachable objects. It does not change the
repository. Each finding has the command that fixes it.
"""

from interlock.scrub.checks import Finding, findings
from interlock.scrub.rules import Rules, rules_of

__all__ = ["Finding", "Rules", "findings", "rules_of"]
