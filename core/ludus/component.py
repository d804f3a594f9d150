"""Components: what plugins register, by name and import path."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from typing import Any

from attrs import field, frozen, has, validators

from ludus.errors import PluginError
from ludus.option import Check, name

__all__ = ["Component"]


def _is_import_path(value: object) -> bool:
    module, colon, attribute = value.partition(":") if isinstance(value, str) else ("", "", "")
    return colon == ":" and all(part.isidentifier() for part in (*module.split("."), *attribute.split(".")))


_IMPORT_PATH = Check("an import path like 'package.module:attribute'", _is_import_path)
_NAMES = Check("a tuple of names", lambda value: isinstance(value, tuple) and all(map(name().accepts, value)))
_LINE = Check("one line of text", lambda value: isinstance(value, str) and "\n" not in value)


@frozen(kw_only=True)
class Component:
    """A component of a plugin, which is imported on first use.

    Args:
        name: Name in TOML files, unique within the kind (``^[a-z0-9][a-z0-9._-]{0,63}$``).
        factory: ``"package.module:attribute"`` of the callable that makes it. The register hook of the kind in
            `ludus.hookspecs` documents its signature.
        config: ``"package.module:Class"`` of a frozen attrs class of `ludus.option.option` fields; None for a component
            without options.
        summary: One line for `ludus plugins`.
        environments: For agents: names of the environments that it plays; empty for all.
        service: For inference runtimes: ``"package.module:attribute"`` of the callable that makes its service, see
            `ludus.service`; None without a service.
    """

    name: str = field(validator=name())
    factory: str = field(validator=_IMPORT_PATH)
    config: str | None = field(default=None, validator=validators.optional(_IMPORT_PATH))
    summary: str = field(default="", validator=_LINE)
    environments: tuple[str, ...] = field(default=(), validator=_NAMES)
    service: str | None = field(default=None, validator=validators.optional(_IMPORT_PATH))

    def load_factory(self) -> Callable[..., Any]:
        """Import and return the factory.

        Raises:
            PluginError: The import failed or the attribute is missing.
        """
        return _load(self.factory, self.name)  # type: ignore[no-any-return]

    def load_config(self) -> type[Any] | None:
        """Import and return the configuration class; None if there is none.

        Raises:
            PluginError: The import failed, the attribute is missing, or it is not an attrs class.
        """
        if self.config is None:
            return None
        cls = _load(self.config, self.name)
        if not (isinstance(cls, type) and has(cls)):
            raise PluginError(
                f"component {self.name!r}: expected {self.config!r} to be a frozen attrs class of ludus.option fields "
                "— fix the plugin, or block it with LUDUS_BLOCK_PLUGINS"
            )
        return cls

    def load_service(self) -> Callable[..., Any] | None:
        """Import and return the factory of the service; None if there is none.

        Raises:
            PluginError: The import failed or the attribute is missing.
        """
        return None if self.service is None else _load(self.service, self.name)


def _load(path: str, component: str) -> Any:
    try:
        return pkgutil.resolve_name(path)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an import may raise anything: SystemExit, or a panic of Rust code
        # the dynamic linker reports a lack of memory as an ImportError
        no_memory = isinstance(error, MemoryError) or str(error).endswith("failed to map segment from shared object")
        suggested_fix = "reinstall the plugin, or block it with LUDUS_BLOCK_PLUGINS"
        if no_memory:
            suggested_fix = "memory is short: free some, or raise the limit of this process (ulimit -v)"
        raise PluginError(
            f"component {component!r}: cannot import {path!r}: {type(error).__name__}: {error} — {suggested_fix}"
        ) from error
