"""Speed, measured as ratios within one run."""

import os
import sys

# Database servers are started as the tests start them.
sys.path.append(os.path.join(os.path.dirname(__file__), os.pardir, "tests"))
