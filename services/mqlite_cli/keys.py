"""Access keys: key create, key list, key revoke.

Called by `dispatch` through the command table. A token exists in one answer only, so the order of
`create` is the point: whether it can be handed over is settled first (standard output that somebody
reads, or a new file), the id is on standard error before the request leaves, and whatever goes
wrong afterwards names the id to revoke. Without a broker the file itself is asked, which is how a
first key is made (ruling R18).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence

import msgspec

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import InvalidArgument, NotFound, OutcomeUnknown
from mqlite_actor.contract.keys import (
    AccessKey,
    CreateKeyRequest,
    ListKeysRequest,
    RevokeKeyRequest,
)
from mqlite_actor.contract.limits import KEYS_PAGE_DEFAULT, KEYS_PAGE_MAX
from mqlite_actor.contract.wire import StatusRequest
from mqlite_cli.escaping import field
from mqlite_cli.foretelling import tell
from mqlite_cli.grammar import did_you_mean
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.moments import read_moment, shown_moment
from mqlite_cli.output import key_values
from mqlite_cli.refusals import Refusal
from mqlite_cli.secret_file import SecretFile
from mqlite_cli.streams import OutputFailed
from mqlite_cli.target import BrokerTarget
from mqlite_cli.their_time import earliest, likely_ms

STATES = ("active", "expired", "revoked")
_TOKEN_PREFIX = "mqk_"  # the public beginning of every token, not a secret
_ID = re.compile("[0-9a-f]{32}")


def create(run: Invocation) -> int:
    """`key create`: the token once, on standard output or in a new file of the owner's alone."""
    arguments = run.arguments
    path = arguments.text("secret-file")
    if not path and run.streams.undeliverable:
        raise Refusal(
            f"nobody can read standard output ({run.streams.undeliverable}), so no key was made; "
            "--secret-file keeps its token"
        )
    request = CreateKeyRequest(
        id=_own_id(arguments.text("id")),
        name=_needed(run, "name"),
        permissions=[word.strip() for word in _needed(run, "permissions").split(",")],
        expires_at_ms=_expiry(run),
    )
    with SecretFile(path) as secret_file:
        run.streams.complain(f"key id={request.id}")
        try:
            made = run.ask(request)
        except OutcomeUnknown as error:
            error.add_note(f"if it was made, its token is lost: mqlite key revoke {request.id}")
            raise
        key, token = made.key, made.token
        try:
            if path:
                secret_file.keep(token)
            _show_made(run, key, token="" if path else token, path=path)
        except (OutputFailed, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise Refusal(
                f"the key was made, but its token could not be handed over ({reason}); "
                f"revoke it: mqlite key revoke {key.id}"
            ) from error
    return 0


def list_keys(run: Invocation) -> int:
    """`key list`: one page, or all; keys that are over stay in the list."""
    arguments = run.arguments
    limit = arguments.number("limit", KEYS_PAGE_DEFAULT)
    if not 1 <= limit <= KEYS_PAGE_MAX:
        raise InvalidArgument(f"--limit: from 1 to {KEYS_PAGE_MAX}")
    state = arguments.text("state")
    if state and state not in STATES:
        known = ", ".join(STATES)
        hint = did_you_mean(state, STATES)
        raise InvalidArgument(f"--state: {field(state)} is none of {known}{hint}")
    request = ListKeysRequest(arguments.text("after"), limit, arguments.text("sort"))
    follows = arguments.is_on("all")

    def work(caller: Caller) -> tuple[list[AccessKey], str, int]:
        found = _pages(caller, request, follows=follows)
        return *found, likely_ms(caller, StatusRequest())

    keys, next_after, now_ms = run.session(work)
    shown = [key for key in keys if not state or _state(key, now_ms) == state]
    _show_page(run, shown, next_after, now_ms=now_ms)
    return 0


def revoke(run: Invocation) -> int:
    """`key revoke ID`: repeating it succeeds."""
    (key_id,) = run.arguments.words
    token = run.target.token if isinstance(run.target, BrokerTarget) else ""

    is_dry = run.arguments.is_on("dry-run")

    def work(caller: Caller) -> str:
        # Every managed key begins so; a broker's list of tokens is not revoked here.
        if token.startswith(_TOKEN_PREFIX) and not run.arguments.is_on("yes"):
            _refuse_own(caller, token, key_id)
        if is_dry:
            return _state(_found(caller, key_id), likely_ms(caller, StatusRequest()))
        caller.call(RevokeKeyRequest(id=key_id))
        return ""

    state = run.session(work)
    if is_dry:
        return tell(run, {"id": key_id, "state": state})
    run.output.done({"action": "key-revoke", "id": key_id})
    return 0


def _found(caller: Caller, key_id: str) -> AccessKey:
    """The key of this id; NotFound as the revocation of it would answer."""
    keys, _ = _pages(caller, ListKeysRequest(), follows=True)
    for key in keys:
        if key.id == key_id:
            return key
    raise NotFound(f"no key has the id {key_id}")


def _refuse_own(caller: Caller, token: str, key_id: str) -> None:
    """Refusal if the key is the one that this very command uses."""
    digest = hashlib.sha256(token.encode()).hexdigest()
    try:
        found = caller.call(ListKeysRequest(token_sha256=digest)).keys
    except InvalidArgument:
        return  # a broker of another make, which cannot tell
    if [key.id for key in found] == [key_id]:
        raise Refusal(
            f"{key_id} is the key that this command uses, and nothing was done; --yes revokes it"
        )


def _own_id(given: str) -> str:
    if given and not _ID.fullmatch(given):
        raise InvalidArgument("--id: 32 hexadecimal digits, lower case; leave it out for a new one")
    return given or os.urandom(16).hex()


def _needed(run: Invocation, name: str) -> str:
    value = run.arguments.text(name)
    if not value:
        raise Refusal(f"--{name} is needed; usage: {run.command.usage}")
    return value


def _expiry(run: Invocation) -> int:
    word, now = run.arguments.text("expires"), earliest(run, StatusRequest())
    here_ms = SystemClock().now_ms()
    return read_moment(word, field="--expires", now=now, here_ms=here_ms) if word else 0


def _show_made(run: Invocation, key: AccessKey, *, token: str, path: str) -> None:
    where = {"token": token} if token else {"token_file": path}
    line = key_values({
        "action": "key-create",
        "id": key.id,
        "permissions": ",".join(key.permissions),
        "expires": shown_moment(key.expires_at_ms) if key.expires_at_ms else "never",
        **{name.replace("_", "-"): value for name, value in where.items()},
    })  # fmt: skip
    run.output.record({"key": msgspec.to_builtins(key), **where}, line=f"ok: {line}")
    run.streams.flush()


def _pages(
    caller: Caller, request: ListKeysRequest, *, follows: bool
) -> tuple[list[AccessKey], str]:
    """The keys of one page or of all, and where the next page begins ("" at the end)."""
    keys: list[AccessKey] = []
    while True:
        page = caller.call(request)
        keys += page.keys
        if not follows or not page.next_after_id or page.next_after_id == request.after_id:
            return keys, page.next_after_id
        request = msgspec.structs.replace(request, after_id=page.next_after_id)


def _show_page(run: Invocation, keys: Sequence[AccessKey], next_after: str, *, now_ms: int) -> None:
    page = {
        "keys": [{**msgspec.to_builtins(key), "state": _state(key, now_ms)} for key in keys],
        **({"next_after_id": next_after} if next_after else {}),
    }
    lines = [_line(key, now_ms) for key in keys] or ["(no keys)"]
    if next_after:
        lines.append(f"next_after_id={field(next_after)}")
    run.output.record(page, line="\n".join(lines))


def _state(key: AccessKey, now_ms: int) -> str:
    if key.revoked_at_ms:
        return "revoked"
    return "expired" if key.expires_at_ms and key.expires_at_ms <= now_ms else "active"


def _line(key: AccessKey, now_ms: int) -> str:
    return key_values({
        "id": key.id,
        "state": _state(key, now_ms),
        "permissions": ",".join(key.permissions),
        "created": shown_moment(key.created_at_ms),
        "expires": shown_moment(key.expires_at_ms) if key.expires_at_ms else "never",
        **({"revoked": shown_moment(key.revoked_at_ms)} if key.revoked_at_ms else {}),
        "name": key.name,
    })  # fmt: skip
