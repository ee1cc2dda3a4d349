"""Sources of settings have an order, and accounts of different sources are never mixed."""

from __future__ import annotations

import http.server
import json
import logging
import os
import subprocess
import sys
import threading
import traceback
from itertools import permutations, product
from typing import ClassVar
from urllib.parse import urlsplit

import pytest
from odps import ODPS
from odps.accounts import CredentialProviderAccount, StsAccount

import odps_nb
from odps_nb.client.auth.choice import OVERRIDDEN
from odps_nb.client.auth.profile import Profile
from odps_nb.client.auth.resolution import resolve
from odps_nb.errors import ConfigError
from odps_nb.secret import Hidden
from odps_nb.wire.signing import sign
from tests.support.sockets.relays import Proxy, TlsFront, server_context

PLACE = {"endpoint": "http://127.0.0.1:1/api", "project": "p"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder with functions that write the files of each source."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "ALIBABA_CLOUD_CLI_PROFILE_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    return Home(tmp_path, monkeypatch)


class Home:
    def __init__(self, path, monkeypatch):
        self.path, self._monkeypatch = path, monkeypatch

    def private(self, name: str, text: str, mode: int = 0o600):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_text(text)
        path.chmod(mode)
        return path

    def environ(self, **values: str) -> None:
        for name, value in values.items():
            self._monkeypatch.setenv(name, value)

    # Methods that create a source with the account of ``who``, with or without an STS token.

    def profile(self, who: str, *, token: bool, place: bool = False) -> None:
        lines = [f'access_id = "{who}"', f'access_key = "key-of-{who}"']
        lines += [f'sts_token = "token-of-{who}"'] if token else []
        lines += [f'{name} = "{value}"' for name, value in PLACE.items()] if place else []
        text = 'default = "work"\n[work]\n' + "\n".join(lines)
        self.private(".config/odps_nb/profiles.toml", text)

    def odps(self, who: str, *, token: bool) -> None:
        self.environ(ODPS_ACCESS_ID=who, ODPS_ACCESS_KEY=f"key-of-{who}")
        if token:
            self.environ(ODPS_STS_TOKEN=f"token-of-{who}")

    def alibaba(self, who: str, *, token: bool) -> None:
        self.environ(
            ALIBABA_CLOUD_ACCESS_KEY_ID=who, ALIBABA_CLOUD_ACCESS_KEY_SECRET=f"key-of-{who}"
        )
        if token:
            self.environ(ALIBABA_CLOUD_SECURITY_TOKEN=f"token-of-{who}")

    def pyodps(self, who: str, *, token: bool) -> None:
        account = {"accessKeyId": who, "accessKeySecret": f"key-of-{who}"}
        account |= {"securityToken": f"token-of-{who}"} if token else {}
        path = self.private("sts.json", "\ufeff" + json.dumps(account))  # PowerShell adds the mark
        self.environ(ODPS_STS_ACCOUNT_FILE=str(path))

    def config(self, who: str, *, token: bool) -> None:
        profile = {"name": "cli", "mode": "StsToken" if token else "AK"}
        profile |= {"access_key_id": who, "access_key_secret": f"key-of-{who}"}
        profile |= {"sts_token": f"token-of-{who}"} if token else {}
        document = {"current": "cli", "profiles": [{"name": "other"}, profile]}
        self.private(".aliyun/config.json", json.dumps(document))


SOURCES = ("profile", "odps", "alibaba", "pyodps", "config")


def account_of(profile: Profile) -> tuple[str, ...]:
    keys = profile.keys
    return tuple(str(one) for one in (keys.access_id, keys.access_key, keys.sts_token))


@pytest.mark.parametrize(
    "token", [(True, False), (False, True)], ids=["token of the first", "tokens of both"]
)
@pytest.mark.parametrize(("first", "second"), list(permutations(SOURCES, 2)))
def test_if_two_sources_have_an_account_only_the_first_one_is_used(home, first, second, token):
    for source, has_token in zip((first, second), token, strict=True):
        getattr(home, source)(source, token=has_token)
    winner = min(first, second, key=SOURCES.index)
    has_token = token[0] if winner == first else token[1]
    found = account_of(Profile.resolve(**PLACE))
    assert found == (winner, f"key-of-{winner}", f"token-of-{winner}" if has_token else "None")


LONE = {
    "ODPS_STS_TOKEN": "token-of-other",
    "ODPS_ACCESS_KEY": "key-of-other",
    "ALIBABA_CLOUD_SECURITY_TOKEN": "token-of-other",
    "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "key-of-other",
    "ODPS_STS_ACCESS_KEY_SECRET": "key-of-other",
    "ODPS_APP_KEY": "key-of-other",
}


#: Pairs in which the variable belongs to the account of the source.
OWN = {
    *((name, "odps") for name in ("ODPS_ACCESS_KEY", "ODPS_STS_TOKEN", "ODPS_APP_KEY")),
    ("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "alibaba"),
    ("ALIBABA_CLOUD_SECURITY_TOKEN", "alibaba"),
}


@pytest.mark.parametrize(
    ("variable", "source"), [pair for pair in product(LONE, SOURCES) if pair not in OWN]
)
def test_a_single_key_or_token_is_never_added_to_an_account(home, variable, source):
    getattr(home, source)("me", token=False)
    home.environ(**{variable: LONE[variable]})
    assert account_of(Profile.resolve(**PLACE)) == ("me", "key-of-me", "None")


@pytest.mark.parametrize("name", ["access_id", "access_key", "sts_token"])
def test_an_incomplete_account_is_not_completed_from_another_source(home, name):
    home.environ(**{f"ODPS_{name.upper()}": "half"})
    home.alibaba("other", token=True)
    if name == "access_id":
        with pytest.raises(ConfigError, match="access_key is missing") as caught:
            Profile.resolve(**PLACE)
        assert "ALIBABA_CLOUD_SECURITY_TOKEN (this source has a different" in caught.value.hint
    else:
        found = account_of(Profile.resolve(**PLACE))
        assert found == ("other", "key-of-other", "token-of-other")


@pytest.mark.parametrize("way", ["profile", "pyodps", "source"])
def test_an_account_in_the_arguments_replaces_all_of_the_account_of_the_source(home, way):
    new = {"access_id": "new", "access_key": "new-key"}
    key = {"access_key": "new-key"}
    home.profile("old", token=True, place=True)
    if way == "profile":
        make = lambda **given: odps_nb.connect("work", **given).profile  # noqa: E731
    elif way == "pyodps":
        entry = ODPS(
            account=StsAccount("old", "key-of-old", "token-of-old"),
            **PLACE,
            overwrite_global=False,
        )
        make = lambda **given: odps_nb.connect(entry, **given).profile  # noqa: E731
    else:
        old = Profile(**PLACE, access_id="old", access_key="key-of-old", sts_token="token-of-old")
        make = lambda **given: odps_nb.connect(old, **given).profile  # noqa: E731
    assert account_of(make()) == ("old", "key-of-old", "token-of-old")
    assert account_of(make(**new)) == ("new", "new-key", "None")
    assert account_of(make(**key)) == ("old", "new-key", "None")
    bearer = make(credentials=odps_nb.BearerToken("bearer")).keys
    assert (bearer.access_id, bearer.sts_token, bearer.bearer_token) == ("", None, "bearer")
    moved = make(endpoint="http://127.0.0.1:2/api")
    assert (moved.endpoint, moved.tunnel_endpoint) == ("http://127.0.0.1:2/api", None)


def test_an_access_id_in_the_arguments_selects_the_source_with_its_key(home):
    home.odps("other", token=True)
    home.alibaba("me", token=False)
    found = account_of(Profile.resolve(**PLACE, access_id="me"))
    assert found == ("me", "key-of-me", "None")


def test_a_token_belongs_to_the_id_of_the_variables_of_temporary_keys(home):
    home.environ(ODPS_ACCESS_ID="me", ODPS_ACCESS_KEY="key-of-me", ODPS_STS_TOKEN="token-of-role")
    home.environ(ODPS_STS_ACCESS_KEY_ID="role", ODPS_STS_ACCESS_KEY_SECRET="key-of-role")
    assert account_of(Profile.resolve(**PLACE)) == ("me", "key-of-me", "None")


def test_the_file_of_the_vendors_cli_can_be_disabled_and_its_mcp_server_names_the_project(home):
    home.config("me", token=False)
    home.environ(MAXCOMPUTE_DEFAULT_PROJECT="second")
    found = Profile.resolve(endpoint=PLACE["endpoint"])
    assert (account_of(found), found.project) == (("me", "key-of-me", "None"), "second")
    home.environ(MAXCOMPUTE_PROJECT="first", ALIBABA_CLOUD_CLI_PROFILE_DISABLED="TRUE")
    found = Profile.resolve(endpoint=PLACE["endpoint"], access_id="a", access_key="k")
    assert found.project == "first"
    _, choice = resolve(None, Hidden(), Hidden(os.environ), everything=True)
    assert not choice.has_account
    assert not [finding for finding in choice.findings if "config.json" in finding.source]


def test_no_token_of_a_later_source_is_added_to_the_same_keys(home):
    home.profile("me", token=False)
    home.odps("me", token=True)
    assert account_of(Profile.resolve(**PLACE)) == ("me", "key-of-me", "None")


def test_a_token_without_id_and_key_in_the_arguments_is_refused(home):
    home.odps("me", token=False)
    with pytest.raises(ConfigError, match="sts_token was passed without the access id and key"):
        Profile.resolve(**PLACE, sts_token="of another")


# -- endpoints --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sts", "bearer"])
def test_credentials_of_a_source_are_not_sent_to_the_endpoint_of_another(home, kind):
    text = "".join(f'{name} = "{value}"\n' for name, value in PLACE.items())
    home.private(".config/odps_nb/profiles.toml", f"[work]\n{text}")
    home.environ(ODPS_ENDPOINT="https://elsewhere/api")
    if kind == "sts":
        home.odps("other", token=True)
    else:
        home.environ(ODPS_BEARER_TOKEN="of-another")
    with pytest.raises(ConfigError, match="access_id and access_key are missing") as caught:
        odps_nb.connect("work")
    assert "this source has a different endpoint from the one in use" in caught.value.hint
    home.environ(ODPS_ENDPOINT=PLACE["endpoint"])
    assert odps_nb.connect("work").profile.endpoint == PLACE["endpoint"]


@pytest.mark.parametrize("variable", ["ODPS_TUNNEL_ENDPOINT", "ODPS_ENDPOINT", "ODPS_REGION"])
def test_an_account_is_not_sent_to_an_endpoint_from_another_source(home, variable):
    home.profile("me", token=True, place=True)
    home.environ(**{variable: "http://127.0.0.1:9/other"}, ODPS_TIMEZONE="Asia/Shanghai")
    profile = odps_nb.connect().profile
    assert (profile.endpoint, profile.tunnel_endpoint, profile.region) == (
        PLACE["endpoint"],
        None,
        None,
    )
    assert profile.timezone == "Asia/Shanghai"  # general settings belong to no account


def test_an_endpoint_in_the_arguments_discards_the_tunnel_of_another_source(home):
    home.environ(ODPS_ENDPOINT="http://a/api", ODPS_TUNNEL_ENDPOINT="http://a-tunnel")
    home.odps("me", token=True)
    there = Profile.resolve(project="p")
    assert (there.endpoint, there.tunnel_endpoint) == ("http://a/api", "http://a-tunnel")
    here = Profile.resolve(**PLACE)
    assert (here.endpoint, here.tunnel_endpoint) == (PLACE["endpoint"], None)


def test_schema_and_quota_belong_to_the_project(home):
    home.profile("me", token=False, place=True)
    home.environ(ODPS_PROJECT="other", ODPS_SCHEMA="theirs", ODPS_QUOTA="theirs")
    profile = odps_nb.connect().profile
    assert (profile.project, profile.schema, profile.quota) == ("p", None, None)


def test_a_pickled_handle_takes_no_keys_of_another_endpoint(home):
    settings = {**PLACE, "transfer": "tunnel"}
    home.environ(ODPS_ENDPOINT="https://elsewhere/api")
    home.odps("other", token=True)
    with pytest.raises(ConfigError, match="missing"):
        Profile._from_settings(settings, "the handle", None)
    home.environ(ODPS_ENDPOINT=PLACE["endpoint"])
    assert account_of(Profile._from_settings(settings, "the handle", None))[0] == "other"


# -- regions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        (
            {"region": "cn-hangzhou"},
            "https://service.cn-hangzhou.maxcompute.aliyun.com/api",
        ),
        (
            {"region": "eu-central-1", "network": "vpc"},
            "https://service.eu-central-1-vpc.maxcompute.aliyun-inc.com/api",
        ),
        (  # a region that is newer than the list
            {"region": "ap-southeast-9"},
            "https://service.ap-southeast-9.maxcompute.aliyun.com/api",
        ),
    ],
)
def test_an_endpoint_is_derived_from_a_region(home, given, endpoint):
    home.odps("me", token=False)
    profile = odps_nb.connect(project="p", **given).profile
    assert (profile.endpoint, profile.region) == (endpoint, None)
    home.environ(**{f"ODPS_{name.upper()}": value for name, value in given.items()})
    assert odps_nb.connect(project="p").profile.endpoint == endpoint


