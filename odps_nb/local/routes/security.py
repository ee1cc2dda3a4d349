"""Routes of the supported requests about users, roles, grants and permissions.

The service's rights come from its credentials file (``odps_nb.local.rights``), so no request
changes them. Users are the access keys; there are no roles.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

from starlette.responses import Response

from odps_nb.local import errors
from odps_nb.local.rights import Right
from odps_nb.local.routes.lists import page_of
from odps_nb.local.routes.table import ALL, XML, At, RequestContext, listing, page
from odps_nb.local.service import Service
from odps_nb.wire.xml_text import DECLARATION, child_text, element, parse_xml

_PROJECT = "/projects/{project}"
#: Actions on a project and on its tables that each right permits in addition to lower rights
#: (names: odps-sdk-core, ``CheckPermissionConstants.ActionType``).
ACTIONS: dict[Right, tuple[tuple[str, ...], tuple[str, ...]]] = {
    Right.QUERY: (("Read", "List", "CreateInstance"), ("Describe", "Select")),
    Right.READ: ((), ("Download",)),
    Right.WRITE: (("Write", "CreateTable"), ("Alter", "Update", "Drop")),
}
_RESOURCE = re.compile(r"/?projects/([^/]+)(?:/(schemas|tables)/([^/]+))?")


class SecurityRoutes:
    """Handles requests about users, roles and permissions."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def rows(self) -> Iterator[At]:
        keys = frozenset({"sign_bearer_token"})
        authorization = [f"{_PROJECT}/authorization"]
        yield At(authorization, Right.QUERY, self._token, methods=ALL, keys=keys)
        yield At(authorization, Right.QUERY, self._statement, methods=["POST"])
        # the vendor's clients send the path with and without a trailing slash
        checked = [f"{_PROJECT}/auth", f"{_PROJECT}/auth/"]
        yield At(checked, None, self._check, methods=["POST"])
        yield At([f"{_PROJECT}/users"], Right.QUERY, self._users, is_list=True)
        yield At([f"{_PROJECT}/roles"], Right.QUERY, self._roles, is_list=True)
        user = [f"{_PROJECT}/users/{{user}}"]
        yield At(user, Right.QUERY, self._roles, keys=frozenset({"roles"}), accepts="type")
        yield At(user, Right.QUERY, self._user, accepts="type")

    def _token(self, context: RequestContext) -> Response:
        # clients use this token in links to web pages, which this service does not provide
        return _result(base64.b64encode(context.path["project"].encode()).decode())

    def _statement(self, context: RequestContext) -> Response:
        """Handle a security statement: WHOAMI or SHOW GRANTS [FOR [USER] key]."""
        query = child_text(parse_xml(context.wire.body or b"", "security statement"), "Query")
        words = query.strip(" ;\n\t").split()
        match [word.lower() for word in words]:
            case ["whoami"]:  # members: pyodps, ``current_user``
                names = dict.fromkeys(("ID", "DisplayName"), context.access_id)
                return _result(json.dumps(names))
            case ["show", "grants"]:
                return self._grants(context, context.access_id)
            case ["show", "grants", "for", _] | ["show", "grants", "for", "user", _]:
                return self._grants(context, words[-1])
        raise errors.invalid(
            f"the embedded service does not support {query[:80]!r}; it reads rights from its "
            "credentials file, and answers only WHOAMI and SHOW GRANTS"
        )

    def _grants(self, context: RequestContext, user: str) -> Response:
        """Return grants in the service's form: an empty ``Effect`` means Allow (MCP server)."""
        self._require_user(context, user)
        project = context.path["project"]
        grants = []
        for index, resource in enumerate((f"projects/{project}", f"projects/{project}/tables/*")):
            actions = [
                action for right in self._rights(user, project) for action in ACTIONS[right][index]
            ]
            if actions:
                entry = {"Effect": "", "Action": actions, "Resource": f"acs:odps:*:{resource}"}
                grants.append(entry)
        return _result(json.dumps({"ACL": {user: grants}, "Roles": []}))

    def _rights(self, user: str, project: str) -> list[Right]:
        return [right for right in Right if self._service.rights.allows(user, project, right)]

    def _check(self, context: RequestContext) -> Response:
        """Handle ``checkPermission``: whether the key may do all of the listed actions."""
        try:
            items = [
                (item["Action"], item["Resource"]) for item in json.loads(context.wire.body or b"")
            ]
        except (ValueError, TypeError, KeyError):
            raise errors.invalid(
                "the body must be a JSON array of objects with Action and Resource"
            ) from None
        for action, resource in items:
            match = _RESOURCE.fullmatch(str(resource))
            index = {None: 0, "tables": 1}.get(match[2]) if match else None
            if match is None or index is None:
                raise errors.invalid(f"the embedded service has no permissions on {resource!r}")
            project = match[1]
            self._service.catalog.project(project)
            needed = [right for right in Right if action in ACTIONS[right][index]]
            if not needed:
                raise errors.invalid(
                    f"the embedded service has no action {action!r} on {resource!r}"
                )
            if needed[0] not in self._rights(context.access_id, project):
                message = f"You have NO privilege 'odps:{action}' on {{acs:odps:*:{resource}}}"
                return _auth("DENY", message)
        return _auth("ALLOW", "")

    # -- users and roles ----------------------------------------------------------------------

    def _names(self, context: RequestContext) -> list[str]:
        project = context.path["project"]
        self._service.catalog.project(project)
        return [name for name in self._service.keys if self._rights(name, project)]

    def _require_user(self, context: RequestContext, name: str) -> None:
        if name not in self._names(context):
            raise errors.no_such(f"the project has no user {name[:80]!r}")

    def _users(self, context: RequestContext) -> Response:
        users = page_of(self._names(context), context)
        items = [_user(name) for name in users.items]
        return page("Users", items, marker=users.marker, most=users.most)

    def _user(self, context: RequestContext) -> Response:
        self._require_user(context, context.path["user"])
        return Response(DECLARATION + _user(context.path["user"]), media_type=XML)

    def _roles(self, context: RequestContext) -> Response:
        if "user" in context.path:
            self._require_user(context, context.path["user"])
        self._service.catalog.project(context.path["project"])
        return listing("Roles", "Role", ())


def _result(text: str) -> Response:
    body = DECLARATION + element("Authorization", (element("Result", text),))
    return Response(body, media_type=XML)


def _auth(result: str, message: str) -> Response:
    details: dict[str, Any] = {"message": message}
    members = (element("Result", result), element("Message", json.dumps(details)))
    return Response(DECLARATION + element("Auth", members), media_type=XML)


def _user(name: str) -> str:
    return element("User", (element("ID", name), element("DisplayName", name)))
