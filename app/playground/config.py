"""Paths and environment: folders, the database's path, templates and static files, .env, the stored
token, one-line log records.

Knows no HTTP and no database. Threats 4, 17, 28 and 29 of docs/safety.md.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import stat
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from io import StringIO
from pathlib import Path
from typing import Literal

import dotenv
from platformdirs import user_data_path

from playground.core.errors import BadInput, PlaygroundError

APP = Path(__file__).resolve().parent
NAME = "tool-playground"

TOKEN = re.compile(r"[A-Za-z0-9._~-]{8,256}")
"""Tokens that need no escaping in a link, a cookie and a header."""

OWN_NAMES = re.compile(r"[A-Za-z0-9_]+_API_KEY|HF_TOKEN|OPENAI_ORG_ID|OPENAI_PROJECT_ID")
"""The names that a working directory's .env may set, besides the address of a key in the same file.
Anything else might control this program or one that it starts."""

UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
UNPAIRED = re.compile("[\ud800-\udfff]")

MAX_ENV_BYTES = 1024 * 1024

_piped: dict[Path, dict[str, str | None]] = {}
"""The variables of a file that can be read only once, such as a pipe."""


def data_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's own folder for databases; PLAYGROUND_HOME overrides it. Not created here."""
    home = environ.get("PLAYGROUND_HOME", "").strip()
    return Path(home).expanduser().absolute() if home else user_data_path(NAME, appauthor=False)


def default_db(environ: Mapping[str, str] = os.environ) -> Path:
    return data_folder(environ) / "playground.db"


def private_folder(folder: Path) -> Path:
    """Creates `folder`, with its parents if missing, for this user alone; returns it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def resource(folder: Literal["templates", "static"]) -> Path:
    """The folder of that name: inside the wheel, or at the top of a checkout."""
    for place in (APP / "_data" / folder, APP.parent.parent / folder):
        if place.is_dir():
            return place
    raise PlaygroundError(f"The installation has no folder {folder}. Reinstall {NAME}.")


def set_umask() -> int:
    """Makes all further files and folders of this process private to its user. Returns the previous
    umask, for started programs whose files are the user's own affair."""
    return os.umask(0o077)


def read_file(path: Path, most: int, *, plain: bool = False) -> bytes:
    """The content of a file that the user or a file of theirs names; OSError if it cannot be read
    or has more than `most` bytes. A device may never end, so that no size is believed.

    A pipe waits for its writer, which may never come: read one before an event loop takes the
    signals. `plain` refuses all but plain files.
    """
    # Without it, opening a named pipe waits, too.
    flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK if plain else 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        is_plain = stat.S_ISREG(status.st_mode)
        if plain and not is_plain:
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = b"" if is_plain and status.st_size > most else file.read(most + 1)
    if len(content) > most or (is_plain and status.st_size > most):
        raise OSError(errno.EFBIG, f"it is larger than {most >> 20} MiB, the limit")
    return content


def _variables(path: Path) -> dict[str, str | None]:
    if path in _piped:
        return _piped[path]
    text = read_file(path, MAX_ENV_BYTES).decode("utf-8")
    variables = dotenv.dotenv_values(stream=StringIO(text), interpolate=False)
    if not path.is_file():
        _piped[path] = variables
    return variables


