"""The explorer's server answers its own page alone, and nothing that a page sends stops it for the others."""

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import uvicorn
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from conoscope.common.errors import ConoscopeError
from conoscope.exploring import bundle, guarding, server
from conoscope.exploring.frames import decoded
from conoscope.exploring.guarding import POLICY, Guard, folder_of
from conoscope.exploring.replies import Reply, Turn

TOKEN = "a-token-that-only-the-page-knows"
FOLDER = folder_of(TOKEN)
HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e\x00"


def answering(verb: str, params: Mapping[str, Any], turn: Turn) -> Reply:
    """A small session: it echoes, it is slow, it fails."""
    if verb == "echo":
        return Reply(dict(params), {"numbers": np.arange(3, dtype=np.float32)})
    if verb == "slow":
        for _ in range(1000):
            turn.check()
            time.sleep(0.01)
    if verb == "refuse":
        raise ConoscopeError(f"no such thing: {params.get('text')}")
    if verb == "big":
        return Reply({}, {"zeros": np.zeros(8 << 20, np.uint8)})
    raise ZeroDivisionError(HOSTILE)


@pytest.fixture(scope="module")
def port(served: list[str]) -> int:
    """The port of a running server."""
    return int(served[0].split(":")[2].split("/")[0])


@pytest.fixture(scope="module")
def once(served: list[str]) -> str:
    """The address that opens the page once."""
    return served[1]


