"""Records calls in the file that the variable FAKE_HOK_CALLS names."""

import json
import os
from pathlib import Path


def record(name, **arguments):
    """Append a call as a line of JSON."""
    if "FAKE_HOK_CALLS" in os.environ:
        with Path(os.environ["FAKE_HOK_CALLS"]).open("a") as file:
            file.write(json.dumps({"call": name, **arguments}) + "\n")
