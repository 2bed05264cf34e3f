"""The one place that holds the version.

Read by the build, the discovery card, `mqlite version` and Status. It imports nothing, so that
asking for the version costs no more than starting Python.
"""

__version__ = "0.1.0"
