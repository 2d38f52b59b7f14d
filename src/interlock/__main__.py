"""`python -m interlock` is the command `interlock`."""

import sys

from interlock.doors.cli import main

sys.exit(main())
