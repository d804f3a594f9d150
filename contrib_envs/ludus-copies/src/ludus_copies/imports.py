"""What is missing where a game of another library cannot be imported."""

from __future__ import annotations


def missing_modules(error: BaseException | None) -> list[str]:
    """Return the names of the modules that were not found, from an error and those that caused it, innermost first.

    Libraries report a missing dependency by an error of their own, which may name another package.
    """
    names: list[str] = []
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            names.insert(0, error.name)
        error = error.__cause__ or error.__context__
    return list(dict.fromkeys(names))
