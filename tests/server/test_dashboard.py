"""The built dashboard and the front door."""

from pathlib import Path

import pytest
from fakes import client_of, fake_context

from hybrid_scheduler.server.app import create_app
from hybrid_scheduler.server.dashboard_files import find_dashboard, prefers_html

ROOT = Path(__file__).parents[2]
BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


def test_dashboard_writes_no_html():
    """React escapes every text; only these ways around it could turn a label or an id into markup."""
    ways = ("innerHTML", "outerHTML", "dangerouslySetInnerHTML", "insertAdjacentHTML", "document.write", "srcdoc")
    sources = [path for path in (ROOT / "dashboard" / "src").rglob("*.ts*") if path.is_file()]
    assert len(sources) > 100
    found = [(path.name, way) for path in sources for way in ways if way in path.read_text(encoding="utf-8")]
    assert found == []


@pytest.mark.parametrize(
    ("accept", "html"),
    [
        (BROWSER["Accept"], True), ("text/html", True), ("*/*", False), ("", False), ("application/json", False),
        ("application/json, text/html;q=0.5", False), ("text/html;q=0", False), ("text/html;q=x", False),
    ],
)  # fmt: skip
def test_accept_header_decides_between_html_and_json(accept, html):
    assert prefers_html(accept) is html


@pytest.fixture
def built(tmp_path):
    dist = tmp_path / "dist"
    (dist / "assets").mkdir(parents=True)
    (dist / "index.html").write_text("<!doctype html><title>built</title>")
    (dist / "assets" / "index-1a2b3c.js").write_text("export {}")
    (dist / "favicon.svg").write_text("<svg/>")
    (tmp_path / "secret.txt").write_text("secret")
    return dist


async def test_views_and_assets_are_served_with_cache_headers(tmp_path, built):
    async with client_of(create_app(fake_context(tmp_path, static=built))) as client:
        for path in ("/", "/compare", "/scheduler/hybrid_ml", "/history", "/run/01J", "/diff?a=1&b=2"):
            answer = await client.get(path, headers=BROWSER)
            assert answer.status_code == 200
            assert "built" in answer.text
            assert answer.headers["cache-control"] == "no-cache"
            assert answer.headers["content-security-policy"]
        script = await client.get("/assets/index-1a2b3c.js")
        assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert "javascript" in script.headers["content-type"]
        assert (await client.get("/favicon.svg")).headers["cache-control"] == "no-cache"
        assert (await client.get("/")).json()["status"] == "online"


@pytest.mark.parametrize("path", ["/nowhere", "/compare/deeper", "/run", "/what-if", "/apis", "/assets/gone.js"])
async def test_a_wrong_address_has_a_page_for_people_and_json_for_programs(tmp_path, built, path):
    async with client_of(create_app(fake_context(tmp_path, static=built))) as client:
        page = await client.get(path, headers=BROWSER)
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "built" in page.text
        assert page.headers["cache-control"] == "no-cache"
        program = await client.get(path)
        assert (program.status_code, program.json()["error"]["code"]) == (404, "not_found")
        # Only GET requests get the page.
        assert "error" in (await client.post(path, headers=BROWSER, json={})).json()


@pytest.mark.parametrize("path", ["/api", "/api/nowhere", "/api/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV"])
async def test_unknown_api_addresses_are_json_for_browsers_too(tmp_path, built, path):
    async with client_of(create_app(fake_context(tmp_path, static=built))) as client:
        answer = await client.get(path, headers=BROWSER)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    "path",
    ["/../secret.txt", "/%2e%2e/secret.txt", "/assets/../../secret.txt", "/assets/..%2f..%2fsecret.txt",
     "//etc/passwd", "/etc/passwd", "/assets/%00", "/assets/", "/assets/index-1a2b3c.js/", "/..\\secret.txt"],
)  # fmt: skip
async def test_paths_outside_the_dashboard_are_not_served(tmp_path, built, path):
    async with client_of(create_app(fake_context(tmp_path, static=built))) as client:
        answer = await client.get(path)
        assert answer.status_code in (400, 404)
        assert b"secret" not in answer.content.replace(b"secret.txt", b"")


async def test_without_a_built_dashboard_a_page_says_how_to_build_it(client):
    answer = await client.get("/compare", headers=BROWSER)
    assert answer.status_code == 200
    assert "build_dashboard.py" in answer.text
    assert (await client.get("/assets/x.js")).status_code == 404


def test_dashboard_is_found_in_the_package_or_the_repository(tmp_path):
    (tmp_path / "dashboard" / "dist").mkdir(parents=True)
    (tmp_path / "dashboard" / "dist" / "index.html").write_text("x")
    assert find_dashboard(tmp_path) is not None