@pytest.mark.parametrize("way", ["argument", "variable", "profile"])
def test_a_region_from_another_source_than_the_endpoint_selects_no_signature_version(home, way):
    """Version 4 is used only for a region from the same source as the endpoint."""
    region, endpoint = "cn-shanghai", "https://service.cn-shanghai.maxcompute.aliyun.com/api"
    home.config("me", token=False)
    path = home.path / ".aliyun/config.json"
    document = json.loads(path.read_text())
    document["profiles"][1]["region_id"] = region
    path.write_text(json.dumps(document))
    if way == "argument":
        profile = odps_nb.connect(endpoint=endpoint, project="p").profile
    elif way == "variable":
        home.environ(ODPS_ENDPOINT=endpoint)
        profile = odps_nb.connect(project="p").profile
    else:
        text = f'[default]\nendpoint = "{endpoint}"\nproject = "p"\n'
        home.private(".config/odps_nb/profiles.toml", text)
        profile = odps_nb.connect("default").profile
    assert (profile.endpoint, profile.region, profile.access_id) == (endpoint, None, "me")
    both = odps_nb.connect(endpoint=endpoint, region=region, project="p").profile
    assert both.region == region


def test_an_application_account_of_another_source_does_not_sign_requests_of_a_role(home, metadata):
    home.environ(ALIBABA_CLOUD_CREDENTIALS_URI=metadata, ODPS_APP_ID="app", ODPS_APP_KEY="of-app")
    profile = Profile.resolve(**PLACE)
    assert (profile.app_id, profile.keys.access_id) == (None, "STS.Nrole")


