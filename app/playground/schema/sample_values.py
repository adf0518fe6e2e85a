"""Texts for samples: by format, and by the name of a member ("city" is a city)."""

from __future__ import annotations

from collections.abc import Sequence

from playground.schema.schema_checks import Place

FORMATS: dict[str, tuple[str, ...]] = {
    "date": ("2026-05-04", "2026-11-21"),
    "time": ("14:30:00Z", "08:05:00Z"),
    "date-time": ("2026-05-04T14:30:00Z", "2026-11-21T08:05:00Z"),
    "duration": ("PT30M", "P2D"),
    "email": ("ada@example.com", "alan@example.org"),
    "idn-email": ("ada@example.com",),
    "hostname": ("www.example.com", "example.org"),
    "idn-hostname": ("example.com",),
    "ipv4": ("192.0.2.10", "198.51.100.7"),
    "ipv6": ("2001:db8::10", "2001:db8::7"),
    "uri": ("https://example.com/page", "https://example.org/"),
    "uri-reference": ("/page",),
    "iri": ("https://example.com/page",),
    "iri-reference": ("/page",),
    "uri-template": ("https://example.com/{id}",),
    "uuid": ("6f1c2f0e-3c5b-4c0a-9d55-0c8f3b1d7a21",),
    "json-pointer": ("/items/0",),
    "relative-json-pointer": ("0/items",),
    "regex": ("^[a-z]+$",),
}
_NAMED: dict[str, tuple[str, ...]] = {
    "city": ("Paris", "Oslo", "Kyoto"),
    "location": ("Paris, France", "Oslo, Norway"),
    "country": ("France", "Norway", "Japan"),
    "name": ("Ada Lovelace", "Alan Turing"),
    "title": ("Weekly report", "Notes"),
    "topic": ("solar energy", "tool calling"),
    "query": ("weather in Paris", "open invoices"),
    "expression": ("2 * (3 + 4)", "12 / 5"),
    "path": ("notes.txt", "src/main.py"),
    "language": ("en", "fr"),
    "currency": ("EUR", "USD"),
    "date": ("2026-05-04",),
    "url": ("https://example.com/page",),
    "email": ("ada@example.com",),
    "text": ("Hello, world.", "A short text."),
    "message": ("Hello, world.",),
    "id": ("42", "a1b2"),
}


def texts_by_name(place: Place) -> Sequence[str]:
    """Texts for the member at `place`, by its name."""
    name = str(place[-1]).lower() if place else ""
    return _NAMED.get(name) or _NAMED.get(name.rsplit("_", 1)[-1]) or ("example", "sample")
