"""The factory of the environment ``pettingzoo``, and how it finds and makes PettingZoo environments."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pettingzoo
from ludus.errors import ConfigError
from ludus_copies import Copies, is_own_function, is_subclass, make_with_rendering, missing_modules, returns
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.env_registry.exceptions import FailedToImport, PettingZooRegistryError
from pettingzoo.utils.conversions import aec_to_parallel, aec_to_parallel_wrapper, parallel_to_aec
from pettingzoo.utils.wrappers import AssertOutOfBoundsWrapper, OrderEnforcingWrapper, TerminateIllegalWrapper

from ludus_pettingzoo.config import PettingZooConfig


def make_environment(config: PettingZooConfig, *, num_matches: int) -> Copies:
    """Make `num_matches` copies of a PettingZoo environment.

    Raises:
        ConfigError: The environment cannot be imported or made, or the teams do not fit its agents.
        WorkerError: A worker process could not make it.
    """
    options = attrs.asdict(config, filter=attrs.filters.exclude("workers"))
    return Copies("ludus_pettingzoo.games:make_game", options, num_matches=num_matches, workers=config.workers)


#: PettingZoo wrappers without effect if calls are in order and actions are legal.
_CHECKS = (AssertOutOfBoundsWrapper, OrderEnforcingWrapper, TerminateIllegalWrapper)


def make_pettingzoo(id: str, options: Mapping[str, Any], *, api: str) -> Any:
    """Make an environment with the given interface; arguments as in `PettingZooConfig`.

    Raises:
        ConfigError: The environment cannot be found, imported or made, or does not support the interface.
    """
    make = _find_registered(id, api) if "/" in id else _find_in_module(id, api)
    try:
        env = make_with_rendering(lambda given: make(**given), _with_roms(id, options))
    except (FailedToImport, ImportError) as error:
        missing = ", ".join(missing_modules(error))
        reason = f"no module named {missing}" if missing else str(error)
        family, is_registered, _ = id.partition("/")
        advice = f'pip install "pettingzoo[{family}]" installs what it depends on' if is_registered else "install it"
        raise ConfigError(f"id: {id!r} cannot be imported: {reason}; {advice}") from error
    except (TypeError, ValueError, AssertionError) as error:
        raise ConfigError(f"options: {id!r} cannot be made with {dict(options)}: {error}") from error
    if api == "aec" and isinstance(env, ParallelEnv):
        return parallel_to_aec(env)
    if api == "parallel" and isinstance(env, AECEnv):
        if not env.metadata.get("is_parallelizable", False):
            raise ConfigError(f'api: {id!r} is turn-based and cannot be played in parallel; choose "aec" or "auto"')
        return aec_to_parallel(env)
    if not isinstance(env, AECEnv | ParallelEnv):
        raise ConfigError(f"id: expected {id!r} to make an AECEnv or a ParallelEnv, got {type(env).__name__}")
    return env


def _with_roms(id: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options of an Atari game with the folder of the ROMs that ale-py contains; others unchanged."""
    ale = importlib.util.find_spec("ale_py") if id.startswith(("atari/", "pettingzoo.atari.")) else None
    if ale is None or ale.origin is None:
        return options
    return {"auto_rom_install_path": str(Path(ale.origin).parent), **options}


def remove_checks(env: Any) -> Any:
    """Remove outer wrappers that only check calls, which the adapter makes correctly.

    Subclasses of these wrappers, and wrappers below an unknown one, are kept.
    """
    while type(env) in _CHECKS:
        env = env.env
    if type(env) is aec_to_parallel_wrapper:
        env.aec_env = remove_checks(env.aec_env)
    return env


def _find_registered(id: str, api: str) -> Callable[..., Any]:
    kind = "aec" if api == "aec" else "parallel"
    kind = kind if _is_registered(kind, id) else "aec" if kind == "parallel" else "parallel"
    try:
        pettingzoo.spec(kind, id)
    except PettingZooRegistryError as error:
        known = [name.replace("-v", "_v") for name in (*pettingzoo.aec_registry, *pettingzoo.parallel_registry)]
        close = difflib.get_close_matches(id, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ConfigError(f"id: PettingZoo has no environment {id!r}{hint}") from error
    return lambda **options: pettingzoo.make(kind, id, **options)


def _is_registered(kind: str, id: str) -> bool:
    try:
        pettingzoo.spec(kind, id)
    except PettingZooRegistryError:
        return False
    return True


def _find_in_module(id: str, api: str) -> Callable[..., Any]:
    path, _, attribute = id.partition(":")
    try:
        module = importlib.import_module(path)
    except ImportError as error:
        missing = ", ".join(missing_modules(error))
        reason = f"no module named {missing}" if missing else str(error)
        advice = "install its package, or add its folder to PYTHONPATH"
        raise ConfigError(f"id: cannot import {path!r}: {reason}; {advice}") from error
    names = [attribute] if attribute else ["env", "parallel_env"] if api == "aec" else ["parallel_env", "env"]
    for name in names:
        make = getattr(module, name, None)
        if make is not None:
            return _checked_factory(make, name, id)
    raise ConfigError(f"id: module {path!r} has no {' or '.join(names)}")


_KINDS = (AECEnv, ParallelEnv)
#: Names that PettingZoo and its users give to functions that make an environment.
_FACTORY_NAMES = ("env", "parallel_env", "raw_env", "make", "make_env")


def _checked_factory(make: Any, name: str, id: str) -> Callable[..., Any]:
    """Return what `id` names if it makes environments, which is decided before it is called.

    Raises:
        ConfigError: It is something else.
    """
    by_name = name in _FACTORY_NAMES and callable(make) and not isinstance(make, type)
    if is_subclass(make, _KINDS) or by_name or (is_own_function(make) and returns(make, _KINDS)):
        return make  # type: ignore[no-any-return]
    raise ConfigError(
        f"id: {id!r} makes no PettingZoo environment; expected a class derived from AECEnv or ParallelEnv, or a "
        f"function named {', '.join(_FACTORY_NAMES)}, or annotated to return such a class"
    )