@pytest.mark.parametrize(
    ("given", "why", "hint"),
    [
        ({"region": "cn-hangzou"}, "there is no region", "did you mean 'cn-hangzhou'"),
        ({"region": "Hangzhou!"}, "there is no region", "in the console"),
        ({"region": "cn-hangzhou", "network": "lan"}, "network is 'lan'", "network='vpc'"),
        (
            {"endpoint": "http://h/api", "network": "vpc"},
            "network applies to a region",
            "only endpoint",
        ),
        (
            {
                "endpoint": "https://service.cn-shanghai.maxcompute.aliyun.com/api",
                "region": "cn-beijing",
            },
            "the endpoint is in 'cn-shanghai'",
            "same region",
        ),
        (
            {"endpoint": "http://dt.cn-shanghai-vpc.maxcompute.aliyun-inc.com"},
            "the address of the tunnel",
            "'http://service.cn-shanghai-vpc.maxcompute.aliyun-inc.com/api'",
        ),
        (
            {"endpoint": "https://service.cn-shanghai.maxcompute.aliyun.com/"},
            "has no path",
            "'https://service.cn-shanghai.maxcompute.aliyun.com/api'",
        ),
    ],
)
def test_an_impossible_endpoint_is_refused_before_a_request(home, given, why, hint):
    home.odps("me", token=False)
    with pytest.raises(ConfigError, match=why) as caught:
        odps_nb.connect(project="p", **given)
    assert hint in caught.value.hint


