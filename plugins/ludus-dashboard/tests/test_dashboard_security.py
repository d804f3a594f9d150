"""What foreign pages, foreign runs and strange requests may not do."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import ludus_dashboard
import pytest

HOSTILE = "<img src=x onerror=alert(1)>'\"`{{7*7}}\x1b[31m"
STATIC = Path(ludus_dashboard.__file__).parent / "static"
PAGES = ("", "/payoffs", "/matches", "/lineage", "/opponents", "/pools", "/files")


class Elements(HTMLParser):
    """Collects the names of elements and attributes of a page."""

    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attributes):
        self.found |= {tag, *(f"{tag} {name}" for name, _ in attributes)}


def elements(text):
    """Return the elements and attributes of a page."""
    parser = Elements()
    parser.feed(text)
    return parser.found


@pytest.fixture
def hostile(run):
    """Return a run whose texts try to become HTML, as another person could have written it."""
    run.store.close()
    with closing(sqlite3.connect(run.folder / "league.sqlite")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            definition = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
            database.execute(f"DROP TRIGGER {name}")
            run.triggers = [*getattr(run, "triggers", []), definition[0]]
        database.execute("UPDATE fixtures SET reason = ?", (HOSTILE,))
        database.execute("UPDATE fixtures SET seats = ? WHERE id = 4", (json.dumps([f"{HOSTILE}@2", HOSTILE]),))
        database.execute("UPDATE pools SET pool = ?", (HOSTILE,))
        database.execute("UPDATE payoffs SET b = ? WHERE b = 'random'", (HOSTILE,))
        database.execute("UPDATE payoffs SET a = ? WHERE a = 'random'", (HOSTILE,))
        database.execute("UPDATE behaviour SET name = ?", (f"player/{HOSTILE}",))
        database.execute("UPDATE meta SET value = ? WHERE key = 'environment'", (json.dumps(HOSTILE),))
        database.execute("UPDATE meta SET value = ? WHERE key = 'anchors'", (json.dumps(["random", HOSTILE]),))
        database.execute("UPDATE models SET manifest = json_set(manifest, '$.reason', ?)", (HOSTILE,))
        for definition in run.triggers:
            database.execute(definition)
        database.commit()
    (run.folder / "run.toml").write_text(f"[environment]\nname = {json.dumps(HOSTILE)}\n".replace("\\u001b", ""))
    (run.folder / "logs").mkdir()
    (run.folder / "logs" / f"{HOSTILE.replace('/', '')}.log").write_text(f"</pre><script>alert(1)</script>{HOSTILE}\n")
    run.report(300.0, 9000, **{f"league/main/score_v_{HOSTILE}": 0.5, f"learner/{HOSTILE}/staleness_mean": 1.0})
    return run


@pytest.mark.parametrize(
    "page", ["/", "/compare?run=run", *(f"/runs/run{page}" for page in PAGES), "/runs/run/models/main@2"]
)
def test_texts_of_a_run_stay_texts(hostile, browse, page):
    """Names, reasons, manifests, TOML and log lines become neither elements nor attributes nor template code."""
    response = browse().get(page)
    assert response.status_code == 200, response.text
    found = elements(response.text)
    assert "img" not in found
    assert not [name for name in found if re.search(r" on\w+$| style$", name)]
    assert "{{7*7}}" in response.text or page == "/runs/run/payoffs"


@pytest.mark.parametrize("name", ["a", "b", "reason", "scenario", "kind", "outcome", "before", "pool", "sort", "log"])
def test_parameters_stay_texts(run, browse, name):
    """A link cannot put elements into a page."""
    client = browse()
    for page in PAGES:
        text = client.get(f"/runs/run{page}", params={name: HOSTILE}).text
        assert "img" not in elements(text), page


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../run",
        "/runs/..%2f..%2fetc",
        "/runs/%2e%2e",
        "/runs/%2e%2e/files",
        "/runs/.",
        "/runs/run/files/../../x",
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/vendor/..%2f..%2fapp.py",
        "/runs/none",
        "/runs/run/none",
        "/runs/run/models/none",
        "/runs/run/models/..%2f..%2frun.toml",
        "/runs/run/",
        "http://testserver//example.org",
    ],
)
def test_paths_lead_nowhere_else(run, browse, path):
    """Only runs, pages, models and static files of a name that exists are found."""
    assert browse().get(path).status_code == 404


@pytest.mark.parametrize("name", ["../run.toml", "/etc/passwd", "sampler-0.log/../../run.toml", "link.log", "pipe.log"])
def test_only_logs_are_shown(run, browse, tmp_path, name):
    """Neither other files nor links."""
    import os

    (tmp_path / "secret").write_text("secret text")
    (run.folder / "logs").mkdir()
    (run.folder / "logs" / "sampler-0.log").write_text("fine")
    (run.folder / "logs" / "link.log").symlink_to(tmp_path / "secret")
    os.mkfifo(run.folder / "logs" / "pipe.log")
    text = browse().get("/runs/run/files", params={"log": name}).text
    assert "secret text" not in text
    assert ">fine<" in text


def test_links_are_no_runs(run, browse, tmp_path):
    """A link below the folder of runs is not followed."""
    run.folder.rename(tmp_path / "elsewhere")
    (tmp_path / "runs" / "run").symlink_to(tmp_path / "elsewhere")
    assert browse().get("/runs/run").status_code == 404


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "", "[::1", "a@localhost"]
)
def test_foreign_host_names_are_refused(run, browse, host):
    """Another site may point its own name at this machine (DNS rebinding)."""
    response = browse(hosts=("localhost", "127.0.0.1", "::1")).get("/", headers={"host": host})
    assert (response.status_code, "<html" in response.text) == (421, False) or host == "a@localhost"


@pytest.mark.parametrize("host", ["localhost:8420", "127.0.0.1", "[::1]:8420"])
def test_own_host_names_are_accepted(run, browse, host):
    """With and without a port."""
    assert browse(hosts=("localhost", "127.0.0.1", "::1")).get("/", headers={"host": host}).status_code == 200


TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    "request_options",
    [
        {},
        {"params": {"token": "wrong"}},
        {"params": {"token": ""}},
        {"params": {"token": "\u00fcberlong" * 50}},
        {"headers": {"authorization": "Bearer wrong"}},
        {"headers": {"cookie": "ludus_dashboard_80=wrong"}},
        {"headers": {"cookie": f"ludus_dashboard_81={TOKEN}"}},
    ],
)
def test_a_wrong_token_shows_nothing(run, browse, request_options):
    """Neither pages nor events nor static files."""
    client = browse(token=TOKEN, hosts=None)
    for path in ("/", "/runs/run", "/runs/run/events", "/static/dashboard.js"):
        response = client.get(path, **request_options)
        assert response.status_code == 401, path
        assert "run" not in response.text.replace("ludus dashboard", "").replace("printed", "")


def test_the_token_becomes_a_cookie(run, browse):
    """It leaves the address, and other parameters stay."""
    client = browse(token=TOKEN, hosts=None)
    response = client.get(f"/runs/run/matches?a=main&token={TOKEN}")
    assert (response.status_code, response.headers["location"]) == (303, "/runs/run/matches?a=main")
    cookie = response.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/runs/run").status_code == 200


def test_the_redirect_stays_here(browse):
    """Two slashes would name another host."""
    response = browse(token=TOKEN, hosts=None).get(f"http://testserver//evil.example/?token={TOKEN}")
    assert response.headers["location"] == "/evil.example/"


def test_a_bearer_token(run, browse):
    """Programs send the token in a header."""
    client = browse(token=TOKEN, hosts=None)
    assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_headers(run, browse):
    """No other site may frame, read or script a page; nothing is kept by caches."""
    headers = browse().get("/runs/run").headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


def test_a_long_query_is_refused(run, browse):
    """The limit is that of no form of these pages."""
    assert browse().get("/runs/run/matches", params={"a": "x" * 5000}).status_code == 414


@pytest.mark.parametrize("before", ["9" * 30 + ".1", "1.1.1", "-1.0", "x", "\u0663.\u0661", "999999999999999999.5"])
def test_strange_positions(run, browse, before):
    """They show the end of the log."""
    response = browse().get("/runs/run/matches", params={"before": before})
    assert response.status_code == 200


def test_large_texts_are_cut(run, browse):
    """A name of a megabyte gives a small page."""
    run.store.close()
    run.report(400.0, 9000, **{"league/main/score_v_" + "x" * 2**20: 0.5})
    run.report(500.0, 9000, **{"league/main/score_v_" + "y" * 5000: 0.5})
    text = browse().get("/").text
    assert len(text) < 5000


def test_a_damaged_run_is_an_error_page(run, write, browse):
    """The other runs stay usable."""
    write("other").store.commit()
    run.store.close()
    (run.folder / "league.sqlite").write_bytes(b"<b>no database</b>" * 1000)
    client = browse()
    response = client.get("/runs/run")
    assert response.status_code == 500
    assert "not a sound league database" in response.text
    assert client.get("/").status_code == client.get("/runs/other").status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_pages_cannot_be_written(run, browse, method):
    """Without actions no address accepts another method."""
    client = browse()
    for path in ("/", "/runs/run", "/runs/run/actions/stop", "/runs/run/actions/promote"):
        assert client.request(method, path).status_code in (404, 405)


def test_vendored_files_have_their_hashes():
    """The files are those of the packages that SOURCES.txt names."""
    lines = (STATIC / "vendor" / "SHA256SUMS").read_text().splitlines()
    sums = dict(reversed(line.split()) for line in lines)
    files = {path.name for path in (STATIC / "vendor").iterdir() if path.suffix in (".js", ".css")}
    assert set(sums) == files
    for name, digest in sums.items():
        assert hashlib.sha256((STATIC / "vendor" / name).read_bytes()).hexdigest() == digest, name


def test_pages_load_nothing_from_elsewhere(run, browse):
    """There is no content delivery network."""
    text = browse().get("/runs/run").text
    assert re.findall(r'(?:src|href)="(?!/|#|data:,)', text) == []
