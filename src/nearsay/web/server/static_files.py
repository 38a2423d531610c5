"""Style sheet and scripts, served from memory."""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parents[1] / "static"


class StaticFiles:
    """All files of a folder, read once; browsers revalidate them by ETag, so an upgrade shows at once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
        self._tags = {name: f'"{hashlib.sha256(content).hexdigest()[:32]}"' for name, content in self._files.items()}

    async def __call__(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._files:
            raise HTTPException(404)
        headers = {"ETag": self._tags[name], "Cache-Control": "private, no-cache"}
        if request.headers.get("if-none-match") == self._tags[name]:
            return Response(None, 304, headers)
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(self._files[name], media_type=kind, headers=headers)

    @property
    def route(self) -> Route:
        """The route that serves them."""
        return Route("/static/{name}", self.__call__, methods=["GET"])
