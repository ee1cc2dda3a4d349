"""Profiles: the precedence of sources, rejected settings, and secrets that are never displayed."""

import copy
import dataclasses
import os
import pickle
from pathlib import Path

import pytest
from odps import ODPS
from odps.accounts import AppAccount

import odps_nb
from odps_nb.client.auth.accounts import AccessKey, BearerToken, CredentialProcess, StsToken
from odps_nb.client.auth.profile import Profile
from odps_nb.errors import ArgumentError, ConfigError
from tests.support.outputs import frames_of

SECRET = "s3cr3t-key-that-nobody-may-see"
ENV = {
    "ODPS_ENDPOINT": "http://env/api",
    "ODPS_PROJECT": "env_project",
    "ODPS_ACCESS_ID": "env-id",
    "ODPS_ACCESS_KEY": SECRET,
}

ME = {"project": "p", "access_id": "me", "access_key": SECRET}


@pytest.fixture
def profiles(tmp_path: Path):
    path = tmp_path / "profiles.toml"

    def write(text: str, mode: int = 0o600) -> dict[str, str]:
        path.write_text(text)
        path.chmod(mode)
        return {"ODPS_NB_PROFILES": str(path)}

    return write


def test_a_profile_file_is_refused_if_other_users_can_change_it(profiles, tmp_path):
    """Attack 7: the file names the program that returns keys, and the host that gets requests."""
    text = "[default]\nendpoint = 'http://h/api'\nproject = 'p'\n"
    keys = {"ODPS_ACCESS_ID": "a", "ODPS_ACCESS_KEY": "k"}
    environ = keys | profiles(text, mode=0o646)
    with pytest.raises(ConfigError, match="other users can"):
        Profile.resolve(environ=environ)
    environ = keys | profiles(text)
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="other users can write to"):
        Profile.resolve(environ=environ)
    tmp_path.chmod(0o1777)  # like /tmp: only the owner of a file can replace it there
    assert Profile.resolve(environ=environ).project == "p"
    tmp_path.chmod(0o700)


def test_a_profile_of_another_user_is_refused(profiles, monkeypatch):
    environ = profiles("[default]\nendpoint = 'http://h/api'\nproject = 'p'\n")
    if os.geteuid() == 0:
        os.chown(environ["ODPS_NB_PROFILES"], 12345, 12345)
    else:  # only root can change the owner; for any other user, this file belongs to someone else
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        Profile.resolve(environ=environ)


def nowhere(tmp_path: Path) -> dict[str, str]:
    return {"ODPS_NB_PROFILES": str(tmp_path / "none.toml")}


WORK = """
default = "work"
[work]
endpoint = "https://work/api/"
project = "work_project"
access_id = "work-id"
access_key = "work-key"
schema = "sales"
[other]
endpoint = "https://other/api"
project = "other_project"
"""


def test_environment_variables_alone_can_define_a_profile(tmp_path):
    profile = Profile.resolve(environ=ENV | nowhere(tmp_path))
    assert (profile.endpoint, profile.project) == ("http://env/api", "env_project")
    assert (profile.access_id, profile.access_key) == ("env-id", SECRET)
    assert profile.name is None


def test_arguments_have_precedence_over_environment_variables(tmp_path):
    profile = Profile.resolve(environ=ENV | nowhere(tmp_path), project="mine", region="cn-x")
    assert (profile.project, profile.region, profile.endpoint) == ("mine", "cn-x", "http://env/api")


@pytest.mark.parametrize("name", ["work", None])
def test_a_profile_has_precedence_over_environment_variables(profiles, name):
    profile = Profile.resolve(name, environ=ENV | profiles(WORK))
    assert (profile.endpoint, profile.project) == ("https://work/api", "work_project")
    assert (profile.name, profile.access_id, profile.schema) == ("work", "work-id", "sales")


def test_an_environment_variable_can_name_the_profile(profiles):
    env = profiles(WORK) | {"ODPS_PROFILE": "other", "ODPS_ACCESS_ID": "i", "ODPS_ACCESS_KEY": "k"}
    assert Profile.resolve(environ=env).project == "other_project"


def test_credentials_of_two_accounts_are_never_mixed(profiles):
    env = profiles(WORK) | {"ODPS_STS_TOKEN": "token-of-another-account"}
    assert Profile.resolve("work", environ=env).sts_token is None


