"""Actions change a run after confirmation, and only for requests of this server's own pages."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from ludus.runs import open_run, running_pid

TOKEN = "0123456789abcdef"


@pytest.fixture
def client(run, browse):
    """Return a client with the token of a dashboard that offers actions."""
    made = browse(token=TOKEN, hosts=None, allow_actions=True)
    made.get(f"/?token={TOKEN}")
    return made


def secret(client, action="promote"):
    """Return the secret of a form."""
    (value,) = re.findall(r'name="csrf" value="([^"]+)"', client.get(f"/runs/run/actions/{action}").text)
    return value


def test_a_model_is_promoted(client, run):
    """The form is filled in by the link, and the change is made when it is posted."""
    text = client.get("/runs/run/actions/promote?model=main%401&pool=chosen").text
    assert 'value="main@1"' in text
    values = {"csrf": secret(client), "model": "main@1", "pool": "chosen"}
    run.store.close()  # as a stopped run, whose store the request changes itself
    response = client.post("/runs/run/actions/promote", data=values)
    assert (response.status_code, "main@1 is in the pool chosen now" in response.text) == (200, True)
    with open_run(run.folder) as opened:
        assert list(opened.pools["chosen"]) == ["main@1"]
    assert "chosen" in client.get("/runs/run/pools").text


def test_a_share_is_changed(client, run, write):
    """A share of 0 pauses a player, unless it is the only one."""
    values = {"csrf": secret(client), "player": "main", "share": "0"}
    response = client.post("/runs/run/actions/share", data=values)
    assert response.status_code == 400
    assert "only player that trains" in response.text
    run.store.close()
    response = client.post("/runs/run/actions/share", data={**values, "share": "2.5"})
    assert "The share of main is 2.5 now" in response.text
    with open_run(run.folder) as opened:
        assert opened.league.players["main"].share == 2.5


@pytest.mark.parametrize("share", ["", "x", "-1", "nan", "inf", "1e999"])
def test_a_wrong_share(client, share):
    """It is one line, and nothing is changed."""
    response = client.post("/runs/run/actions/share", data={"csrf": secret(client), "player": "main", "share": share})
    assert response.status_code == 400
    assert "Traceback" not in response.text


@pytest.mark.parametrize(
    ("model", "pool"), [("main@9", "chosen"), ("", ""), ("main@1", "*"), ("<b>", "<b>"), ("main@1", "../x\x00")]
)
def test_a_wrong_promotion(client, model, pool):
    """The message of the command line is shown as text."""
    response = client.post("/runs/run/actions/promote", data={"csrf": secret(client), "model": model, "pool": pool})
    assert response.status_code == 400
    assert "<b>" not in response.text


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"csrf": "wrong"}},
        {"data": {}},
        {"headers": {"origin": "http://evil.example"}},
        {"headers": {"origin": "null"}},
        {"headers": {"sec-fetch-site": "cross-site"}},
        {"headers": {"sec-fetch-site": "same-site"}},
        {"data": {"csrf": "x" * 20000}},
    ],
)
def test_other_sites_cannot_act(client, run, change):
    """A form of another site lacks the secret, and its browser states where it comes from."""
    values = {"model": "main@1", "pool": "chosen", "csrf": secret(client)}
    if "data" in change:
        values = {**values, "csrf": "", **change["data"]}
    response = client.post("/runs/run/actions/promote", data=values, headers=change.get("headers"))
    assert response.status_code == 403
    with open_run(run.folder) as opened:
        assert "chosen" not in opened.pools


def test_actions_need_the_token(run, browse):
    """The secret of the forms is not enough."""
    client = browse(token=TOKEN, hosts=None, allow_actions=True)
    assert client.post("/runs/run/actions/stop", data={"csrf": "x"}).status_code == 401


def test_looking_at_a_form_changes_nothing(client, run):
    """Only posting does."""
    for action in ("promote", "share", "stop", "resume"):
        assert client.get(f"/runs/run/actions/{action}?model=main@1&pool=chosen&share=0").status_code == 200
    assert client.get("/runs/run/actions/none").status_code == 404
    assert not (run.folder / "requests").exists()


def test_without_actions_there_are_no_forms(run, browse):
    """Neither links nor addresses."""
    client = browse()
    assert "/actions/" not in client.get("/runs/run").text
    assert client.get("/runs/run/actions/stop").status_code == 404


def test_only_the_process_of_the_run_is_stopped(client, run, monkeypatch):
    """A lock file of another person may name any process."""
    values = {"csrf": secret(client)}
    killed = []
    monkeypatch.setattr("os.kill", lambda pid, number: killed.append((pid, number)))
    run.store.close()
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (run.folder / "lock").write_text(f"{other.pid}\n")
    response = client.post("/runs/run/actions/stop", data=values)
    assert (response.status_code, killed) == (400, [])
    other.communicate(b"\n")


def wait(test):
    """Wait until a test is true."""
    end_s = time.monotonic() + 30
    while not test():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_a_real_run_is_resumed_paused_and_stopped(browse, dummy_run, tmp_path):
    """The run goes on in a process of its own, and ends cleanly."""
    folder = tmp_path / "runs" / "run"
    client = browse(token=TOKEN, hosts=None, allow_actions=True)
    client.get(f"/?token={TOKEN}")
    (tmp_path / "run.toml").write_text(dummy_run)
    command = [sys.executable, "-m", "ludus", "train", tmp_path / "run.toml", "--run", folder]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait(lambda: running_pid(folder) == process.pid)
    wait(lambda: (folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").stat().st_size)
    values = {"csrf": secret(client)}
    assert "running</span>" in client.get("/runs/run").text
    assert "The run stops" in client.post("/runs/run/actions/stop", data=values).text
    assert "stopping already" in client.post("/runs/run/actions/stop", data=values).text or process.wait(30) == 130
    assert process.wait(30) in (130, 143, 0)
    assert "resumed" in client.post("/runs/run/actions/resume", data=values).text
    wait(lambda: running_pid(folder))
    assert client.post("/runs/run/actions/resume", data=values).status_code == 400
    again = running_pid(folder)
    assert again != process.pid
    client.post("/runs/run/actions/stop", data=values)
    wait(lambda: not running_pid(folder))
