"""A new broker token. Called by programs that serve or set up a broker; calls the system's source.

Rule: 32 bytes of the system's randomness, or an error of the system; never a weaker source.
"""

from __future__ import annotations

import secrets

TOKEN_BYTES = 32


def generate_token() -> str:
    """`mqk_` and 64 hexadecimal digits, as `mqlite serve` makes them. Keep it as a secret."""
    return f"mqk_{secrets.token_hex(TOKEN_BYTES)}"
