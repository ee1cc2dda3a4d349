"""Every way to connect works, and invalid settings raise an error."""

import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from odps import ODPS

import odps_nb
from odps_nb.access.progress import default_listener
from odps_nb.errors import ArgumentError, ConfigError, RequestTimeoutError
from tests.support.outputs import frames_of
from tests.support.service.connecting import keys_of


@pytest.fixture
def keywords(service):
    return keys_of(service)


def test_connecting_by_keywords_finds_the_tunnel_endpoint(keywords):
    with odps_nb.connect(**keywords) as odps:
        assert odps.profile.tunnel_endpoint is None
        assert odps.table("media").read(["id"], limit=1).to_arrow().num_rows == 1


def test_connecting_by_environment_variables_works(keywords, monkeypatch):
    for name, value in keywords.items():
        monkeypatch.setenv(f"ODPS_{name.upper()}", value)
    with odps_nb.connect() as odps:
        assert "orders" in odps.tables()


def test_connecting_by_a_profile_file_works(keywords, monkeypatch, tmp_path: Path):
    path = tmp_path / "profiles.toml"
    lines = [f'{name} = "{value}"' for name, value in keywords.items()]
    path.write_text("\n".join(["[here]", *lines]))
    path.chmod(0o600)
    monkeypatch.setenv("ODPS_NB_PROFILES", str(path))
    with odps_nb.connect("here") as odps:
        assert odps.profile.name == "here"
        assert "orders" in odps.tables()
    with odps_nb.connect("here", project="other") as odps:
        assert odps.profile.project == "other"


def test_connecting_by_a_pyodps_object_works(keywords):
    entry = ODPS(
        keywords["access_id"],
        keywords["access_key"],
        project=keywords["project"],
        endpoint=keywords["endpoint"],
    )
    with odps_nb.connect(entry) as odps:
        assert "orders" in odps.tables()


def test_connecting_by_a_profile_object_works(profile):
    with odps_nb.connect(profile, quota="q") as odps:
        assert odps.profile.quota == "q"
        assert odps.profile.access_key == profile.access_key


def test_connecting_to_local_starts_a_service_that_ends_with_the_connection(tmp_path, monkeypatch):
    import psutil

    monkeypatch.setenv("HOME", str(tmp_path))
    odps = odps_nb.connect("local", root="~/here")
    try:
        pid = odps._service.pid
        odps.create_table("mine", "id bigint")
        assert "mine" in odps.tables()
        assert psutil.pid_exists(pid)
    finally:
        odps.close()
    assert not psutil.pid_exists(pid)
    with odps_nb.connect("local", root=tmp_path / "here") as again:
        assert "mine" in again.tables()


def test_connecting_to_local_refuses_keys(tmp_path):
    with pytest.raises(ConfigError, match="access_key does not apply to"):
        odps_nb.connect("local", access_key="x")
    with pytest.raises(ConfigError, match="root applies only to"):
        odps_nb.connect(root=tmp_path)


@pytest.mark.parametrize("root", [5, b"x", "", " ", "a\0b", "~no-such-user/x"])
def test_connecting_to_local_requires_the_path_of_a_folder(tmp_path, monkeypatch, root):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ArgumentError, ConfigError), match=r"root is|cannot be found"):
        odps_nb.connect("local", root=root)
    assert not list(tmp_path.iterdir())  # an empty path would be the working folder


def test_the_error_names_an_invalid_source_of_connect():
    with pytest.raises(ConfigError, match="cannot connect with an int"):
        odps_nb.connect(5)


def test_creating_a_connection_sends_no_request():
    odps = odps_nb.connect(
        endpoint="http://127.0.0.1:9/api", project="p", access_id="i", access_key="k"
    )
    table = odps.table("t")
    assert (str(table.name), repr(odps)) == ("p.t", "<Connection to p at http://127.0.0.1:9/api>")
    odps.close()
    assert repr(odps).endswith("(closed)>")


# -- display ------------------------------------------------------------------------------------


def test_no_progress_is_shown_without_a_notebook_or_terminal(capsys):
    from odps_nb.client.calls.progress import silent

    assert default_listener() is silent


def test_progress_in_a_terminal_is_one_line(monkeypatch):
    import io
    import sys

    from odps_nb.notebook.progress.line import LineListener

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(default_listener(), LineListener)


# -- signatures ---------------------------------------------------------------------------------


