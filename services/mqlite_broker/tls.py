"""TLS for the broker's port: a server context from a certificate and its key.

Called by `serve.py` before anything is opened, so that a bad file is one line and no half-started
broker. HTTP/1.1 alone is offered, and no version below TLS 1.2. Each process reads the files once,
since Python takes a chain and a key from files alone: a renewed certificate is taken up by a
restart, and by a worker that takes the place of one that ended.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from mqlite_actor.contract.errors import InvalidArgument
from mqlite_actor.sdk.address import without_tokens


def server_context(cert: str, key: str) -> ssl.SSLContext:
    """A context for this chain and key. InvalidArgument says which file is at fault, and how."""
    for path in (cert, key):
        try:
            Path(path).open("rb").close()
        except OSError as error:
            shown = without_tokens(repr(path))
            raise InvalidArgument(f"TLS: cannot read {shown}: {error.strerror}") from error
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key, password=_refuse_password)
    except ssl.SSLError as error:
        raise InvalidArgument(without_tokens(_words(error, cert, key))) from error
    return context


def _refuse_password() -> str:
    """OpenSSL would ask on the terminal and wait."""
    raise InvalidArgument("TLS: the key is encrypted; give one without a password")


def _words(error: ssl.SSLError, cert: str, key: str) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"TLS: the key {key!r} does not belong to the certificate {cert!r}"
    reason = error.reason.lower().replace("_", " ") if error.reason else "not PEM"
    return f"TLS: {cert!r} and {key!r} are no certificate and key in PEM: {reason}"
