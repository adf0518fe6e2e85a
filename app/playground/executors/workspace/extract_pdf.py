"""Extracts the text of a PDF, in a process of its own: FIRST LAST MOST as arguments, PDF on stdin.

One JSON object on stdout: {"text"}, or {"trouble"} as the end of a sentence. Memory and time are
limited here; the other side is `files.run_extractor`.
"""

from __future__ import annotations

import io
import json
import resource
import sys

import pypdf
from pypdf.errors import PyPdfError

MEMORY = 1 << 30
CPU_S = 30


def main() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    first, last, most = (int(word) for word in sys.argv[1:])
    print(json.dumps(pdf_text(sys.stdin.buffer.read(), first, last, most)))


def pdf_text(data: bytes, first: int, last: int, most: int) -> dict[str, str]:
    """The text of pages `first` to `last`, at most `most` characters, or the error."""
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"trouble": "is encrypted. Only a copy without a password can be read."}
        count = len(reader.pages)
        if first > count:
            return {"trouble": f"has {count} pages. Ask for one of them."}
        text = ""
        for number in range(first, min(last, count) + 1):
            text += f"--- page {number} of {count} ---\n"
            text += reader.pages[number - 1].extract_text().strip() + "\n"
            if len(text) > most:
                text = text[:most] + "…\n(The text is cut off here. Ask for fewer pages.)\n"
                break
    except MemoryError:
        return {"trouble": "needs too much memory to be read."}
    except (PyPdfError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        return {"trouble": f"is damaged and cannot be read ({type(error).__name__})."}
    except (RecursionError, NotImplementedError, ArithmeticError) as error:
        return {"trouble": f"cannot be read ({type(error).__name__})."}
    return {"text": text.encode("utf-8", "backslashreplace").decode("utf-8")}


if __name__ == "__main__":
    main()
