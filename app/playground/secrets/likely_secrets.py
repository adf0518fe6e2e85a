"""What looks like a secret in the texts that leave the machine: by the position, by the name before
it, by its form (`detection`), or by a vendor's rule (`vendor_rules`). Pure; does not know the
actual keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from playground.secrets.detection import certain_spans, decoded_texts, secret_spans
from playground.secrets.forms import Span, merge_spans, replace_with_stars
from playground.secrets.names import is_long_opaque
from playground.secrets.redaction import SHORTEST, Redactor
from playground.secrets.vendor_rules import find_by_rules


def likely_spans(text: str) -> list[Span]:
    """The spans in `text`, as it is, that look like secrets; in order."""
    by_rules = ((match.start, match.end) for match in find_by_rules(text))
    return merge_spans(secret_spans(text), by_rules)


def redact_likely(text: str, known: Redactor) -> str:
    """`text` with stars for `known` secrets and for what looks like one."""
    masked = known.redact_text(text)
    return replace_with_stars(masked, likely_spans(masked), "*")


class SecretCollector:
    """Collects from texts the values that are secret wherever they are: keys of known formats,
    and values that look like a secret and are too long to occur by chance."""

    def __init__(self) -> None:
        self._certain: set[str] = set()
        self._likely: set[str] = set()
        self._seen: set[str] = set()

    def add(self, text: str, named: Iterable[Span] = ()) -> None:
        """Searches `text`; `named` are spans that its name says are secret."""
        self._add_likely(text, named)
        if text in self._seen:
            return
        self._seen.add(text)
        for decoded in (text, *decoded_texts(text)):
            by_rules = list(find_by_rules(decoded))
            self._add_likely(decoded, secret_spans(decoded))
            self._add_likely(decoded, ((match.start, match.end) for match in by_rules))
            self._certain |= {decoded[start:end] for start, end in certain_spans(decoded)}
            self._certain |= {
                decoded[match.start : match.end] for match in by_rules if match.certain
            }

    def values(self, ours: Collection[str] = ()) -> set[str]:
        """The collected values; none that only looks like a secret and is, holds or is part of one
        of `ours`, which stay readable."""
        likely = {
            value
            for value in self._likely
            if not any(word in value or value in word for word in ours)
        }
        return {
            value for value in likely | self._certain if len(value) >= SHORTEST and value.strip("*")
        }

    def _add_likely(self, text: str, spans: Iterable[Span]) -> None:
        values = (text[start:end] for start, end in spans)
        self._likely.update(value for value in values if is_long_opaque(value))
