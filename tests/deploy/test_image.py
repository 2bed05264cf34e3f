"""The image's steps are done and its entry point is started, as the user and with the files it has.

What an engine adds, namespaces and a registry, is not tried; what the recipe says, is.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqlite_actor.version import __version__
from tests.deploy.image import ISOLATED, Image, can_isolate
from tests.services.broker_process import BrokerProcess, content

pytestmark = pytest.mark.promise("T84")


@contextmanager
def made() -> Iterator[Image]:
    """In a folder that the image's user may pass through, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="mqlite-image-"))
    folder.chmod(0o755)
    try:
        image = Image(folder)
        if os.geteuid() != 0:  # else nothing of it is the user's
            subprocess.run(
                ["chmod", "-R", "a-w", str(folder / "image/opt")], check=True, timeout=60
            )
        yield image
    finally:
        if os.geteuid() != 0:
            subprocess.run(["chmod", "-R", "u+w", str(folder)], check=True, timeout=60)
        shutil.rmtree(folder)


@contextmanager
def container(image: Image, **environ: str) -> Iterator[BrokerProcess]:
    """The entry point and its command, with the data folder as its volume."""
    data = image.stage.at("/data")
    words = image.command()
    # Popen looks a name up in our PATH, an engine in the image's.
    words[0] = str(image.stage.at("/opt/mqlite/bin") / words[0])
    user: int | None = image.user() if os.geteuid() != image.user() else None
    if can_isolate(data):
        words, user = [*ISOLATED, str(data), *words], None
    process = subprocess.Popen(
        words,
        cwd=data,
        env=image.environ(MQLITE_ADDR="127.0.0.1:0", MQLITE_WORKERS="1", **environ),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    serving = BrokerProcess(process)
    try:
        yield serving
    finally:
        process.kill()
        process.wait()


def entry_process(serving: BrokerProcess) -> int:
    """The entry point itself: below `unshare`, its one child."""
    number = serving.process.pid
    if "unshare" in Path(f"/proc/{number}/cmdline").read_text():
        children = Path(f"/proc/{number}/task/{number}/children").read_text()
        return int(children.split()[0])
    return number


def test_what_the_recipe_makes_does_what_it_promises() -> None:
    """One test, because making the image takes seconds and workers share nothing."""
    with made() as image:
        was_compiled_and_brings_no_pip_and_no_source_tree(image)
        holds_both_programs(image)
        serves_as_its_user_writes_into_its_volume_only_and_stops_in_order(image)


def serves_as_its_user_writes_into_its_volume_only_and_stops_in_order(image: Image) -> None:
    before = content(image.stage.at("/opt"))
    image.stage.at("/data/ssl.py").write_bytes(bytes(16))  # a backup may have any name
    with container(image) as serving:
        port = serving.port
        entry = entry_process(serving)
        status = Path(f"/proc/{entry}/status").read_text()
        assert f"Uid:\t{image.user()}\t{image.user()}\t{image.user()}" in status
        if can_isolate(image.stage.at("/data")):
            assert status.partition("NSpid:")[2].split("\n")[0].split()[-1] == "1"
            mounts = Path(f"/proc/{entry}/mountinfo").read_text().splitlines()
            (top,) = [line for line in mounts if line.split()[4] == "/"]
            assert top.split()[5].startswith("ro")
        assert health(image, port) == 0
        os.kill(entry, signal.Signals[image.stage.settings["STOPSIGNAL"]])
        assert serving.ended() == 0
        assert any("mqk_" in line for line in serving.err.to_the_end())
    assert content(image.stage.at("/opt")) == before
    assert image.stage.at("/data/mq.db").stat().st_mode & 0o777 == 0o600
    assert image.stage.at("/data/mq.db").stat().st_uid == image.user()
    assert health(image, port) != 0, "a probe of what has ended"


def health(image: Image, port: int) -> int:
    """The exit code of the image's own probe, asked at the port of this test."""
    program, *words = json.loads(image.stage.settings["HEALTHCHECK"])
    done = subprocess.run(
        [image.stage.at(f"/opt/mqlite/bin/{program}"), *words],
        cwd=image.stage.at("/data"), env=image.environ(MQLITE_ADDR=f"127.0.0.1:{port}"),
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode


def holds_both_programs(image: Image) -> None:
    for script, word in (("mqlite", "version"), ("mqlite-mcp", "--version")):
        done = subprocess.run(
            [image.stage.at(f"/opt/mqlite/bin/{script}"), word],
            env=image.environ(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert __version__ in done.stdout


def was_compiled_and_brings_no_pip_and_no_source_tree(image: Image) -> None:
    (site,) = image.stage.at("/opt/mqlite/lib").glob("python*/site-packages")
    assert list(site.glob("mqlite_broker/__pycache__/serve.*.pyc"))
    assert not (site / "pip").exists()
    assert {path.name for path in image.stage.root.iterdir()} == {"data", "opt"}
