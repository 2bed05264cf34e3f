"""Tokens from files: which file counts, what is refused, and that nothing shows a secret."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from mqlite_actor.contract.errors import InvalidArgument, OpenError
from mqlite_broker import tokens
from mqlite_broker.settings import Settings, read_settings
from tests.services.broker_process import started
from tests.services.broker_scene import path, raw

Flags = dict[str, str | bool]

TOKEN = re.compile(r"mqk_[0-9a-f]{64}")


def read(flags: Flags | None = None, /, **environ: str) -> Settings:
    return read_settings({"addr": "127.0.0.1:0", **(flags or {})}, environ)


def refusal(flags: Flags | None = None, /, **environ: str) -> str:
    with pytest.raises(InvalidArgument) as caught:
        read(flags, **environ)
    assert "secret" not in caught.value.message
    return caught.value.message


def written(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "list"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


@pytest.mark.parametrize("text", ["a,b", " a \n b \n", "a\r\nb\r\n", "a,\n\n,b\n", "\ufeffa\nb"])
def test_a_file_of_tokens_is_a_list_of_lines_or_commas(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, text)
    assert read(MQLITE_TOKENS_FILE=file).tokens == ("a", "b")


def test_a_file_of_monitor_tokens_goes_beside_the_administrators(tmp_path: Path) -> None:
    file = written(tmp_path, "m\nn\n")
    settings = read(MQLITE_TOKENS="a", MQLITE_MONITOR_TOKENS_FILE=file)
    assert settings.monitor_tokens == ("m", "n")
    assert "MONITOR_TOKENS_FILE" in refusal(MQLITE_TOKENS="m", MQLITE_MONITOR_TOKENS_FILE=file)
    assert "MONITOR_TOKENS_FILE" in refusal(MQLITE_TOKENS="off", MQLITE_MONITOR_TOKENS_FILE=file)


@pytest.mark.parametrize(
    "text",
    ["", " \n", ",", "off", " OFF\n", "a secret\n", b"\xffsecret", "x" * (64 * 1024 + 1)],
)
def test_a_file_that_holds_no_tokens_is_refused_by_its_variable(
    tmp_path: Path, text: str | bytes
) -> None:
    assert "MQLITE_TOKENS_FILE" in refusal(MQLITE_TOKENS_FILE=written(tmp_path, text))


def test_a_file_that_is_not_there_or_no_file_is_refused_by_its_variable(tmp_path: Path) -> None:
    for name in ("MQLITE_TOKENS_FILE", "MQLITE_MONITOR_TOKENS_FILE"):
        for bad in (tmp_path / "none", tmp_path):
            assert name in refusal({}, **{name: str(bad)})


def test_two_sources_of_tokens_are_refused_by_their_names(tmp_path: Path) -> None:
    file = written(tmp_path, "a")
    words = refusal(MQLITE_TOKENS="secret", MQLITE_TOKENS_FILE=file)
    assert "MQLITE_TOKENS and MQLITE_TOKENS_FILE" in words
    for environ in ({"MQLITE_TOKENS": "off"}, {"MQLITE_TOKENS_FILE": file}):
        words = refusal({"token-file": file}, **environ)
        assert "--token-file" in words
        assert next(iter(environ)) in words
    words = refusal(MQLITE_MONITOR_TOKENS="secret", MQLITE_MONITOR_TOKENS_FILE=file)
    assert "MQLITE_MONITOR_TOKENS and MQLITE_MONITOR_TOKENS_FILE" in words


def test_a_token_file_is_read_if_it_is_there_and_else_left_to_be_made(tmp_path: Path) -> None:
    there = read({"token-file": written(tmp_path, "a\n")})
    assert (there.tokens, there.is_token_generated, there.token_file) == (("a",), False, "")
    path = tmp_path / "new"
    missing = read({"token-file": str(path)})
    assert missing.tokens is not None
    assert TOKEN.fullmatch(missing.tokens[0])
    assert (missing.is_token_generated, missing.token_file) == (True, str(path))
    assert not path.exists(), "only a broker that got its port makes it"
    for bad in (written(tmp_path, ""), ""):
        assert "--token-file" in refusal({"token-file": bad})


def test_a_kept_token_is_never_written_over_another(tmp_path: Path) -> None:
    path = tmp_path / "token"
    found = tokens.generated(str(path))
    tokens.keep(found)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert found.values == (path.read_text().strip(),)
    for file in (str(path), str(tmp_path / "none" / "token")):
        with pytest.raises(OpenError, match="--token-file"):
            tokens.keep(tokens.generated(file))
    assert found.values == (path.read_text().strip(),)


def test_settings_show_no_token() -> None:
    settings = read(MQLITE_TOKENS="secret-a", MQLITE_MONITOR_TOKENS="secret-m")
    assert "secret" not in repr(settings)
    assert "secret" not in str(settings)


def test_a_token_file_that_cannot_be_made_is_one_line_and_no_token(tmp_path: Path) -> None:
    with started(
        tmp_path, "--token-file", str(tmp_path / "none/token"), MQLITE_TOKENS=""
    ) as broker:
        assert broker.ended() == 1
        said = broker.err.to_the_end()
    assert said[-1].startswith("error: --token-file: ")
    assert not TOKEN.search("\n".join(said))


async def test_a_token_file_is_made_once_and_nothing_is_printed(tmp_path: Path) -> None:
    file = tmp_path / "token"
    found = set()
    for _ in range(2):
        with started(tmp_path, "--token-file", str(file), MQLITE_TOKENS="") as broker:
            assert broker.port
            field = f"Authorization: Bearer {file.read_text().strip()}"
            async with await broker.connect() as client:
                answer = await client.ask(raw(path("AdminService/Status"), fields=(field,)))
                assert answer.status == 200
            said = "\n".join(broker.stop())
        found.add(file.read_text())
        assert not TOKEN.search(said)
    assert len(found) == 1
