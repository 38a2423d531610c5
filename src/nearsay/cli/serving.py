"""The command that serves the web page."""

from __future__ import annotations

import errno
import secrets
import socket as sockets
from typing import Annotated

import typer

from nearsay.cli.app import Collection, Encoder, Pictures, app
from nearsay.core.terminal import print_lines
from nearsay.errors import CollectionBusy, InputError, require

PANEL = "Ask it"
HERE = ("127.0.0.1", "localhost", "::1")
# Seconds to wait for the collection to load before the address is printed.
PATIENCE = 2.0


@app.command(rich_help_panel=PANEL)
def serve(
    path: Collection,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8017,
    token: Annotated[bool, typer.Option(help="Require the token of the printed address.")] = True,
    name: Annotated[list[str] | None, typer.Option(help="Further host name of the server.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Allow no changes.")] = False,
    pictures: Pictures = None,
    encoder: Encoder = None,
) -> None:
    """Serve a web page to query and correct the collection.

    Only this machine can reach it, and only with the printed address, unless another host is named.

    \b
    Example:
      nearsay serve birds.nearsay --read-only
    """
    require("starlette", "web")
    require("python_multipart", "web")
    uvicorn = require("uvicorn", "web")
    from nearsay.collection.live import LiveCollection
    from nearsay.web.app import make_app, server_config
    from nearsay.web.rendering import prepare_pages

    if not token and host not in HERE:
        raise InputError(f"Anybody could change the collection at {host}: remove --no-token.")
    with listening(host, port) as socket:
        try:
            collection = LiveCollection.open(path, read_only=read_only, pictures=pictures, encoder=encoder)
        except CollectionBusy as busy:
            raise InputError(f"{busy} Or open it read-only: --read-only.") from busy
        with collection:
            secret = secrets.token_urlsafe(24) if token else None
            pages = make_app(collection, secret, tuple(name or ()))
            reading = pages.state.served.warm_up()
            prepare_pages()
            if reading is not None:
                reading.join(PATIENCE)
            shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
            query = f"/?token={secret}" if secret else "/"
            print_lines(f"http://{shown}:{socket.getsockname()[1]}{query}", "Ctrl-C ends it.")
            uvicorn.Server(server_config(pages)).run(sockets=[socket])


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
