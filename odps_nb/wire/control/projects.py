"""Projects, schemas, tenants and the tunnel endpoint (``docs/protocol.md`` sections 9.1 to 9.3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from odps_nb.errors import ConfigError, FramingError
from odps_nb.wire.calls.core import NO_SCOPE, Scope, WireRequest, find_header
from odps_nb.wire.control.core import (
    SafeCall,
    date_text,
    epoch,
    paged,
    project_path,
    rest_request,
    xml_body,
)
from odps_nb.wire.json_fields import dump
from odps_nb.wire.xml_text import child_text, element, parse_answer

_HOST = re.compile(r"(?:https?://)?(?:[\w.\-]{1,253}|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?/?", re.ASCII)


SQL_ZONE = "odps.sql.timezone"
"""Name of the project property, and of the setting, for the time zone of SQL statements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectInfo:
    """A project; times are in epoch seconds."""

    name: str
    owner: str = ""
    created_at: float | None = None
    modified_at: float | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def timezone(self) -> str | None:
        """The default time zone of SQL statements; ``None`` if the document does not contain it."""
        return self.properties.get(SQL_ZONE) or None

    def encode(self, members: str = "Properties") -> tuple[bytes, dict[str, str]]:
        """Encode the response as body and headers; clients require the headers."""
        listed = tuple(
            element("Property", (element("Name", name), element("Value", value)))
            for name, value in self.properties.items()
        )
        parts = {"Name": self.name, "Type": "managed", "State": "AVAILABLE"}
        body = xml_body(
            "Project", (*(element(*part) for part in parts.items()), element(members, listed))
        )
        headers = {
            "x-odps-owner": self.owner,
            "x-odps-creation-time": date_text(self.created_at or 0),
            "Last-Modified": date_text(self.modified_at or self.created_at or 0),
        }
        return body, headers

    def encode_extended(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response to ``GET …?extended``, which has more properties."""
        return self.encode("ExtendedProperties")

    @classmethod
    def decode(cls, body: bytes, headers: Mapping[str, str]) -> ProjectInfo:
        """Decode a project document."""
        root = parse_answer(body, "project document", root="Project")
        return cls(
            name=child_text(root, "Name"),
            owner=find_header(headers, "x-odps-owner") or child_text(root, "Owner"),
            created_at=epoch(find_header(headers, "x-odps-creation-time")),
            modified_at=epoch(find_header(headers, "last-modified")),
            properties={
                child_text(one, "Name"): child_text(one, "Value") for one in root.iter("Property")
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GetProject(SafeCall):
    """Request for a project."""

    project: str

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        return rest_request(project_path(self.project), scope=scope)

    decode_answer = staticmethod(ProjectInfo.decode)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePage:
    """Project or schema names; ``marker`` requests the next page and is empty on the last page."""

    names: tuple[str, ...] = ()
    marker: str = ""

    @classmethod
    def decode(cls, body: bytes, *, root: str, item: str) -> NamePage:
        """Decode a page of ``<root><Marker/><item><Name/>…``, like the stock client."""
        page = parse_answer(body, f"list of {root.lower()}", root=root)
        return cls(
            names=tuple(child_text(one, "Name") for one in page.findall(item)),
            marker=child_text(page, "Marker"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ListProjects(SafeCall):
    """Request for a page of project names beginning with ``prefix`` (pyodps models/projects.py)."""

    prefix: str = ""
    marker: str = ""

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        """Encode the request; its path has no project."""
        asked = paged(("name", self.prefix), ("marker", self.marker))
        return rest_request("/projects", asked, scope=NO_SCOPE)

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> NamePage:
        return NamePage.decode(body, root="Projects", item="Project")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListSchemas(SafeCall):
    """Request for a page of a project's schemas (pyodps: models/schemas.py)."""

    project: str
    prefix: str = ""
    marker: str = ""

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        asked = paged(("name", self.prefix), ("marker", self.marker))
        return rest_request(project_path(self.project, "schemas"), asked, scope=scope)

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> NamePage:
        return NamePage.decode(body, root="Schemas", item="Schema")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantInfo:
    """The tenant of an account; ``parameters`` lists the enabled features."""

    name: str = ""
    tenant_id: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> tuple[bytes, dict[str, str]]:
        """Encode the response as body and headers."""
        tenant = {
            "Name": self.name,
            "TenantId": self.tenant_id,
            "OwnerId": self.tenant_id,
            "TenantState": "NORMAL",
            "Parameters": dict(self.parameters),
        }
        return dump({"Tenant": tenant}), {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTenant(SafeCall):
    """Request for the tenant. pyodps sends it at login; odps_nb never does."""

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        return rest_request("/tenants", scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTunnelEndpoint(SafeCall):
    """Request for the host that serves a project's storage and tunnel calls."""

    project: str
    quota_name: str | None = None

    def encode(self, api_version: int = 2, *, scope: Scope = NO_SCOPE) -> WireRequest:
        quota = (("quotaName", self.quota_name),) if self.quota_name else ()
        return rest_request(
            project_path(self.project, "tunnel"), (("service", ""), *quota), scope=scope
        )

    def decode_answer(self, body: bytes, headers: Mapping[str, str]) -> str:
        """Decode the response: ``host:port``, or a URL if the server sent one."""
        return _host(body)


def encode_tunnel_endpoint(host: str) -> tuple[bytes, dict[str, str]]:
    """Encode a host as the response: plain text without a scheme."""
    return host.encode("ascii"), {"Content-Type": "text/plain"}


def decode_tunnel_endpoint(body: bytes, *, endpoint: str) -> str:
    """Return the tunnel endpoint as a URL, with the scheme of the REST endpoint.

    Raises `FramingError` if the response is not a host name but, for example, a proxy's web page.
    Raises `ConfigError` if the endpoint is https:// but the response is http://, because keys would
    be sent unencrypted.
    """
    host = _host(body)
    scheme = endpoint.partition("://")[0].lower()
    if "://" not in host:
        return f"{scheme}://{host}"
    if scheme == "https" and not host.lower().startswith("https://"):
        raise ConfigError(
            f"the service returned the unencrypted tunnel endpoint {host}, "
            f"but {endpoint} is encrypted",
            option="tunnel_endpoint",
            hint=f"pass tunnel_endpoint='https://{host.partition('://')[2]}', or the http:// "
            "address if tokens and data may be sent unencrypted",
        )
    return host


def _host(body: bytes) -> str:
    text = body[:300].decode("utf-8", "replace").strip()
    if not _HOST.fullmatch(text):
        raise FramingError(
            f"{text[:80]!r} is not the host name of a tunnel endpoint",
            hint="pass tunnel_endpoint= to skip endpoint discovery",
        )
    return text.rstrip("/")
