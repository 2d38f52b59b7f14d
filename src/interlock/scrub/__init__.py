"""The release scrub: whether a repository can be opened to the public.

It judges what a clone would carry: every commit, tag, file name and file content that any ref
reaches. What is not committed is not judged, and neither is what no ref reaches. It changes
nothing; each finding names the command that would put it right.
"""

from interlock.scrub.checking import findings
from interlock.scrub.finding import Finding
from interlock.scrub.rules import Rules, rules_of

__all__ = ["Finding", "Rules", "findings", "rules_of"]
