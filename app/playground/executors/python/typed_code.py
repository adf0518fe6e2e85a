"""Runs Python typed in the page: the part of `executor.py` that is in a process of its own.

Loaded by `runner.py` like a user's file, so it must not import anything of this program. The
interpreter returns values of any size; here, where memory is limited, they become text.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Mapping
from typing import Any, cast

from __main__ import CallFailure

MAX_ADDRESSES = 1536 << 20
"""The limit of this process, and of the interpreter's; its own memory limit is far lower."""
ODDLY_LONG = 400  # digits; longer numbers are not plausible
MOST_DEEP = 200
ARGUMENTS = "_arguments_of_the_call"


def call(
    code: str,
    name: str,
    waits: bool,
    arguments: str,
    limits: dict[str, Any],
    site: str,
    binary: str,
) -> Any:
    """The result of the function `name` of `code`: a text, bytes, or JSON data.

    `site` is the folder of the interpreter's package, `binary` its program. CallFailure, with a
    sentence, for any failure.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESSES, MAX_ADDRESSES))
    sys.path.append(site)
    import pydantic_monty as monty

    expression = f"{name}(**{ARGUMENTS})"
    try:
        # The interpreter has an empty environment: it cannot read keys.
        pool = monty.Monty(max_processes=1, binary_path=binary)
        with pool, pool.checkout(limits=cast("Any", limits)) as session:
            session.feed_run(code, print_callback=write_output)
            value = session.feed_run(
                f"import asyncio\nasyncio.run({expression})" if waits else expression,
                inputs={ARGUMENTS: json.loads(arguments, parse_int=integer)},
                print_callback=write_output,
            )
        return value if isinstance(value, str | bytes) else data(value)
    except (monty.MontySyntaxError, monty.MontyRuntimeError) as error:
        raise CallFailure(str(error)[:20_000] + lines(error)) from None
    except monty.MontyCrashedError:
        raise CallFailure("The sandbox's interpreter crashed on this code.") from None
    except FileNotFoundError as error:
        raise CallFailure(f"The sandbox cannot be started: {error}") from None
    except MemoryError:
        raise CallFailure("MemoryError: what the function returned is too large.") from None


def write_output(stream: str, text: str) -> None:
    """All of it goes to stdout, where it is counted."""
    sys.stdout.write(text)
    sys.stdout.flush()


def integer(word: str) -> int | float:
    return int(word) if len(word) <= ODDLY_LONG else float(word)


def data(value: Any) -> Any:
    """`value` as JSON data."""
    deep = f"The function returned a value that is nested deeper than {MOST_DEEP} levels."
    try:
        plain_data = json.loads(json.dumps(value, allow_nan=False, default=to_plain))
    except RecursionError:
        raise CallFailure(deep) from None
    except (TypeError, ValueError) as error:
        raise CallFailure(f"The function returned a value that is not JSON: {error}.") from None
    if is_deeper(plain_data, MOST_DEEP):
        raise CallFailure(deep)
    return plain_data


def is_deeper(value: Any, most: int) -> bool:
    """Whether JSON data is nested deeper than `most` levels. The program has the same function
    (core/json_values.py)."""
    level = [value]
    for _ in range(most + 1):
        level = [item for item in level if isinstance(item, dict | list)]
        if not level:
            return False
        level = [
            inner for item in level for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return True


def to_plain(value: Any) -> Any:
    """Instances as objects, sets as arrays; nothing else is converted."""
    attributes = getattr(value, "attributes", None)
    if isinstance(attributes, Mapping):
        return dict(attributes)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    raise TypeError(f"a value of type {type(value).__name__}")


def lines(error: Any) -> str:
    """The lines of the code that lead to `error`, innermost last; none of ours."""
    traceback = getattr(error, "traceback", None)
    if traceback is None:
        return ""
    frames = [frame for frame in traceback() if "-0>" in frame.filename][-20:]
    parts = [
        f"\n  line {frame.line}, in {frame.function_name or 'the code'}: "
        f"{(frame.source_line or '').strip()}"
        for frame in frames
    ]
    return "".join(parts)[:20_000]
