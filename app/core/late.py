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
from functools import cache, partial
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
        frozen, eq = options.get("frozen", False), options.get("eq", True)
        derived = any(map(dataclasses.is_dataclass, cls.__mro__[1:]))
        compares = eq and not vars(cls).keys().isdisjoint(("__eq__", "__hash__"))
        if derived or compares or not options.keys() <= {"frozen", "eq", "kw_only"}:
            return dataclasses.dataclass(cls, **options)  # seldom, and not worth a rule each
        body = {
            name: value
            for name, value in vars(cls).items()
            if name not in ("__dict__", "__weakref__")
        } | {"__qualname__": cls.__qualname__}
        cls.__doc__ = cls.__doc__ or cls.__name__  # or it would be made of a signature
        dataclasses.dataclass(cls, **{**options, **_WITHOUT_METHODS})
        cls.__dataclass_params__.frozen = frozen  # is asked by the classes below it
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
            """The methods, which take the place of those that stand for them, but where somebody
            has put others there. Two threads may do so at once: both make the same, and nothing is
            ever missing."""
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
