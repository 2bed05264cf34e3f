"""The pages can be followed by a newcomer, who has the wheel and an empty folder, word by word.

Which page is followed by whom is in tests/docs/test_pages.py.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
import trustme

from tests.conformance.key_calls import spellings
from tests.hrana.sqld import running_sqld
from tests.hrana.tursodb import running_tursodb
from tests.packages.installed import Installed
from tests.packages.newcomer import Desk, blocks
from tests.remote.test_tokens import PUBLIC, token
from tests.services.broker_process import content


def nothing(desk: Desk) -> None:
    """The page brings what it needs."""


def a_broker(desk: Desk) -> None:
    """One is at work, and the shell knows it and its token, as after the tutorial's beginning."""
    desk.serve("mqlite serve")
    desk.sign_in()


def a_strange_broker(desk: Desk) -> None:
    """One is at work; the page says how to reach it."""
    desk.serve("mqlite serve")


def a_queue(desk: Desk) -> None:
    """A broker that has the queue `orders`."""
    a_broker(desk)
    desk.run("mqlite create-queue orders")


def a_message(desk: Desk) -> None:
    """The same with a message in it."""
    a_queue(desk)
    desk.run("mqlite send orders 'two coffees'")


def two_letters(desk: Desk) -> None:
    """The same queue with two dead letters."""
    a_queue(desk)
    desk.run("mqlite send orders 'two coffees' && mqlite send orders 'no coffee'")
    desk.run("mqlite consume orders --exec 'exit 3' --reject-exit 3 --count 2")


def a_certificate(desk: Desk) -> None:
    """From an authority that the newcomer trusts by name."""
    made = trustme.CA()
    found = made.issue_cert("127.0.0.1")
    found.private_key_pem.write_to_path(desk.folder / "key.pem")
    for part in found.cert_chain_pems:
        part.write_to_path(desk.folder / "chain.pem", append=True)
    made.cert_pem.write_to_path(desk.folder / "authority.pem")


PAGES: Final[dict[str, Callable[[Desk], None]]] = {
    "agents": a_broker,
    "examples/walk-through": nothing,
    "how-to/backup": a_broker,
    "how-to/dead-letters": nothing,
    "how-to/filters": nothing,
    "how-to/litestream": nothing,
    "how-to/migrating": nothing,
    "how-to/monitoring": nothing,
    "how-to/outbox": nothing,
    "how-to/readers": a_message,
    "how-to/retention": two_letters,
    "how-to/scaling-out": nothing,
    "how-to/secure": a_certificate,
    "how-to/serve": nothing,
    "how-to/several-processes": a_queue,
    "how-to/shell": a_broker,
    "how-to/topics": nothing,
    "how-to/workers": nothing,
}
"""Page → what is there before it begins."""


@pytest.fixture(autouse=True)
def curl() -> None:
    """Skip without what pages call; continuous integration must have it."""
    lacking = [name for name in ("bash", "curl") if shutil.which(name) is None]
    if lacking:
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say(f"{lacking} are not installed")


@pytest.mark.parametrize("page", PAGES)
def test_the_page_can_be_followed(page: str, environment: Installed, tmp_path: Path) -> None:
    with Desk(tmp_path, environment) as desk:
        PAGES[page](desk)
        desk.follow(blocks(f"docs/{page}.md"))


def test_the_readme_can_be_followed(environment: Installed, tmp_path: Path) -> None:
    found = blocks("README.md")
    (calls,) = (place for place, (_, text) in enumerate(found) if "call AdminService" in text)
    with Desk(tmp_path, environment) as desk:
        desk.follow([block for block in found[:calls] if "make test" not in block[1]])
        desk.follow([found[calls]])
        assert desk.secret
    (tmp_path / "empty").mkdir()
    with Desk(tmp_path / "empty", environment) as desk:
        desk.follow([block for block in found[calls + 1 :] if block[0] == "console"])


def test_the_tutorial_can_be_followed(environment: Installed, tmp_path: Path) -> None:
    found = blocks("docs/tutorial.md")
    with Desk(tmp_path, environment) as desk:
        desk.follow([block for block in found if block[0] == "console"])
        desk.end_broker()
        desk.follow([block for block in found if block[0] != "console"])


def test_the_page_on_remote_stores_can_be_followed(environment: Installed, tmp_path: Path) -> None:
    found = blocks("docs/how-to/remote-store.md")
    (program,) = (place for place, (language, _) in enumerate(found) if language == "python")
    with running_sqld(tmp_path, key=PUBLIC) as hosted, running_tursodb(tmp_path) as beside:
        moved = {
            "libsql://queue-acme.example.com": f"libsql://127.0.0.1:{hosted.port}?tls=0",
            "eyJhbGciOi…": token(a="rw"),
            "127.0.0.1:8080": f"127.0.0.1:{beside.port}",
        }
        found = [(language, replaced(text, moved)) for language, text in found]
        with Desk(tmp_path, environment) as desk:
            desk.follow(found[:program])
            desk.end_broker()  # a database has one owner
            desk.follow(found[program:])
            assert token(a="rw") not in "\n".join(desk.said)


def replaced(text: str, moved: Mapping[str, str]) -> str:
    for name, real in moved.items():
        text = text.replace(name, real)
    return text


def test_the_page_on_keys_can_be_followed_and_leaves_no_secret_to_others(
    environment: Installed, tmp_path: Path
) -> None:
    with Desk(tmp_path, environment) as desk:
        desk.serve("mqlite serve")
        before = {each.name for each in tmp_path.iterdir()}
        desk.follow(blocks("docs/how-to/access-keys.md"))
        desk.end_broker()
        left = [each for each in tmp_path.iterdir() if each.name not in before]
        assert {each.name: each.stat().st_mode & 0o077 for each in left} == {
            "next.token": 0, "audit.json": 0,
        }  # fmt: skip
        kept = "\n".join(desk.said).encode() + b"".join(
            data for name, data in content(tmp_path).items() if data and name.startswith("mq.db")
        )
        assert desk.secret
        assert kept
        assert not [each for each in spellings(f"mqk_{desk.secret}") if each in kept]