@pytest.fixture(scope="module")
def served() -> Iterator[list[str]]:
    """The addresses of a running server."""
    found: list[str] = []
    opened = threading.Event()
    texts = {"explorer.js": "// the page's script", "explorer.css": "body {}", "LICENSES.txt": "licences"}
    patch = pytest.MonkeyPatch()
    patch.setattr(server, "built", texts.__getitem__)
    running: list[Any] = []

    class Watched(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            running.append(self)

    patch.setattr(uvicorn, "Server", Watched)
    thread = threading.Thread(target=server.serve, args=(answering, 0, lambda *urls: (found.extend(urls), opened.set()), TOKEN))
    thread.start()
    assert opened.wait(20)
    yield found
    running[0].should_exit = True
    thread.join(10)
    patch.undo()
    assert not thread.is_alive()


def asked(
    port: int,
    path: str,
    method: str = "GET",
    host: str | None = None,
    body: bytes | None = None,
    cookie: bool = True,
    **fields: str,
) -> tuple[int, dict[str, str], bytes]:
    """The status, the header fields and the body of one answer; `path` is in the page's folder, unless it holds a token."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    headers = {"Host": host or f"127.0.0.1:{port}", **{name.replace("_", "-"): value for name, value in fields.items()}}
    if cookie and "Cookie" not in fields:
        headers["Cookie"] = f"conoscope-{port}={TOKEN}"
    with suppress(BrokenPipeError, ConnectionResetError):  # the server need not read a body that it refuses
        inside = f"{FOLDER}{path[1:]}" if path.startswith("/") and not path.startswith("/?") else path
        connection.putrequest(method, inside, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def talked(port: int, talk: Callable[[Any], Awaitable[Any]], **given: Any) -> Any:
    """What a conversation through one socket returns."""

    async def run() -> Any:
        async with connect(f"ws://127.0.0.1:{port}{FOLDER}socket", **socket_options(port, **given)) as socket:
            return await asyncio.wait_for(talk(socket), 20)

    return asyncio.run(run())


def socket_options(port: int, origin: str | None = "own", cookie: str | None = TOKEN) -> dict[str, Any]:
    """What the page's own socket sends, unless another is given."""
    return {
        "origin": f"http://127.0.0.1:{port}" if origin == "own" else origin,
        "additional_headers": {} if cookie is None else {"Cookie": f"conoscope-{port}={cookie}"},
        "max_size": None,
        "proxy": None,
    }


async def answer_of(socket: Any, number: int | None) -> dict[str, Any]:
    """The header of the answer to the request of this number."""
    while True:
        header, arrays = decoded(await socket.recv())
        if header["id"] == number and "progress" not in header:
            return {**header, "read": arrays}


def request(number: int, verb: str, **params: Any) -> str:
    """A request as JSON."""
    return json.dumps({"id": number, "verb": verb, "params": params})


async def echoed(socket: Any, number: int = 99) -> dict[str, Any]:
    """The answer to an echo: the server still works."""
    await socket.send(request(number, "echo", text="still here"))
    return await answer_of(socket, number)


def test_the_token_opens_the_page_and_leaves_a_cookie_that_scripts_cannot_read(port: int) -> None:
    status, fields, page = asked(port, f"/?token={TOKEN}", cookie=False)
    assert status == 200
    assert f'<div id="explorer" data-host="live" data-folder="{FOLDER}">'.encode() in page
    name, _, rest = fields["set-cookie"].partition("=")
    assert name == f"conoscope-{port}"
    assert {part.strip() for part in rest.split(";")} >= {TOKEN, "HttpOnly", "SameSite=Strict"}
    assert asked(port, "/explorer.js")[0] == 200
    assert TOKEN.encode() not in page


def test_the_cookie_goes_to_no_other_port_of_this_machine_since_none_knows_its_folder(port: int) -> None:
    cookie = asked(port, f"/?token={TOKEN}", cookie=False)[1]["set-cookie"]
    assert f"Path={FOLDER};" in cookie
    assert len(FOLDER) > 32
    assert not any(part in TOKEN for part in FOLDER.split("/") if part)
    # A cookie that arrived elsewhere, as if its path were /, opens nothing there.
    for target in ("", FOLDER[:-2], "explorer.js", "socket", "?", FOLDER[1:].upper()):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", f"/{target}".replace("//", "/"), headers={"Cookie": f"conoscope-{port}={TOKEN}"})
        assert connection.getresponse().status == 403
        connection.close()


def test_every_answer_forbids_what_the_page_does_not_need(port: int) -> None:
    for path in (f"/?token={TOKEN}", "/explorer.js", "/nothing"):
        fields = asked(port, path)[1]
        assert fields["content-security-policy"] == POLICY
        assert fields["x-content-type-options"] == "nosniff"
        assert fields["referrer-policy"] == "no-referrer"
        assert fields["cache-control"] == "no-store"
        assert fields["cross-origin-opener-policy"] == fields["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in fields


@pytest.mark.parametrize(
    "path", ["/", "/explorer.js", "/LICENSES.txt", "/nothing", "/?token=", "/?token=wrong", "/explorer.js?token={}"]
)
def test_nothing_is_answered_without_the_token(port: int, path: str) -> None:
    for cookie in ({}, {"Cookie": f"conoscope-{port}=wrong"}, {"Cookie": f"conoscope-{port + 1}={TOKEN}"}):
        status, fields, body = asked(port, path.format(TOKEN), cookie=False, **cookie)
        assert status == 403
        assert "set-cookie" not in fields
        assert TOKEN.encode() not in body


def test_what_a_browser_is_started_with_opens_the_page_once_so_that_a_list_of_processes_gives_nothing_away(
    port: int, once: str
) -> None:
    path = "/" + once.split("/")[3]
    assert TOKEN not in once
    first = asked(port, path, cookie=False)
    assert first[0] == 200
    assert TOKEN in first[1]["set-cookie"]
    assert asked(port, path, cookie=False)[0] == 403
    assert asked(port, "/")[0] == 200


def test_what_a_browser_was_started_with_opens_nothing_after_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    async def page(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    def opened(ticket: str) -> int:
        scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", b"127.0.0.1:1")]}
        sent.clear()
        asyncio.run(guard({**scope, "query_string": f"token={ticket}".encode()}, None, send))  # type: ignore[arg-type]
        return int(sent[0]["status"])

    guard = Guard(page, 1)
    now = time.monotonic()
    early, late = guard.ticket(), guard.ticket()
    monkeypatch.setattr(guarding.time, "monotonic", lambda: now + 0.9 * guarding.LASTS)
    assert opened(early) == 200
    monkeypatch.setattr(guarding.time, "monotonic", lambda: now + 1.1 * guarding.LASTS)
    assert opened(late) == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{}", "[::1]:{}"]
)
def test_another_host_is_refused_as_when_a_name_is_bound_anew(port: int, host: str) -> None:
    assert asked(port, f"/?token={TOKEN}", host=host.format(port))[0] == 421


def test_localhost_is_this_machine_too(port: int) -> None:
    assert asked(port, f"/?token={TOKEN}", host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{}", "http://localhost:{}"]
)
def test_a_foreign_origin_is_refused(port: int, origin: str) -> None:
    assert asked(port, "/explorer.js", Origin=origin.format(port))[0] == 403
    assert asked(port, "/", "POST", Origin=origin.format(port))[0] == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_only_get_is_answered(port: int, method: str) -> None:
    assert asked(port, "/", method)[0] == 403
    assert asked(port, "/", method, Origin=f"http://127.0.0.1:{port}")[0] == 405


def test_a_body_of_ten_megabytes_is_not_read(port: int) -> None:
    begin = time.monotonic()
    assert asked(port, "/", "POST", body=bytes(10 << 20), Origin=f"http://127.0.0.1:{port}")[0] == 405
    assert asked(port, "/", "GET", body=bytes(10 << 20))[0] == 413
    assert asked(port, "/", Transfer_Encoding="chunked")[0] == 413
    assert time.monotonic() - begin < 5
    assert asked(port, "/")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/../pyproject.toml",
            "/../../../../etc/passwd",
            "/%2e%2e/%2e%2e/etc/passwd",
            "/..%2f..%2fetc%2fpasswd",
            "//etc/passwd",
        ),
        *(
            "/etc/passwd",
            "/%00",
            "/explorer.js%00.html",
            "/static/explorer.js",
            "/./explorer.css/../server.py",
            "/%5c..%5cserver.py",
        ),
        *("/explorer.js/", "/__init__.py", "/%ff%fe", "http://evil.example/explorer.js", "/" + "a" * 10_000),
    ],
)
def test_no_path_leads_to_a_file_that_is_not_in_the_table(port: int, path: str) -> None:
    status, _, body = asked(port, path)
    assert status == (404 if path.startswith("/") else 403)
    assert b"root:" not in body
    assert b"import" not in body


