"""The wheel alone runs everything: broker, commands, both kinds of handle, monitor, MCP server.

Each program sees the packages of one extra and no others, so that an extra which forgets one fails
here (ruling R36); what an extra does not bring is refused with the line that installs it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin
from urllib.request import urlopen

import pytest

from mqlite_actor.version import __version__
from tests.house.tree import project_files
from tests.packages.installed import Installed
from tests.services.broker_process import BrokerProcess
from tests.services.mcp_process import INITIALIZE

TOKEN = "installed-token"

EMBEDDED = """
import sys, trio
import mqlite_actor as mq
async def main():
    async with mq.open_embedded("file:embedded.db") as q:
        await q.create_queue("q")
        await q.send_one("q", b"here")
        (message,) = await q.receive("q")
        await message.complete()
        print(message.text, (await q.stats("q")).total)
trio.run(main)
print(sorted({"quart", "hypercorn", "rich", "httpcore", "mcp"} & sys.modules.keys()))
print(mq.__file__)
"""

REMOTE = """
import sys
import mqlite_actor as mq
dsn = sys.argv[1]
with mq.connect_sync(dsn) as q:
    q.create_queue("sync")
    q.send_one("sync", b"blocking")
    print(q.receive("sync")[0].text)
async def main():
    async with mq.connect(dsn) as q:
        await q.create_queue("async")
        await q.send_one("async", b"waiting")
        print((await q.receive("async"))[0].text)
import trio; trio.run(main)
import asyncio; asyncio.run(main())
"""

LACKING = """
import trio
import mqlite_actor as mq
async def main():
    try:
        async with mq.connect("mqlite://t@127.0.0.1:1") as q:
            await q.ping()
    except mq.MqliteError as error:
        print(type(error).__name__, error)
trio.run(main)
"""


@pytest.fixture(scope="module")
def broker(environment: Installed) -> Iterator[str]:
    """A broker of the wheel, with the packages of its extra alone; its address."""
    process = subprocess.Popen(
        environment.command("mqlite", ["serve", "--metrics"]),
        cwd=environment.folder,
        env=environment.environ(
            "broker",
            {"MQLITE_ADDR": "127.0.0.1:0", "MQLITE_TOKENS": TOKEN, "MQLITE_WORKERS": "1"},
        ),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    serving = BrokerProcess(process)
    try:
        yield serving.url
        serving.stop()
    finally:
        process.kill()
        process.wait()


def test_the_command_says_the_version_of_the_wheel(environment: Installed) -> None:
    done = environment.run("", "mqlite", "version")
    assert (done.returncode, done.stderr) == (0, "")
    assert __version__ in done.stdout


def test_every_file_of_a_package_is_found_as_its_data(environment: Installed) -> None:
    wanted = [
        path.removeprefix("services/")
        for path in project_files()
        if path.startswith(("mqlite_actor/", "services/")) and not path.endswith(".py")
    ]
    assert {"mqlite_actor/py.typed", "mqlite_actor/storage/schema.sql"} <= set(wanted)
    code = (
        "import sys; from importlib.resources import files\n"
        "for path in sys.argv[1:]:\n"
        "    package, _, rest = path.partition('/')\n"
        "    if not files(package).joinpath(rest).is_file(): print(path)\n"
    )
    done = environment.run("", "python", "-c", code, *wanted)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_core_alone_embeds_a_queue(environment: Installed) -> None:
    done = environment.run("", "python", "-W", "error", "-c", EMBEDDED)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["here 0", "[]"]
    assert Path(lines[2]).is_relative_to(environment.folder)


@pytest.mark.parametrize(
    ("script", "words", "extra"),
    [
        ("mqlite", ("serve",), "broker"),
        ("mqlite", ("top", "--endpoint", "http://127.0.0.1:1"), "monitor"),
        ("mqlite-mcp", (), "mcp"),
    ],
)
def test_a_program_without_its_extra_says_how_to_get_it(
    environment: Installed, script: str, words: tuple[str, ...], extra: str
) -> None:
    done = environment.run("", script, *words)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert f"install mqlite-actor[{extra}]" in done.stderr


def test_a_handle_without_its_extra_says_how_to_get_it(environment: Installed) -> None:
    done = environment.run("", "python", "-c", LACKING)
    assert "install mqlite-actor[client]" in done.stdout, done.stderr


def test_the_client_reaches_the_broker_from_both_loops_and_from_none(
    environment: Installed, broker: str
) -> None:
    dsn = broker.replace("http://", f"mqlite://{TOKEN}@")
    done = environment.run("client", "python", "-W", "error", "-c", REMOTE, dsn)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["blocking", "waiting", "waiting"]


def test_the_broker_serves_its_console(broker: str) -> None:
    with urlopen(f"{broker}/ui/", timeout=60) as page:
        assert page.headers.get_content_type() == "text/html"
        scripts = re.findall(r'src="([^"]+\.js)"', page.read().decode())
    assert scripts
    for script in scripts:
        with urlopen(urljoin(f"{broker}/ui/", script), timeout=60) as module:
            assert module.read()


@pytest.mark.parametrize("extra", ["", "cli"])
def test_commands_talk_to_the_broker(environment: Installed, broker: str, extra: str) -> None:
    variables = {"MQLITE_ENDPOINT": broker, "MQLITE_TOKEN": TOKEN}
    queue = f"jobs-{extra or 'core'}"
    for words, printed in (
        (("create-queue", queue), f"ok: action=create-queue queue={queue}\n"),
        (("send", queue, "resize"), f"ok: queue={queue} seq="),
        (("receive", queue), 'body="resize"'),
    ):
        done = environment.run(extra, "mqlite", *words, **variables)
        assert (done.returncode, done.stderr) == (0, ""), words
        assert printed in done.stdout


def test_the_monitor_shows_the_broker(environment: Installed, broker: str) -> None:
    variables = {"MQLITE_ENDPOINT": broker, "MQLITE_TOKEN": TOKEN}
    done = environment.run("monitor", "mqlite", "top", "--once", **variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert __version__ in done.stdout


def test_the_mcp_server_begins_a_session(environment: Installed, broker: str) -> None:
    done = subprocess.run(
        environment.command("mqlite-mcp", []),
        cwd=environment.folder,
        env=environment.environ("mcp", {"MQLITE_ENDPOINT": broker, "MQLITE_TOKEN": TOKEN}),
        input=json.dumps(INITIALIZE) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["result"]["serverInfo"]["version"] == __version__
