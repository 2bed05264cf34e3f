"""The files of the console and the table that serves them under `/ui/`.

Called by `rpc.py` for open paths; anybody may load the page, since all it shows comes from calls
that ask for a credential. The table is made once from the folder `console/`, so no path of a client
ever becomes a path of this machine (faults B79). The page is asked for anew each time; whatever it
loads stands under a digest of all of it, and may be kept for ever.
Rules: no inline script or style, no foreign origin, nothing that another page could frame.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

import msgspec

from mqlite_actor.contract.errors import Unimplemented

PATH: Final = "/ui"
HOME: Final = "/ui/"

OFF: Final = ""
ANY: Final = "any"
SELF: Final = "self"
"""Where the console may send requests: it is off; to the broker that is named when signing in; to
the broker that served it."""

SWITCHED_OFF: Final = ("off", "false", "0", "no")

FOLDER: Final = Path(__file__).with_name("console")
INDEX: Final = "index.html"
ASSETS: Final = "assets"

TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}

REACH: Final = {ANY: "'self' http: https:", SELF: "'self'"}

METHODS: Final = ("GET", "HEAD")

Field = tuple[str, str]

GUARDS: Final[tuple[Field, ...]] = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
)
FRESH: Final[Field] = ("Cache-Control", "no-cache")
FOR_EVER: Final[Field] = ("Cache-Control", "public, max-age=31536000, immutable")


class File(msgspec.Struct, frozen=True):
    """One answer of the table. `tag`: its entity tag, "" for what is never asked for anew."""

    status: int
    body: bytes
    content_type: str
    fields: tuple[Field, ...]
    tag: str = ""


def reach_of(word: str) -> str:
    """What MQLITE_UI asks for; the contract has it that whatever does not switch it off leaves it
    on."""
    word = word.lower()
    if word in SWITCHED_OFF:
        return OFF
    return SELF if word == SELF else ANY


def is_ours(path: str) -> bool:
    """Whether a path belongs to the console, be it on or off."""
    return path == PATH or path.startswith(HOME)


def file(path: str, method: str, *, reach: str, known: str = "") -> File | None:
    """What `path` answers; None for what is not in the table, and for all while the console is off.

    `known`: the entity tags that the client has. Unimplemented for a method that does not read.
    """
    found = _table(reach).get(path) if reach else None
    if found is None:
        return None
    if method not in METHODS:
        raise Unimplemented("GET required")
    if found.tag and found.tag in (each.strip() for each in known.split(",")):
        return File(HTTPStatus.NOT_MODIFIED, b"", "", found.fields)
    return found


@cache
def _table(reach: str) -> dict[str, File]:
    """Path → answer, for every file of the folder."""
    assets = dict(_assets())
    digest = hashlib.sha256()
    for name, content in assets.items():
        digest.update(b"%b\0%d\0%b" % (name.encode(), len(content), content))
    folder = f"{ASSETS}/{digest.hexdigest()[:16]}"
    guards = (("Content-Security-Policy", _policy(reach)), *GUARDS)
    found = {
        f"{HOME}{folder}/{name}": File(
            HTTPStatus.OK, content, TYPES[Path(name).suffix], (FOR_EVER, *guards)
        )
        for name, content in assets.items()
    }
    page = (FOLDER / INDEX).read_bytes()
    page = page.replace(f'"{ASSETS}/'.encode(), f'"{folder}/'.encode())
    page = page.replace(b'data-reach="any"', f'data-reach="{reach}"'.encode())
    tag = f'"{hashlib.sha256(page).hexdigest()[:32]}"'
    fields = (FRESH, ("ETag", tag), *guards)
    found[HOME] = File(HTTPStatus.OK, page, TYPES[".html"], fields, tag)
    found[PATH] = File(HTTPStatus.MOVED_PERMANENTLY, b"", "", (("Location", HOME), FRESH))
    return found


def _assets() -> Iterator[tuple[str, bytes]]:
    root = FOLDER / ASSETS
    for path in sorted(root.rglob("*")):
        if path.is_file():
            yield path.relative_to(root).as_posix(), path.read_bytes()


def _policy(reach: str) -> str:
    """The Content-Security-Policy of spec/tools.md 4.1."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data:",
            "font-src 'self'",
            f"connect-src {REACH[reach]}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