def load_env(
    start: Path,
    env_file: Path | None = None,
    environ: MutableMapping[str, str] = os.environ,
) -> list[str]:
    """Adds the variables of `env_file`, or the keys of `start`/.env, to `environ`, without
    overriding existing ones.

    Never reads a parent of `start`. Returns sentences of warning. BadInput if a named file cannot
    be read.
    """
    path = env_file if env_file is not None else start / ".env"
    if env_file is None and not path.is_file():
        return []
    try:
        mode = path.stat().st_mode
        variables = _variables(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        sentence = f"{path} cannot be read ({reason}); name a readable file with --env-file."
        if env_file is None:
            return [sentence]
        raise BadInput(sentence) from None
    warnings = []
    if os.name == "posix" and mode & 0o077:
        warnings.append(f"Other users can read {path}. Run: chmod 600 {path}")
    values = {name: value for name, value in variables.items() if value}
    if env_file is None:
        # The folder may be untrusted; a file named on the command line is the user's own.
        foreign = [name for name in values if not _may_apply(name, values, environ)]
        warnings += [
            f"{name} in {path} was ignored. Set it in the shell, or name the file with --env-file."
            for name in foreign
        ]
        values = {name: value for name, value in values.items() if name not in foreign}
    for name, value in values.items():
        environ.setdefault(name, value)
    return warnings


def env_values(start: Path, env_file: Path | None = None) -> dict[str, str]:
    """All variables of the file that `load_env` reads, including those that it does not apply: none
    of their values may leak. Empty if it cannot be read, which `load_env` has reported."""
    path = env_file if env_file is not None else start / ".env"
    try:
        variables = _variables(path)
    except (OSError, ValueError):
        return {}
    return {name: value for name, value in variables.items() if value}


def _may_apply(name: str, values: Mapping[str, str | None], environ: Mapping[str, str]) -> bool:
    """A folder's .env provides keys, and an address only for a key of its own: it must not redirect
    a key of the shell."""
    if OWN_NAMES.fullmatch(name):
        return True
    provider = name.removesuffix("_BASE_URL" if name != "AZURE_OPENAI_ENDPOINT" else "_ENDPOINT")
    key = provider + "_API_KEY"
    return provider != name and key in values and key not in environ


# --- the stored token -----------------------------------------------------------------------------


def token_path(db: Path) -> Path:
    return db.with_name(db.name + ".token")


def read_token(db: Path, environ: Mapping[str, str] = os.environ) -> str | None:
    """The token of a server of `db`, or None if none was made; changes nothing."""
    named = environ.get("PLAYGROUND_TOKEN", "").strip()
    if named:
        if not TOKEN.fullmatch(named):
            raise BadInput(
                "PLAYGROUND_TOKEN must have 8 to 256 of the characters A-Z a-z 0-9 . _ ~ -. Set "
                "another, or unset it to have one generated."
            )
        return named
    try:
        token = token_path(db).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return token if TOKEN.fullmatch(token) else None


def read_or_make_token(db: Path, environ: Mapping[str, str] = os.environ) -> str:
    """The token of `db`: PLAYGROUND_TOKEN, or the stored one, or a new one of 256 bits, stored
    0600.

    A stored token that others could have read is replaced.
    """
    path = token_path(db)
    token = read_token(db, environ)
    if token is not None and (environ.get("PLAYGROUND_TOKEN", "").strip() or _is_private(path)):
        return token
    token = secrets.token_urlsafe(32)
    try:
        private_folder(path.parent)
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(token + "\n")
    except OSError as error:
        raise PlaygroundError(
            f"The token cannot be saved in {path} ({error.strerror}). Make the folder writable, "
            "set PLAYGROUND_TOKEN, or choose another --db."
        ) from error
    return token


def _is_private(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISREG(status.st_mode) and (os.name != "posix" or not status.st_mode & 0o077)


# --- log records ----------------------------------------------------------------------------


def one_line(text: str) -> str:
    r"""`text` with every control, format and unpaired character as `\uXXXX`: nothing in it can end
    a line of the log or control a terminal. Idempotent."""
    return UNPAIRED.sub(_escape, UNPRINTABLE.sub(_escape, text))


def printable_lines(text: str) -> str:
    """`text` with each of its lines as in `one_line`."""
    return "\n".join(map(one_line, text.split("\n")))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def log_filter(
    mask: Callable[[str], str], printable: Callable[[str], str] = one_line
) -> Callable[[logging.LogRecord], bool]:
    """A filter for a logging handler: each record, with traceback, becomes one redacted line.
    `printable` may be `printable_lines`, which keeps the line breaks."""

    def rewrite(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info))
        record.msg, record.args = printable(mask(text)), ()
        record.exc_info = record.exc_text = record.stack_info = None
        return True

    return rewrite
