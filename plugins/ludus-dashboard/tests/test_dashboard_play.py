"""People play in the browser: what starts a match, what is refused, and what is recorded."""

from __future__ import annotations

import json
import re
import time

import ludus
import pytest
from ludus.runs import open_run
from ludus_dashboard import person as person_module, play_session, play_views
from ludus_dashboard.person import InputEvent, PersonInput

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def root(tmp_path_factory, dummy_run):
    """Return a folder with a stopped run that has models."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "run.toml").write_text(dummy_run)
    ludus.train(folder / "run.toml", run_dir=folder / "run", overrides=["run.decisions=1500"]).__exit__(
        None, None, None
    )
    return folder


@pytest.fixture
def client(root, browse):
    """Return a client with the token of a dashboard in which people may play."""
    made = browse(token=TOKEN, hosts=None, allow_actions=True, root=root)
    made.get(f"/?token={TOKEN}")
    (made.csrf,) = re.findall(r'name="csrf" value="([^"]+)"', made.get("/runs/run/play").text)
    return made


def start(client, **values):
    """Post the form."""
    return client.post("/runs/run/play", data={"csrf": client.csrf, "seat": "0", **values})


def add_input(client, address, **values):
    """Post input to a match."""
    return client.post(f"{address}/input", json=values, headers={"x-csrf": client.csrf})


def wait(test):
    """Wait until a test is true."""
    end_s = time.monotonic() + 30
    while not test():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def play_on(client, address, folder):
    """Type actions until the match is in the log, and return it and the last state of the page."""

    def human():
        with open_run(folder) as run:
            return list(run.matches(kind="human"))

    before = len(human())

    def is_logged():
        add_input(client, address, typed="1")
        return len(human()) > before

    wait(is_logged)
    events = client.get(f"{address}/events").text
    return human()[-1], json.loads(re.findall(r"data: (.*)", events)[-1])


def test_a_match_is_played_and_recorded(client, root):
    """Against the newest model; the page names the match that `ludus replay` shows."""
    response = start(client, name="anna")
    assert response.status_code == 303
    address = response.headers["location"]
    assert "human:" not in client.get(address).text
    match, state = play_on(client, address, root / "run")
    with open_run(root / "run") as run:
        newest = list(run.models)[-1]
        assert run.num_matches(kind="human") >= 1
    assert match.fixture.participants == ("human:anna", newest)
    assert (state["phase"], state["match"]) == ("ended", f"{match.fixture.id}.0")
    assert "human" in client.get("/runs/run/matches?kind=human").text


def test_the_form_takes_the_lineup_of_a_match(client, root):
    """The person sits in a team that did best, against the other participants."""
    with open_run(root / "run") as run:
        match = next(match for match in run.matches(kind="eval") if match.outcome[1] == 1.0)
    text = client.get(f"/runs/run/play?match={match.fixture.id}.{match.number}").text
    assert '<option value="1" selected>' in text
    assert f'name="at-0" value="{match.fixture.participants[0]}"' in text
    assert client.get("/runs/run/play?match=9999.1").status_code == 200
    assert client.get("/runs/run/play?match=<b>&opponent=<b>").text.count("<b>") == 0


def test_without_actions_playing_is_refused(browse, root):
    """In one line that names the option."""
    client = browse(root=root)
    for response in (client.get("/runs/run/play"), client.post("/runs/run/play", data={"seat": "0"})):
        assert (response.status_code, "--allow-actions" in response.text) == (403, True)
    assert "/play?opponent=" in client.get("/runs/run/models/main@1").text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seat", "2"),
        ("seat", "-1"),
        ("seat", "²"),
        ("seat", "9" * 300),
        ("name", "<script>"),
        ("name", "x" * 200),
        ("speed", "nan"),
        ("speed", "0"),
        ("speed", "1e9"),
        ("at-1", "nobody"),
        ("at-1", "main@0+"),
        ("at-1", "<b>x</b>"),
        ("at-1", "../levels/1"),
        ("at-1", "main@1,temperature=-1"),
        ("at-1", "main@1,temperature"),
        ("at-1", "x" * 500),
        ("at-1", "a\nb"),
    ],
)
def test_a_wrong_form(client, name, value):
    """It is one line of text, and no match starts."""
    response = start(client, **{name: value})
    assert response.status_code == 400
    assert "<b>" not in response.text
    assert "<script>" not in response.text.replace("<script src", "")
    assert "Traceback" not in response.text


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"csrf": "wrong", "seat": "0"}},
        {"data": {"seat": "x" * 20000}},
        {"headers": {"origin": "http://evil.example"}},
        {"headers": {"origin": "null"}},
        {"headers": {"sec-fetch-site": "cross-site"}},
    ],
)
def test_other_sites_start_no_match(client, change):
    """As for the other actions."""
    data = change.get("data") or {"csrf": client.csrf, "seat": "0"}
    assert client.post("/runs/run/play", data=data, headers=change.get("headers")).status_code == 403


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xff\xfe", 400),
        (b"[1]", 400),
        (b"[" * 4000, 400),
        (b'{"typed": "' + b"x" * 5000 + b'"}', 413),
        (b'{"typed": 1}', 400),
        (b'{"typed": "' + b"x" * 300 + b'"}', 400),
        (b'{"held": "a"}', 400),
        (b'{"pressed": [1]}', 400),
        (b'{"pressed": ["' + b"x" * 40 + b'"]}', 400),
        (b'{"held": ["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"]}', 400),
        (b'{"place": [1]}', 400),
        (b'{"place": ["a", "b"]}', 400),
        (b'{"clicked": [NaN, 1]}', 400),
        (b'{"clicked": [Infinity, 1]}', 400),
        (b'{"clicked": [1e300, 1]}', 400),
        (b'{"clicked": [1' + b"0" * 400 + b", 1]}", 400),
        (b'{"<b>": 1}', 400),
        (b'{"typed": "<b>no action</b>"}', 204),
    ],
)
def test_wrong_input(client, body, status):
    """It is one line of plain text, and the match goes on."""
    address = start(client).headers["location"]
    response = client.post(f"{address}/input", content=body, headers={"x-csrf": client.csrf})
    assert (response.status_code, "\n" in response.text) == (status, False)
    assert response.headers.get("content-type", "text/plain").startswith("text/plain")
    assert client.post(f"{address}/input", json={"quit": True}).status_code == 403
    assert add_input(client, address, quit=True).status_code == 204


def test_few_matches_at_a_time(client, monkeypatch):
    """One more is refused until one of them has ended."""
    monkeypatch.setattr(play_views, "_MAX_RUNNING", 1)
    first = start(client)
    assert first.status_code == 303
    response = start(client)
    assert (response.status_code, "end one of them first" in response.text) == (400, True)
    add_input(client, first.headers["location"], quit=True)
    assert "You left" in client.get(f"{first.headers['location']}/events").text
    wait(lambda: start(client).status_code == 303)


def test_a_match_without_a_page_ends(client, monkeypatch, root):
    """And is not recorded."""
    monkeypatch.setattr(play_session, "_NO_VIEWER_S", 0.0)
    monkeypatch.setattr(person_module, "_POLL_S", 0.01)
    with open_run(root / "run") as run:
        before = run.num_matches(kind="human")
    address = start(client).headers["location"]
    wait(lambda: "The page was closed" in client.get(f"{address}/events").text)
    with open_run(root / "run") as run:
        assert run.num_matches(kind="human") == before


def test_unknown_matches(client, root):
    """A match belongs to one run."""
    assert client.get("/runs/run/play/none").status_code == 404
    assert client.get("/runs/run/play/none/events").status_code == 404
    assert add_input(client, "/runs/run/play/none", typed="1").status_code == 404


def test_a_released_key_is_no_input():
    """A match with a clock starts with a key or a click, and not when the page loses the focus."""
    entered = PersonInput()
    entered.add(InputEvent.parse({"held": [], "place": None}))
    assert entered.count == 0
    entered.add(InputEvent.parse({"pressed": ["a"]}))
    assert entered.count == 1


def test_a_recorded_match_is_watched(client, root):
    """All ticks are frames with their decisions; a match without a replay is one line."""
    with open_run(root / "run") as run:
        match = next(run.matches(kind="eval"))
        train = next(run.matches(kind="train"))
    address = f"/runs/run/matches/{match.fixture.id}.{match.number}"
    assert f"{address}/frames" in client.get(address).text
    frames = client.get(f"{address}/frames").json()["frames"]
    assert [frame["tick"] for frame in frames] == list(range(match.ticks + 1))
    assert match.fixture.participants[0] in frames[0]["lines"][0]
    problem = client.get(f"/runs/run/matches/{train.fixture.id}.{train.number}/frames").json()["problem"]
    assert "has no replay" in problem
    assert "\n" not in problem


@pytest.mark.parametrize("name", ["999.9", "x", "1", "%3Cb%3E", "9" * 300])
def test_unknown_matches_are_not_watched(client, name):
    """Neither the page nor the frames exist."""
    for address in (f"/runs/run/matches/{name}", f"/runs/run/matches/{name}/frames"):
        response = client.get(address)
        assert (response.status_code, "<b>" in response.text) == (404, False)
