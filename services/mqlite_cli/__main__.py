"""`python -m mqlite_cli`: the same as the script `mqlite`.

Calls `main.main` and nothing else.
"""

from mqlite_cli.main import main

main()
