"""The program, started once and forked for every command: the pages run dozens of them, and loading takes longer than running.

    python forked.py <socket>          the process that forks; ends when its standard input does
    <folder>/omnigraph ...             what stands on the PATH: hands its arguments, folder, environment and streams over

The command itself is the same `main()` that the installed program calls.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path

CLIENT = """#!{python} -SE
import json, os, socket, sys
here = os.getcwd()
os.chdir({folder!r})
with socket.socket(socket.AF_UNIX) as server:
    server.connect({name!r})
    what = json.dumps([sys.argv[1:], here, dict(os.environ)]).encode()
    socket.send_fds(server, [len(what).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(what)
    sys.exit(int(server.recv(16) or b"70"))
"""


def write_client(folder: Path, address: Path) -> None:
    client = folder / "omnigraph"
    text = CLIENT.format(python=sys.executable, folder=str(address.parent), name=address.name)
    client.write_text(text, encoding="utf-8")
    client.chmod(0o755)


def serve(address: str) -> None:
    import duckdb  # noqa: F401
    import lance  # noqa: F401
    import rich.table  # noqa: F401

    import omnigraph.cli.main
    import omnigraph.load.job
    import omnigraph.merge.merge
    import omnigraph.read.execution  # noqa: F401
    from omnigraph.language.query.lint import lint_queries
    from omnigraph.language.schema.compiler import compile_schema

    # The parsers are built on first use; once is enough for all children.
    lint_queries("query q() { match { $n: N } return { $n } }", compile_schema("node N { p: String }"))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # By its name alone, here and in the client: the whole path of a socket may not be long, and temporary folders can be.
    folder, name = os.path.split(address)
    os.chdir(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        print("ready", flush=True)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        while True:
            connection, _ = server.accept()
            with connection:
                if os.fork() == 0:
                    _run(connection)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def _run(connection: socket.socket) -> None:
    """In the child: become the command."""
    from omnigraph.cli.main import main

    header, streams, _, _ = socket.recv_fds(connection, 8, 3)
    length = int.from_bytes(header, "big")
    what = b""
    while len(what) < length:
        what += connection.recv(length - len(what))
    arguments, folder, environment = json.loads(what)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a thread of the parent held the other one's lock
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    sys.argv = ["omnigraph", *arguments]
    code: object = 70
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(str(code).encode())
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
