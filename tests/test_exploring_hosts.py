"""The explorer's hosts: the command, the notebook's widget, and the page that needs no server."""

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect
from websockets.asyncio.client import connect

import conoscope as cs
from commands import refusal
from conoscope.capture.text_trace import trace
from conoscope.common.errors import ConoscopeError
from conoscope.exploring import bundle, export, hosts, widget
from conoscope.exploring.export import key_of, page_of
from conoscope.exploring.frames import decoded
from conoscope.exploring.guarding import folder_of
from conoscope.exploring.replies import Reply, Turn

BUILT = Path(bundle.__file__).parent / "static" / "explorer.js"
needs_page = pytest.mark.skipif(not BUILT.is_file(), reason="the explorer's page is not built: make explorer, which needs Node")
HOSTILE = "</script><img src=x onerror=alert(1)> <!-- --> ]]> \u202e\u2028 \ud7ff the soup"


@pytest.fixture
def asking(model: Path) -> hosts.Asking:
    return hosts.opened([str(model)], words=["the soup was not good"])


def until(is_so: Any, seconds: float = 30) -> None:
    """Wait until something is so."""
    begin = time.monotonic()
    while not is_so():
        assert time.monotonic() - begin < seconds
        time.sleep(0.01)


# The command


@pytest.fixture
def started(model: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running `conoscope explore`, and the line that it printed."""
    code = "import sys; from conoscope.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "explore", str(model), "--no-browser", "--words", "the soup was good"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stdout is not None
    yield process, process.stdout.readline()
    process.kill()
    process.wait()
    process.stdout.close()
    assert process.stderr is not None
    process.stderr.close()


@needs_page
def test_the_command_serves_a_page_that_can_be_asked_and_ctrl_c_ends_it(
    started: tuple[subprocess.Popen[str], str], model: Path
) -> None:
    process, line = started
    found = re.fullmatch(r"explore: http://127\.0\.0\.1:(\d+)/\?token=([\w-]{40,})\n", line)
    assert found is not None
    port, token = found.groups()

    async def ask() -> list[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        asked = [("hello", {}), ("run", {"model": 0, "text": "the soup was good"})]
        answers = []
        options = {"origin": f"http://127.0.0.1:{port}", "additional_headers": {"Cookie": f"conoscope-{port}={token}"}}
        async with connect(f"ws://127.0.0.1:{port}{folder_of(token)}socket", **options, max_size=None, proxy=None) as socket:  # type: ignore[arg-type]
            for number, (verb, params) in enumerate(asked):
                await socket.send(json.dumps({"id": number, "verb": verb, "params": params}))
                while "progress" in (answer := decoded(await socket.recv()))[0]:  # type: ignore[arg-type]
                    pass
                answers.append(answer)
        return answers

    (hello, _), (ran, arrays) = asyncio.run(asyncio.wait_for(ask(), 60))
    assert hello["data"]["texts"][0] == "the soup was good"
    assert hello["data"]["models"][0]["layers"] == 3
    traced = trace(str(model), "the soup was good")
    assert len(ran["data"]["tokens"]) == len(traced.tokens)
    for layer in (1, 2, 3):
        np.testing.assert_allclose(arrays["weights"][layer - 1], traced["weights"][layer], atol=1e-6)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out == ""
    assert "Traceback" not in err


@needs_page
def test_another_port_of_this_machine_is_not_sent_the_cookie(
    started: tuple[subprocess.Popen[str], str], browser: Browser
) -> None:
    told: list[str | None] = []

    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.append(self.headers["Cookie"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, *said: object) -> None:
            pass

    context = browser.new_context()
    page = context.new_page()
    page.goto(started[1].removeprefix("explore: ").strip())
    expect(page.get_by_role("tab").first).to_be_visible(timeout=30_000)
    assert [cookie["name"].partition("-")[0] for cookie in context.cookies()] == ["conoscope"]
    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        for path in ("", "socket", "explorer.js"):
            page.goto(f"http://127.0.0.1:{other.server_port}/{path}")
        other.shutdown()
    assert len(told) >= 3
    assert set(told) == {None}
    context.close()


@needs_page
def test_the_page_obeys_its_policy_and_takes_the_token_out_of_its_address(
    started: tuple[subprocess.Popen[str], str], browser: Browser
) -> None:
    address = started[1].removeprefix("explore: ").strip()
    context = browser.new_context(reduced_motion="reduce")
    first, told = context.new_page(), []
    first.on("console", lambda message: told.append(message.text))
    first.on("pageerror", lambda error: told.append(str(error)))
    first.goto(address)
    expect(first.get_by_role("tab").first).to_be_visible(timeout=30_000)
    assert "token" not in first.url
    assert first.evaluate("document.cookie") == ""
    second = context.new_page()
    second.goto(first.url)
    expect(second.get_by_role("tab").first).to_be_visible()
    second.reload()
    expect(second.get_by_role("tab").first).to_be_visible()
    with first.expect_download(timeout=60_000) as saved:
        first.get_by_role("button", name="Save as page").click()
    held = replies_in(saved.value.path().read_text(encoding="utf-8"))
    assert key_of("run", {"model": 0, "text": "the soup was good"}) in held["replies"]
    assert told == []
    other = browser.new_context().new_page()
    assert (found := other.goto(first.url)) is not None
    assert found.status == 403
    context.close()


@needs_page
def test_what_a_user_gets_wrong_is_one_line(capsys: pytest.CaptureFixture[str], model: Path, tmp_path: Path) -> None:
    assert "nothing-here" in refusal(capsys, "explore", tmp_path / "nothing-here")
    (tmp_path / "empty").mkdir()
    assert "empty" in refusal(capsys, "explore", tmp_path / "empty")
    assert "is a file" in refusal(capsys, "explore", BUILT)
    assert "--text does nothing without --corpus" in refusal(capsys, "explore", model, "--text", "review")
    assert "--port does nothing together with --export" in refusal(capsys, "explore", model, "--port", 1, "--export", "x.html")
    assert "0 characters" in refusal(capsys, "explore", model, "--words", "")
    assert "cannot write" in refusal(capsys, "explore", model, "--export", tmp_path / "no" / "x.html", "--quiet")


def test_a_missing_package_and_a_missing_page_say_what_to_type(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, model: Path
) -> None:
    monkeypatch.setattr(bundle, "FOLDER", "nowhere")
    bundle.built.cache_clear()
    assert "make explorer" in refusal(capsys, "explore", model)
    with pytest.raises(ConoscopeError, match="make explorer"):
        widget.refuse_without()
    monkeypatch.undo()
    bundle.built.cache_clear()
    monkeypatch.setattr(bundle, "find_spec", lambda name: None)
    with pytest.raises(ConoscopeError, match=r"explore needs starlette, uvicorn.*pip install 'conoscope\[explore\]'"):
        bundle.refuse_missing("starlette", "uvicorn")


def test_the_page_can_show_the_command_that_opens_the_same(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    from conoscope.cli import main

    seen: list[hosts.Asking] = []
    monkeypatch.setattr("conoscope.exploring.bundle.built", lambda name: "")
    monkeypatch.setattr(hosts, "serve_page", lambda asking, *rest: seen.append(asking))
    Path("few.csv").write_text("review,stars\ngood soup,positive\nbad soup,negative\n", encoding="utf-8")
    options = ["--corpus", "few.csv", "--limit", "1", "--text", "review", "--label", "stars"]
    assert main(["explore", str(model), "--label-names", "negative,positive", *options, "--quiet"]) == 0
    assert seen[0].session.opened.paths == (str(model), *options, "--label-names", "negative,positive")
    assert [example.text for example in seen[0].session.opened.corpus or ()] == ["good soup"]


# The notebook


def echo(verb: str, params: Any, turn: Turn) -> Reply:
    """A small session: it echoes, or lasts until it is taken back."""
    while verb == "slow":
        turn.check()
        time.sleep(0.002)
    return Reply({"verb": verb, **params}, {"numbers": np.arange(3, dtype=np.float32)})


class Sent:
    """A widget whose messages are kept."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, dict[str, Any]]] = []

    def send(self, content: Any, buffers: list[bytes]) -> None:
        self.sent.append((content, decoded(buffers[0])[0]))


def test_views_of_a_widget_are_pages_with_requests_of_their_own() -> None:
    talk, sent = widget.Talk(echo), Sent()
    for name in ("one", "other"):
        talk.take(sent, {"page": name, "request": {"id": 1, "verb": "echo", "params": {"of": name}}})
    until(lambda: len(sent.sent) == 2)
    assert [(content, header["data"]["of"]) for content, header in sent.sent] == [
        ({"page": "one"}, "one"),
        ({"page": "other"}, "other"),
    ]
    talk.take(sent, {"page": "one", "request": {"id": 2, "verb": "slow"}})
    talk.take(sent, {"page": "one", "request": {"cancel": 2}})
    until(lambda: len(sent.sent) == 3)
    assert sent.sent[-1] == ({"page": "one"}, {"id": 2, "cancelled": True})
    talk.take(sent, {"page": "one", "request": {"id": 3, "verb": "slow"}})
    talk.take(sent, {"page": "one", "closed": True})
    talk.take(sent, {"page": "other", "request": {"id": 4, "verb": "echo"}})
    until(lambda: len(sent.sent) == 4)
    assert sent.sent[-1][0] == {"page": "other"}
    talk.close()


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        "x",
        {},
        {"page": 1},
        {"page": ""},
        {"page": "x" * 1000},
        {"page": "a", "request": None},
        {"page": "a", "request": {"id": []}},
    ],
)
def test_a_message_that_is_no_request_does_no_harm(content: Any) -> None:
    talk, sent = widget.Talk(echo), Sent()
    talk.take(sent, content)
    talk.take(sent, {"page": "b", "request": {"id": 1, "verb": "echo"}})
    until(lambda: any(header.get("ok") for _, header in sent.sent))
    assert all(header["ok"] or "\n" not in header["error"] for _, header in sent.sent)
    talk.close()


