"""Joins source stylesheets into one text, with the pictures they name inside it.

The pages of the server and the shared file are drawn by the same sources.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from pathlib import Path

PICTURE = re.compile(r'url\("([a-z]+\.svg)"\)')


def join_styles(folder: Path, names: Iterable[str]) -> str:
    """The stylesheets `names` of `folder`, without ".css", in this order."""

    def embed(found: re.Match[str]) -> str:
        data = base64.b64encode((folder / found[1]).read_bytes()).decode()
        return f'url("data:image/svg+xml;base64,{data}")'

    texts = (f"/* {name}.css */\n{(folder / f'{name}.css').read_text('utf-8')}" for name in names)
    return PICTURE.sub(embed, "\n".join(texts))