@pytest.mark.parametrize(
    "given",
    [
        {"origin": "http://evil.example"},
        {"origin": None},
        {"origin": "null"},
        {"cookie": None},
        {"cookie": "wrong"},
        {"cookie": ""},
    ],
)
def test_a_socket_from_elsewhere_is_refused_before_it_opens(port: int, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidStatus) as refused:
        talked(port, echoed, **given)
    assert refused.value.response.status_code == 403


def test_the_token_in_the_address_opens_no_socket(port: int) -> None:
    async def run() -> None:
        async with connect(f"ws://127.0.0.1:{port}{FOLDER}socket?token={TOKEN}", **socket_options(port, cookie=None)):
            pass

    with pytest.raises(InvalidStatus):
        asyncio.run(run())


def test_a_request_is_answered_with_data_and_arrays(port: int) -> None:
    found = talked(port, echoed)
    assert found["ok"]
    assert found["data"] == {"text": "still here"}
    assert found["read"]["numbers"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "message",
    [
        *(
            "",
            "{",
            "[]",
            "null",
            "7",
            '"hello"',
            "{}",
            '{"id": 1}',
            '{"id": "1", "verb": "echo"}',
            '{"id": true, "verb": "echo"}',
        ),
        *(
            '{"id": -1, "verb": "echo"}',
            '{"id": 1e400, "verb": "echo"}',
            '{"id": 1, "verb": 5}',
            '{"id": 1, "verb": "echo", "params": []}',
        ),
        *('{"id": 1, "verb": "echo", "params": {"a": NaN}}', '{"id": 1, "verb": "echo", "lane": {}}', '{"cancel": "all"}'),
        *(
            "[" * 60_000,
            '{"a":' * 10_000,
            '{"id": 1, "verb": "' + "v" * 1000 + '"}',
            '{"id": ' + "9" * 5000 + ', "verb": "echo"}',
        ),
        b"\x00\xff",
    ],
)
def test_what_is_no_request_is_refused_in_one_line(port: int, message: str | bytes) -> None:
    async def talk(socket: Any) -> None:
        await socket.send(message)
        header, _ = decoded(await socket.recv())
        assert header["ok"] is False
        assert header["id"] in (None, 1)
        assert "\n" not in header["error"]
        assert (await echoed(socket))["ok"]

    talked(port, talk)


