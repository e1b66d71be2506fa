"""Hostile requests, made up from the table of routes: bytes for a socket. The same seed gives the same requests."""

from __future__ import annotations

import json
import random
import re
import zlib
from typing import Any
from urllib.parse import quote

from omnigraph.server.route import Route
from omnigraph.server.routes import ROUTES

NAMES = (
    "main", "Person", "Ada", "everyone", "people", "nobody", "", " ", ".", "..", "%2e%2e%2f%2e%2e%2fgraph.json", "..%2f..%2fgraph.json",
    "%00", "a%00b", "%ff%fe", "%C0%AE%C0%AE", "%0d%0aX-Injected:%20yes", "%E2%80%AE", "%F0%9F%92%A3", "a" * 3_000, "~", "main~99999999999999999999",
    "main~-1", "-", "--help", "%25", "%", "%zz", "*", "?", "#", "CON", "main%20", "%20main", "MAIN", "e%CC%81", "01M7R5R5000000000000000000",
    "0" * 26, "Z" * 26, "'%20or%201=1", "$%7Bjndi:x%7D", "%3Cscript%3E", "null", "true", "0", "-1", "1e309", "9" * 400, "NaN",
)  # fmt: skip
TEXTS = (
    "", " ", "\x00", "\ud800", "\u202e", "é", "a" * 70_000, "Ada", "main", "nobody", "../../etc/passwd", "file:///etc/passwd", "http://169.254.169.254/",
    "query q() { match { $p: Person } return { $p.name } }", "query q() {", "query q() { match { $p: Person } return { $p.nope } }",
    "query q() { match { $p: Person where " + "(" * 500 + "1" + ")" * 500 + " = 1 } return { $p } }",
    "query q($x: I32) { match { $p: Person } return { $x } }", "query q() { match { $p: Person } return { 1 / 0 as a, 9223372036854775807 + 1 as b } }",
    "query q() { match { $p: Person } return { $p } limit 99999999999999999999 }", "query q() { delete Person }", "query q() { drop everything }",
    "query q() { match { $p: Person } return { " + ", ".join(f"$p.name as c{n}" for n in range(400)) + " } }",
    "node Person { name: String @key }", "node X { }", "node Person { name: I32 @key }", "/*", '"', "--", "\\u0000", "2020-99-99", "01M7R5R5000000000000000000",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 1.5, 1e308, [], [[]], [None], {}, {"": None}, {"a": {"b": {}}}, *TEXTS[:12],
)  # fmt: skip
RAW_BODIES = (
    b"", b"{", b"null", b"[]", b"0", b'"x"', b"\xff\xfe", b"{}" * 1_000, b"[" * 20_000, b'{"a":' * 5_000, b'{"query": 1e999}', b"NaN", b'{"query": NaN}',
    b'{"query": "x", "query": "y"}', b"9" * 20_000, b'{"limit": ' + b"9" * 6_000 + b"}", b"\x1f\x8b" + b"\0" * 50, b"{}\x00", b"\xef\xbb\xbf{}",
    b'{"type": "Person", "data": {"name": "\\ud800"}}\n', b'{"type": "Person", "data": {"name": "x"}}\n{"type": "Per', b"a\tb\n" * 100,
    b"ARROW1\0\0" + b"\xff" * 200, b"\xff\xff\xff\xff\x10\0\0\0" + b"\0" * 64, b"--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"../../x\"\r\n\r\n{}\r\n--x--",
    b"--x\r\n\r\n", zlib.compress(b"\0" * 5_000_000),
)  # fmt: skip
HEADERS: tuple[bytes, ...] = (
    b"Content-Length: -1", b"Content-Length: 99999999999999999999", b"Content-Length: 5, 6", b"Content-Length: 0x10", b"Content-Length: 3\r\nContent-Length: 4",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 4", b"Transfer-Encoding: xchunked",
    b"Content-Encoding: gzip", b"Content-Encoding: deflate", b"Expect: 100-continue", b"Expect: something", b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x",
    b"Upgrade: h2c\r\nHTTP2-Settings: AAAA", b"Range: bytes=0-0,-1,5-2", b"Range: bytes=99999999999999999999-", b"If-None-Match: *", b"If-None-Match: W/\"x\"",
    b"If-Match: \"01M7R5R5000000000000000000\"", b"If-Match: x, y", b"Omnigraph-If-Graph-Commit: nobody", b"Omnigraph-If-Graph-Commit: ", b"Idempotency-Key: " + b"k" * 5_000,
    b"Idempotency-Key: a\r\nIdempotency-Key: b", b"Idempotency-Key: \xff", b"Accept: application/vnd.apache.arrow.stream", b"Accept: " + b"a/b," * 2_000, b"Accept: \xff",
    b"Accept-Encoding: zstd;q=0, gzip;q=nan", b"Authorization: Bearer " + b"x" * 9_000, b"Authorization: Basic \xff", b"Authorization: Bearer a\r\nAuthorization: Bearer b",
    b"X-Request-Id: \x01", b"X: a\r\n folded", b"No-Colon", b": no name", b"Bad Name: x", b"X\x00Y: z", b"Last-Event-ID: " + b"e" * 3_000, b"Content-Type: text/plain",
    b"Content-Type: application/json; charset=utf-16", b"Content-Type: multipart/form-data; boundary=x", b"Content-Type: application/vnd.apache.arrow.stream",
    b"Content-Type: application/x-ndjson", b"Origin: null", b"Origin: http://evil.example", b"Cookie: " + b"a=b;" * 3_000, b"X-Forwarded-Host: evil.example",
    b"Host: evil.example", b"Forwarded: for=1.2.3.4;host=evil", b"Omnigraph-Actor: root", b"Prefer: wait=99999", b"Traceparent: 00-zz-zz-00",
)  # fmt: skip
LINES = (
    b"GET", b"GET /", b"GET / HTTP/9.9", b"G\xc3\x89T / HTTP/1.1", b"get /healthz HTTP/1.1", b"PRI * HTTP/2.0", b"OPTIONS * HTTP/1.1", b"CONNECT localhost:80 HTTP/1.1",
    b"TRACE / HTTP/1.1", b"GET http://[::1 HTTP/1.1", b"GET //evil.example/ HTTP/1.1", b"GET /\x00 HTTP/1.1", b"GET / HTTP/1.1 extra", b"\x16\x03\x01\x02\x00\x01\x00",
    b"GET /graphs/people/../people/snapshot HTTP/1.1", b"GET /graphs//snapshot HTTP/1.1", b"GET /graphs/people/snapshot/ HTTP/1.1", b"GET /studio/..%2f..%2fapp.py HTTP/1.1",
    b"PROPFIND /graphs HTTP/1.1", b"GET /graphs/people/snapshot?" + b"a=1&" * 5_000 + b" HTTP/1.1", b"GET /healthz HTTP/1.0", b"POST / HTTP/0.9",
)  # fmt: skip
NOT_SENT = {"streamChanges", "followJob", "cleanUpGraph", "optimizeGraph", "deployCluster", "startLoad"}
"""Answers that do not end, and work that takes long; a start of a load is refused or starts Spark."""
_PARAMETER = re.compile(r"\{(\w+)\}")


