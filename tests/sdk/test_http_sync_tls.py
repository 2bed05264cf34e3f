"""The blocking client over TLS, and what importing it costs (ruling R48)."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from mqlite_actor.contract import errors
from mqlite_actor.sdk.address import parse_endpoint
from mqlite_actor.sdk.http_sync import HttpSyncClient
from tests.sdk.loopback import loopback
from tests.sdk.test_http_sync import STATS, good
from tests.services.cli_process import clean_environ


def test_https_is_verified(certificate: Path) -> None:
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=certificate)
    with loopback(good, tls=server_side) as server:
        endpoint = parse_endpoint(f"mqlites://127.0.0.1:{server.port}")
        with HttpSyncClient(endpoint, tls=trusting) as client:
            assert client.call(STATS).active == 1
            assert client.call(STATS).active == 1
        with (
            HttpSyncClient(endpoint) as client,
            pytest.raises(errors.Unavailable, match="certificate does not verify"),
        ):
            client.call(STATS)
    assert len(server.requests) == 2


def test_importing_it_brings_no_event_loop_and_no_database() -> None:
    heavy = "{'trio', 'httpcore', 'apsw', 'anyio', 'asyncio', 'h11'}"
    code = f"import sys, mqlite_actor.sdk.http_sync; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=clean_environ({}),
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
