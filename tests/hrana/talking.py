"""A plain client for the tests of the server: one kept connection, requests as they are written."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.hrana.values import Json, Value, decoded, encoded

BOUND_SECONDS: Final = 15.0

CLOSE: Final = {"type": "close"}


class Talk:
    """A conversation with a server; `status`, `text` and `headers` are of its latest answer."""

    def __init__(self, url: str, token: str = "", tls: ssl.SSLContext | None = None) -> None:
        host = url.partition("://")[2]
        self._connection = (
            http.client.HTTPSConnection(host, timeout=BOUND_SECONDS, context=tls)
            if tls
            else http.client.HTTPConnection(host, timeout=BOUND_SECONDS)
        )
        self._headers = {"Content-Type": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self.status = 0
        self.text = ""
        self.headers: dict[str, str] = {}
        self.baton: str | None = None
        self.version = 3

    def post(self, path: str, body: str) -> str:
        """Send a body; the answer's."""
        try:
            self._connection.request("POST", path, body, self._headers)
            return self._read()
        except (OSError, http.client.HTTPException):
            self._connection.close()  # the next request goes over another one
            raise

    def get(self, path: str) -> int:
        """The status of a page."""
        self._connection.request("GET", path)
        self._read()
        return self.status

    def pipeline(self, *requests: Json, baton: str | None = None, **more: Json) -> Json:
        """The whole answer, out of JSON; AssertionError when it is none."""
        text = self.post(
            f"/v{self.version}/pipeline",
            json.dumps({"baton": baton, "requests": requests, **more}),
        )
        assert self.status == 200, f"{self.status} {text[:500]}"
        answer = json.loads(text)
        self.baton = answer["baton"]
        return answer

    def ask(self, *requests: Json, baton: str | None = None) -> list[Json]:
        """The results of a pipeline."""
        results: list[Json] = self.pipeline(*requests, baton=baton)["results"]
        assert len(results) == len(requests)
        return results

    def refused(self, *requests: Json, baton: str | None = None) -> tuple[int, str]:
        """Status and text of a pipeline that fails as a whole."""
        body = {"baton": baton, "requests": requests}
        text = self.post(f"/v{self.version}/pipeline", json.dumps(body))
        return self.status, text

    def run(self, sql: str, *arguments: Value, baton: str | None = None) -> list[tuple[Value, ...]]:
        """Rows of one statement, on a stream of its own that is closed; AssertionError if it
        failed."""
        (result, *_) = self.ask(execute(sql, *arguments), CLOSE, baton=baton)
        return rows(result)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def _read(self) -> str:
        response = self._connection.getresponse()
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()
        return self.text


@contextmanager
def talking(url: str, token: str = "", tls: ssl.SSLContext | None = None) -> Iterator[Talk]:
    """A conversation for the length of a block."""
    talk = Talk(url, token, tls)
    try:
        yield talk
    finally:
        talk.close()


def execute(sql: str, *arguments: Value) -> Json:
    """A request for one statement."""
    return {"type": "execute", "stmt": stmt(sql, *arguments)}


def stmt(sql: str, *arguments: Value) -> Json:
    """A statement."""
    return {"sql": sql, "args": [encoded(value) for value in arguments]}


def batch(*steps: Json) -> Json:
    """A request for steps: texts, or (text, condition)."""
    made = [
        {"stmt": stmt(step[0]), "condition": step[1]}
        if isinstance(step, tuple)
        else {"stmt": stmt(step)}
        for step in steps
    ]
    return {"type": "batch", "batch": {"steps": made}}


def rows(result: Json) -> list[tuple[Value, ...]]:
    """The rows of a result."""
    assert result["type"] == "ok", result
    return [tuple(decoded(v) for v in row) for row in result["response"]["result"]["rows"]]


def code(result: Json) -> str:
    """The code of an error in band."""
    assert result["type"] == "error", result
    assert set(result["error"]) == {"message", "code"}
    found: str = result["error"]["code"]
    return found


def outcomes(result: Json) -> list[str]:
    """What became of the steps of a batch: ok, skipped, or the code of an error."""
    assert result["type"] == "ok", result
    told = result["response"]["result"]
    found: list[str] = []
    for given, error in zip(told["step_results"], told["step_errors"], strict=True):
        assert not (given and error)
        found.append(error["code"] if error else "ok" if given else "skipped")
    return found


def condition(kind: str, *parts: Json) -> Json:
    """ok, error: of a step; not: of a condition; and, or: of conditions."""
    if kind in ("ok", "error"):
        return {"type": kind, "step": parts[0]}
    return {"type": "not", "cond": parts[0]} if kind == "not" else {"type": kind, "conds": parts}
