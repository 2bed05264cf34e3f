"""`python -m mqlite_mcp`: the same as the script `mqlite-mcp`.

Calls `main.run` and nothing else.
"""

import sys

from mqlite_mcp.main import run

sys.exit(run())
