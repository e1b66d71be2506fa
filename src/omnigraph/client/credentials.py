"""Tokens for servers: where they are stored, and which one is sent to which server.

They are in the file `credentials`, next to the configuration:

    [production]
    token = ...

Only its owner may read it; a file that others can read is refused. The token of a named server is sent to that server only.
"""

from __future__ import annotations

import configparser
import contextlib
import io
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from omnigraph._internal.user_folders import config_folder
from omnigraph.errors import UsageError

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,4096}")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def check_server_name(name: str) -> str:
    """UsageError unless it is a valid name of a server."""
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"'{name}' is not a name for a server", hint="1 to 64 letters, digits, - and _")
    return name


def check_url(url: str) -> str:
    """The address of a server without a trailing slash. UsageError for anything but http://HOST[:PORT][/PATH]."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in _DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError(
            f"'{_without_secrets(url)}' is not the address of a server", hint="http://HOST:PORT or https://HOST"
        )
    if "@" in parts.netloc:
        raise UsageError("the address of a server holds a password", hint="keep tokens with 'omnigraph login'")
    if parts.query or parts.fragment:
        raise UsageError(
            f"'{_without_secrets(url)}' is not the address of a server", hint="leave out what follows the path"
        )
    return url.rstrip("/")


def _without_secrets(url: str) -> str:
    """The address without passwords and query, safe to show in a message."""
    return re.sub(r"[?#].*", "", re.sub(r"//[^/@]*@", "//", url))


def is_within(url: str, server: str) -> bool:
    """Whether a URL belongs to a server: the same scheme, host and port, and a path below the server's."""
    inner, outer = urlsplit(url), urlsplit(server)
    same = (inner.scheme, inner.hostname, _port(url)) == (outer.scheme, outer.hostname, _port(server))
    folder = outer.path.rstrip("/") + "/"
    return same and (inner.path.rstrip("/") + "/").startswith(folder)


def _port(url: str) -> int | None:
    parts = urlsplit(url)
    return parts.port or _DEFAULT_PORTS.get(parts.scheme)


def token_for(url: str, servers: Mapping[str, str]) -> str | None:
    """The token to send to a URL: OMNIGRAPH_TOKEN_<NAME> or the stored one of the configured server that the URL belongs to (the
    one with the longest path), else OMNIGRAPH_BEARER_TOKEN, else none."""
    owners = [name for name, server in servers.items() if is_within(url, server)]
    for name in sorted(owners, key=lambda owner: -len(servers[owner])):
        token = os.environ.get(variable_of(name)) or stored_tokens().get(name)
        if token:
            return check_token(token)
    shared = os.environ.get("OMNIGRAPH_BEARER_TOKEN")
    return check_token(shared) if shared else None


def variable_of(name: str) -> str:
    """The environment variable that holds the token of a server."""
    return f"OMNIGRAPH_TOKEN_{name.upper().replace('-', '_')}"


def check_token(token: str) -> str:
    """UsageError, which does not quote the token, unless it is allowed in a header."""
    if _TOKEN.fullmatch(token) is None:
        raise UsageError("that is not a token: a token is 1 to 4,096 visible ASCII characters, without spaces")
    return token


def stored_tokens() -> Mapping[str, str]:
    """The tokens of the file, by server."""
    if (folder := config_folder()) is None:
        return {}
    path = folder / "credentials"
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise UsageError(f"{path} can be read by others (mode {mode:04o})", hint=f"chmod 600 {path}")
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is not UTF-8'}") from None
    parser = _parser()
    try:
        parser.read_string(text)
    except configparser.Error:  # The parser's message quotes the line, which may be the token.
        raise UsageError(f"cannot read {path}: it must hold [server] and token = ...") from None
    return {name: parser[name]["token"] for name in parser.sections() if "token" in parser[name]}


def store_token(name: str, token: str) -> Path:
    """Store a server's token; returns the file."""
    return _write({**stored_tokens(), check_server_name(name): check_token(token)})


def forget_token(name: str) -> bool:
    """Remove a server's token; returns whether there was one."""
    tokens = dict(stored_tokens())
    if tokens.pop(name, None) is None:
        return False
    _write(tokens)
    return True


def _parser() -> configparser.RawConfigParser:
    """A parser without a default section, interpolation or inline comments, so that a token may have any character."""
    return configparser.RawConfigParser(
        default_section="", interpolation=None, comment_prefixes=("#",), delimiters=("=",), strict=True
    )


def _write(tokens: Mapping[str, str]) -> Path:
    """Replace the file atomically; it is never readable by others."""
    if (folder := config_folder()) is None:
        raise UsageError("there is no home folder to keep tokens in", hint="set OMNIGRAPH_HOME to a folder of yours")
    path = folder / "credentials"
    parser = _parser()
    for name, token in sorted(tokens.items()):
        parser[name] = {"token": token}
    text = io.StringIO()
    parser.write(text)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".credentials-", dir=path.parent)  # created with mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text.getvalue())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
    return path


def named_servers(names: Iterable[str]) -> str:
    """The names of the configured servers, for a hint."""
    return ", ".join(sorted(names)) or "none is configured"
