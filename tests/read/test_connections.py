"""Connections that are lent: kept by the process, and no danger to a forked child."""

from __future__ import annotations

import subprocess
import sys

from omnigraph.relational.duck import ConnectionPool


def test_what_is_given_back_is_lent_again() -> None:
    opened = iter("abc")
    pool = ConnectionPool(lambda: next(opened))
    with pool.borrow() as first:
        with pool.borrow() as second:
            assert (first, second) == ("a", "b")
        with pool.borrow() as again:
            assert again == "b"
    with pool.borrow() as last:
        assert last == "a"


FORKS = """
import os, subprocess, threading, warnings
import pyarrow as pa
from sqlglot import exp
import datetime
from omnigraph.expressions.functions import Arguments
from omnigraph.read import engine
from omnigraph.relational import duck

warnings.simplefilter("ignore")
rows = pa.table({"a": list(range(100_000))})
used, ended = threading.Event(), threading.Event()

def use():
    total = exp.select(exp.func("sum", exp.column("a"))).from_("rows")
    assert duck.run(total, {"rows": rows}).column(0).to_pylist() == [4_999_950_000]
    assert duck.run_text("SELECT count(*) FROM rows", {"rows": rows}).column(0).to_pylist() == [100_000]
    assert engine.run("SELECT count(*) FROM rows", {}, {"rows": rows}, Arguments({}, datetime.datetime.now())).column(0).to_pylist() == [100_000]

def live():
    use()
    used.set()
    ended.wait()

thread = threading.Thread(target=live)
thread.start()
used.wait()
print(subprocess.run(["true"], preexec_fn=lambda: None).returncode, flush=True)
child = os.fork()
if child == 0:
    use()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ended.set()
thread.join()
use()
"""


def test_a_child_lives_while_threads_of_its_parent_have_connections() -> None:
    """Spark's JVM is started by such a child: it would never come up."""
    ran = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True, timeout=120)
    assert ran.stdout.split() == ["0", "7"]