@needs_page
def test_the_widget_answers_messages_of_its_front_end_with_frames(
    monkeypatch: pytest.MonkeyPatch, asking: hosts.Asking, model: Path
) -> None:
    shown = widget.widget(asking)
    sent: list[tuple[Any, bytes]] = []
    monkeypatch.setattr(shown, "send", lambda content, buffers: sent.append((content, buffers[0])))
    request = {"id": 5, "verb": "answer", "params": {"model": 0, "text": "the soup was good"}}
    shown._handle_custom_msg({"page": "view", "request": request}, [])
    until(lambda: any("progress" not in decoded(frame)[0] for _, frame in sent))
    content, frame = sent[-1]
    assert content == {"page": "view"}
    expected = cs.explain(str(model), "the soup was good").probabilities
    np.testing.assert_allclose(decoded(frame)[0]["data"]["probabilities"], list(expected.values()), atol=1e-6)
    assert "export" in shown._esm
    shown.close()


NOTEBOOK = """<!DOCTYPE html><meta charset="utf-8"><div id="cell"></div><script type="module">
import widget from "/widget.js";
const listeners = new Set();
const model = {
  send: (content) => window.ask(content),
  on: (_, heard) => listeners.add(heard),
  off: (_, heard) => listeners.delete(heard),
};
window.hear = (content, frame) => {
  const bytes = Uint8Array.from(atob(frame), (one) => one.charCodeAt(0));
  for (const heard of listeners) heard(content, [new DataView(bytes.buffer)]);
};
window.leave = widget.render({ model, el: document.getElementById("cell") });
</script>"""
"""What a notebook does with a widget."""


