"""Only some of the hosts that a service names for its Storage API receive data and tokens."""

import pytest

from odps_nb.client.auth.tunnel_host import check_tunnel_host
from odps_nb.errors import ConfigError

PUBLIC = "https://service.cn-hangzhou.maxcompute.aliyun.com/api"


@pytest.mark.parametrize(
    ("endpoint", "named"),
    [
        (PUBLIC, "https://dt.cn-hangzhou.maxcompute.aliyun.com"),
        (PUBLIC, "https://dt.cn-hangzhou-intranet.maxcompute.aliyun-inc.com"),
        ("http://127.0.0.1:1/api", "http://127.0.0.1:2"),
        ("http://localhost:1/api", "http://127.0.0.1:2"),
        ("http://odps:80/api", "http://10.0.0.7:80"),
        ("http://10.0.0.6/api", "http://10.0.0.7"),
        ("https://odps.example.com.cn/api", "https://tunnel.example.com.cn"),
        ("https://8.8.8.8/api", "https://8.8.8.8:8080"),
    ],
)
def test_a_storage_host_in_the_domain_of_the_endpoint_is_accepted(endpoint, named):
    check_tunnel_host(named, endpoint=endpoint, has_token=True)


@pytest.mark.parametrize(
    "named",
    [
        "http://169.254.169.254",
        "http://127.0.0.1:22",
        "http://[::1]:80",
        "http://[::ffff:127.0.0.1]:80",
        "http://10.1.2.3",
        "http://192.168.0.1",
        "http://localhost",
        "http://metadata",
        "http://metadata.google.internal",
        "http://printer.local.",
        "http://0.0.0.0",
        "http://127.1",
        "http://0x7f.1",
        "http://127.0.0.0x1",
        "http://0177.0.0.1:22",
        "http://[64:ff9b::7f00:1]",
        "http://[2002:7f00:1::1]",
    ],
)
@pytest.mark.parametrize("has_token", [True, False])
def test_a_private_storage_host_of_a_public_service_is_refused(named, has_token):
    with pytest.raises(ConfigError, match="private network") as caught:
        check_tunnel_host(named, endpoint=PUBLIC, has_token=has_token)
    assert "tunnel_endpoint=" in caught.value.hint


@pytest.mark.parametrize(
    ("endpoint", "named"),
    [
        (PUBLIC, "https://dt.example.com"),
        (PUBLIC, "https://aliyun.com.example.com"),
        (PUBLIC, "https://8.8.8.8"),
        ("https://8.8.4.4/api", "https://1.1.4.4"),
        ("https://odps.one.com.cn/api", "https://odps.two.com.cn"),
        ("http://127.0.0.1:1/api", "https://dt.example.com"),
    ],
)
def test_a_token_is_never_sent_to_a_host_of_another_domain(endpoint, named):
    with pytest.raises(ConfigError, match="another domain"):
        check_tunnel_host(named, endpoint=endpoint, has_token=True)
    check_tunnel_host(named, endpoint=endpoint, has_token=False)