@pytest.mark.parametrize("variable", ["ODPS_REGION", "ODPS_REGION_NAME"])
@pytest.mark.parametrize("region", ["cn-hangzou", "CN-HANGZHOU", "nowhere"])
def test_an_unknown_region_of_a_source_is_the_reason_for_a_missing_endpoint(home, variable, region):
    home.odps("me", token=False)
    home.environ(**{variable: region})
    with pytest.raises(ConfigError, match="endpoint is missing") as caught:
        odps_nb.connect(project="p")
    assert f"{variable} (no endpoint is known for this region" in caught.value.hint


# -- ids and keys -----------------------------------------------------------------------------

KEY = "abcdefGHIJKL0123456789mnopqrst"
TOKEN = "CAIS" + "x" * 200
MISPLACED = {
    "id and key": {"access_id": KEY, "access_key": "LTAI5tExampleKeyId01"},
    "an older id and key": {"access_id": KEY, "access_key": "oldIdOf16Letters"},
    "id twice": {"access_id": "LTAI5tExampleKeyId01", "access_key": "LTAI5tExampleKeyId01"},
    "key twice": {"access_id": KEY, "access_key": KEY},
    "temporary id and key": {
        "access_id": KEY,
        "access_key": "STS.NUgYrLnoC37mZZCNnAbez",
        "sts_token": TOKEN,
    },
    "key and token": {"access_id": "STS.NUg", "access_key": TOKEN, "sts_token": TOKEN},
    "id and token": {"access_id": TOKEN, "access_key": KEY, "sts_token": "STS.NUgYrLnoC37m"},
    "temporary without a token": {"access_id": "STS.NUgYrLnoC37mZZCNn", "access_key": KEY},
    "long-lived with a token": {
        "access_id": "LTAI5tExampleKeyId01",
        "access_key": KEY,
        "sts_token": TOKEN,
    },
    "application": {
        "access_id": "LTAI5tExampleKeyId01",
        "access_key": KEY,
        "app_id": KEY[::-1],
        "app_key": "LTAI5tApplication001",
    },
    "swapped in quotes": {"access_id": f'"{KEY}"', "access_key": '"LTAI5tExampleKeyId01"'},
    "an id as bearer token": {"bearer_token": "LTAI5tExampleKeyId01"},
    "an id without its key, and a bearer token": {"access_id": "an-id", "bearer_token": TOKEN},
}