@needs_page
def test_the_widget_draws_in_a_page_that_hands_its_messages_on(browser: Browser, asking: hosts.Asking) -> None:
    talk, sent, asked = widget.Talk(asking), Sent(), []
    sent.send = lambda content, buffers: asked.append((content, base64.b64encode(buffers[0]).decode()))  # type: ignore[method-assign]
    page, told = browser.new_page(), []
    page.on("console", lambda message: told.append(message.text))
    page.on("pageerror", lambda error: told.append(str(error)))
    page.expose_function("ask", lambda content: talk.take(sent, content))
    served = {"/": ("text/html", NOTEBOOK), "/widget.js": ("text/javascript", bundle.built("widget.js"))}

    def answered(route: Any) -> None:
        kind, body = served.get(route.request.url.removeprefix("http://notebook.test"), ("text/plain", ""))
        route.fulfill(content_type=kind, body=body)

    page.route("**/*", answered)
    page.goto("http://notebook.test/")
    begin = time.monotonic()
    while not page.get_by_role("tab").count() or not page.locator("canvas, svg").count():
        page.wait_for_timeout(20)
        while asked:
            page.evaluate("([content, frame]) => hear(content, frame)", asked.pop(0))
        assert time.monotonic() - begin < 30, told
    page.evaluate("leave()")
    page.wait_for_timeout(50)
    assert not talk._pages
    assert told == []
    talk.close()
    page.close()


