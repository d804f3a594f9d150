"""The fake of the compiled part, of which only the initialization is visible."""

from ...calls import record  # noqa: TID252 - what tests import absolutely must be a requirement


class Interface:
    """Reads the features' configuration."""

    def Init(self, path: str) -> None:  # noqa: N802 - hok_env's name
        """Take the path of the configuration."""
        record("Init", path=path)