def test_a_key_in_the_environment_completes_an_id_in_the_file(profiles):
    env = profiles('[a]\nendpoint="http://h"\nproject="p"\naccess_id="me"\n')
    profile = Profile.resolve("a", environ=env | {"ODPS_ACCESS_ID": "me", "ODPS_ACCESS_KEY": "k"})
    assert (profile.access_id, profile.access_key) == ("me", "k")


def test_the_error_for_an_unknown_profile_lists_the_names_and_suggests_one(profiles):
    with pytest.raises(ConfigError, match="no profile 'wrok'") as caught:
        Profile.resolve("wrok", environ=profiles(WORK))
    assert "did you mean 'work'" in caught.value.hint
    assert "work, other" in caught.value.hint


@pytest.mark.parametrize("has_file", [True, False])
@pytest.mark.parametrize(
    "name",
    ["odps://i:k3y@p/?endpoint=h", "\nhttps://h/k3y", "LTAIk3y", " STS.k3y", "k3y" + "x" * 27],
)
def test_a_key_in_place_of_a_profile_name_is_not_shown(profiles, tmp_path, name, has_file):
    environ = profiles("[a]\n") if has_file else nowhere(tmp_path)
    for resolve in (
        lambda: Profile.resolve(name, environ=environ),
        lambda: Profile.resolve(environ=environ | {"ODPS_PROFILE": name}),
        lambda: odps_nb.connect(name),
        lambda: odps_nb.connect(source=name),
    ):
        with pytest.raises(ConfigError, match=r"the name of a profile|profile's name") as caught:
            resolve()
        assert "k3y" not in repr(caught.value)


def test_the_error_says_that_the_file_of_odps_nb_profiles_does_not_exist(tmp_path):
    with pytest.raises(ConfigError, match="are missing") as caught:
        Profile.resolve(environ=nowhere(tmp_path))
    assert "the file of ODPS_NB_PROFILES does not exist" in caught.value.hint


def test_without_a_profile_file_the_error_names_the_path_of_the_file(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.toml does not exist"):
        Profile.resolve("work", environ=nowhere(tmp_path))


@pytest.mark.parametrize(
    ("gone", "named"),
    [("ODPS_ENDPOINT", "endpoint"), ("ODPS_PROJECT", "project"), ("ODPS_ACCESS_KEY", "access_key")],
)
def test_the_error_names_missing_settings_and_their_variables(tmp_path, gone, named):
    env = {k: v for k, v in ENV.items() if k != gone} | nowhere(tmp_path)
    with pytest.raises(ConfigError, match=named) as caught:
        Profile.resolve(environ=env)
    assert gone in caught.value.hint
    assert caught.value.option == named


def test_a_file_with_keys_is_refused_if_other_users_can_read_it(profiles):
    with pytest.raises(ConfigError, match="other users") as caught:
        Profile.resolve("work", environ=profiles(WORK, mode=0o644))
    assert "chmod 600" in caught.value.hint


def test_a_file_without_keys_may_be_readable_by_other_users(profiles):
    text = '[a]\nendpoint="http://h"\nproject="p"\n'
    env = profiles(text, mode=0o644) | {"ODPS_ACCESS_ID": "i", "ODPS_ACCESS_KEY": "k"}
    assert Profile.resolve("a", environ=env).endpoint == "http://h"


def test_a_byte_order_mark_is_not_part_of_a_profile_file(profiles):
    text = "\ufeff[a]\nendpoint = 'http://h'\nproject = 'p'\n"
    profile = Profile.resolve("a", environ=profiles(text), access_id="i", access_key="k")
    assert profile.project == "p"


def test_the_error_names_a_misspelt_setting_in_the_file(profiles):
    with pytest.raises(ConfigError, match="unknown setting 'endpiont'") as caught:
        Profile.resolve("a", environ=profiles('[a]\nendpiont = "x"\n'))
    assert "did you mean 'endpoint'" in caught.value.hint


def test_a_file_that_is_not_toml_is_refused_without_its_text(profiles):
    with pytest.raises(ConfigError, match="not a valid TOML file") as caught:
        Profile.resolve("a", environ=profiles(f"[a]\naccess_key = {SECRET}\n"))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "h/api",
            "ftp://h",
            "http://",
            "http:///h",
            "http://me:pw@h/api",
            "http://:@h",
            "http://@h",
        ),
        *(
            "http://[::1",
            "http://h]",
            "http://[v1.pw]",
            "http://https://h/api",
            "http://{region}.h",
        ),
        *(
            "http://h:x",
            "http://h:-1",
            "http://h:0",
            "http://h:65536",
            "http://h:",
            "http://h:\u0665",
        ),
        *("http://h/a b", "http://h\tx", "http://h/api\nx", "http://h/\x00", "http://h\\api"),
        *(
            "http://h/api?",
            "http://h/api#",
            "http://*.h",
            "http://h\u3002example",
            "http://h\ud800",
        ),
    ],
)
def test_an_invalid_endpoint_is_refused(url):
    for option in ("endpoint", "tunnel_endpoint"):
        places = {"endpoint": "http://h/api", option: url}
        with pytest.raises(ConfigError, match=f"^{option} must be an http") as caught:
            Profile(**places, project="p", access_id="i", access_key="k")
        assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["HTTP://H/API", "http://[::1]:65535/api", "https://b\u00fccher.example:1/a/%20/api"]
)
def test_a_valid_endpoint_is_accepted(url):
    profile = Profile(endpoint=f"{url}/", project="p", access_id="i", access_key="k")
    assert profile.endpoint == url