def test_explore_is_a_widget_in_a_notebook_and_a_local_page_elsewhere(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(hosts, "serve_page", lambda asking, port, browse: seen.append((asking.words, port, browse)))
    assert cs.explore(str(model), words="a soup", port=1, browser=False) is None
    assert seen == [(("a soup",), 1, None)]
    monkeypatch.setattr(hosts, "in_notebook", lambda: True)
    monkeypatch.setattr(widget, "refuse_without", lambda: None)
    monkeypatch.setattr(widget, "widget", lambda asking, ended: asking.session.opened.models[0].name)
    assert cs.explore([str(model)]) == str(model)


def test_explore_takes_models_and_results_in_any_form(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    seen: list[hosts.Asking] = []
    monkeypatch.setattr(hosts, "serve_page", lambda asking, *rest: seen.append(asking))
    loaded = cs.load_model(model)
    result = cs.measure(loaded, "bistro:test", "sim", limit=4)
    cs.explore((loaded.module, loaded.tokenizer))
    cs.explore([loaded, result])
    result.explore()
    assert [len(one.session.opened.models) for one in seen[:2]] == [1, 1]
    assert [len(one.session.opened.results) for one in seen] == [0, 1, 1]
    with pytest.raises(ConoscopeError, match="nothing to explore"):
        cs.explore([])


def test_a_kernel_of_jupyter_is_a_notebook_and_a_terminal_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not hosts.in_notebook()
    for shell, expected in ((None, False), (SimpleNamespace(), False), (SimpleNamespace(kernel=object()), True)):
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda shell=shell: shell))
        assert hosts.in_notebook() is expected


def test_a_browser_is_opened_where_there_is_a_screen_with_an_address_that_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("webbrowser.open_new_tab", seen.append)
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    hosts.browse("http://127.0.0.1:1/?token=a")
    assert seen == []
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    hosts.browse("http://127.0.0.1:1/?token=a")
    assert seen == ["http://127.0.0.1:1/?token=a"]


