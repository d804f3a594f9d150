"""A browser computes what torch computed: Chromium replays the golden vectors with onnxruntime-web."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ludus_onnx.card import GOLDEN_FILE, MODEL_FILE
from ludus_onnx.comparison import TOLERANCE
from ludus_onnx.golden import golden_values

PAGE = Path(__file__).parent / "browser"
NODE_MODULES = Path(os.environ.get("LUDUS_NODE_MODULES", "node_modules"))
NEEDED = {
    "node": shutil.which("node"),
    "chromium": shutil.which("chromium"),
    "playwright-core": (NODE_MODULES / "playwright-core").exists(),
    "onnxruntime-web": (NODE_MODULES / "onnxruntime-web").exists(),
}
MISSING = [name for name, found in NEEDED.items() if not found]


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_):
        """Log nothing."""


@pytest.fixture
def site(tmp_path, exported, converted, recurrent):
    """Serve the page, the library, and two exported models, and return the address."""
    for file in PAGE.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "ort").symlink_to((NODE_MODULES / "onnxruntime-web" / "dist").resolve())
    (tmp_path / "feedforward").symlink_to(exported.folder)
    folder = tmp_path / "recurrent"
    folder.mkdir()
    (folder / MODEL_FILE).write_bytes(converted.data)
    (folder / GOLDEN_FILE).write_text(json.dumps(golden_values(recurrent)))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/replay.html"
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"missing: {', '.join(MISSING)} (set LUDUS_NODE_MODULES)")
def test_browser_reproduces_golden_vectors(site):
    """A feedforward and a recurrent model, all rows at once and one alone."""
    script = [str(NEEDED["node"]), str(PAGE / "replay.cjs"), str(NODE_MODULES.resolve()), str(NEEDED["chromium"])]
    result = subprocess.run([*script, site, "feedforward", "recurrent"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    print(found)
    assert [found[name]["rows"] for name in ("feedforward", "recurrent")] == [100, 20]
    assert all(0 <= found[name][rows] <= TOLERANCE for name in found for rows in ("all", "one"))