def test_the_service_endpoint_is_refused_as_tunnel_endpoint():
    with pytest.raises(ConfigError, match="tunnel_endpoint http://h/api ends with /api"):
        Profile(**ENTRY, tunnel_endpoint="http://h/api/")


ENTRY = {"endpoint": "http://h/api", "project": "p", "access_id": "i", "access_key": SECRET}
TEXTS = ("endpoint", "tunnel_endpoint", "project", "schema", "quota", "region", "timezone")
KEYS = ("access_id", "access_key", "sts_token", "bearer_token", "app_id", "app_key")


@pytest.mark.parametrize("name", [*TEXTS, *KEYS])
@pytest.mark.parametrize("value", [5, SECRET.encode(), [SECRET], f'"{SECRET}"', f" '{SECRET}' "])
def test_a_setting_that_is_not_text_or_is_in_quotes_is_refused(tmp_path, name, value):
    settings = {**ENTRY, name: value}
    if name in ("sts_token", "bearer_token"):
        settings = {**settings, "access_id": "STS.i"}
    for create in (
        lambda: Profile(**settings),
        lambda: Profile.resolve(environ=nowhere(tmp_path), **settings),
        lambda: Profile.from_options(settings),
    ):
        with pytest.raises(ConfigError, match=f"^{name} (is of type|begins and ends)") as caught:
            create()
        assert caught.value.hint
        assert SECRET not in repr(caught.value)


@pytest.mark.parametrize("entry", [None, "o", 5])
def test_an_object_that_is_not_of_pyodps_is_refused(entry):
    with pytest.raises(ConfigError, match="has no account of pyodps"):
        Profile.from_pyodps(entry)


def test_a_project_name_that_could_change_a_url_is_refused():
    with pytest.raises(ArgumentError, match="not a valid project name"):
        Profile(endpoint="http://h", project="p/../q", access_id="i", access_key="k")


def test_an_unknown_api_version_is_refused(tmp_path):
    for value in (4, "x", "2.0", 2.7, [2], "\u0663"):
        with pytest.raises(ConfigError, match="api_version"):
            Profile.resolve(environ=ENV | nowhere(tmp_path), api_version=value)


def test_an_unknown_keyword_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="unknown setting 'passwrod'"):
        Profile.resolve(environ=ENV | nowhere(tmp_path), passwrod="x")


@pytest.mark.parametrize(
    ("call", "error", "why", "hint"),
    [
        (lambda: Profile("http://h", "p", "me", SECRET), ConfigError, "keyword", "endpoint, proj"),
        (lambda: Profile(endpoint="http://h"), ConfigError, "project, access_id", "project= or"),
        (lambda: Profile(endpoint="http://h?" + SECRET, **ME), ConfigError, "query", "write e.g."),
        (lambda: Profile(acess_key=SECRET), ConfigError, "argument acess_key=", "access_key=?"),
        (lambda: AccessKey("me"), ArgumentError, "'key'", "its arguments are: id, key, app"),
        (lambda: AccessKey(id="me", secret=SECRET), ArgumentError, "no argument secret=", "key"),
        (lambda: StsToken("me", SECRET, "t", None, SECRET), ArgumentError, "too many", "token"),
        (lambda: BearerToken(SECRET, key=SECRET), ArgumentError, "no argument key=", "token"),
        (lambda: CredentialProcess(), ArgumentError, "'command'", "command, app"),
    ],
)
def test_wrong_arguments_of_a_constructor_are_explained_without_secrets(call, error, why, hint):
    with pytest.raises(error, match=why) as caught:
        call()
    assert hint in caught.value.hint
    assert SECRET not in "\n".join(frames_of(caught.value))


