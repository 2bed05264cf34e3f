"""The tokens of the real sqld: one that may write is enough, and a lesser one is refused unseen."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mqlite_actor.contract.errors import OpenError
from mqlite_actor.storage.hrana_opening import open_remote
from tests.hrana.sqld import running_sqld

KEY: Final = Ed25519PrivateKey.generate()
OTHER: Final = Ed25519PrivateKey.generate()


def text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


PUBLIC: Final = text(KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))
"""What a server gets that takes the tokens of KEY."""


def token(key: Ed25519PrivateKey = KEY, **claims: object) -> str:
    """A JWT with these claims, signed."""
    parts = ({"alg": "EdDSA", "typ": "JWT"}, claims)
    said = ".".join(text(json.dumps(part).encode()) for part in parts)
    return f"{said}.{text(key.sign(said.encode()))}"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_sqld(tmp_path_factory.mktemp("sqld"), key=PUBLIC) as server:
        yield server.url


def test_a_token_that_may_write_opens_the_database(url: str) -> None:
    open_remote(url, auth_token=token(a="rw")).close()


LESSER: Final = {
    "none": "",
    "one that may only read": token(a="ro"),
    "one that ran out": token(a="rw", exp=1),
    "one of another key": token(OTHER, a="rw"),
    "no token at all": "some words",
}


@pytest.mark.parametrize("kind", LESSER)
def test_a_lesser_one_is_refused_and_not_shown(url: str, kind: str) -> None:
    with pytest.raises(OpenError, match="MQLITE_DB_AUTH_TOKEN") as caught:
        open_remote(url, auth_token=LESSER[kind]).close()
    if LESSER[kind]:
        assert LESSER[kind] not in f"{caught.value!r} {caught.value.__cause__!r}"
