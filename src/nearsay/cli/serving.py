"""The command that serves the web page."""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket as sockets
from pathlib import Path
from typing import Annotated

import typer

from nearsay.cli.app import Collection, Encoder, Pictures, app, opened
from nearsay.core.terminal import print_errors, print_lines
from nearsay.errors import CollectionBusy, InputError, require

PANEL = "Ask it"
HERE = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")
# Seconds to wait for the collection to load before the address is printed.
PATIENCE = 2.0


@app.command(rich_help_panel=PANEL)
def serve(
    path: Collection,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8017,
    token: Annotated[bool, typer.Option(help="Require the token of the printed address.")] = True,
    name: Annotated[list[str] | None, typer.Option(help="Further host name of the server.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="Tokens of several people: lines of NAME ROLE TOKEN; roles: read, label, admin.", show_default=False
        ),
    ] = None,
    root_path: Annotated[str, typer.Option(help="Path that a proxy serves the page at, such as /birds.")] = "",
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Write a JSON line for each request on stderr.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes.")] = False,
    pictures: Pictures = None,
    encoder: Encoder = None,
) -> None:
    """Serve a web page to query and correct the collection.

    Only this machine can reach it, and only with the printed address, unless another host is named. The environment
    variable NEARSAY_TOKEN sets the token, or holds lines as --token-file does; changes are recorded with their names.

    \b
    Examples:
      nearsay serve birds.nearsay --read-only
      nearsay serve birds.nearsay --host 0.0.0.0 --token-file tokens.txt --access-log
    """
    require("starlette", "web")
    require("python_multipart", "web")
    uvicorn = require("uvicorn", "web")
    from nearsay.web.access import THE_PAGE, AccessToken, read_tokens
    from nearsay.web.app import make_app, server_config
    from nearsay.web.rendering import prepare_pages

    if not token and host not in HERE:
        raise InputError(f"Anybody could change the collection at {host}: remove --no-token.")
    if root_path and not ROOT_PATH.fullmatch(root_path):
        raise InputError(f"--root-path is a path such as /birds; got {root_path!r}.")
    given = os.environ.get("NEARSAY_TOKEN", "")
    if token_file is not None:
        given = _content(token_file)
    if given and not token:
        raise InputError("--no-token contradicts --token-file and NEARSAY_TOKEN: leave one of them out.")
    tokens = read_tokens(given, "NEARSAY_TOKEN" if token_file is None else str(token_file)) if given else []
    with listening(host, port) as socket:
        try:
            collection = opened(path, read_only=read_only, pictures=pictures, encoder=encoder)
        except CollectionBusy as busy:
            raise InputError(f"{busy} Or open it read-only: --read-only.") from busy
        with collection:
            secret = secrets.token_urlsafe(24) if token and not tokens else None
            if secret is not None:
                tokens = [AccessToken(THE_PAGE, "admin", secret)]
            pages = make_app(collection, tokens, tuple(name or ()), root_path)
            if access_log:
                _write_access_log()
            reading = pages.state.served.warm_up()
            prepare_pages()
            if reading is not None:
                reading.join(PATIENCE)
            query = f"{root_path}/?token={secret}" if secret else f"{root_path}/"
            port = socket.getsockname()[1]
            print_lines(*(f"http://{shown}:{port}{query}" for shown in _addresses(host)))
            if host not in HERE:
                print_errors("Others in this network can reach it, and what they send is not encrypted: use it where")
                print_errors("you trust the network, or put a proxy with TLS in front of it.")
            if secret is None and tokens:
                print_lines(f"Tokens of {', '.join(each.name for each in tokens)}: add ?token=… to the address.")
            print_lines("Ctrl-C ends it.")
            uvicorn.Server(server_config(pages)).run(sockets=[socket])


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--token-file {path} cannot be read: {error}.") from error


def _addresses(host: str) -> list[str]:
    """The addresses to open: those of this machine where it listens at all of them."""
    if host not in EVERYWHERE:
        return [f"[{host}]" if ":" in host else host]
    try:
        resolved = sockets.getaddrinfo(sockets.gethostname(), None, sockets.AF_INET)
    except OSError:
        resolved = []
    return list(dict.fromkeys(["127.0.0.1", *(str(each[4][0]) for each in resolved)]))


def _write_access_log() -> None:
    import logging

    log = logging.getLogger("nearsay.access")
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    log.propagate = False


def listening(host: str = "127.0.0.1", port: int = 0) -> sockets.socket:
    """A socket that listens at an address of this machine; an error says which option to change."""
    family = sockets.AF_INET6 if ":" in host else sockets.AF_INET
    try:
        if not host:
            raise OSError(errno.EADDRNOTAVAIL, "it is empty")
        socket = sockets.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:  # names that cannot be one are Unicode errors
        number = getattr(error, "errno", None)
        if number == errno.EADDRINUSE:
            raise InputError(
                f"Port {port} of {host} is in use. Name another with --port; 0 takes a free one."
            ) from error
        if number in (errno.EACCES, errno.EPERM):
            raise InputError(f"Port {port} needs administrator rights. Name one from 1024 on with --port.") from error
        why = (getattr(error, "strerror", None) or "it is not a host name").partition(" (while ")[0]
        raise InputError(
            f"Cannot listen at --host {host!r}: {why}. Name an address of this machine, such as 127.0.0.1, or 0.0.0.0"
            " for all of them."
        ) from error
    # Send small packets at once: otherwise each response waits 40 ms for an acknowledgment.
    socket.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
    return socket