def test_an_api_version_of_another_numeric_type_is_an_integer():
    options = Profile(endpoint="http://h", **ME, api_version=2.0).as_options()
    assert (options["api_version"], Profile.from_options(options).api_version) == ("2", 2)


def test_no_repr_shows_a_secret():
    profile = Profile(
        endpoint="http://h",
        project="p",
        access_id="LTAI4567890123",
        access_key=SECRET,
        bearer_token=SECRET + "2",
    )
    assert SECRET not in repr(profile)
    assert SECRET not in f"{profile!s}"
    assert "LTAI4567890123" not in repr(profile)
    assert len(repr(profile)) < 300


def test_a_profile_cannot_be_pickled_and_its_copy_is_the_same_object():
    profile = Profile(endpoint="http://h", project="p", access_id="i", access_key="k")
    with pytest.raises(ConfigError, match="never pickled"):
        pickle.dumps(profile)
    assert copy.deepcopy(profile) is profile is copy.copy(profile)
    assert dataclasses.replace(profile, project="q").project == "q"


def test_a_profile_survives_a_round_trip_through_options_in_any_letter_case():
    profile = Profile(
        endpoint="http://h", project="p", access_id="i", access_key="k", api_version=3, quota="q"
    )
    options = profile.as_options()
    assert all(isinstance(value, str) for value in options.values())
    shouted = {key.upper(): value for key, value in options.items()} | {"table": "t"}
    assert Profile.from_options(shouted) == profile


@pytest.mark.nightly
def test_a_profile_takes_its_settings_from_a_pyodps_entry():
    entry = ODPS(
        "id",
        SECRET,
        project="p",
        endpoint="http://127.0.0.1:9/api",
        quota_name="of SQL jobs, not of transfers",
        overwrite_global=False,
    )
    profile = Profile.from_pyodps(entry, schema="s")
    assert profile.quota is None
    assert (profile.endpoint, profile.project) == ("http://127.0.0.1:9/api", "p")
    assert (profile.access_id, profile.access_key, profile.schema) == ("id", SECRET, "s")


def test_table_names_get_the_project_and_schema_of_the_profile():
    profile = Profile(endpoint="http://h", project="p", access_id="i", access_key="k", schema="s")
    assert str(profile.table("t")) == "p.s.t"
    assert str(profile.table("q.t")) == "q.t"


def test_the_application_account_of_a_pyodps_entry_is_used():
    application = AppAccount("app", SECRET)
    entry = ODPS(
        "me",
        "k",
        project="p",
        endpoint="http://127.0.0.1:9/api",  # pyodps connects to it; resolving a name takes longer
        app_account=application,
        overwrite_global=False,  # otherwise pyodps also signs for every later entry
    )
    keys = Profile.from_pyodps(entry).keys
    assert (keys.access_id, keys.app_id, keys.app_key) == ("me", "app", SECRET)


