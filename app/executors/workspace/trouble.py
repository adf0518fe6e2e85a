"""What a workspace tool may refuse, as a written-out table of numbered errors."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, str] = {
    "E1": "the file was not read",
    "E2": "the file has changed since it was read",
    "E3": "the old text is not in the file",
    "E4": "the old text is there more than once",
    "E5": "outside the folder",
    "E6": "no such file",
    "E7": "not a plain file",
    "E8": "too large",
    "E9": "not text",
    "E10": "nothing would change",
    "E11": "a pattern or range that cannot be read",
    "E12": "no such task, or too many",
    "E13": "the system refused",
    "E14": "cannot be fetched",
}
"""Numbered, so that a model and a test know one from the other, however the sentence is put."""


class Trouble(Exception):
    """One of CODES, with a sentence that says what to do; becomes an error result.

    `reason` is why the system refused, where somebody wants it without the sentence around it."""

    def __init__(self, code: str, sentence: str, reason: str = "") -> None:
        super().__init__(f"{code} {CODES[code]}: {sentence}")
        self.code = code
        self.sentence = sentence
        self.reason = reason
