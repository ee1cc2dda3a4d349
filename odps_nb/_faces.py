"""`connect`, and the functions of the notebook and Spark that connections use (the face).

The only module that may import every floor. Each function imports what it needs when it is called,
so that a script loads no notebook code and a connection no Spark.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from odps_nb.access.connection import Connection
from odps_nb.access.elsewhere import Address, connect_again
from odps_nb.access.faces import Explorer, Faces, Gallery, Listing, SparkRows, Uploader
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ConfigError
from odps_nb.secret import hidden, hides_secrets

if TYPE_CHECKING:
    import pyarrow as pa

    from odps_nb.access.blob import BlobColumn
    from odps_nb.access.receipt import Receipt
    from odps_nb.access.scan import Scan
    from odps_nb.access.sql import Result
    from odps_nb.access.table import Table
    from odps_nb.access.writing.rows import WriteOptions
    from odps_nb.client.blob.glances import Glance
    from odps_nb.client.calls.progress import Progress, ProgressListener
    from odps_nb.client.options import ClientOptions
    from odps_nb.schema import TableSchema

__all__ = ["FACES", "connect", "reconnect"]


@hides_secrets
def connect(
    source: str | Profile | Any = None,
    *,
    root: str | Path | None = None,
    endpoint: str | None = None,
    tunnel_endpoint: str | None = None,
    project: str | None = None,
    schema: str | None = None,
    access_id: str | None = None,
    access_key: str | None = None,
    sts_token: str | None = None,
    bearer_token: str | None = None,
    app_id: str | None = None,
    app_key: str | None = None,
    credential_process: str | None = None,
    credentials: Callable[[], Mapping[str, Any]] | None = None,
    region: str | None = None,
    quota: str | None = None,
    timezone: str | None = None,
    api_version: int | None = None,
    blob_cache: str | None = None,
    client_options: ClientOptions | None = None,
) -> Connection:
    """Return a connection; apart from ``"local"`` this costs no request.

    Parameters
    ----------
    source
        Nothing: environment (``ODPS_ENDPOINT``, ``ODPS_PROJECT``, ``ODPS_ACCESS_ID``,
        ``ODPS_ACCESS_KEY``, …), then the default profile of the profile file, then the keyring.
        A name: that profile of ``~/.config/odps_nb/profiles.toml``. ``"local"``: the embedded
        service in a child process, which ends with the connection or the interpreter. A
        `Profile`, or a pyodps ``ODPS`` object: its settings.
    root
        With ``"local"``: the folder that keeps the tables; without it they are temporary.
    endpoint, tunnel_endpoint, project, schema, access_id, access_key, sts_token, bearer_token, \