@pytest.mark.parametrize(
    "stated",
    ["/" + "x" * 300, "~no-such-user/profiles.toml", "nested", "binary", "folder/x"],
)
def test_a_profile_file_that_cannot_be_read_raises_an_error_with_a_hint(tmp_path, stated):
    (tmp_path / "nested").write_text("a = " + "[" * 100_000)
    (tmp_path / "binary").write_bytes(b"\xff\x00\xfe")
    (tmp_path / "folder").write_bytes(b"")  # a file instead of a folder
    path = stated if stated[0] in "/~" else str(tmp_path / stated)
    for name in ("prod", None):
        with pytest.raises(ConfigError) as caught:
            Profile.resolve(
                name, environ={"ODPS_NB_PROFILES": path}, endpoint="http://h", project="p"
            )
        assert caught.value.hint


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        (AccessKey("me", SECRET), {"access_id": "me", "access_key": SECRET}),
        (
            StsToken("me", SECRET, "token", app=AccessKey("app", "other")),
            {
                "access_id": "me",
                "access_key": SECRET,
                "sts_token": "token",
                "app_id": "app",
                "app_key": "other",
            },
        ),
        (BearerToken(SECRET), {"bearer_token": SECRET}),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_credentials_object_equals_its_fields_as_arguments(value, fields):
    place = {"endpoint": "http://h/api", "project": "p"}
    profile = Profile(**place, credentials=value)
    assert profile == Profile(**place, **fields)
    assert profile.keys == Profile(**place, **fields).keys
    assert SECRET not in repr(profile) + repr(value)
    with pytest.raises(ConfigError, match="cannot be combined"):
        Profile(**place, access_id="me", access_key="k", credentials=value)
    # a value overrides the one in the source
    source = Profile(**place, access_id="old", access_key="k", app_id="app", app_key="a")
    assert odps_nb.connect(source, credentials=value).profile == profile


def test_a_credentials_function_replaces_the_application_account_of_the_source():
    def keys() -> dict[str, str]:
        return {"access_id": "new", "access_key": SECRET}

    place = {"endpoint": "http://127.0.0.1:9/api", "project": "p"}
    app = {"app_id": "app", "app_key": "other"}
    old = Profile(**place, access_id="old", access_key="k", **app)
    entry = ODPS("me", "k", **place, app_account=AppAccount("app", "other"), overwrite_global=False)
    variables = {"ODPS_APP_ID": "app", "ODPS_APP_KEY": "other"}
    environ = {**variables, "ODPS_ACCESS_ID": "old"}
    for profile in (
        Profile.resolve(environ=variables, credentials=keys, **place),
        odps_nb.connect(old, credentials=keys).profile,
        odps_nb.connect(entry, credentials=keys).profile,
        Profile.resolve(environ=environ, credentials=keys, **place),
    ):
        found = profile.keys
        assert (found.access_id, found.app_id, found.app_key) == ("new", "app", "other")
        assert "_source" not in repr(profile)


def test_an_empty_argument_removes_the_value_of_the_source():
    optional = {
        "region": "cn",
        "schema": "s",
        "tunnel_endpoint": "http://t",
        "quota": "q",
        "timezone": "UTC",
        "blob_cache": "off",
    }
    old = Profile(endpoint="http://h/api", project="p", access_id="me", access_key="k", **optional)
    assert repr(old).startswith("Profile(endpoint='http://h/api', project='p', access_id='")
    assert "None" not in repr(old)
    for name, value in optional.items():
        found = odps_nb.connect(old, **{name: " "}).profile
        left = {one: getattr(found, one) for one in optional}
        assert left == {**optional, name: None}, value
    assert odps_nb.connect(old, api_version="").profile.api_version == 2
    with pytest.raises(ConfigError, match="project is missing"):
        odps_nb.connect(old, project="")
    with pytest.raises(ConfigError, match="client_options is a dict, not ClientOptions"):
        odps_nb.connect(old, client_options={})


def test_rejected_keys_without_a_source_are_not_renewed():
    profile = Profile(endpoint="http://h/api", project="p", access_id="me", access_key="k")
    assert profile._renew(profile.keys) is False


def test_credentials_can_be_passed_for_an_entry_without_a_key():
    class Unknown:
        token = None

    entry = ODPS("me", "k", project="p", endpoint="http://127.0.0.1:9/api", overwrite_global=False)
    entry.account = Unknown()
    with pytest.raises(ConfigError, match="has no key"):
        Profile.from_pyodps(entry)
    entry.project = None
    with pytest.raises(ConfigError, match="project is missing"):
        Profile.from_pyodps(entry, credentials=AccessKey("me", SECRET))
    entry.project = "p"
    assert Profile.from_pyodps(entry, credentials=AccessKey("me", SECRET)).keys.access_id == "me"


def test_a_copy_of_a_credentials_object_is_the_object_and_its_class_is_refused():
    value = AccessKey("me", SECRET)
    assert copy.copy(value) is copy.deepcopy(value) is value
    with pytest.raises(ConfigError, match="must be a function or a credentials object"):
        Profile(endpoint="http://h/api", project="p", credentials=AccessKey)
