"""The vectors of ``docs/protocol.md`` section 2.5, all computed by the stock client itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from odps_nb.wire.signing import Credentials, SignatureVersion

ACCESS_ID = "LTAI5tExampleKeyId01"
SECRET = "ExampleSecretKey0123456789abcd"
DATE = "Thu, 20 Nov 2025 22:04:05 GMT"
NOW = 1763676245.0
JSON = "application/json; charset=utf-8"
BYTES = "application/octet-stream"
PLAIN = Credentials(access_id=ACCESS_ID, access_key=SECRET)
HANGZHOU = Credentials(access_id=ACCESS_ID, access_key=SECRET, region="cn-hangzhou")
SHANGHAI = Credentials(access_id=ACCESS_ID, access_key=SECRET, region="cn-shanghai")

_STORAGE = "http://h/api/storage/v2"


@dataclass(frozen=True, kw_only=True)
class Vector:
    """One request and the headers that signing adds."""

    number: str
    method: str
    url: str
    authorization: str | None
    endpoint: str = "http://h"
    headers: dict[str, str] = field(default_factory=dict)
    unsigned: dict[str, str] = field(default_factory=dict)
    credentials: Credentials = PLAIN
    version: SignatureVersion = 2
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def sent(self) -> dict[str, str]:
        """Headers before signing."""
        return {"x-odps-user-agent": "odps_nb/1.0", **self.headers, **self.unsigned}

    @property
    def added(self) -> dict[str, str]:
        """Headers that signing adds."""
        signed = {} if self.authorization is None else {"Authorization": self.authorization}
        return {"Date": DATE, **signed, **self.extra}

    @property
    def path_and_query(self) -> str:
        """The URL as a server sees it."""
        return self.url.removeprefix("http://h")


def _auth(signature: str, scope: str = "") -> str:
    return f"ODPS {ACCESS_ID}{scope}:{signature}"


def _v4(region: str) -> str:
    return f"/20251120/{region}/odps/aliyun_v4_request"


_ONE = Vector(
    number="1",
    endpoint="http://h/api",
    method="GET",
    url="http://h/api/projects/p1/tables/t?curr_project=p1",
    authorization=_auth("1ThyaxI6831M/IQ4A3MoG4b68jQ="),
)
_TWO = Vector(
    number="2",
    method="POST",
    url=_STORAGE
    + "?Action=TableCreateReadSession&Target=projects.p1.schemas.default.tables.t&curr_project=p1",
    headers={"Content-Type": JSON},
    authorization=_auth("N5/2Kd7tEJ2f8k/Hu7dQaNIKXgI="),
)


VECTORS = (
    _ONE,
    _TWO,
    Vector(
        number="3",
        method="POST",
        url=_STORAGE + "?Action=TableRead&Target=projects.p1.tables.t&SessionId=s-1&Offset=10"
        "&Count=5&curr_project=p1&curr_schema=sc1",
        headers={"Content-Type": JSON, "x-odps-max-storage-route-token": "rt-1"},
        unsigned={
            "ACCEPT-ENCODING": "zstd",
            "odps-tunnel-retry-trace-id": "5f0c",
            "odps-tunnel-retry-index": "0",
        },
        authorization=_auth("6pRHf3GuVWMY418m42gwZSJ5Yq8="),
    ),
    Vector(
        number="4",
        method="POST",
        url="http://h/api/storage/v3?Action=TableWrite&Target=projects.p1.schemas.sc1.tables.t"
        "&SessionId=s-1&StreamId=0&StreamVersion=1&Count=3&RowOffset=0&WriteMode=Batch"
        "&curr_project=p1",
        headers={
            "Content-Type": BYTES,
            "x-odps-max-storage-route-token": "rt-1",
            "x-odps-max-storage-write-access-token": "AT",
        },
        authorization=_auth("RsGudOQEYsBjKYnJkbkxndDk+i0="),
    ),
    Vector(
        number="5",
        method="POST",
        url=_STORAGE + "?Action=TableWriteBlob&Target=projects.p1.tables.t&SessionId=s-1"
        "&StreamId=0&StreamVersion=1"
        "&PartitionValues=ds%3D2024-01-01%2Ccity%3D%E6%9D%AD%E5%B7%9E+west"
        "&ColumnIndex=1&curr_project=p1",
        headers={"Content-Type": BYTES},
        authorization=_auth("a/zEw1BRUk/RhhXei6w3UAgd0kw="),
    ),
    Vector(
        number="6",
        method="POST",
        url=_STORAGE + "?Action=TableWriteBlob&Target=projects.p1.tables.t&PartitionValues="
        "&ColumnIndex=1&curr_project=p1",
        headers={"Content-Type": BYTES},
        authorization=_auth("41nashOZcUftK+1D7ZimO9RcUPQ="),
    ),
    Vector(
        number="7",
        method="POST",
        url=_STORAGE + "?Action=TablePreview&Target=projects.p1.tables.t"
        "&Partition=a%3D1%26b%2Bc%2520d%23e&curr_project=p1",
        headers={"Content-Type": JSON},
        authorization=_auth("XKBBnirQpfacZQ8baJb6ikhhRLk="),
    ),
    Vector(
        number="8",
        method="GET",
        url="http://h/projects/p1/instances/20251120i?data&downloadid=d&rowrange=%280%2C1%29"
        "&curr_project=p1",
        authorization=_auth("uylpPvMIO56cmueSgHevtNLJ078="),
    ),
    Vector(
        number="9",
        method="PUT",
        url="http://h/projects/p1/schemas/sc1/tables/t?uploadid=u&blockid=1&arrow=&curr_project=p1",
        headers={
            "Content-MD5": "kAFQmDzST7DWlj99KOF/cg==",
            "Content-Type": BYTES,
            "x-odps-namespace-id": "ns1",
        },
        authorization=_auth("0oThogfdjZTwiN379D5QQDDlJ70="),
    ),
    replace(
        _TWO,
        number="10",
        credentials=HANGZHOU,
        version=4,
        authorization=_auth("wGw1LbsxUD6z0eJl3wru8O4bUXQ=", _v4("cn-hangzhou")),
    ),
    replace(
        _ONE,
        number="11",
        credentials=SHANGHAI,
        version=4,
        authorization=_auth("FtbfGDKnLHapdNYsfnsDCz6qr4w=", _v4("cn-shanghai")),
    ),
    *(
        Vector(
            number=f"12-{credentials.region}",
            endpoint="http://h/api",
            method="GET",
            url="http://h/api/projects/p1?curr_project=p1",
            credentials=credentials,
            version=4,
            authorization=_auth(signature, _v4(credentials.region or "")),
        )
        for credentials, signature in (
            (HANGZHOU, "Q82j9uFn8wsW4UfQcbYGSYrdZGc="),
            (SHANGHAI, "/vKw4dW/Xph44LYHIsWOLqN97XM="),
        )
    ),
    replace(
        _ONE,
        number="13",
        credentials=Credentials(
            access_id=ACCESS_ID, access_key=SECRET, sts_token="CAISexampleSTStoken"
        ),
        extra={"authorization-sts-token": "CAISexampleSTStoken"},
    ),
    replace(
        _ONE,
        number="14",
        credentials=Credentials(
            access_id=ACCESS_ID, access_key=SECRET, app_id="APPID", app_key="APPSECRET"
        ),
        extra={
            "application-authentication": "account_provider:aliyun,signature_method:hmac-sha1,"
            "access_id:APPID,signature:rbTAQewlmsUTV6FkU+bnCtRHtUU="
        },
    ),
    replace(
        _ONE,
        number="15",
        credentials=Credentials(bearer_token="TOKEN"),
        authorization=None,
        extra={"x-odps-bearer-token": "TOKEN"},
    ),
    Vector(
        number="16",
        endpoint="http://h/api",
        method="GET",
        url="http://h/api/projects/p1/tables/t?x-odps-foo=bar&curr_project=p1",
        authorization=_auth("6yXoIgUhUHNFjPDYOo+iYQHnRVg="),
    ),
    Vector(
        number="17",
        endpoint="http://h/api",
        method="GET",
        url="http://h/api/projects/p1/tables/t?b=2&b=3&a=1&curr_project=p1",
        authorization=_auth("2DFzc3nTNbCMHEuZDSudk/gVUw0="),
    ),
    Vector(
        number="18",
        endpoint="http://h/api",
        method="GET",
        url="http://h/api/projects/p1/tables/%E8%A1%A8?curr_project=p1",
        authorization=_auth("txL5QkFidG54JULLoUM0NZSQrO8="),
    ),
)
SIGNED = tuple(vector for vector in VECTORS if vector.authorization is not None)