def hostile_request(chance: random.Random, token: bytes) -> bytes:
    """A whole request, which asks for the connection to be closed after the answer."""
    if chance.random() < 0.08:
        head = chance.choice(LINES)
        return head + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    route = chance.choice([route for route in ROUTES if route.operation_id not in NOT_SENT])
    method = (
        route.method
        if chance.random() < 0.9
        else chance.choice(("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
    )
    head = f"{method} {_target(chance, route)} HTTP/1.1\r\n".encode()
    body = _body(chance, route)
    headers = [b"Host: localhost", b"Connection: close", *chance.sample(HEADERS, chance.choice((0, 0, 1, 1, 2, 3)))]
    if chance.random() < 0.9:
        headers.append(b"Authorization: Bearer " + token)
    if not any(header.lower().startswith(b"content-type") for header in headers):
        headers.append(b"Content-Type: application/json")
    if not any(header.lower().startswith((b"content-length", b"transfer-encoding")) for header in headers):
        headers.append(b"Content-Length: %d" % (len(body) + chance.choice((0, 0, 0, 0, 0, 0, -1, 1, 1_000))))
    elif chance.random() < 0.5:
        body = b"%x;ext=%s\r\n%s\r\n%s" % (
            len(body),
            b"e" * chance.choice((0, 9_000)),
            body,
            chance.choice((b"0\r\n\r\n", b"zz\r\n", b"0\r\nX: y\r\n\r\n", b"")),
        )
    return head + b"\r\n".join(headers) + b"\r\n\r\n" + body


def _target(chance: random.Random, route: Route) -> str:
    """Mostly of the graph that is there: beyond the first check is more to break."""

    def value(match: re.Match[str]) -> str:
        return "people" if match[1] == "graph_id" and chance.random() < 0.95 else chance.choice(NAMES)

    path = _PARAMETER.sub(value, route.path)
    pairs = []
    for parameter in route.parameters:
        for _ in range(chance.choice((0, 0, 1, 1, 1, 2))):
            text = (
                chance.choice(NAMES)
                if chance.random() < 0.7
                else quote(chance.choice(TEXTS).encode("utf-8", "surrogatepass")[:3_000])
            )
            pairs.append(f"{parameter.name}={text}")
    if chance.random() < 0.1:
        pairs.append(f"{chance.choice(NAMES)}={chance.choice(NAMES)}")
    return (path + ("?" + "&".join(pairs) if pairs else "")).replace(" ", "+")


def _body(chance: random.Random, route: Route) -> bytes:
    if route.body is None and chance.random() < 0.8:
        return b""
    if chance.random() < 0.3:
        return chance.choice(RAW_BODIES)
    names = [
        "query", "name", "params", "branch", "snapshot", "data", "mode", "from", "source", "target", "strategy", "by", "dry_run", "resolutions", "schema_source",
        "type_names", "limit", "page_token", "line", "column", "path", "commit", "tag", "revision", "prefix", "method", "jsonrpc", "id", "ref", "to", "keep",
    ]  # fmt: skip
    chosen = {name: chance.choice(VALUES + TEXTS) for name in chance.sample(names, chance.randrange(1, 9))}
    if chance.random() < 0.5:
        chosen["query"] = chance.choice(TEXTS)
    if "mcp" in route.path:
        chosen |= {
            "jsonrpc": "2.0",
            "id": 1,
            "method": chance.choice(("tools/call", "tools/list", "initialize", "x", 5)),
        }
    return json.dumps(chosen, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
