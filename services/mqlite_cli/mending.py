"""What a command changes in dead letters before they go back: one, or all that were chosen.

Called by `resubmit` (`dead_letters`), whose flags name the fields, and by `redrive` (`redriving`),
where those flags choose messages and `--set` changes them. What is not named stays.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from mqlite_actor.contract.ext import MessagePatch
from mqlite_actor.contract.wire import Message
from mqlite_cli.bodies import read_body
from mqlite_cli.escaping import field
from mqlite_cli.grammar import did_you_mean
from mqlite_cli.invocation import Invocation
from mqlite_cli.refusals import Refusal

FIELDS = {
    "message-id": "message_id",
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "group": "group_id",
    "content-type": "content_type",
    "subject": "subject",
}
"""Flag, or key of --set → the field of a dead letter that it replaces."""

_PROPERTY = "prop."


class Edit:
    """The same changes for every message that was chosen."""

    __slots__ = ("_dropped", "_fields", "_properties")

    def __init__(
        self, fields: Mapping[str, str | bytes], properties: Mapping[str, str], dropped: list[str]
    ) -> None:
        self._fields = fields
        self._properties = properties
        self._dropped = dropped

    def patch(self, message: Message) -> MessagePatch:
        """What to change in this one; the properties that are not named stay."""
        changes: dict[str, object] = dict(self._fields)
        if self._properties or self._dropped:
            merged = {**message.properties, **self._properties}
            changes["properties"] = {
                key: value for key, value in merged.items() if key not in self._dropped
            }
        return patch(changes)


def patch(changes: Mapping[str, object]) -> MessagePatch:
    """A patch of these fields."""
    return MessagePatch(**changes)  # type: ignore[arg-type]  # each value is of its field's type


def read_edit(run: Invocation) -> Edit | None:
    """What --set, --drop-prop and --file say; None if none is given. Refusal names the mend."""
    arguments = run.arguments
    fields: dict[str, str | bytes] = {}
    properties: dict[str, str] = {}
    for word in arguments.texts("set"):
        key, equals, value = word.partition("=")
        if not equals:
            raise Refusal(f"--set {field(word)}: write KEY=VALUE")
        if key.startswith(_PROPERTY) and key != _PROPERTY:
            properties[key.removeprefix(_PROPERTY)] = value
        elif key == "body":
            fields["body"] = os.fsencode(value)
        elif key in FIELDS:
            fields[FIELDS[key]] = value
        else:
            known = [*FIELDS, "body"]
            hint = did_you_mean(key, known)
            raise Refusal(f"--set {field(key)}: none of {', '.join(known)}, prop.NAME{hint}")
    if arguments.has("file"):
        if "body" in fields:
            raise Refusal("the body is given twice; use either --set body=TEXT or --file")
        fields["body"] = read_body([], file=arguments.text("file"), streams=run.streams)
    dropped = arguments.texts("drop-prop")
    return Edit(fields, properties, dropped) if fields or properties or dropped else None
