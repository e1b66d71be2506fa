"""`serve --maintain`: what it does in a round, what is seen of it, and when it does nothing."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

from serving import Fixed

import omnigraph as og
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog
from omnigraph.server.maintaining import Maintenance
from omnigraph.server.registry import Allowing
from omnigraph.server.service import Service
from omnigraph.server.settings import MaintenancePolicy, ServerSettings

ADD = "query add($name: String) { insert Person { name: $name } }"


def service_of(place: Path, log: StringIO, policy: MaintenancePolicy | None) -> Service:
    """Under a policy that allows nobody anything: the operator has asked, no caller."""
    source = Fixed({"people": place}, gate=Allowing(frozenset()), queries="")
    settings = ServerSettings(maintenance=policy)
    return Application(source, source.load(), settings, RequestLog("json", log)).service


def rounds_of(place: Path, log: StringIO, retain: str | None = None) -> tuple[Service, Maintenance]:
    service = service_of(place, log, MaintenancePolicy(3600.0, retain))
    assert service.maintenance is not None
    return service, service.maintenance


def test_it_is_off_by_default(people: Path) -> None:
    assert service_of(people, StringIO(), None).maintenance is None


def test_a_round_optimizes_what_has_moved_and_is_seen(people: Path) -> None:
    graph, log = og.open(people), StringIO()
    graph.branches.create("review")
    graph.mutate(ADD, {"name": "New"}, branch="review")
    service, maintenance = rounds_of(people, log)
    maintenance.maintain_all()
    made = graph.show("review")
    assert (made.kind, made.actor) == ("optimize", "maintenance")
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(each["event"], each["step"]) for each in events] == [("maintained", "optimize")]
    assert "review" in events[0]["did"]
    maintenance.maintain_all()
    assert graph.show("review") == made, "nothing has moved"
    text = service.metrics.text().decode()
    assert 'omnigraph_maintenance_total{graph="people",outcome="done",step="optimize"} 2.0' in text
    assert 'omnigraph_maintenance_seconds_total{graph="people",step="cleanup"}' in text


def test_a_step_that_fails_is_seen_and_the_others_go_on(people: Path) -> None:
    (people / "branches" / "main" / "foreign").write_text("not a commit")
    graph, log = og.open(people), StringIO()
    graph.mutate(ADD, {"name": "New"})
    service, maintenance = rounds_of(people, log, retain="30d")
    maintenance.maintain_all()
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(each["event"], each["step"]) for each in events] == [
        ("maintained", "optimize"),
        ("maintenance_failed", "cleanup"),
    ]
    assert 'outcome="failed",step="cleanup"} 1.0' in service.metrics.text().decode()


def test_a_server_that_ends_begins_nothing_more(people: Path) -> None:
    graph = og.open(people)
    before = graph.mutate(ADD, {"name": "New"}).commit
    service, maintenance = rounds_of(people, StringIO())
    service.drain()
    maintenance.maintain_all()
    assert graph.head() == before
