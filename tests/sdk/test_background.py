"""The engine in a background thread: many threads, clean ends, and misuse that raises at once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import mqlite_actor as mq
from tests.conformance.handles import leaks
from tests.services.cli_process import clean_environ

BOUND_SECONDS = 15.0


def in_threads(count: int, target: object) -> None:
    assert callable(target)
    threads = [threading.Thread(target=target, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_SECONDS)
        assert not thread.is_alive()


def test_many_threads_share_a_handle_and_each_message_is_handled_once(tmp_path: Path) -> None:
    done: list[int] = []
    with mq.open_embedded_sync(f"file:{tmp_path}/mq.db") as q:
        q.create_queue("q")

        def work(number: int) -> None:
            q.send("q", [f"{number}-{each}" for each in range(10)])
            while found := q.receive("q", max_messages=3):
                for message in found:
                    message.complete()
                    done.append(message.seq_number)

        in_threads(8, work)
        while found := q.receive("q", max_messages=10):
            done.extend(message.seq_number for message in found)
            assert q.complete_batch(found) == [True] * len(found)
    assert sorted(done) == list(range(1, 81))
    assert leaks(tmp_path) == []


def test_a_closed_handle_says_so_and_closing_again_is_nothing() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.close()
        q.close()
        with pytest.raises(mq.Closed):
            q.status()


def test_a_store_that_cannot_be_opened_raises_its_own_error_and_leaves_no_thread(
    tmp_path: Path,
) -> None:
    with mq.open_embedded_sync(f"file:{tmp_path}/mq.db"):
        with pytest.raises(mq.DatabaseLocked), mq.open_embedded_sync(f"file:{tmp_path}/mq.db"):
            raise AssertionError("it was opened")

        async def main() -> None:
            async with mq.open_embedded(f"file:{tmp_path}/mq.db"):
                raise AssertionError("it was opened")

        with pytest.raises(mq.DatabaseLocked):
            asyncio.run(main())
    assert leaks(tmp_path) == []


def test_close_answers_a_waiting_receive_with_closed() -> None:
    caught: list[BaseException] = []
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")

        def wait(_: int) -> None:
            try:
                q.receive("q", wait=20)
            except mq.Closed as error:
                caught.append(error)

        thread = threading.Thread(target=wait, args=(0,))
        thread.start()
        with mq_waiting(q):
            pass
        q.close()
        thread.join(BOUND_SECONDS)
    assert len(caught) == 1


class mq_waiting:  # noqa: N801  # reads as a condition
    """Entered once somebody waits in a receive of this handle's engine."""

    def __init__(self, q: mq.SyncEmbedded) -> None:
        self._q = q

    def __enter__(self) -> None:
        engine = self._q._engine
        while not engine.statistics()["waiters"]:
            self._q.status()

    def __exit__(self, *_: object) -> None:
        return


def test_a_call_inside_the_own_transaction_raises_at_once() -> None:
    with mq.open_embedded_sync(":memory:") as q:
        q.create_queue("q")
        with q.tx() as tx:
            for call in (q.status, q.close, lambda: q.run_tx(lambda _: None)):
                with pytest.raises(mq.InvalidArgument, match="inside tx"):
                    call()
            tx.send_one("q", b"1")
        with pytest.raises(mq.InvalidArgument, match="inside tx"):
            q.run_tx(lambda _: q.status())
        assert q.stats("q").total == 1


def test_a_handle_that_came_along_through_a_fork_refuses_in_the_child(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        """
with mq.open_embedded_sync("file:mq.db") as q, mq.connect_sync("http://127.0.0.1:1") as h:
    pid = os.fork()
    if not pid:
        for each in (q, h):
            try:
                each.status()
            except mq.Unsupported as error:
                print(error, flush=True)
        q.close()
        os._exit(0)
    os.waitpid(pid, 0)
    print(q.status().queues)
""",
    )
    assert done.stdout.splitlines() == [
        "this handle was opened before a fork; open one in the child process",
        "this handle was opened before a fork; open one in the child process",
        "0",
    ]


def test_a_trio_handle_refuses_after_a_fork(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        """
async def main():
    async with mq.open_embedded(":memory:") as q:
        pid = os.fork()
        if not pid:
            try:
                await q.status()
            except mq.Unsupported as error:
                print("refused", flush=True)
            os._exit(0)
        os.waitpid(pid, 0)
import trio
trio.run(main)
""",
    )
    assert done.stdout == "refused\n"


