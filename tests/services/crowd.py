"""A crowd of connections in a process of its own: `python crowd.py PORT NUMBER [again]`.

Opens NUMBER connections, half of which say nothing and half of which begin a request and never end
it, says so on standard output, and holds them until its standard input ends; with `again`, each one
that the broker ended is opened anew. In a process of its own because a process may not have
thousands of descriptors.
"""

from __future__ import annotations

import selectors
import socket
import sys
from contextlib import suppress

BEGUN = b"POST /mqlite.v1.QueueService/Stats HTTP/1.1\r\nHost: a\r\nX-Never: ended"
RETRY_SECONDS = 0.5


def joined(port: int, place: int) -> socket.socket:
    """One more of the crowd."""
    each = socket.create_connection(("127.0.0.1", port), timeout=60)
    if place % 2:
        with suppress(OSError):  # it may have had to make room already
            each.sendall(BEGUN)
    return each


def stay(crowd: list[socket.socket], port: int) -> None:
    """Keep the crowd at its size until standard input ends, or as near to it as is possible."""
    away: set[int] = set()
    with selectors.DefaultSelector() as watch:
        watch.register(sys.stdin, selectors.EVENT_READ)
        for place, each in enumerate(crowd):
            watch.register(each, selectors.EVENT_READ, place)
        while True:
            for key, _ in watch.select(RETRY_SECONDS if away else None):
                if key.fileobj is sys.stdin:
                    return
                with suppress(OSError):  # a reset is an end too
                    if crowd[key.data].recv(4_096):
                        continue
                watch.unregister(crowd[key.data])
                crowd[key.data].close()
                away.add(key.data)
            for place in sorted(away):
                with suppress(OSError):  # a worker was killed, or the broker has stopped: later
                    crowd[place] = joined(port, place)
                    watch.register(crowd[place], selectors.EVENT_READ, place)
                    away.remove(place)


def main(port: int, number: int, *, again: bool) -> None:
    crowd = [joined(port, place) for place in range(number)]
    print("here", flush=True)
    if again:
        stay(crowd, port)
    else:
        sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), again="again" in sys.argv[3:])
