"""`check` and `restore`: is a file sound, and put a sound one in its place.

Called by `dispatch` through the command table; calls `engine.upkeep`, whose parts own the rules.
Both work on files of this machine and dial nobody. What would be replaced has to be named once
more, since a path is easily mistyped.
Rule: a word is a path to the letter; only behind `file:` it is a store's string, with options.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from mqlite_actor.contract.errors import StorageDamaged
from mqlite_actor.engine import upkeep
from mqlite_actor.engine.upkeep import Finding, Verdict
from mqlite_actor.sdk.address import masked
from mqlite_cli.escaping import field, visible
from mqlite_cli.foretelling import tell
from mqlite_cli.invocation import Invocation
from mqlite_cli.output import Pairs
from mqlite_cli.refusals import Refusal
from mqlite_cli.target import from_here

_STORE = "file:"
_COLOURS = {Verdict.OK: "good", Verdict.WARN: "warn", Verdict.FAIL: "bad"}


class Report(msgspec.Struct, frozen=True):
    """What `check` prints as JSON."""

    path: str
    ok: bool
    findings: list[Finding]


def check(run: Invocation) -> int:
    """`check FILE`: a line for each thing looked at; 1 if one of them failed."""
    path = _path_of(run.arguments.words[0])
    if run.arguments.is_on("mend-counts"):
        mended = upkeep.mend_counts(path)
        run.output.done({"action": "check", "path": path, "mended": mended})
        return 0
    with run.output.terminal.progress(f"checking {path}"):
        found = upkeep.check_file(path)
    return told(run, Report(path, not upkeep.failures(found), found), found)


def told(run: Invocation, report: msgspec.Struct, found: list[Finding]) -> int:
    """Print a report: of text a line for each finding. 0, or Refusal if one of them failed."""
    run.output.document(report, line="\n".join(_shown(run, each) for each in found))
    run.streams.flush()
    failed = upkeep.failures(found)
    if failed:
        raise Refusal(f"{len(failed)} of {len(found)} checks failed: "
                      f"{', '.join(each.name for each in failed)}")  # fmt: skip
    return 0


def restore(run: Invocation) -> int:
    """`restore SNAPSHOT FILE`: the whole snapshot at FILE, or FILE as it was; with --dry-run what
    it would do, or why it would not."""
    arguments = run.arguments
    snapshot, path = map(_path_of, arguments.words)
    if "?" in arguments.words[1] and not arguments.words[1].startswith(_STORE):
        raise Refusal(f"no store can be opened as {field(arguments.words[1])}: behind ? stand"
                      " options; use another name for FILE")  # fmt: skip
    name, is_dry = Path(path).name, arguments.is_on("dry-run")
    if arguments.has("replace") and arguments.text("replace") != name:
        raise Refusal(f"--replace says {field(arguments.text('replace'))}, FILE is {field(name)}")
    try:
        with run.output.terminal.progress(f"{'checking' if is_dry else 'restoring'} {snapshot}"):
            done = (upkeep.foretell if is_dry else upkeep.restore)(
                snapshot,
                path,
                may_replace=arguments.has("replace"),
                is_checked=arguments.is_on("verify") or not arguments.has("verify"),
            )
    except upkeep.NotAlone as error:
        shown = ", ".join(field(each) for each in error.names)
        raise Refusal(f"{shown} would be replaced; --replace {field(name)} moves what is there "
                      "aside, and nothing was done") from error  # fmt: skip
    except StorageDamaged as error:
        raise Refusal(error.message) from error
    except OSError as error:
        raise Refusal(f"cannot restore to {path}: {error.strerror}; nothing was done") from error
    pairs: Pairs = {"path": done.path, "size_bytes": done.size_bytes}
    if is_dry:
        return tell(run, {**pairs, **({"would_keep": done.kept} if done.kept else {})})
    run.output.done({"action": "restore", **pairs, **({"kept": done.kept} if done.kept else {})})
    return 0


def _path_of(word: str) -> str:
    """The absolute path of the file that a word names, of a snapshot too."""
    if word.startswith(_STORE) or word in ("", ":memory:"):
        return upkeep.path_of(word)
    if "://" in word:  # an address of something else, perhaps with a credential
        raise Refusal(f"{field(masked(word))} is no file of this machine")
    return upkeep.file_at(from_here(word))


def _shown(run: Invocation, found: Finding) -> str:
    """One finding on one line."""
    verdict = run.output.terminal.styled(f"{found.verdict:<5}", _COLOURS[found.verdict])
    mend = f"; {found.mend}" if found.mend else ""
    return f"{verdict} {found.name + ':':<14} {visible(found.detail + mend)}"
