"""What no start needs, put off until it is first used.

A module:

    if TYPE_CHECKING:
        import httpx
    else:
        httpx = Late("httpx")

The name is used as that of the module. `load_all` loads what was put off, so that nothing waits.

The methods of a dataclass: `dataclass` here is that of the standard library, but for when it
compiles `__init__` and its like: when the class is first used, and not when it is read. A start
reads hundreds of classes and uses a few dozen; compiling all of them took it 0.13 s of 0.4.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

NAMES: list[str] = []
"""All modules that were put off."""


class Late:
    """Stands for the module `name`."""

    def __init__(self, name: str) -> None:
        self._name = name
        NAMES.append(name)

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)  # from now on it is found without this function
        return value


def load_all() -> None:
    """Load all modules that were put off, and those that they put off in turn."""
    for name in NAMES:  # grows meanwhile
        import_module(name)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """`dataclasses.dataclass` with the same options. What others may ask of a class without
        using it is there at once: its fields, `__match_args__`, its doc."""
        if cls is None:
            return partial(dataclass, **options)
        if options.get("slots"):  # makes another class of it, so that nothing can be put off
            return dataclasses.dataclass(cls, **options)
        body = {
            name: value
            for name, value in vars(cls).items()
            if name not in ("__dict__", "__weakref__")
        } | {"__qualname__": cls.__qualname__}
        cls.__doc__ = cls.__doc__ or cls.__name__  # or it would be made of a signature
        dataclasses.dataclass(cls, **{**options, **_WITHOUT_METHODS})
        frozen, eq = options.get("frozen", False), options.get("eq", True)
        later = {"__init__", "__repr__", *(["__eq__"] if eq else [])}
        if frozen:
            cls.__setattr__, cls.__delattr__ = _refuse("assign to"), _refuse("delete")
        if eq and frozen:
            later.add("__hash__")
        elif eq:
            cls.__hash__ = None
        later -= body.keys()

        def compile_methods():
            """Two threads may do so at once: both make the same, and nothing is ever missing."""
            twin = dataclasses.dataclass(type(cls)(cls.__name__, cls.__bases__, body), **options)
            for name in later:
                setattr(cls, name, vars(twin)[name])

        for name in later:
            setattr(cls, name, _put_off(cls, name, compile_methods))
        return cls

    _WITHOUT_METHODS = dict.fromkeys(("init", "repr", "eq", "frozen"), False)

    def _put_off(cls, name, compile_methods):
        def method(*args, **kwargs):
            compile_methods()
            return getattr(cls, name)(*args, **kwargs)

        return method

    def _refuse(what):
        def method(self, name, value=None):
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")

        return method
