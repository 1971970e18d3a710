"""A lean load generator: connections in one epoll loop, requests written beforehand, one question at a time on each.

It shares two processors with the server it measures, so it does as little as it can.
"""

from __future__ import annotations

import itertools
import math
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator

LARGEST = 1 << 16


class Connection:
    """One analyst's connection; `due` is when its question should have been sent."""

    __slots__ = ("due", "send", "socket")

    def __init__(self, wire: socket.socket) -> None:
        self.socket = wire
        self.send = wire.send
        self.due = 0.0


def dialled(port: int) -> socket.socket:
    """A connection to loopback that sends at once."""
    wire = socket.create_connection(("127.0.0.1", port), timeout=30)
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wire


def http_answer(reply: bytes) -> bool:
    """Whether all of a response has come; anything but an answer ends the run."""
    head = reply.find(b"\r\n\r\n")
    if head < 0:
        return False
    place = reply.find(b"content-length: ") + 16
    if len(reply) < head + 4 + int(reply[place : reply.index(b"\r", place)]):
        return False
    if not reply.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(reply[:400].decode() + reply[-300:].decode())
    return True


def postgres_answer(reply: bytes) -> bool:
    """The same of PostgreSQL's protocol: rows, then that the server is ready."""
    if not reply.endswith(b"Z\0\0\0\5I"):
        return False
    if not reply.startswith((b"T", b"N")):
        raise RuntimeError(repr(reply[:400]))
    return True


class Callers:
    """So many connections that stay open; requests are taken in turn from one list without end."""

    def __init__(self, wires: list[socket.socket], answer: Callable[[bytes], bool] = http_answer) -> None:
        self._answer = answer
        self._connections = [Connection(wire) for wire in wires]
        self._by_number = {one.socket.fileno(): one for one in self._connections}
        self._ready = select.epoll()
        for number in self._by_number:
            self._ready.register(number, select.EPOLLIN)

    def flood(self, requests: Iterator[bytes], seconds: float, most: float = math.inf) -> int:
        """Answers within the time, or up to `most`, when everybody asks again as soon as an answer is there."""
        count, now, clock = 0, time.perf_counter(), time.perf_counter
        end = now + seconds
        for connection in self._connections:
            connection.send(next(requests))
        waiting = len(self._connections)
        while waiting:
            now = clock()
            for number, _ in self._ready.poll():
                connection = self._by_number[number]
                self._read(connection)
                count += 1
                if now < end and count + waiting <= most:
                    connection.send(next(requests))
                else:
                    waiting -= 1
        return count

    def offer(self, requests: Iterator[bytes], seconds: float, rate: float) -> list[float]:
        """Seconds from the moment each question was due, at a fixed rate, to its answer: a server cannot hide delays.

        Questions that are due while every connection waits are sent as soon as one is free.
        """
        clock, latencies = time.perf_counter, list[float]()
        free, begun = deque(self._connections), time.perf_counter()
        due = (begun + place / rate for place in itertools.count())
        following, end = next(due), begun + seconds
        while following < end or len(free) < len(self._connections):
            now = clock()
            while free and following <= now and following < end:
                connection = free.popleft()
                connection.due = following
                connection.send(next(requests))
                following = next(due)
            # Waits shorter than a millisecond are rounded up: questions then go out a little late, and that counts.
            pause = max(0.0, following - clock()) if free and following < end else None
            for number, _ in self._ready.poll(pause):
                connection = self._by_number[number]
                self._read(connection)
                latencies.append(clock() - connection.due)
                free.append(connection)
        return latencies

    def _read(self, connection: Connection) -> None:
        reply = connection.socket.recv(LARGEST)
        while not self._answer(reply):
            part = connection.socket.recv(LARGEST)
            if not part:
                raise ConnectionResetError("the server hung up")
            reply += part

    def close(self) -> None:
        self._ready.close()
        for connection in self._connections:
            connection.socket.close()
