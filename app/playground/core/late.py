"""Defers what is not needed at startup until its first use.

A module:

    if TYPE_CHECKING:
        import httpx
    else:
        httpx = Late("httpx")

The name is used like the module. `load_all` imports all deferred modules ahead of their use.

The methods of a dataclass: `dataclass` here is like that of the standard library, but compiles
`__init__` and similar methods when the class is first used, not when it is defined. Startup
defines hundreds of classes and uses a few dozen; compiling all of them took 0.13 s of 0.4 s.
"""

from __future__ import annotations

import dataclasses
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

NAMES: list[str] = []
"""The names of all deferred modules."""


class Late:
    """A stand-in for the module `name`, which imports it on first use."""

    def __init__(self, name: str) -> None:
        self._name = name
        NAMES.append(name)

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        setattr(self, attribute, value)  # later accesses do not call this method
        return value


def load_all() -> None:
    """Imports all deferred modules, including those that they defer in turn."""
    for name in NAMES:  # grows during the loop
        import_module(name)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """`dataclasses.dataclass` with the same options. What code may ask of a class without
        creating instances is available at once: its fields, `__match_args__`, its doc."""
        if cls is None:
            return partial(dataclass, **options)
        frozen, eq = options.get("frozen", False), options.get("eq", True)
        derived = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
        compares = eq and not vars(cls).keys().isdisjoint(("__eq__", "__hash__"))
        if derived or compares or not options.keys() <= {"frozen", "eq", "kw_only"}:
            return dataclasses.dataclass(cls, **options)  # rare cases are not deferred
        body = {
            name: value
            for name, value in vars(cls).items()
            if name not in ("__dict__", "__weakref__")
        } | {"__qualname__": cls.__qualname__}
        cls.__doc__ = cls.__doc__ or cls.__name__  # else it would be derived from a signature
        dataclasses.dataclass(cls, **{**options, **_WITHOUT_METHODS})
        cls.__dataclass_params__.frozen = frozen  # subclasses check it
        later = {"__init__", "__repr__", *(["__eq__"] if eq else [])}
        if frozen:
            cls.__setattr__, cls.__delattr__ = (
                _refuse(cls, "__setattr__", "assign to"),
                _refuse(cls, "__delattr__", "delete"),
            )
        if eq and frozen:
            later.add("__hash__")
        elif eq:
            cls.__hash__ = None
        later -= body.keys()

        @cache
        def compiled():
            """Compiles the methods and replaces the stand-ins, except where code has replaced them.
            Safe in two threads: both compile the same, and no method is ever missing."""
            twin = dataclasses.dataclass(type(cls)(cls.__name__, cls.__bases__, body), **options)
            methods = {name: vars(twin)[name] for name in later}
            for name, method in methods.items():
                if vars(cls).get(name) is stand_ins[name]:
                    setattr(cls, name, method)
            return methods

        stand_ins = {name: _stand_in(name, compiled) for name in later}
        for name, method in stand_ins.items():
            setattr(cls, name, method)
        return cls

    _WITHOUT_METHODS = dict.fromkeys(("init", "repr", "eq", "frozen"), False)

    def _stand_in(name, compiled):
        def method(*args, **kwargs):
            return compiled()[name](*args, **kwargs)

        return method

    def _refuse(cls, own, what):
        def method(self, name, *value):
            if type(self) is cls or name in cls.__dataclass_fields__:
                raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")
            getattr(super(cls, self), own)(name, *value)

        return method