def test_importing_the_explorer_imports_neither_its_server_nor_its_widget() -> None:
    code = (
        "import sys, conoscope.exploring, conoscope.exploring.hosts, conoscope.exploring.server, conoscope.exploring.widget; "
        "print(sorted({'starlette', 'uvicorn', 'websockets', 'anywidget', 'IPython', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.strip() == "[]"


# The page that needs no server


def replies_in(page: str) -> dict[str, Any]:
    """What the page's element of replies holds."""
    found = re.search(r'<script type="application/json" id="replies">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    replies: dict[str, Any] = json.loads(found[1])
    return replies


@pytest.mark.parametrize(
    ("verb", "params", "key"),
    [
        ("hello", {}, '["hello",{}]'),
        ("run", {"text": "a", "model": 0, "pair": None, "edits": {}}, '["run",{"model":0,"text":"a"}]'),
        ("run", {"edits": {"erase": [], "replace": {}}, "text": "é\u2028"}, '["run",{"text":"é\u2028"}]'),
        ("cones", {"centred": False, "result": 0}, '["cones",{"result":0}]'),
        ("run", {"edits": {"erase": [0], "ablate": [[2, 5]]}}, '["run",{"edits":{"ablate":[[2,5]],"erase":[0]}}]'),
    ],
)
def test_the_key_of_a_request_leaves_out_what_is_empty(verb: str, params: dict[str, Any], key: str) -> None:
    assert key_of(verb, params) == key


@needs_page
def test_the_page_holds_the_replies_that_its_views_ask_for(asking: hosts.Asking, model: Path) -> None:
    page, notes = page_of(asking, Turn())
    assert re.match(r"\d+\.\d MB with 1 text$", notes[0])
    held = replies_in(page)
    assert held["command"] == f"conoscope explore {model}"
    frames = {key: decoded(base64.b64decode(frame)) for key, frame in held["replies"].items()}
    hello, _ = frames[key_of("hello", {})]
    assert hello["data"]["texts"] == ["the soup was not good"]
    given = {"model": 0, "text": "the soup was not good"}
    ran, arrays = frames[key_of("run", given)]
    assert ran["ok"]
    np.testing.assert_allclose(arrays["weights"][2], trace(str(model), given["text"])["weights"][3], atol=1e-6)
    for method in hello["data"]["methods"]:
        assert key_of("words", {**given, "method": method["name"]}) in frames


@needs_page
def test_a_page_is_as_large_as_allowed_and_says_what_has_no_room(asking: hosts.Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "ROOM", 6000)
    page, notes = page_of(asking, Turn())
    held = replies_in(page)
    assert sum(len(base64.b64decode(frame)) for frame in held["replies"].values()) <= 6000
    assert any("no room" in note for note in notes[1:])
    assert notes[1:] == held["notes"][1:]


@needs_page
def test_no_text_or_label_ends_the_element_of_the_replies(model: Path) -> None:
    page, _ = page_of(hosts.opened([str(model)], words=[HOSTILE]), Turn())
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert "<!-- -->" not in page
    assert key_of("run", {"model": 0, "text": HOSTILE}) in replies_in(page)["replies"]


@needs_page
def test_a_cancelled_export_ends(asking: hosts.Asking) -> None:
    from conoscope.exploring.replies import Cancelled

    turn = Turn()
    asking("hello", {}, Turn())
    turn.stop.set()
    with pytest.raises(Cancelled):
        page_of(asking, turn)


@needs_page
def test_the_page_of_a_verb_is_that_of_the_texts_on_screen(asking: hosts.Asking) -> None:
    reply = asking("export", {"state": {"text": "a soup", "other": HOSTILE, "tab": 7}}, Turn())
    page = reply.arrays["page"].tobytes().decode()
    assert decoded(base64.b64decode(replies_in(page)["replies"]['["hello",{}]']))[0]["data"]["texts"] == ["a soup", HOSTILE]
    assert reply.data["file name"].endswith(".html")
    assert asking("export", {"state": "nonsense"}, Turn()).arrays["page"].size


@needs_page
def test_an_export_opens_from_disk_without_network_and_draws(browser: Browser, model: Path, tmp_path: Path) -> None:
    named = tmp_path / "<b onclick=alert(1)>model"
    shutil.copytree(model, named)
    config = json.loads((named / "config.json").read_text(encoding="utf-8"))
    config |= {"id2label": {"0": HOSTILE, "1": "</textarea><svg onload=alert(1)>"}}
    config["label2id"] = {label: int(number) for number, label in config["id2label"].items()}
    (named / "config.json").write_text(json.dumps(config), encoding="utf-8")
    texts = [
        cs.Example(f"{HOSTILE} {number}", config["id2label"][str(number % 2)], id=f"{HOSTILE}{number}") for number in range(12)
    ]
    corpus = cs.Corpus.of(texts, HOSTILE)
    result = cs.measure(str(named), corpus, ["class_cones", "sim", "gates", "attention_entropy"])
    asking = hosts.opened([result], corpus, words=[HOSTILE, "the soup was good"])
    path = hosts.write_page(asking, tmp_path / "page.html")
    context = browser.new_context(offline=True, reduced_motion="reduce")
    shown, told = context.new_page(), []
    shown.on("request", lambda request: told.append(request.url) if request.url != path.as_uri() else None)
    shown.on("console", lambda message: told.append(message.text))
    shown.on("pageerror", lambda error: told.append(str(error)))
    shown.on("dialog", lambda dialog: (told.append(dialog.message), dialog.dismiss()))
    shown.goto(path.as_uri())
    expect(shown.get_by_role("tab").first).to_be_visible()
    assert shown.locator("canvas, svg").count() > 0
    for number in range(shown.get_by_role("tab").count()):
        shown.get_by_role("tab").nth(number).click()
        shown.wait_for_timeout(200)
        assert shown.locator("#explorer").inner_text().strip()
        assert shown.locator("#explorer img[onerror], #explorer script").count() == 0
    # What a driver without a graphics card says of its speed is no error.
    assert [one for one in told if not one.startswith(("data:", "blob:")) and "GL Driver Message" not in one] == []
    context.close()


@needs_page
def test_the_command_writes_the_page(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from conoscope.cli import main

    assert main(["explore", str(model), "--export", "page.html", "--words", "good soup"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "page.html\n"
    assert " MB with 1 text" in captured.err
    assert "good soup" in replies_in(Path("page.html").read_text(encoding="utf-8"))["replies"].__str__()
    assert os.path.getsize("page.html") < 40 << 20
