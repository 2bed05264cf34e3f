"""A crowd of connections in a process of its own: `python crowd.py PORT NUMBER`.

Opens NUMBER connections, half of which say nothing and half of which begin a request and never end
it, says so on standard output, and holds them until its standard input ends. In a process of its
own because a process may not have thousands of descriptors.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress

BEGUN = b"POST /mqlite.v1.QueueService/Stats HTTP/1.1\r\nHost: a\r\nX-Never: ended"


def main(port: int, number: int) -> None:
    crowd = []
    for place in range(number):
        each = socket.create_connection(("127.0.0.1", port), timeout=60)
        if place % 2:
            with suppress(OSError):  # it may have had to make room already
                each.sendall(BEGUN)
        crowd.append(each)
    print("here", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
