"""New tokens and ids. Called by programs that serve or set up a broker; calls the system's source.

Rule: 32 bytes of the system's randomness, or an error of the system; never a weaker source.
"""

from __future__ import annotations

import secrets

TOKEN_BYTES = 32


KEY_ID_BYTES = 16


def generate_key_id() -> str:
    """32 hexadecimal digits: the id of an access key that is to be made. No secret."""
    return secrets.token_hex(KEY_ID_BYTES)


def generate_token() -> str:
    """`mqk_` and 64 hexadecimal digits, as `mqlite serve` makes them. Keep it as a secret."""
    return f"mqk_{secrets.token_hex(TOKEN_BYTES)}"