def by_function(fields):
    account = {name: value for name, value in fields.items() if not name.startswith("app")}
    app = {name: value for name, value in fields.items() if name.startswith("app")}
    return Profile(**PLACE, credentials=lambda: account, **app).keys


WAYS = {
    "settings": lambda fields: Profile(**PLACE, **fields),
    "options of Spark": lambda fields: Profile.from_options({**PLACE, **fields}),
    "a function": by_function,
    "the environment": lambda fields: Profile.resolve(
        environ={f"ODPS_{name.upper()}": value for name, value in (PLACE | fields).items()}
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", MISPLACED)
def test_credentials_in_the_wrong_place_are_refused_without_a_request(home, what, way):
    fields = MISPLACED[what]
    with pytest.raises(ConfigError) as caught:
        WAYS[way](fields)
    told = repr(caught.value) + "\n".join(caught.value.__notes__)
    assert caught.value.hint
    assert not [value for value in fields.values() if value in told]


@pytest.mark.parametrize("way", [*WAYS, "variables of pyodps"])
def test_the_keys_of_a_source_take_precedence_over_its_bearer_token(home, way):
    """As in pyodps (``odps.accounts.from_environments``)."""
    fields = {"access_id": "me", "access_key": KEY, "sts_token": TOKEN, "bearer_token": "bearer"}
    if way in WAYS:
        found = WAYS[way](fields)
    else:
        path = home.private("bearer", "bearer")
        home.environ(ODPS_STS_ACCESS_KEY_ID="me", ODPS_STS_ACCESS_KEY_SECRET=KEY)
        home.environ(ODPS_STS_TOKEN=TOKEN, ODPS_BEARER_TOKEN_FILE=str(path))
        found = Profile.resolve(**PLACE)
    keys = getattr(found, "keys", found)
    url = PLACE["endpoint"] + "/projects/p"
    names = sign("GET", url, {}, endpoint=PLACE["endpoint"], credentials=keys, now=0.0).keys()
    assert {name.lower() for name in names} == {"date", "authorization", "authorization-sts-token"}


@pytest.mark.parametrize("blank", [" ", "\n", "\t", "\u00a0", "\u200b", "\ufeff", "\u3000"])
@pytest.mark.parametrize("way", WAYS)
def test_blanks_around_a_value_are_removed(home, way, blank):
    fields = {"access_id": f"{blank}me", "access_key": f"{KEY}{blank}"}
    found = WAYS[way](fields)
    keys = getattr(found, "keys", found)
    assert (keys.access_id, keys.access_key) == ("me", KEY)
    place = {name: f"{blank}{value}{blank}" for name, value in PLACE.items()}
    profile = Profile(**place, **fields)
    assert (profile.endpoint, profile.project) == tuple(PLACE.values())


# -- roles, by the vendor's library -----------------------------------------------------------


class Metadata(http.server.BaseHTTPRequestHandler):
    """Serves temporary keys, as the instance metadata service and a credentials URI do."""

    asked: ClassVar[list[str]] = []

    def do_GET(self):
        self.asked.append(self.path)
        path = urlsplit(self.path).path
        keys = {
            "Code": "Success",
            "AccessKeyId": "STS.Nrole",
            "AccessKeySecret": "key-of-role",
            "SecurityToken": "token-of-role",
            "Expiration": "2099-01-01T00:00:00Z",
        }
        if "AssumeRoleWithOIDC" in self.path:
            keys = {"Credentials": keys}
        text = "my-role" if path.endswith("security-credentials/") else json.dumps(keys)
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_PUT(self):
        self.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"token")

    def log_message(self, *_):
        pass


@pytest.fixture
def metadata():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    Metadata.asked.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_credentials_uri_is_requested_when_keys_are_needed(home, metadata):
    home.environ(ALIBABA_CLOUD_CREDENTIALS_URI=f"{metadata}/credentials")
    profile = Profile.resolve(**PLACE)
    assert Metadata.asked == []
    assert account_of(profile) == ("STS.Nrole", "key-of-role", "token-of-role")
    assert account_of(profile)[0] == "STS.Nrole"
    assert len(Metadata.asked) == 1
    assert "role" not in repr(profile)


def test_keys_can_come_from_each_mode_of_the_aliyun_cli(home, metadata):
    profile = {"name": "x", "mode": "CredentialsURI", "credentials_uri": f"{metadata}/of-cli"}
    document = {"current": "x", "profiles": [profile | {"region_id": "cn-shanghai"}]}
    home.private(".aliyun/config.json", json.dumps(document))
    found = Profile.resolve(project="p")
    assert found.endpoint == "https://service.cn-shanghai.maxcompute.aliyun.com/api"
    assert account_of(found) == ("STS.Nrole", "key-of-role", "token-of-role")


def test_the_credential_provider_of_a_pyodps_object_is_called_again(home, metadata):
    from alibabacloud_credentials.provider import URLCredentialsProvider

    account = CredentialProviderAccount(URLCredentialsProvider(uri=f"{metadata}/of-provider"))
    entry = ODPS(account=account, **PLACE, overwrite_global=False)
    profile = odps_nb.connect(entry).profile
    assert account_of(profile) == ("STS.Nrole", "key-of-role", "token-of-role")
    assert profile.access_id is None
    other = odps_nb.connect(entry, access_id="new", access_key="new-key").profile
    assert account_of(other) == ("new", "new-key", "None")


PROGRAM = f"""
import os, certifi
trusted = os.environ.get("TRUSTED") or certifi.where()
certifi.where = lambda: trusted

from odps_nb.client.auth.choice import OVERRIDDEN
from odps_nb.client.auth.profile import Profile

profile = Profile.resolve(**{PLACE})
keys = profile.keys
print(keys.access_id, keys.access_key, keys.sts_token, repr(profile))
"""


@pytest.mark.parametrize("kind", ["ECS", "OIDC"])
def test_keys_can_come_from_a_role(home, metadata, authority, kind):
    """Use a separate process, because the vendor's library reads variables at its import."""
    parts = urlsplit(metadata)
    with (
        TlsFront(
            (parts.hostname, parts.port), server_context(authority, "sts.aliyuncs.com")
        ) as sts,
        Proxy({"sts.aliyuncs.com": ("127.0.0.1", urlsplit(sts.url).port)}) as proxy,
    ):
        if kind == "ECS":
            role = {"ALIBABA_CLOUD_ECS_METADATA": "my-role", "HTTP_PROXY": metadata}
            role["ALIBABA_CLOUD_ECS_METADATA_DISABLED"] = "false"
        else:
            token = home.private("token", "the OIDC token")
            bundle = home.path / "authority.pem"
            authority.cert_pem.write_to_path(str(bundle))
            role = {
                "ALIBABA_CLOUD_ROLE_ARN": "acs:ram::1:role/x",
                "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": "acs:ram::1:oidc-provider/x",
                "ALIBABA_CLOUD_OIDC_TOKEN_FILE": str(token),
                "HTTPS_PROXY": proxy.url,
                "TRUSTED": str(bundle),
            }
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(
            command, env=os.environ | role, text=True, capture_output=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    told = "STS.Nrole key-of-role token-of-role Profile("
    assert done.stdout.startswith(told)
    assert "role" not in done.stdout.removeprefix(told)
    assert not done.stderr


def test_the_error_names_a_role_without_keys_and_logs_no_token(home, monkeypatch, capfd, caplog):
    caplog.set_level(logging.INFO)
    home.environ(ALIBABA_CLOUD_CREDENTIALS_URI="http://127.0.0.1:1/nobody?token=in-the-address")
    with pytest.raises(ConfigError, match="the credentials URI failed") as caught:
        _ = Profile.resolve(**PLACE).keys
    assert "ALIBABA_CLOUD_CREDENTIALS_URI" in caught.value.hint
    told = (
        "".join(traceback.format_exception(caught.value))
        + caplog.text
        + "".join(capfd.readouterr())
    )
    assert "in-the-address" not in told
    logging.getLogger("credentials").info("later messages arrive")
    assert "later messages arrive" in caplog.text


@pytest.mark.parametrize(
    ("mode", "text", "why"),
    [
        (0o644, None, "other users of this machine can read it"),
        (0o600, "[", "unreadable or not in the CLI's format"),
        (0o600, '{"profiles": []}', "the file has no profile 'default'"),
    ],
)
def test_the_error_names_an_unused_config_file_and_the_reason(home, mode, text, why):
    home.config("me", token=False)
    path = home.path / ".aliyun/config.json"
    if text is not None:
        path.write_text(text)
    path.chmod(mode)
    with pytest.raises(ConfigError, match="missing") as caught:
        Profile.resolve(**PLACE)
    assert "config.json" in caught.value.hint or "access_key_id" in caught.value.hint
    assert why in caught.value.hint


# -- reports of sources ---------------------------------------------------------------------------


def test_settings_are_reported_by_name_without_their_values(home, monkeypatch):
    home.profile("me", token=False, place=True)
    home.odps("other", token=True)
    home.alibaba("third", token=False)
    home.environ(ODPS_TIMEZONE="UTC")
    _, choice = resolve(None, Hidden(), Hidden(os.environ), everything=True)
    told = {finding.source: finding for finding in choice.findings}
    names = list(told)
    assert names[0].startswith("profile 'work' in")
    assert names[1:3] == ["environment", "environment (ALIBABA_CLOUD_…)"]
    assert set(told[names[0]].used) == {"access_id", "access_key", "endpoint", "project"}
    assert told["environment"].used == ("ODPS_TIMEZONE",)
    unused = {"ODPS_ACCESS_ID", "ODPS_ACCESS_KEY", "ODPS_STS_TOKEN"}
    assert {name for name, _ in told["environment"].unused} == unused
    assert "key-of" not in repr(choice.findings)
    home.odps("me", token=False)  # the account in use, so that only earlier values take precedence
    monkeypatch.delenv("ODPS_STS_TOKEN")
    _, choice = resolve(None, Hidden(), Hidden(os.environ), everything=True)
    told = {finding.source: finding for finding in choice.findings}
    assert told["environment"].reasons() == [f"ODPS_ACCESS_ID, ODPS_ACCESS_KEY ({OVERRIDDEN})"]


def test_if_settings_are_missing_the_error_names_unused_sources(home, monkeypatch, tmp_path):
    home.private(".config/odps_nb/profiles.toml", "[work]\nproject = 'p'\n[play]\nproject = 'q'\n")
    home.environ(ODPS_STS_TOKEN="lonely")
    home.private(".env", "ODPS_PROJECT=p")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="endpoint and project are missing") as caught:
        odps_nb.connect()
    assert caught.value.hint.startswith("connect with the name of a profile (work, play), or set")
    assert "ODPS_STS_TOKEN (it comes without an access id" in caught.value.hint
    assert ".env in this folder" in caught.value.hint
    assert "lonely" not in str(caught.value.hint)
