"""Runs tests with httpx2 in the place of httpx: `python -m tests.on_httpx2 [TESTS…]`.

Without arguments these are the tests of the rooms that talk HTTP. Servers that a test starts as
processes of their own keep httpx.
"""

import sys

import httpx2

sys.modules["httpx"] = httpx2  # before any module of the program is imported

ROOMS = ("tests/net", "tests/engine", "tests/executors", "tests/simulator")


def main() -> int:
    import pytest

    chosen = sys.argv[1:]
    if all(argument.startswith("-") for argument in chosen):
        chosen += ROOMS
    return int(pytest.main(["-p", "tests.on_httpx2", *chosen]))


if __name__ == "__main__":
    sys.exit(main())