@pytest.mark.storage_api("blobs")
def test_with_a_region_every_request_is_signed_with_version_4(service, odps, new_name):
    from odps_nb.client.calls.progress import silent

    facts = {"endpoint": service.endpoint, "tunnel_endpoint": service.tunnel_endpoint}
    keys = {"access_id": service.access_id, "access_key": service.access_key}
    name = new_name("signed")
    with odps_nb.connect(
        **facts, **keys, project=service.project, region="cn-hangzhou"
    ) as version_4:
        version_4.create_table(name, "id bigint, photo blob")
        receipt = version_4.table(name).write(
            pa.table({"id": [1], "photo": [b"xyz"]}), progress=silent
        )
        assert (receipt.rows, receipt.blobs) == (1, 1)
        assert version_4.table(name).blobs("photo")[0].bytes() == b"xyz"
        result = version_4.sql(f"select count(*) as n from {name}", progress=silent)
        assert result.to_arrow(progress=silent).to_pylist() == [{"n": 1}]
        version_4.drop_table(name)


def test_an_empty_region_selects_signature_version_2_for_a_pyodps_object(service):
    entry = ODPS(
        service.access_id,
        service.access_key,
        service.project,
        endpoint=service.endpoint,
        region_name="cn-hangzhou",
    )
    with odps_nb.connect(entry) as guessed, odps_nb.connect(entry, region="") as said:
        assert guessed.profile.keys.region == "cn-hangzhou"
        assert not said.profile.keys.region
        assert said.table("orders").read(limit=1).to_arrow().num_rows == 1


@pytest.mark.nightly
def test_following_the_hint_of_a_query_time_out_works(odps):
    some = "(select status from orders where ds = '2024-01-01' limit 20000)"
    query = f"select count(*) as n from {some} a join {some} b on a.status = b.status"
    with pytest.raises(RequestTimeoutError, match="within 0 s and was cancelled") as caught:
        odps.sql(query, timeout=0)
    assert caught.value.hint.startswith("pass a longer timeout=, or pass wait=False")
    assert odps.sql(query, timeout=600).to_arrow().num_rows == 1
    assert odps.sql(query, wait=False).wait().to_arrow().num_rows == 1


SECRET = "abcdefGHIJKL0123456789mnopqrst"


@pytest.mark.parametrize(
    ("args", "given", "why", "hint"),
    [
        (("LTAI5tId", SECRET, "p"), {}, "connect takes one argument", "access_key=getpass"),
        ((SECRET,), {}, "not an id, a key or a URL", "access_key=getpass"),
        (({"access_key": SECRET},), {}, "cannot connect with a dict", "access_key=getpass"),
        ((["LTAI5tId", SECRET],), {}, "cannot connect with a list", "access_key=getpass"),
        (("LTAI5tExampleKeyId01",), {}, "not an id, a key or a URL", "access_key=getpass"),
        ((), {"sts_token": SECRET}, "no argument sts_token=", "credentials=odps_nb.StsToken("),
        ((), {"bearer_token": SECRET}, "no argument bearer_token=", "odps_nb.BearerToken("),
        ((), {"profile": "work"}, "no argument profile=", "connect('work')"),
        ((), {"secret_access_key": SECRET}, "no argument secret_access_key=", "pass access_key="),
        ((), {"proyect": "p"}, "no argument proyect=", "did you mean project=?"),
        ((), {"zzz": 1}, "no argument zzz=", "its arguments are: source, root, endpoint"),
    ],
)
def test_the_error_for_an_unknown_argument_says_what_to_pass(args, given, why, hint):
    with pytest.raises(ConfigError, match=why) as caught:
        odps_nb.connect(*args, **given)
    assert hint in caught.value.hint
    assert SECRET not in "\n".join(frames_of(caught.value))


@pytest.mark.parametrize(
    ("endpoint", "warns"),
    [
        ("http://service.cn-shanghai.maxcompute.aliyun.com/api", True),
        ("https://service.cn-shanghai.maxcompute.aliyun.com/api", False),
        ("http://service.cn-shanghai-vpc.maxcompute.aliyun-inc.com/api", False),
        ("http://127.0.0.1:1/api", False),
    ],
)
def test_a_token_over_plain_http_causes_a_warning(endpoint, warns):
    keys = odps_nb.StsToken("me", "key", "token")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        odps_nb.connect(endpoint=endpoint, project="p", credentials=keys).close()
    texts = [str(one.message) for one in caught]
    assert (
        texts
        == [
            "the token is sent to service.cn-shanghai.maxcompute.aliyun.com without "
            "encryption: use https:// in the endpoint"
        ]
        * warns
    )
