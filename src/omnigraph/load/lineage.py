"""Lineage of loads as OpenLineage events: START when the input is known, then COMPLETE, FAIL or ABORT.

They are sent when OpenLineage's client is installed and told where to send them, by its own environment variables or its own file.
Inputs are the sources as they were named, outputs the types that the load wrote, each at the version of the commit. An event that
cannot be sent is a warning: the load goes on.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib.util
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.load.inputs import Sources, paths_of
from omnigraph.storage.options import scheme_of
from omnigraph.version import VERSION

if TYPE_CHECKING:
    from omnigraph.load.receipt import LoadReceipt
    from omnigraph.snapshot import View

NAMESPACE = "omnigraph"
"""Of the jobs, unless OPENLINEAGE_NAMESPACE says another."""
PRODUCER = f"https://pypi.org/project/omnigraph/{VERSION}"
_CONFIG_FILE = "openlineage.yml"


def is_wanted() -> bool:
    """Whether the client is there and somebody has said where events go. The client itself would print them otherwise."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    names = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
    is_told = any(name in names or name.startswith("OPENLINEAGE__TRANSPORT") for name in os.environ)
    if not is_told and not any(file.is_file() and file.stat().st_size for file in _files()):
        return False
    return (
        importlib.util.find_spec("openlineage") is not None
        and importlib.util.find_spec("openlineage.client") is not None
    )


def _files() -> list[Path]:
    """Where the client looks for its configuration."""
    named = os.environ.get("OPENLINEAGE_CONFIG")
    usual = [Path(_CONFIG_FILE), Path(os.path.expanduser("~/.openlineage"), _CONFIG_FILE)]
    return [Path(named), *usual] if named else usual


def _check_file() -> None:
    """Raises what is wrong with the file that the client reads: the client itself would print a traceback and all events."""
    import yaml

    file = next((file for file in _files() if file.is_file()), None)
    if file is not None and not isinstance(yaml.safe_load(file.read_text(encoding="utf-8")), dict):
        raise ValueError(f"'{file}' is not a mapping")


@dataclass
class LoadLineage:
    """One load as a run. Without a client nothing is told."""

    job: str
    inputs: list[tuple[str, str]]
    client: Any = None
    run: str = ""
    _is_open: bool = field(default=False, init=False)

    def started(self) -> None:
        self._is_open = True
        self._send("START")

    def completed(self, view: View, receipt: LoadReceipt) -> None:
        """The types that the load wrote, with their rows."""
        self._is_open = False
        if self.client is not None:
            self._send("COMPLETE", outputs=outputs_of(view, receipt))

    def failed(self, error: BaseException) -> None:
        if not self._is_open:
            return
        is_interrupt = isinstance(error, KeyboardInterrupt | SystemExit)
        self._send("ABORT" if is_interrupt else "FAIL", message=str(error) or type(error).__name__)

    def _send(self, state: str, outputs: tuple[WrittenType, ...] = (), message: str | None = None) -> None:
        if self.client is None:
            return
        try:
            self.client.emit(self._event(state, outputs, message))
        except Exception as error:  # a transport may raise anything, and the load is worth more than its lineage
            warnings.warn(f"the lineage of the load was not sent: {error}", RuntimeWarning, stacklevel=2)

    def _event(self, state: str, outputs: tuple[WrittenType, ...], message: str | None) -> Any:
        from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import (
            dataset_version_dataset,
            error_message_run,
            job_type_job,
            output_statistics_output_dataset,
            schema_dataset,
        )

        job_facets: dict[str, Any] = {"jobType": job_type_job.JobTypeJobFacet("BATCH", "OMNIGRAPH", "LOAD")}
        run_facets: dict[str, Any] = (
            {} if message is None else {"errorMessage": error_message_run.ErrorMessageRunFacet(message, "python")}
        )
        written = []
        for output in outputs:
            fields = [schema_dataset.SchemaDatasetFacetFields(name, type) for name, type in output.columns]
            version = dataset_version_dataset.DatasetVersionDatasetFacet(output.commit)
            rows = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=output.rows)
            facets = {"schema": schema_dataset.SchemaDatasetFacet(fields), "version": version}
            written.append(OutputDataset(*output.name, {"outputStatistics": rows}, facets=facets))
        return RunEvent(
            eventTime=dt.datetime.now(dt.UTC).isoformat(),
            producer=PRODUCER,
            run=Run(self.run, run_facets),
            job=Job(os.environ.get("OPENLINEAGE_NAMESPACE", NAMESPACE), self.job, job_facets),
            eventType=RunState(state),
            inputs=[InputDataset(*name) for name in self.inputs],
            outputs=written,
        )


@dataclass(frozen=True)
class WrittenType:
    """A type that was written."""

    name: tuple[str, str]
    commit: str
    rows: int
    columns: tuple[tuple[str, str], ...]


def outputs_of(view: View, receipt: LoadReceipt) -> tuple[WrittenType, ...]:
    if receipt.commit is None or receipt.repeated:
        return ()
    namespace, graph = dataset_name(view.repository.store.uri)
    return tuple(
        WrittenType(
            (namespace, f"{graph}/{key.partition(':')[2]}"),
            receipt.commit.id,
            counts.loaded,
            tuple((field.name, str(field.type)) for field in view.schema(key)),
        )
        for key, counts in sorted(receipt.types.items())
    )


@contextlib.contextmanager
def lineage_of(graph: str, branch: str, sources: Sources, options: Mapping[str, str] | None) -> Iterator[LoadLineage]:
    """The run of a load, ended with what goes wrong in the block."""
    name = graph.rstrip("/").rpartition("/")[2]
    lineage = LoadLineage(f"load.{name}.{branch}", [])
    if is_wanted():
        from openlineage.client import OpenLineageClient
        from openlineage.client.uuid import generate_new_uuid

        try:
            _check_file()
            lineage.client = OpenLineageClient()
        except Exception as error:  # as it is configured by others
            warnings.warn(f"the lineage of the load is not sent: {error}", RuntimeWarning, stacklevel=2)
        lineage.run = str(generate_new_uuid())
        if not isinstance(sources, Mapping):
            lineage.inputs += [dataset_name(path, options) for path in paths_of(sources) if path != "-"]
    try:
        yield lineage
    except BaseException as error:
        lineage.failed(error)
        raise
    finally:
        if lineage.client is not None:
            with contextlib.suppress(Exception):  # as for events
                lineage.client.close()


def dataset_name(place: str, options: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Namespace and name of a place, as OpenLineage names datasets. What follows the address of a database may be secret."""
    if place.startswith("jdbc:"):
        address = place.removeprefix("jdbc:").partition("?")[0].partition(";")[0]
        server, _, database = address.rpartition("/")
        table = (options or {}).get("dbtable") or (options or {}).get("query", "")
        return (server.rpartition("@")[2] if "@" in server else server) or address, f"{database}.{table}".rstrip(".")
    if scheme_of(place) == "file":
        return "file", os.path.abspath(place.removeprefix("file://"))
    scheme, _, rest = place.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{scheme}://{bucket}", key.rstrip("/") or "/"
