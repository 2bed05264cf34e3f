"""The broker's part of `doctor`: is it there, does it take our credential, and is it well?

Called by `doctor`. What it asks changes nothing: the rights of a credential are told from how the
broker refuses requests that name no queue, for a right that is missing is refused first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mqlite_actor.clock import SystemClock
from mqlite_actor.contract.errors import MqliteError, PermissionDenied, Unauthenticated
from mqlite_actor.contract.observe import ObserveRequest, ObserveResponse
from mqlite_actor.contract.wire import (
    Request,
    SendRequest,
    StatsRequest,
    StatusRequest,
    StatusResponse,
)
from mqlite_actor.engine.upkeep import Finding, Verdict
from mqlite_actor.sdk.address import dial
from mqlite_actor.sdk.http_sync import CONNECT_SECONDS
from mqlite_actor.version import __version__
from mqlite_cli.invocation import Caller, Invocation
from mqlite_cli.moments import shown_moment
from mqlite_cli.securing import tls_context
from mqlite_cli.target import BrokerTarget

SKEW_MS_MAX = 2_000
"""More than a network and a busy broker explain; a schedule or an expiry is off by as much."""

SLOW_MS = 1_000
"""A broker in reach answers in a few milliseconds; this is a queue in front of it, or a far one."""

CERTIFICATE_MS_MIN = 14 * 86_400_000
"""Those who renew by themselves do so a month before the end, so this one was forgotten."""

_PROBES: dict[str, Request[Any]] = {
    "send": SendRequest(),
    "listen": StatsRequest(),
}


def broker(run: Invocation) -> Iterator[Finding]:
    """Of the broker in force."""
    assert isinstance(run.target, BrokerTarget)
    name = run.target.endpoint.shown
    found: list[Finding] = []
    try:
        run.session(lambda caller: found.extend(_asked(caller, name)))
    except MqliteError as error:
        mend = "is it running there, and is the way to it open? `mqlite wait-ready` waits for one"
        found.append(Finding("broker", Verdict.FAIL, error.message, mend))
    yield from found
    if dial(run.target.endpoint).is_tls and found[0].verdict is not Verdict.FAIL:
        yield _certificate(run, run.target)


def _certificate(run: Invocation, target: BrokerTarget) -> Finding:
    """How long the broker's certificate still holds."""
    import socket  # noqa: PLC0415 - this and the next for TLS alone
    import ssl  # noqa: PLC0415 - see above

    place = dial(target.endpoint)
    context = tls_context(run.arguments, target.files, is_tls=True)
    context = context or ssl.create_default_context()
    try:
        with (
            socket.create_connection((place.host, place.port), CONNECT_SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=place.host) as secure,
        ):
            shown = secure.getpeercert() or {}
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return Finding("certificate", Verdict.WARN, f"it could not be looked at ({reason})")
    end_ms = int(1000 * ssl.cert_time_to_seconds(str(shown["notAfter"])))
    is_late = end_ms - SystemClock().now_ms() < CERTIFICATE_MS_MIN
    mend = "renew it, and restart the broker, which reads it at its start" if is_late else ""
    verdict = Verdict.WARN if is_late else Verdict.OK
    return Finding("certificate", verdict, f"holds until {shown_moment(end_ms)}", mend)


def _asked(caller: Caller, name: str) -> Iterator[Finding]:
    clock = SystemClock()
    before = clock.monotonic()
    try:
        status: StatusResponse | None = caller.call(StatusRequest())
    except Unauthenticated as error:
        yield Finding("broker", Verdict.OK, f"{name} answers")
        mend = "name a token of this broker with --token-file or MQLITE_TOKEN"
        yield Finding("token", Verdict.FAIL, error.message or "it is not accepted", mend)
        return
    except PermissionDenied:
        status = None
    took_ms = round(1000 * (clock.monotonic() - before))
    verdict, mend = Verdict.OK, ""
    if took_ms > SLOW_MS:
        verdict, mend = Verdict.WARN, "compare `mqlite ping` from the machine of the broker"
    yield Finding("broker", verdict, f"{name} answers in {took_ms} ms", mend)
    yield _token(caller, status)
    if status is not None:
        yield _version(status)
    yield from _well(caller)


def _token(caller: Caller, status: StatusResponse | None) -> Finding:
    if status is not None and not status.auth:
        return Finding("token", Verdict.WARN, "authentication is off",
                       "fine on one's own machine; else give the broker MQLITE_TOKENS")  # fmt: skip
    rights = [right for right, probe in _PROBES.items() if _may(caller, probe)]
    if status is not None:
        rights = ["manage (and all others)"]
    if not rights:
        return Finding("token", Verdict.OK, "accepted, to monitor and nothing else")
    return Finding("token", Verdict.OK, f"accepted, with the rights: {', '.join(rights)}")


def _may(caller: Caller, request: Request[Any]) -> bool:
    try:
        caller.call(request)
    except PermissionDenied:
        return False
    except MqliteError:
        return True  # refused for what it names, so it was let in
    return True


def _version(status: StatusResponse) -> Finding:
    if status.version == __version__:
        return Finding("version", Verdict.OK, f"both {__version__}")
    return Finding(
        "version",
        Verdict.WARN,
        f"the broker is {status.version}, this command {__version__}",
        "a command that the older of the two lacks says so; install the same version to be sure",
    )


def _well(caller: Caller) -> Iterator[Finding]:
    before_ms = SystemClock().now_ms()
    try:
        seen = caller.call(ObserveRequest())
    except PermissionDenied:
        yield Finding("health", Verdict.OK, "this credential may not look at it")
        return
    except MqliteError as error:
        yield Finding("health", Verdict.WARN, f"it cannot be observed: {error.message}")
        return
    yield _skew(seen.sampled_at_ms, before_ms, SystemClock().now_ms())
    yield _health(seen)


def _skew(theirs_ms: int, before_ms: int, after_ms: int) -> Finding:
    """How far the clocks are apart at least: the sample was taken between our two looks."""
    skew_ms = max(theirs_ms - after_ms, before_ms - theirs_ms, 0)
    if skew_ms <= SKEW_MS_MAX:
        return Finding("skew", Verdict.OK, f"the clocks agree to {max(skew_ms, 1)} ms or so")
    return Finding(
        "skew",
        Verdict.WARN,
        f"the broker's clock is {skew_ms} ms {'ahead' if theirs_ms > after_ms else 'behind'}"
        f" ({shown_moment(theirs_ms)})",
        "set both by the same time server; schedules and expiries go by the broker's",
    )


def _health(seen: ObserveResponse) -> Finding:
    ill = [
        f"{task.task} failed {task.consecutive_failures} time(s) in a row ({task.last_error_code})"
        for task in seen.maintenance
        if task.consecutive_failures
    ]
    boots = seen.diagnostics.earlier_boots
    if ill:
        return Finding("health", Verdict.FAIL, "; ".join(ill), "see `mqlite observe` and its log")
    if seen.diagnostics.state == "failing":
        return Finding("health", Verdict.WARN, "its diagnostic log cannot be written",
                       "look at the folder of --diagnostics-dir on its machine")  # fmt: skip
    if boots and not boots[-1].stopped:
        return Finding("health", Verdict.WARN, "the broker before this one did not end in order",
                       "look for kills and full memory in its system's log")  # fmt: skip
    return Finding("health", Verdict.OK, f"all {len(seen.maintenance)} background tasks are well")
