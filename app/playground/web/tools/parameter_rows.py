"""The parameters of an HTTP tool in words, each with an example of what it sends."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from playground.executors.form_bodies import form_body
from playground.executors.parameter_styles import write_parameter
from playground.schema.http_parameters import HttpParameter, parameters_of

_LIST = ["a", "b"]
_OBJECT = {"x": "1", "y": "2"}


@dataclass(frozen=True)
class ParameterRow:
    """`argument` is "" for a fixed value; `text` says how the parameter is sent."""

    place: str
    name: str
    argument: str
    text: str


def parameter_rows(config: Mapping[str, Any]) -> list[ParameterRow]:
    """The rows of a valid config."""
    return [
        ParameterRow(
            parameter.place, parameter.name, parameter.argument, ", ".join(_words(parameter))
        )
        for parameter in parameters_of(config)
    ]


def _words(parameter: HttpParameter) -> Iterator[str]:
    if parameter.value:
        yield parameter.value
        return
    if parameter.file:
        yield "a file"
    if parameter.content_type:
        yield f"as {parameter.content_type}"
    if parameter.headers:
        yield f"with the headers {json.dumps(dict(parameter.headers))}"
    if parameter.style and not parameter.content_type:
        exploded = parameter.explode or parameter.style == "deepObject"
        yield f"{parameter.style}{', exploded' if exploded else ''}"
        if parameter.allow_reserved:
            yield "reserved characters unchanged"
        yield f"a list as {_example(parameter, _LIST)}"
        yield f"an object as {_example(parameter, _OBJECT)}"


def _example(parameter: HttpParameter, value: Any) -> str:
    if parameter.place == "body":
        argument = parameter.argument
        return form_body({argument: value}, {argument: parameter}).decode()
    return write_parameter(parameter, value)
