"""A local server of embeddings that does what a test says, one answer after the other, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[["Handler", dict[str, Any]], None]


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Misbehaving:
    """`answers` are given in order, the last one for ever."""

    url: str
    answers: list[Answer]
    asked: list[Asked] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: Misbehaving

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.state.asked.append(Asked(self.path, dict(self.headers), body))
        answers = self.state.answers
        (answers.pop(0) if len(answers) > 1 else answers[0])(self, body)

    def send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def vectors(dimension: int = 3, *, count: int | None = None, value: object = 1.0) -> Answer:
    """What a server of OpenAI's kind answers; each text has a vector of its own."""

    def answer(handler: Handler, body: dict[str, Any]) -> None:
        texts = body["input"] if count is None else range(count)
        rows = [{"index": i, "embedding": [value] * (dimension - 1) + [float(i)]} for i, _ in enumerate(texts)]
        handler.send(200, json.dumps({"data": rows[::-1]}).encode())

    return answer


def status(code: int, headers: dict[str, str] | None = None, said: str = "no") -> Answer:
    return lambda handler, _: handler.send(code, json.dumps({"error": {"message": said}}).encode(), headers)


def text(data: bytes) -> Answer:
    return lambda handler, _: handler.send(200, data)


def closed_in_mid_answer(handler: Handler, _: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.close_connection = True


def closed_at_once(handler: Handler, _: dict[str, Any]) -> None:
    handler.close_connection = True


def silent(handler: Handler, _: dict[str, Any]) -> None:
    """No answer before the test ends."""
    handler.state.released.wait(60)
    handler.close_connection = True


def endless(handler: Handler, _: dict[str, Any]) -> None:
    """A body without an end, until nobody reads it any more."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    try:
        while not handler.state.released.is_set():
            handler.wfile.write(b"[" * 65_536)
    except OSError:
        pass
    handler.close_connection = True


@contextmanager
def misbehaving(*answers: Answer) -> Iterator[Misbehaving]:
    state = Misbehaving("", list(answers))
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"state": state}))
    server.daemon_threads = False
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        state.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
