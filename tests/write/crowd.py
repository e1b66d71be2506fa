"""Writers of one process that form a group."""

from __future__ import annotations

import threading
from collections.abc import Callable

import omnigraph as og
from omnigraph.testing.failpoints import Failpoint, Park, arm, disarm_all


class Crowd:
    """Writers that arrive while a first one is held in the middle of its publish, so that they form one group."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph
        self.outcomes: dict[str, og.types.Receipt | BaseException] = {}
        self._park = Park()
        self._threads: list[threading.Thread] = []

    def start(self, name: str, statements: Callable[[og.Transaction], object]) -> None:
        def write() -> None:
            try:
                with self.graph.transaction(message=name) as tx:
                    statements(tx)
                self.outcomes[name] = tx.receipt
            except BaseException as error:
                self.outcomes[name] = error

        thread = threading.Thread(target=write, daemon=True)
        self._threads.append(thread)
        thread.start()

    def hold_first(self, statements: Callable[[og.Transaction], object]) -> None:
        arm(Failpoint.PUBLISH_BEFORE_CREATE, self._park)
        self.start("first", statements)
        self._park.wait_until_reached()
        disarm_all()

    def wait_for(self, waiting: int) -> None:
        """Until so many writers stand in the queue behind the first one."""
        arrived = threading.Event()
        while len(self.graph._committer._queues["main"]) < waiting + 1:
            arrived.wait(0.001)

    def release(self) -> None:
        self._park.release()
        for thread in self._threads:
            thread.join(timeout=60)
        assert not any(thread.is_alive() for thread in self._threads)


def person(name: str, nick: str | None = None) -> Callable[[og.Transaction], object]:
    return lambda tx: tx.insert("Person", name=name, nick=nick)