def test_a_text_of_a_hundred_thousand_characters_is_refused(port: int) -> None:
    async def long(socket: Any) -> None:
        await socket.send(request(1, "echo", text="a" * 20_001))
        refused = await answer_of(socket, 1)
        assert "at most 20,000" in refused["error"]
        await socket.send(request(2, "echo", text="a" * 20_000))
        assert (await answer_of(socket, 2))["ok"]

    async def longer(socket: Any) -> None:
        await socket.send(request(1, "echo", text="a" * 100_000))
        with pytest.raises(ConnectionClosed) as ended:
            await socket.recv()
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1009

    talked(port, long)
    talked(port, longer)
    assert talked(port, echoed)["ok"]


def test_half_of_an_emoji_is_replaced_before_a_tokenizer_meets_it(port: int) -> None:
    async def talk(socket: Any) -> dict[str, Any]:
        await socket.send('{"id": 1, "verb": "echo", "params": {"text": "a \\ud83d b \\ud83d\\ude00"}}')
        return await answer_of(socket, 1)

    assert talked(port, talk)["data"] == {"text": "a \ufffd b \U0001f600"}


def test_what_a_user_causes_is_one_line_and_a_bug_says_nothing_of_itself(port: int, capfd: pytest.CaptureFixture[str]) -> None:
    async def talk(socket: Any) -> list[str]:
        await socket.send(request(1, "refuse", text=f"{HOSTILE}\n\nsecond line"))
        await socket.send(request(2, "bug"))
        return [(await answer_of(socket, number))["error"] for number in (1, 2)]

    refused, broken = talked(port, talk)
    assert refused.startswith("no such thing")
    assert refused.isprintable()
    assert "ZeroDivisionError" in broken
    assert "alert" not in broken
    printed = capfd.readouterr().err
    assert "Traceback" in printed
    assert "\x1b" not in printed


def test_a_page_that_does_not_read_keeps_no_other_waiting(port: int) -> None:
    async def run() -> int:
        url = f"ws://127.0.0.1:{port}{FOLDER}socket"
        async with connect(url, **socket_options(port), max_queue=1) as stuck, connect(url, **socket_options(port)) as other:
            for number in range(40):
                await stuck.send(request(number, "big"))
            begin = time.monotonic()
            assert (await asyncio.wait_for(echoed(other), 5))["ok"]
            assert time.monotonic() - begin < 2
            await asyncio.sleep(1.5)
            read = 0
            with suppress(ConnectionClosed):
                while True:
                    await asyncio.wait_for(stuck.recv(), 5)
                    read += 1
            return read

    assert asyncio.run(run()) < 40


def test_pages_and_their_requests_are_limited(port: int) -> None:
    async def run() -> None:
        url, options = f"ws://127.0.0.1:{port}{FOLDER}socket", socket_options(port)
        open_ = [await connect(url, **options) for _ in range(server.PAGES)]
        for socket in open_:
            assert (await echoed(socket))["ok"]
        last = await connect(url, **options)
        assert "already" in decoded(await last.recv())[0]["error"]
        with pytest.raises(ConnectionClosed):
            await last.recv()
        for number in range(200):
            await open_[0].send(request(number, "slow"))
        refused = 0
        while refused < 200 - 65:
            header = decoded(await asyncio.wait_for(open_[0].recv(), 5))[0]
            assert "wait already" in header["error"]
            refused += 1
        for socket in open_:
            await socket.close()
        await asyncio.sleep(0.2)
        async with connect(url, **options) as socket:
            assert (await asyncio.wait_for(echoed(socket), 5))["ok"]

    asyncio.run(run())


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: "])
def test_connections_that_do_not_ask_make_room_for_those_that_do(port: int, said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def talk(page: Any) -> None:
        monkeypatch.setattr(server, "PATIENCE", 0.2)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(server.CONNECTIONS)]
        for _, writer in silent:
            writer.write(said)
        for reader, writer in silent:
            assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
        assert (await asyncio.to_thread(asked, port, "/"))[0] == 200
        assert (await echoed(page))["ok"]

    talked(port, talk)


def test_a_port_that_is_taken_is_one_line(port: int) -> None:
    with pytest.raises(ConoscopeError, match=f"^port {port} cannot be listened on: .*give --port another number"):
        server.serve(answering, port, lambda *urls: None)


def test_a_front_end_that_is_not_built_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "FOLDER", "nowhere")
    monkeypatch.setattr(server, "built", bundle.built)
    bundle.built.cache_clear()
    with pytest.raises(ConoscopeError, match=r"front end is not built.*make explorer"):
        server.serve(answering, 0, lambda *urls: None)
    bundle.built.cache_clear()