app_id, app_key, region, quota, api_version
        Settings that win over those of the source; see `odps_nb.client.auth.profile.Profile`.
    timezone
        A zone such as ``"Asia/Shanghai"``: DATETIME and TIMESTAMP are read as times of that zone,
        and times without a zone are meant in it. Without one both are UTC.
    blob_cache
        How much of opened blobs is kept on disk: ``"20 GB"``; ``"off"``: nothing. By default 4 GiB,
        in the cache folder of the platform; see `odps_nb.Blob.open`.
    client_options
        Retries, time-outs and connections, e.g. ``ClientOptions(read_timeout=60)``; replaces all
        of those in the environment and the profile. See `odps_nb.ClientOptions`.
    credential_process, credentials
        A program that prints temporary keys as JSON, or a function that returns them; asked
        again before they end.

    Raises
    ------
    ConfigError
        Something is missing or unknown; the hint names keywords and variables, or the profiles
        that there are.
    MissingDependencyError
        ``"local"`` without the extra of that name.

    Examples
    --------
    >>> import odps_nb
    >>> odps_nb.connect(
    ...     endpoint="http://127.0.0.1:1/api", project="p", access_id="me", access_key="secret"
    ... )
    <Connection to p at http://127.0.0.1:1/api>
    """
    keywords = {
        "endpoint": endpoint,
        "tunnel_endpoint": tunnel_endpoint,
        "project": project,
        "schema": schema,
        "access_id": access_id,
        "access_key": access_key,
        "sts_token": sts_token,
        "bearer_token": bearer_token,
        "app_id": app_id,
        "app_key": app_key,
        "credential_process": credential_process,
        "credentials": credentials,
        "region": region,
        "quota": quota,
        "timezone": timezone,
        "api_version": api_version,
        "blob_cache": blob_cache,
        "client_options": client_options,
    }
    said = hidden((key, value) for key, value in keywords.items() if value is not None)
    if source == "local":
        return _local(root, said)
    if root is not None:
        raise ConfigError(
            "root belongs to the embedded service",
            option="root",
            hint='write connect("local", root=…)',
        )
    return Connection(_profile(source, said), faces=FACES)


def _profile(source: Any, said: Mapping[str, Any]) -> Profile:
    if source is None or isinstance(source, str):
        return Profile.resolve(source, **said)
    if isinstance(source, Profile):
        return dataclasses.replace(source, **said)
    # Recognised by its class name: pyodps is never imported here.
    if any(one.__module__.split(".")[0] == "odps" for one in type(source).__mro__):
        return Profile.from_pyodps(source, **said)
    raise ConfigError(
        f"cannot connect with a {type(source).__name__}",
        option="source",
        hint="pass the name of a profile, 'local', a Profile, or a pyodps ODPS object",
    )


_LOCAL = {"project", "schema", "timezone", "api_version", "blob_cache", "client_options"}


def _local(root: str | Path | None, said: Mapping[str, Any]) -> Connection:
    for option in said.keys() - _LOCAL:
        raise ConfigError(
            f"{option} does not apply to the embedded service",
            option=option,
            hint="leave it out, or connect without 'local'",
        )
    from odps_nb.local.server.launch import start

    service = start(root, project=said.get("project"))
    try:
        profile = Profile(
            endpoint=service.endpoint,
            tunnel_endpoint=service.tunnel_endpoint,
            access_id=service.access_id,
            access_key=service.access_key,
            **{"project": service.project, **said},
        )
    except BaseException:
        service.stop()
        raise
    return Connection(profile, faces=FACES, service=service)


def reconnect(address: Address) -> Connection:
    """Return the connection that a pickle leads to, in this process or another one."""
    from odps_nb.local.server.launch import read_keys

    return connect_again(
        address,
        lambda profile, made: Connection(profile, faces=FACES, address=made),
        local_keys=read_keys,
    )


# -- functions for connections
# -----------------------------------------------------------------------------


def _listener(*, on_cancel: Callable[[], None] | None = None) -> ProgressListener:
    """Return a card in a notebook, a line in a terminal, else nothing."""
    if _in_kernel():
        from odps_nb.notebook.progress.cards import CardListener

        return CardListener(on_cancel=on_cancel)
    if sys.stderr is not None and sys.stderr.isatty():
        from odps_nb.notebook.progress.line import LineListener

        return LineListener(on_cancel=on_cancel)
    from odps_nb.client.calls.progress import silent

    return silent


def _after_cell(call: Callable[[BaseException | None], None]) -> Callable[[], None]:
    if "IPython" not in sys.modules:
        return lambda: None
    from odps_nb.notebook.progress.cells import after_cell

    return after_cell(call)


def _in_kernel() -> bool:
    ipython = sys.modules.get("IPython")  # in a kernel it is already imported
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _to_spark(scan: Scan, spark: Any, progress: Progress) -> Any:
    from odps_nb.spark import read_scan

    return read_scan(spark, scan, progress=progress)


def _rows_to_spark(spark: Any, rows: pa.Table, schema: TableSchema) -> Any:
    from odps_nb.spark.reading.dataframe import local_dataframe

    return local_dataframe(spark, rows, schema)


def _spark_write(table: Table, frame: Any, options: Mapping[str, Any]) -> Receipt:
    from odps_nb.spark.writing.dataframe import write_change, write_rows

    if "change" in options:
        return write_change(frame, table.connection, table.name, **options)
    return write_rows(frame, table.connection, table.name, **options)


def _spark_columns(schema: Any) -> TableSchema:
    from odps_nb.spark.writing.checks import table_columns

    return table_columns(schema)


def _spark_sql(connection: Connection, spark: Any, text: str, limit: int | None) -> SparkRows:
    from odps_nb.spark import explain_sql

    return explain_sql(spark, connection, text, limit=limit)


def _gallery(column: BlobColumn) -> Mapping[str, Any]:
    from odps_nb.notebook.gallery.view import mimebundle

    return mimebundle(column, summary=column.summary)


def _work(column: BlobColumn) -> Gallery:
    from odps_nb.notebook.gallery.view import Gallery as View

    return View(column, summary=column.summary)


def _preview(blob: Glance) -> Mapping[str, Any]:
    from odps_nb.notebook.preview.tile import mimebundle

    return mimebundle(blob)


def _listing(listing: Listing) -> Mapping[str, Any]:
    from odps_nb.notebook.display.listing import Listing as Shown

    shown = Shown(
        headers=listing.headers,
        rows=tuple(listing.rows),
        caption=listing.caption,
        empty="no columns",
    )
    return shown._repr_mimebundle_()


def _media_type(head: bytes, size: int, name: str) -> str:
    from odps_nb.notebook.preview.registry import media_type

    return media_type(head, size, name)


def _rows(source: Scan | Result) -> Mapping[str, Any]:
    from odps_nb.notebook.explore.static import mimebundle

    return mimebundle(source)


def _explore(source: Scan | Result, rows: int, sample: int, seed: int | None) -> Explorer:
    from odps_nb.notebook.explore.explorer import explore

    return explore(source, rows=rows, sample=sample, seed=seed)


def _upload(table: Table, options: WriteOptions, create: bool, accept: str) -> Uploader:  # noqa: FBT001  called by a face
    from odps_nb.notebook.upload.uploader import Uploader

    return Uploader(table, options, create=create, accept=accept)


FACES = Faces(
    listener=_listener,
    after_cell=_after_cell,
    to_spark=_to_spark,
    rows_to_spark=_rows_to_spark,
    spark_write=_spark_write,
    spark_columns=_spark_columns,
    spark_sql=_spark_sql,
    gallery=_gallery,
    work=_work,
    preview=_preview,
    listing=_listing,
    media_type=_media_type,
    rows=_rows,
    explore=_explore,
    upload=_upload,
    reconnect=reconnect,
)
