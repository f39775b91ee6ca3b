"""The local page's server: a fixed table of files, and a socket by which the page asks."""

import asyncio
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from conoscope.common.errors import ConoscopeError
from conoscope.common.markup import Html, tag
from conoscope.exploring.bundle import SERVED, built, refuse_missing
from conoscope.exploring.frames import error_frame
from conoscope.exploring.guarding import App, Guard, folder_of
from conoscope.exploring.queueing import Answering, Page, Queue
from conoscope.exploring.requests import MESSAGE, RequestError, read_message

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.websockets import WebSocket

NEEDED = ("starlette", "uvicorn", "websockets")
HOST = "127.0.0.1"
PAGES = 16
"""How many pages may be open at once."""
CONNECTIONS = 64
"""How many connections are answered at once, those of pages among them."""
UNREAD = 64 << 20
"""Bytes that wait for a page which does not read; more of them end its connection."""
TOO_MUCH = 4001
"""The code of a socket that is closed because too much was asked at once."""
GRACE = 2
"""Seconds that connections have to end."""
PATIENCE = 5.0
"""Seconds within which a connection must have asked: any program can connect, and those that say nothing take others' room."""


class Outbox:
    """Frames on their way to one page. They are put in from any thread, and what does not go out ends that page alone."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._unread = loop, 0
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()

    def put(self, frame: bytes) -> None:
        """Add a frame; called from any thread, and never waits."""
        with suppress(RuntimeError):  # the loop is closed: the server ends
            self._loop.call_soon_threadsafe(self._add, frame)

    def _add(self, frame: bytes) -> None:
        self._unread += len(frame)
        self._frames.put_nowait(frame if self._unread <= UNREAD else None)

    async def empty_into(self, socket: "WebSocket") -> None:
        """Send every frame; return when a page left too many unread."""
        while (frame := await self._frames.get()) is not None:
            await socket.send_bytes(frame)
            self._unread -= len(frame)


def serve(answering: Answering, port: int, opened: Callable[[str, str], None], token: str | None = None) -> None:
    """Serve the page until Ctrl-C; `opened` gets its address once it can be asked, and another one that opens it once.

    ConoscopeError if the port is taken, a package is missing or the front end is not built.
    """
    refuse_missing(*NEEDED)
    import uvicorn

    with listening(port) as listener:
        queue, token = Queue(answering), token or secrets.token_urlsafe(32)
        guard = Guard(application(queue, folder_of(token)), listener.getsockname()[1], token)
        config = uvicorn.Config(
            guard, log_config=None, access_log=False, server_header=False, proxy_headers=False, lifespan="off", http=_impatient(),
            ws="websockets-sansio", loop="asyncio", ws_max_size=MESSAGE, ws_per_message_deflate=False,
            limit_concurrency=CONNECTIONS, timeout_graceful_shutdown=GRACE,
        )  # fmt: skip
        try:
            address = f"http://{HOST}:{listener.getsockname()[1]}/?token="
            opened(f"{address}{guard.token}", f"{address}{guard.ticket()}")
            uvicorn.Server(config).run(sockets=[listener])
        finally:
            queue.close()


def _impatient() -> "type[asyncio.Protocol]":
    """The protocol of connections, which ends those that have not asked in time."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(PATIENCE, self._end_if_silent)

        def _end_if_silent(self) -> None:
            # That of a socket is no longer among them.
            if self.cycle is None and self in self.connections:
                self.transport.close()

    return Impatient


def listening(port: int) -> socket.socket:
    """A socket that listens on this port of this machine alone, or on a free one for 0; ConoscopeError if it is taken."""
    listener = socket.socket()
    try:
        # Elsewhere than on Windows: a port that was used a minute ago is free again.
        if hasattr(socket, "SO_REUSEPORT"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(CONNECTIONS)
    except OSError as error:
        listener.close()
        raise ConoscopeError(
            f"port {port} cannot be listened on: {error.strerror or error}; give --port another number, or leave it out"
        ) from error
    return listener


def application(queue: Queue, folder: str) -> App:
    """The ASGI application without its guard, which lies in a folder: every file there is by its own path, and the socket."""
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    def sent(content: str, kind: str) -> "Callable[[Request], Response]":
        body = content.encode()
        return lambda request: Response(body, media_type=kind)

    table = {
        "/": (page_html(folder), "text/html; charset=utf-8"),
        **{f"/{name}": (built(name), kind) for name, kind in SERVED.items()},
    }
    talk = _Talk(queue)
    app = Starlette(
        routes=[
            *(Route(path, sent(*content), methods=["GET", "HEAD"]) for path, content in table.items()),
            WebSocketRoute("/socket", talk.socket),
        ]
    )
    app.router.redirect_slashes = False
    return app


def page_html(folder: str) -> str:
    """The page: an element for the explorer, which names the folder that it lies in, and its script."""
    head = tag(
        "head",
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        Html('<link rel="icon" href="data:,">'),
        Html(f'<link rel="stylesheet" href="{folder}explorer.css">'),
        tag("title", "conoscope explore"),
    )
    unseen = tag(
        "noscript", "The explorer needs scripts. Every number is in the tables too: conoscope measure, conoscope report."
    )
    inside = tag("div", id="explorer", data_host="live", data_folder=folder)
    body = tag("body", inside, unseen, Html(f'<script src="{folder}explorer.js"></script>'))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


class _Talk:
    """What pages ask through their sockets."""

    def __init__(self, queue: Queue) -> None:
        self._queue, self._open = queue, 0

    async def socket(self, socket: "WebSocket") -> None:
        """Answer one page until it goes."""
        await socket.accept()
        if self._open >= PAGES:
            await socket.send_bytes(error_frame(None, f"{PAGES} pages are open already; close one"))
            await socket.close(TOO_MUCH)
            return
        self._open += 1
        outbox = Outbox(asyncio.get_running_loop())
        page = self._queue.page(outbox.put)
        tasks = [asyncio.create_task(outbox.empty_into(socket)), asyncio.create_task(_listen(socket, page))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0] in done and tasks[0].exception() is None:
                await socket.close(TOO_MUCH)
        finally:
            self._open -= 1
            page.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _listen(socket: "WebSocket", page: Page) -> None:
    """Take what a page asks until it goes."""
    from starlette.websockets import WebSocketDisconnect

    with suppress(WebSocketDisconnect):
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                page.take(read_message(message.get("text") or ""))
            except RequestError as error:
                page.refuse(error.number, str(error))
