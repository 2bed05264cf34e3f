"""The parity page names every name of the Go package's page once, and only what exists here."""

from __future__ import annotations

import re

import mqlite_actor as mq
from tests.house.tree import ROOT

PAGE = ROOT / "docs" / "reference" / "parity.md"

GO = re.findall(
    r"\S+",
    """
Open OpenEmbedded GenerateToken TokenPrefix OrderStandard OrderGroupFIFO OrderStrictFIFO
OrderingMode Active Locked Deferred Scheduled DeadLettered State ErrLockLost ErrNotFound
ErrQueueNotFound ErrDedupConflict ErrMessageTooLarge ErrNameConflict ErrGroupRequired ErrDBLocked
Client Embedded Client.Close Embedded.Close Cancel CompleteBatch SettleResult CreateQueue
QueueConfig ListQueues QueueInfo Peek PeekOpts PeekedMessage Purge PurgeOpts Receive RecvOpts
Redrive RedriveOpts Send OutMessage SendOne SendOpts Stats Metrics Subscribe Filter Compact Engine
Serve ServeOption WithTokens WithTokenCSV WithVersion Tx WithClock WithDBAuthToken
WithDLQRetention WithLogger WithMaxMessageBytes WithSynchronous WithoutBackground EmbeddedOption
Option WithHTTPClient WithToken Message Abandon AbandonOpts Complete Defer Reject RejectOpts Renew
Receiver Run Receiver.Close ReceiverOption WithAutoRenew WithConcurrency WithPrefetch
""",
)

LATER = [
    "AdminService/Observe", "AuthService/CreateKey", "AuthService/ListKeys",
    "AuthService/RevokeKey",
    "receive_mode", "receive_attempt_id", "rate_per_second", "mqk_",
]  # fmt: skip
"""What the site of v0.3.3 says of programs beyond that."""


def rows() -> list[tuple[list[str], str, str]]:
    lines = PAGE.read_text("utf-8").splitlines()
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| `")]
    padded = [[*each, ""][:3] for each in cells]
    return [(re.findall(r"`([^`]+)`", go), here, remark) for go, here, remark in padded]


def test_every_name_of_the_go_package_has_its_row() -> None:
    assert sorted(name for names, _, _ in rows() for name in names) == sorted(GO + LATER)


def test_every_name_of_ours_exists_and_what_has_none_says_why() -> None:
    for names, here, remark in rows():
        if here == "no":
            assert remark.strip(" |"), names
            continue
        found = re.findall(r"`([\w.]+)`", here)
        assert found, names
        for path in found:
            owner, _, member = path.partition(".")
            assert hasattr(mq, owner), path
            assert not member or hasattr(getattr(mq, owner), member), path


def test_a_generated_token_is_a_brokers() -> None:
    tokens = {mq.generate_token() for _ in range(10)}
    assert len(tokens) == 10
    assert all(re.fullmatch("mqk_[0-9a-f]{64}", token) for token in tokens)
