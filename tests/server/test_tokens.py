"""Who may listen where, and with which token."""

import os

import pytest

from hybrid_scheduler.config.access_token import is_loopback, resolve_token
from hybrid_scheduler.core import HybridSchedulerError, InvalidInputError
from hybrid_scheduler.server.server_process import url_of


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.evil", "128.0.0.1"])
def test_other_hosts_need_a_token(host):
    with pytest.raises(HybridSchedulerError, match="token"):
        resolve_token("", "", host)
    assert resolve_token("x" * 32, "", host) == "x" * 32


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_token(host):
    assert is_loopback(host)
    assert resolve_token("", "", host) == ""


@pytest.mark.parametrize("token", ["short", "x" * 21, "with blank " * 5, "ünïcödé" * 5])
def test_error_about_a_bad_token_leaves_the_token_out(token):
    with pytest.raises(InvalidInputError) as refused:
        resolve_token(token, "", "127.0.0.1")
    assert token not in str(refused.value)


def test_token_file_is_created_once_and_readable_by_its_owner_alone(tmp_path):
    file = tmp_path / "secrets" / "token"
    token = resolve_token("", str(file), "0.0.0.0")
    assert len(token) >= 43
    assert resolve_token("", str(file), "0.0.0.0") == token
    assert file.stat().st_mode & 0o777 == 0o600
    os.chmod(file, 0o640)
    with pytest.raises(InvalidInputError, match="0600"):
        resolve_token("", str(file), "127.0.0.1")
    with pytest.raises(InvalidInputError, match="token_file"):
        resolve_token("", str(tmp_path), "127.0.0.1")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://localhost:80"),
        ("0.0.0.0", "http://localhost:80"),
        ("10.0.0.1", "http://10.0.0.1:80"),
        ("fe80::1", "http://[fe80::1]:80"),
    ],
)
def test_url_for_a_browser_on_this_machine(host, url):
    assert url_of(host, 80) == url
