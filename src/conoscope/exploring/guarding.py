"""Guard: who may ask the local page's server, decided before anything else reads a request.

Any page that a browser shows can send requests to 127.0.0.1, also under a name that its own name server gives this address (DNS
rebinding), and every program of the machine can connect. So a request needs the secret, must be sent to this very host, and must
come from this very page.

A browser sends cookies to every port of a host, and other ports may be somebody else's. So the cookie is of a folder that nobody
can guess, and all but the address with the token lies in it: a browser sends it nowhere else.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src data: blob: 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
    "x-frame-options": "DENY",
}
"""Sent with every answer."""
LASTS = 60.0
"""Seconds for which a token that opens the page once does so: a browser that does not start leaves it in a list of processes."""
WHERE = "Open the address that conoscope explore printed: it holds the token."


class Guard:
    """An ASGI application that refuses what has no right, and hands the rest on."""

    def __init__(self, app: App, port: int, token: str | None = None) -> None:
        self.app, self.token = app, token or secrets.token_urlsafe(32)
        self.folder = folder_of(self.token)
        self._tickets: dict[str, float] = {}
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self.cookie = f"conoscope-{port}"

    def ticket(self) -> str:
        """A token that opens the page once, within a minute."""
        made = secrets.token_urlsafe(32)
        self._tickets[made] = time.monotonic() + LASTS
        return made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        fields = _fields(scope)
        refusal = self._refusal(scope, fields)
        if refusal is None:
            await self.app(self._inside(scope), receive, _adding(send, self._headers(scope)))
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _answer(_adding(send, HEADERS), *refusal)

    def _refusal(self, scope: Scope, fields: Mapping[str, str]) -> tuple[HTTPStatus, str] | None:
        """Why a request is refused: the status and one line; None if it is not."""
        host, origin = fields.get("host", ""), fields.get("origin")
        if host not in self.hosts:
            return HTTPStatus.MISDIRECTED_REQUEST, "This is another host than the one that was asked for."
        asks = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        if origin != f"http://{host}" and not (asks and origin is None):
            return HTTPStatus.FORBIDDEN, "Only the explorer's own page may ask."
        if scope["type"] == "http" and not asks:
            return HTTPStatus.METHOD_NOT_ALLOWED, "Only GET is answered."
        if fields.get("content-length", "0") != "0" or "transfer-encoding" in fields:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "No body is read."
        return None if self._is_known(scope, fields) else (HTTPStatus.FORBIDDEN, WHERE)

    def _is_known(self, scope: Scope, fields: Mapping[str, str]) -> bool:
        """Whether the request has the secret: in the cookie, or, for the page that is opened, in the query."""
        given = _token_of(scope)
        if given is not None:
            return _is_same(given, self.token) or self._takes(given)
        if not scope["path"].startswith(self.folder):
            return False
        cookies = (pair.strip().partition("=") for pair in fields.get("cookie", "").split(";"))
        return any(name == self.cookie and _is_same(value, self.token) for name, _, value in cookies)

    def _takes(self, given: str) -> bool:
        """Whether a token is a ticket, which then is one no more."""
        ends = [self._tickets.pop(ticket) for ticket in tuple(self._tickets) if _is_same(given, ticket)]
        return any(end > time.monotonic() for end in ends)

    def _headers(self, scope: Scope) -> Mapping[str, str]:
        if _token_of(scope) is None:
            return HEADERS
        return {**HEADERS, "set-cookie": f"{self.cookie}={self.token}; Path={self.folder}; HttpOnly; SameSite=Strict"}

    def _inside(self, scope: Scope) -> Scope:
        """The request with its path in the folder."""
        path = scope["path"]
        return {**scope, "path": f"/{path.removeprefix(self.folder)}"} if path.startswith(self.folder) else scope


def folder_of(token: str) -> str:
    """The folder of a token's page, by which the token cannot be found."""
    return f"/{hashlib.sha256(f'folder of {token}'.encode()).hexdigest()[:32]}/"


def _token_of(scope: Scope) -> str | None:
    """The token in the address; only that of the page that is opened has one."""
    if scope["type"] != "http" or scope["path"] != "/":
        return None
    found = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True).get("token")
    return found[0] if found else None


def _fields(scope: Scope) -> dict[str, str]:
    """The header fields of a request; of fields that come twice nothing is believed, save cookies."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = text if key not in found else f"{found[key]}; {text}" if key == "cookie" else "given twice"
    return found


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _adding(send: Send, headers: Mapping[str, str]) -> Send:
    """`send`, which adds these header fields to an answer."""

    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *((k.encode(), v.encode()) for k, v in headers.items())]
        await send(message)

    return sending


async def _answer(send: Send, status: HTTPStatus, line: str) -> None:
    # The body that follows a refused request is never read: the connection ends.
    fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": int(status), "headers": fields})
    await send({"type": "http.response.body", "body": f"{line}\n".encode()})
