"""`python -m mqlite_cli`: the same as the script `mqlite`.

Calls `main.run` and nothing else.
"""

import sys

from mqlite_cli.main import run

sys.exit(run())