def test_an_engine_serves_the_threads_that_outlive_the_main_one(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        """
import threading
import mqlite_actor.sdk.background as background

background.MAIN_LOOK_SECONDS = 0.001
never_closed = [mq.open_embedded_sync(":memory:") for _ in range(2)]
for each in never_closed:
    each.__enter__()

def work():
    with mq.open_embedded_sync(":memory:") as q:
        threading.main_thread().join()
        q.create_queue("q")
        for number in range(200):
            q.send_one("q", str(number))
        print(q.stats("q").total)

threading.Thread(target=work).start()
""",
    )
    assert (done.stdout, done.stderr) == ("200\n", "")


def test_a_handle_that_nobody_closed_closes_with_the_program(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        """
held = mq.open_embedded_sync("file:mq.db")
q = held.__enter__()
q.create_queue("q")
print(q.send_one("q", b"1"))
""",
    )
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert not (tmp_path / "mq.db-wal").exists(), "the file was not closed"
    with mq.open_embedded_sync(f"file:{tmp_path}/mq.db") as q:
        assert q.stats("q").active == 1


def test_an_interrupted_receive_ends_and_gives_back_what_it_claimed(tmp_path: Path) -> None:
    done = program(
        tmp_path,
        """
import signal, threading
with mq.open_embedded_sync("file:mq.db") as q:
    q.create_queue("q")
    def interrupt():
        while not q._engine.statistics()["waiters"]:
            q.status()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        q.receive("q", wait=20)
    except KeyboardInterrupt:
        print("interrupted")
    q.send_one("q", b"1")
    print(q.receive("q")[0].delivery_count)
""",
    )
    assert done.stdout == "interrupted\n1\n"


def program(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import os\nimport mqlite_actor as mq\n{text}"],
        cwd=folder,
        env=clean_environ({}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def test_an_asyncio_handle_serves_several_loops_at_once() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")

            async def send() -> int:
                return await q.send_one("q", b"x")

            numbers = await asyncio.gather(
                *(asyncio.to_thread(lambda: asyncio.run(send())) for _ in range(4))
            )
            assert sorted(numbers) == [1, 2, 3, 4]

    asyncio.run(main())


def test_an_error_of_the_block_comes_out_as_it_is() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:"):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(main())


async def fail_inside(q: mq.Embedded) -> None:
    async with q.tx() as tx:
        await tx.send_one("q", b"2")
        raise KeyError


def test_asyncio_transactions_commit_roll_back_and_refuse_calls_inside() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")
            async with q.tx() as tx:
                await tx.execute("CREATE TABLE t (x)")
                await tx.send_one("q", b"1")
                with pytest.raises(mq.InvalidArgument, match="inside tx"):
                    await q.status()
            with pytest.raises(KeyError):
                await fail_inside(q)
            (message,) = await q.receive("q", max_messages=9)
            async with q.tx() as tx:
                await tx.execute("INSERT INTO t VALUES (?)", (message.text,))
                await tx.complete(message)
            assert await q.run_tx(lambda tx: tx.execute("SELECT x FROM t")) == [("1",)]
            assert (await q.stats("q")).total == 0

    asyncio.run(main())


def test_a_cancelled_asyncio_transaction_rolls_back_and_frees_the_writer() -> None:
    async def main() -> None:
        async with mq.open_embedded(":memory:") as q:
            await q.create_queue("q")
            entered = asyncio.Event()

            async def hold() -> None:
                async with q.tx() as tx:
                    await tx.send_one("q", b"1")
                    entered.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(hold())
            await entered.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await q.stats("q")).total == 0

    asyncio.run(main())


def test_sigterm_is_left_to_the_program(tmp_path: Path) -> None:
    """The background thread takes no signal for itself."""
    text = """
import threading, mqlite_actor as mq
with mq.open_embedded_sync('file:mq.db'):
    print('open', flush=True)
    threading.Event().wait()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", text],
        cwd=tmp_path,
        env=clean_environ({}),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "open\n"
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(BOUND_SECONDS) == -signal.SIGTERM


def test_a_loop_whose_threads_are_all_at_work_opens_and_closes_a_handle() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        work_is_over = threading.Event()
        with ThreadPoolExecutor(1) as executor:
            loop.set_default_executor(executor)
            working = loop.run_in_executor(None, work_is_over.wait, 2 * BOUND_SECONDS)
            try:
                async with asyncio.timeout(BOUND_SECONDS), mq.open_embedded(":memory:") as q:
                    await q.create_queue("q")
            finally:
                work_is_over.set()
                await working

    asyncio.run(main())
