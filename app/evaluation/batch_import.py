"""Reads a batch in any known form: a SPEC, a file of BFCL, a configuration of promptfoo."""

from __future__ import annotations

import posixpath

from app.core.errors import BadInput
from app.evaluation.bfcl_import import ANSWERS, is_bfcl, needs_answers, read_bfcl
from app.evaluation.imported_batch import ImportedBatch, ReadFile
from app.evaluation.promptfoo_import import is_promptfoo, read_promptfoo
from app.evaluation.spec import spec_data
from app.evaluation.spec_reader import parse_spec, spec_from_data


def read_batch(text: str, name: str, read_file: ReadFile) -> ImportedBatch:
    """The batch that `text` spells, the content of the file `name`. `read_file` reads what stands
    beside it. BadInput where it is none, or where no case of it can be taken."""
    if is_bfcl(text):
        file = posixpath.basename(name)
        answers = read_file(f"{ANSWERS}/{file}") if needs_answers(text) else ""
        return _checked(read_bfcl(text, answers, posixpath.splitext(file)[0]))
    data = parse_spec(text)
    if is_promptfoo(data):
        return _checked(read_promptfoo(data, read_file))
    return ImportedBatch(spec_from_data(data))


def _checked(imported: ImportedBatch) -> ImportedBatch:
    """What an importer made is held to the rules of a SPEC, its limits and keys among them."""
    if not imported.spec.cases:
        first = imported.left_out[0] if imported.left_out else None
        why = f" {first.case}: {first.reason}" if first is not None else ""
        raise BadInput(f"No case of this file can be taken.{why}")
    spec_from_data(spec_data(imported.spec))
    return imported
