"""The samples of the page on proxies, run by nginx and by Caddy in front of a broker.

Ports, the certificate's place and what a distribution's own file has around a site are the test's;
the site is the page's, word by word.
"""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Final

import pytest
import trustme

from tests.deploy.prometheus_process import free_port, needed, until
from tests.house.tree import ROOT
from tests.services.broker_process import TOKEN, BrokerProcess, started

HOST: Final = "queue.example.com"
PAGE: Final = (ROOT / "docs/how-to/proxies.md").read_text("utf-8")
SITES: Final = dict(re.findall(r"^(\w+):\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))

Command = Callable[[Path, int], list[str]]
"""The words that start a proxy with a folder of its own at a port."""

LONGEST_WAIT_SECONDS: Final = 20
"""Of a receive."""


def nginx(folder: Path, port: int) -> list[str]:
    """Its command on the page's site, which it serves with a certificate of the test."""
    made = trustme.CA().issue_cert(HOST)
    made.private_key_pem.write_to_path(folder / "queue.key")
    made.cert_chain_pems[0].write_to_path(folder / "queue.pem")
    site = SITES["nginx"].replace("listen 443", f"listen 127.0.0.1:{port}")
    site = site.replace("/etc/ssl", str(folder))
    places = "".join(
        f"{name}_temp_path {folder}/{name};\n"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;\n" if os.geteuid() == 0 else ""  # else others could not enter the folder
    text = (
        f"{user}daemon off;\nworker_processes 1;\npid {folder}/pid;\nerror_log stderr;\n"
        f"events {{}}\nhttp {{\naccess_log off;\n{places}{site}}}\n"
    )
    (folder / "nginx.conf").write_text(text, "utf-8")
    return [needed("nginx"), "-c", str(folder / "nginx.conf"), "-e", "stderr"]


def caddy(folder: Path, port: int) -> list[str]:
    """Its command on the page's site, in clear: a certificate would come from the network."""
    site = SITES["Caddy"].replace(HOST, f"http://{HOST}:{port}", 1)
    text = f"{{\n\tadmin off\n\tauto_https off\n\tdefault_bind 127.0.0.1\n}}\n{site}"
    (folder / "Caddyfile").write_text(text, "utf-8")
    return [
        needed("caddy"), "run", "--config", str(folder / "Caddyfile"), "--adapter", "caddyfile",
    ]  # fmt: skip


Ask = Callable[..., tuple[int, bytes]]


@contextmanager
def through(
    command: Command, folder: Path, broker: BrokerProcess, *, is_tls: bool
) -> Iterator[Ask]:
    """How to ask the broker through a proxy that is at work for the length of the block."""
    port = free_port()
    words = command(folder, port)
    for name in ("nginx.conf", "Caddyfile"):
        if (folder / name).is_file():
            text = (folder / name).read_text("utf-8")
            assert text.count("127.0.0.1:6754") == 1
            (folder / name).write_text(text.replace(":6754", f":{broker.port}"), "utf-8")
    log = folder / "proxy.log"
    context = ssl._create_unverified_context() if is_tls else None

    def ask(path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = (
            HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
            if context
            else HTTPConnection("127.0.0.1", port, timeout=30)
        )
        headers = {"Host": HOST, "Authorization": f"Bearer {TOKEN}"}
        try:
            connection.request("POST" if body is not None else "GET", path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def is_up() -> bool:
        assert process.poll() is None, log.read_text("utf-8")
        try:
            return ask("/healthz") == (200, b"ok")
        except OSError:
            return False

    with log.open("wb") as said:
        process = subprocess.Popen(
            words,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        try:
            until(is_up, lambda: log.read_text("utf-8"))
            yield ask
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.parametrize("command", [nginx, caddy])
def test_the_site_of_the_page_lets_clients_in_and_keeps_numbers_inside(
    command: Command, tmp_path: Path
) -> None:
    data = tmp_path / "broker"
    data.mkdir()
    with started(data, MQLITE_METRICS="on") as broker:
        with through(command, tmp_path, broker, is_tls=command is nginx) as ask:
            assert ask("/metrics")[0] == 404
            assert ask("/mqlite.v1.AdminService/Observe", b"{}")[0] == 404
            assert ask("/ui/")[0] == 200
            assert ask("/mqlite.v1.AdminService/CreateQueue", b'{"name":"q"}') == (200, b"{}\n")
            large = [{"body": base64.b64encode(bytes(900_000)).decode()}] * 8
            send = json.dumps({"queue": "q", "messages": large}).encode()
            status, answer = ask("/mqlite.v1.QueueService/Send", send)
            assert (status, len(json.loads(answer)["seq_numbers"])) == (200, len(large))
        broker.stop()


def test_the_time_to_read_is_longer_than_a_receive_may_wait() -> None:
    (seconds,) = re.findall(r"proxy_read_timeout (\d+)s;", SITES["nginx"])
    assert int(seconds) > 2 * LONGEST_WAIT_SECONDS
