"""Nobody gets in who should not, nothing gets out that should not, and nothing that is sent brings it down."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import socket
import threading
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from nearsay.cli.serving import listening
from nearsay.errors import InputError, StorageError
from nearsay.web.app import make_app
from nearsay.web.content import served_collection as serving
from nearsay.web.content.batched_questions import QuestionBatcher
from nearsay.web.content.served_collection import Overloaded, ServedCollection
from nearsay.web.openapi import document
from nearsay.web.parameters import PageRoute
from nearsay.web.schema import REAL, ROWS, check, example_of, mapping, nullable, one_of, record, several, text, whole
from nearsay.web.server.gate import BodyLimits
from tests.command_line import run
from tests.served_collections import (
    EVIL,
    TOKEN,
    as_png,
    client_of,
    numbers_collection,
    picture_collection,
    served,
    shade,
)


@pytest.fixture
def heaps(tmp_path):
    with numbers_collection(tmp_path) as collection:
        yield collection


@pytest.fixture
def client(heaps):
    return client_of(heaps)


def without_token(collection, **options):
    found = client_of(collection, **options)
    found.headers.pop("Authorization")
    return found


# ------------------------------------------------------------------ the door


FOREIGN = ["evil.com", "127.0.0.1.evil.com", "localhost.evil.com", "evil.com:80", "", "localhost@evil.com",
           "evil@localhost", "localhost/x", "localhost:", "localhost:x", "[::1", "[::1].evil.com", "localhost ",
           "localhost\\evil.com", "127.0.0.1:80:90", "[evil.com]"]  # fmt: skip
OURS = ["localhost", "LOCALHOST", "localhost:8017", "127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:8017", "10.0.0.7:80"]


@pytest.mark.parametrize(("hosts", "status"), [(FOREIGN, 400), (OURS, 200)])
def test_this_machine_is_known_under_its_names_and_others_are_refused_even_with_the_token(client, hosts, status):
    assert {host: client.get("/ask", headers={"Host": host}).status_code for host in hosts} == dict.fromkeys(
        hosts, status
    )


def test_a_name_that_was_given_is_known_however_it_is_written(heaps):
    app = make_app(heaps, TOKEN, ("Birds.local",))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    found = TestClient(app, base_url="http://birds.LOCAL", headers=headers)
    assert found.get("/ask").status_code == 200


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer "},
                                     {"Authorization": f"Basic {TOKEN}"}, {"Cookie": "nearsay-80=wrong"},
                                     {"Cookie": f"nearsay-80={TOKEN}"}, {"Cookie": "nearsay-80"}])  # fmt: skip
def test_without_the_token_nothing_is_shown(heaps, headers):
    client = without_token(heaps)
    for path in ("/", "/ask", "/ask.json", "/picture?id=x", "/openapi.json", "/static/nearsay.js"):
        answer = client.get(path, headers=headers, follow_redirects=False)
        assert answer.status_code == 403
        assert "heaps" not in answer.text


def test_the_token_becomes_a_cookie_and_leaves_the_address(heaps):
    client = without_token(heaps)
    assert client.get("/ask?token=wrong").status_code == 403
    answer = client.get(f"/ask?token={TOKEN}&accuracy=0.8", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/ask?accuracy=0.8")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in cookie
    assert client.get("/ask").status_code == 200


def test_pages_at_two_ports_of_one_machine_do_not_log_each_other_out(heaps):
    jar = {}  # a browser keeps cookies by host, whatever the port
    ports = (8017, 8018)
    pages = [TestClient(make_app(heaps, f"{TOKEN}{port}"), base_url=f"http://localhost:{port}") for port in ports]
    for port, page in zip(ports, pages, strict=True):
        page.cookies.update(jar)
        page.get(f"/ask?token={TOKEN}{port}")
        jar |= page.cookies
    for page in pages:
        page.cookies.update(jar)
        assert page.get("/ask").status_code == 200


def test_the_token_leads_to_no_other_host(heaps):
    answer = without_token(heaps).get(f"//evil.com/x?token={TOKEN}", follow_redirects=False)
    assert not answer.headers["location"].startswith("//")


@pytest.mark.parametrize("token", [TOKEN, None])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://evil.com"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    ],
)
def test_another_site_changes_nothing_even_with_the_cookie(heaps, token, headers):
    client = client_of(heaps, token)
    if token:
        client.headers.pop("Authorization")
        client.get(f"/ask?token={token}")
    version = heaps.version
    answer = client.post("/change.json", data={"id": "row 0", "label": "x"}, headers=headers)
    assert (answer.status_code, heaps.version) == (403, version)
    ours = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    assert client.post("/change.json", data={"id": "row 0", "label": "x"}, headers=ours).status_code == 200


def test_the_page_is_not_opened_to_others_without_a_token(tmp_path):
    for host in ("0.0.0.0", "::", "192.168.0.2"):
        done = run("serve", str(tmp_path), "--host", host, "--no-token")
        assert done.exit_code != 0
        assert "no-token" in str(done.exception) + done.output


@pytest.mark.parametrize("path", ["/ask", "/ask.json", "/nowhere", "/static/nearsay.css", "/ask?accuracy=x"])
def test_every_answer_keeps_other_sites_out(client, path):
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert not [name for name in headers if name.startswith("access-control")]
    assert "unsafe" not in headers["content-security-policy"]


def test_after_a_change_nobody_is_led_to_another_host(client):
    for back in ("//evil.com", "https://evil.com", "/\\evil.com", "\t//evil.com", "/\t/evil.com", "evil.com"):
        sent = {"id": "row 1", "do": "confirm", "back": back}
        to = client.post("/change", data=sent, follow_redirects=False).headers["location"]
        assert to.startswith("/")
        assert not to.startswith(("//", "/\\", "/\t"))


# ------------------------------------------------------------------ pictures


def test_no_file_outside_the_folder_is_shown(shades, tmp_path):
    secret = tmp_path / "secret.png"
    shade("red", 0).save(secret)
    folder = shades.store.settings["pictures"]
    os.symlink(secret, f"{folder}/link.png")
    os.symlink(tmp_path, f"{folder}/linked")
    paths = {"dots": f"../{os.path.relpath(secret, folder)}", "whole": str(secret), "link": "link.png",
             "folder link": "linked/secret.png", "null": "red\0.png", "back": "..\\..\\secret.png"}  # fmt: skip
    x = shades.store.vectors([0])
    shades.add(
        [*paths], np.repeat(x, len(paths), axis=0), ["red"] * len(paths), details=[{"path": p} for p in paths.values()]
    )
    client = client_of(shades)
    assert client.get("/picture", params={"id": "red/red-0.png"}).status_code == 200
    for id in [*paths, "../secret.png", str(secret), "nowhere"]:
        assert client.get("/picture", params={"id": id}).status_code == 404
    shades.undo(sure=True)


def test_a_small_copy_has_nothing_but_pixels(shades):
    exif = Image.Exif()
    exif[0x010E] = "where I live"
    content = as_png(shade("red", 3), format="JPEG", exif=exif, icc_profile=b"where I live", comment=b"where I live")
    client = client_of(shades)
    key = client.post("/ask.json", files={"picture": ("x.jpg", content)}).json()["question"]["key"]
    shown = client.get("/picture", params={"question": key}).content
    assert b"where I live" not in shown
    opened = Image.open(io.BytesIO(shown))
    assert (opened.format, dict(opened.getexif()), "icc_profile" in opened.info) == ("PNG", {}, False)


SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@pytest.mark.parametrize(
    "content",
    [SVG, b"<html></html>", b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", b"%PDF-1.4", as_png(shade("red", 0), format="TIFF"),
     as_png(shade("red", 0), format="ICO"), as_png(shade("red", 0))[:60]],
)  # fmt: skip
def test_what_is_no_picture_of_a_known_kind_is_refused_without_a_path(shades, content):
    answer = client_of(shades).post("/ask.json", files={"picture": ("../../x.svg", content)})
    assert answer.status_code == 400
    assert "x.svg" in answer.json()["error"]
    assert "/" not in answer.json()["error"]


def test_a_picture_of_too_many_pixels_is_not_decoded(shades):
    small = bytearray(as_png(shade("red", 0)))
    small[16:24] = (60_000).to_bytes(4, "big") * 2
    answer = client_of(shades).post("/ask.json", files={"picture": ("bomb.png", bytes(small))})
    assert answer.status_code == 400


def test_a_picture_may_have_fifty_million_pixels_on_the_page(shades):
    small = bytearray(as_png(shade("red", 0)))
    for height, refused in ((5000, False), (5001, True)):
        small[16:24] = (10_000).to_bytes(4, "big") + height.to_bytes(4, "big")
        small[29:33] = zlib.crc32(small[12:29]).to_bytes(4, "big")
        told = client_of(shades).post("/ask.json", files={"picture": ("large.png", bytes(small))}).json()["error"]
        assert ("at most 50 million are opened" in told) == refused


def test_more_than_is_taken_is_refused(shades):
    client = client_of(shades)
    two = [("picture", ("a.png", as_png(shade("red", 0)))), ("picture", ("b.png", as_png(shade("red", 1))))]
    assert client.post("/ask.json", files=two).status_code == 400
    assert client.post("/ask.json", data={f"f{n}": "x" for n in range(40)}, files=two[:1]).status_code == 400
    assert client.post("/ask.json", data={"text": "1 " * 2**20}).status_code in (400, 413)
    client = client_of(shades, limits=BodyLimits(most_bytes=1000))
    assert client.post("/ask.json", files={"picture": ("a.png", b"x" * 2000)}).status_code == 413


# ------------------------------------------------------------------ bodies that lie


def raw(address, head, *parts, wait=5.0):
    """What a server says to these bytes."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=wait) as line:
        line.sendall(head.replace("\n", "\r\n").encode())
        try:
            for part in parts:
                line.sendall(part)
        except OSError:
            pass
        return line.recv(4096).decode(errors="replace")


POST = f"POST /ask.json HTTP/1.1\nHost: localhost\nAuthorization: Bearer {TOKEN}\n"
POST += "Content-Type: application/x-www-form-urlencoded\n"


def test_bodies_that_never_end_or_lie_about_their_length_end_in_an_answer(heaps):
    app = make_app(heaps, TOKEN, limits=BodyLimits(most_quiet=0.2, most_bytes=100_000))
    with served(heaps, app=app) as address:
        assert " 413 " in raw(address, POST + "Content-Length: 999999999\n\n")
        assert " 400 " in raw(address, POST + "Content-Length: -5\n\n")
        assert " 400 " in raw(address, POST + "Content-Length: x\n\n")
        assert " 408 " in raw(address, POST + "Content-Length: 90\n\n", b"numbers=1")
        chunk = b"2000\r\n" + b"a" * 0x2000 + b"\r\n"
        assert " 413 " in raw(address, POST + "Transfer-Encoding: chunked\n\n", *[chunk] * 20)
        assert " 408 " in raw(address, POST + "Transfer-Encoding: chunked\n\n", chunk)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        assert httpx.get(f"{address}/ask", headers=headers).status_code == 200


def test_answers_are_sent_at_once():
    with listening() as bound, socket.create_connection(bound.getsockname()), bound.accept()[0] as line:
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_length_that_is_no_number_is_refused_by_the_gate_itself(heaps):
    for length in ("x", "-1", "1e9", "²", "9" * 400):
        answer = client_of(heaps).get("/ask", headers={"Content-Length": length.encode()})
        assert answer.status_code in (400, 413)


# ------------------------------------------------------------------ what is told


@pytest.mark.parametrize("json_twin", ["", ".json"])
def test_errors_tell_no_path_and_no_traceback(heaps, caplog, json_twin):
    client = client_of(heaps, raise_server_exceptions=False)

    def broken(error):
        def raising(*args, **named):
            raise error

        return raising

    wrong = [(StorageError(f"{heaps.store.path}/db is damaged"), 503), (RuntimeError(f"{heaps.store.path}"), 500),
             (FileNotFoundError(str(heaps.store.path)), 500)]  # fmt: skip
    for error, status in wrong:
        client.app.state.served.ask_item = broken(error)
        with caplog.at_level(logging.ERROR, "nearsay.web"):
            answer = client.get(f"/ask{json_twin}", params={"id": "row 0"})
        assert answer.status_code == status
        assert str(heaps.store.path) not in answer.text
        assert "Traceback" not in answer.text
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert json_twin == "" or "error" in answer.json()
    assert "is damaged" in caplog.text


def test_a_description_that_cannot_be_made_again_names_no_file(shades, monkeypatch):
    def missing(record, model):
        raise InputError("There is no file /home/somebody/model.onnx.")

    monkeypatch.setattr(serving.Description, "recorded", missing)
    answer = client_of(shades).post("/ask.json", files={"picture": ("a.png", as_png(shade("red", 0)))})
    assert (answer.status_code, "somebody" in answer.text) == (503, False)


def test_words_of_users_are_shown_as_text(heaps):
    client = client_of(heaps)
    for page in (f"/ask?id={EVIL}", "/ask?id=row 1", "/history", f"/ask?accuracy={EVIL}", f"/ask?id=no{EVIL}"):
        assert "<script>alert" not in client.get(page).text


# ------------------------------------------------------------------ two at a time


def test_of_two_tabs_the_second_overwrites_nothing(client, heaps):
    state = client.get("/ask.json", params={"id": "row 0"}).json()["item"]["state"]
    sent = {"id": "row 0", "state": state}
    assert client.post("/change.json", data={**sent, "label": "mine"}).status_code == 200
    version = heaps.version
    for change in ({"label": "theirs"}, {"do": "forget"}, {"do": "confirm"}, {"do": "keywords", "keywords": "a"}):
        answer = client.post("/change.json", data={**sent, **change})
        assert answer.status_code == 409
        assert "mine" in answer.json()["error"]
    assert (heaps.version, heaps.store.item("row 0")["label"]) == (version, "mine")


def test_of_many_at_once_one_is_taken(heaps):
    state = ServedCollection(heaps).item("row 2")["state"]
    found = []
    with served(heaps) as address:

        def change(label):
            sent = {"id": "row 2", "state": state, "label": label}
            headers = {"Authorization": f"Bearer {TOKEN}"}
            found.append(httpx.post(f"{address}/change.json", data=sent, headers=headers).status_code)

        threads = [threading.Thread(target=change, args=(f"l{n}",)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == [200] + [409] * 5


def run_in_thread(work):
    """A coroutine to its end, in a thread without an event loop: the one of the tests may have that of a browser."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def test_too_many_are_told_to_come_again(heaps):
    go_on, app = threading.Event(), make_app(heaps, TOKEN)
    app.state.served.most_waiting = 3
    app.state.served.ask_item = lambda id, accuracy: go_on.wait(20)

    async def many():
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
            first = [asyncio.create_task(client.get("/ask.json?id=row 0")) for _ in range(3)]
            await asyncio.sleep(0.2)
            refused = await client.get("/ask.json?id=row 0")
            go_on.set()
            await asyncio.gather(*first)
            return refused

    refused = run_in_thread(many())
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def test_who_waits_too_long_for_a_turn_is_told_so(heaps):
    go_on = threading.Event()

    async def two():
        behind = ServedCollection(heaps)
        behind.longest_wait, behind.at_once = 0.1, 1
        first = asyncio.create_task(behind.run(go_on.wait, 20))
        await asyncio.sleep(0.05)
        with pytest.raises(Overloaded):
            await behind.run(len, "x")
        go_on.set()
        assert await first is True
        assert await behind.run(len, "xy") == 2

    run_in_thread(two())


def test_questions_asked_at_the_same_time_are_answered_by_one_search_and_each_by_its_own_answer():
    sizes = []

    def answer(asked, how):
        sizes.append(len(asked))
        if any(one < 0 for one in asked):
            raise InputError("negative")
        return [(how, 2 * one) for one in asked]

    async def run(function, *arguments):
        await asyncio.sleep(0.01)
        return function(*arguments)

    async def many():
        together = QuestionBatcher(run, answer)
        asked = [together.ask(one, one % 2) for one in range(10)]
        bad = [together.ask(-3, 1), together.ask(3, 1)]
        gone = asyncio.create_task(together.ask(99, 1))
        await asyncio.sleep(0)
        gone.cancel()
        return await asyncio.gather(*asked, *bad, return_exceptions=True)

    found = run_in_thread(many())
    assert found[:10] == [(one % 2, 2 * one) for one in range(10)]
    assert isinstance(found[10], InputError)
    assert found[11] == (1, 6)
    assert max(sizes) >= 5


# ------------------------------------------------------------------ by machine


LABEL_STUDIO = {"/label-studio", *(f"/label-studio/{name}" for name in ("health", "setup", "predict", "webhook"))}


def test_the_document_names_every_json_route(client):
    told = client.get("/openapi.json").json()
    routes = {route.path for route in client.app.routes if getattr(route, "path", "").endswith(".json")}
    assert set(told["paths"]) == routes | LABEL_STUDIO
    posted = told["paths"]["/label-studio/predict"]["post"]
    assert "LabelStudioPrediction" in told["components"]["schemas"]
    assert posted["requestBody"]["content"]["application/json"]["example"]["tasks"][0]["data"]
    assert list(told["paths"]["/label-studio"]["get"]["responses"]["200"]["content"]) == ["text/plain"]
    assert {"200", "201", "202"} < set(told["paths"]["/label-studio/webhook"]["post"]["responses"])
    assert all(each["summary"].endswith(".") for path in told["paths"].values() for each in path.values())
    assert document(client.app.routes) == told


def test_every_answer_and_body_is_described_with_an_example_that_fits(client):
    for route in client.app.routes:
        if isinstance(route, PageRoute) and route.for_machines and route.path != "/openapi.json":
            assert route.gives, route.path
            for schema in filter(None, (route.gives, route.takes.body)):
                check("body", example_of(schema), schema)
            for name, schema in {**route.takes.query, **route.takes.form}.items():
                check(name, example_of(schema), schema)


@pytest.mark.parametrize(
    ("value", "schema", "why"),
    [
        (True, whole(0), "x must be a whole number of at least 0; got True"),
        (1.5, whole(0), "whole number"),
        (10**400, REAL, "x must be a number"),
        (float("inf"), REAL, "number"),
        ([1.0, "2"], {"type": "array", "items": REAL}, r"x\[1\] must be a number; got '2'"),
        ("owl", one_of("own", "cat"), "Unknown x 'owl' .did you mean 'own'"),
        ([], several(whole(0), 1, 3), "at least 1 and at most 3; got a list of 0"),
        ({}, record({"b": whole(0)}), "b is missing"),
        ({"b": 1, "c": 2}, record({"b": whole(0)}), "Unknown field of x 'c'"),
        ({"bee": 1}, record({"be": whole(0)}), "Unknown field of x 'bee' .did you mean 'be'"),
        ([1], text(), "x must be a text; got a list of 1"),
        ({"b": {"c": None}}, mapping(mapping(whole(0))), r"x\.b\.c must be a whole number"),
        (None, nullable(whole(0)), None),
        ("1,x", ROWS, "with commas between; got '1,x'"),
        (3, {"anyOf": [text(), nullable(several(whole(0)))]}, "x must be a text"),
    ],
)
def test_a_value_that_is_not_as_described_is_refused_and_one_that_is_passes(value, schema, why):
    if why is None:
        check("x", value, schema)
        return
    with pytest.raises(InputError, match=why):
        check("x", value, schema)


def test_what_the_document_names_is_checked(client):
    numbers = {
        (method, path, parameter["name"])
        for path, operations in client.get("/openapi.json").json()["paths"].items()
        for method, operation in operations.items()
        for parameter in operation["parameters"]
        if parameter["in"] == "query" and parameter["schema"].get("type") in ("integer", "number")
    }
    assert len(numbers) > 8
    for _, path, name in numbers:
        answer = client.get(path, params={name: "x"})
        assert (answer.status_code, name in answer.json()["error"]) == (400, True)


def fuzzed(collection, n, real, paths=("/",)):
    """How often each answer came to generated requests; in half of them what is named is really there."""
    schemathesis = pytest.importorskip("schemathesis")
    import requests
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st
    from schemathesis.checks import load_all_checks
    from schemathesis.specs.openapi.checks import response_schema_conformance

    load_all_checks()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    named = st.one_of(st.none(), st.fixed_dictionaries({name: st.sampled_from(known) for name, known in real.items()}))
    seen = Counter()
    with served(collection) as address, requests.Session() as session:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json", headers=headers)
        operations = [found.ok() for found in schema.get_all_operations() if found.ok().path.startswith(paths)]
        # What can take events back comes last: in the end the items themselves are gone.
        last = ["/review.json", "/undo.json"]
        for operation in sorted(operations, key=lambda each: last.index(each.path) + 1 if each.path in last else 0):

            @settings(max_examples=n, deadline=None, suppress_health_check=list(HealthCheck), database=None)
            @given(case=operation.as_strategy(), known=named)
            def one(case, known):
                for part in (case.query, case.body):
                    if known and isinstance(part, dict):
                        for name in known.keys() & part.keys():
                            part[name] = [known[name]] if isinstance(part[name], list) else known[name]
                        part.pop("state", None)
                answer = case.call(session=session, headers=headers, timeout=60)
                seen[case.operation.label, answer.status_code] += 1
                # Jobs may be refused, since few may wait; nothing else may.
                fine = answer.status_code < 500 or "jobs are running" in answer.text
                assert fine, case.as_curl_command()
                if answer.headers["content-type"] == ["application/json"]:  # the gate refuses in plain text
                    case.validate_response(answer, checks=[response_schema_conformance])

            one()
    return seen


REAL = {"id": ["row 3", "row 8"], "label": ["low", "high"], "do": ["relabel", "confirm", "accept"], "rows": ["1,2"]}


def learn_quickly(collection):
    """What is learned anew when that is asked for, is learned quickly."""
    learn = collection.tracker.learn
    collection.tracker.learn = lambda *given, **named: learn("proportional", 5, *given[2:], **named)


# Many stand for few, where they run.
FEW_REQUESTS = pytest.mark.skipif(bool(os.environ.get("CI")), reason="40 are sent")
TIMES = [
    pytest.param(4, marks=FEW_REQUESTS),
    pytest.param(40, marks=pytest.mark.slow),
    pytest.param(200, marks=pytest.mark.slowest),
]


@pytest.mark.slow
@pytest.mark.parametrize("n", TIMES)
def test_nothing_that_is_sent_makes_it_fail(heaps, n):
    learn_quickly(heaps)
    seen = fuzzed(heaps, n, REAL)
    assert {200, 202, 400} <= {status for _, status in seen}
    changing = ("/change.json", "/label-many.json", "/batch.json")
    # What is drawn is left to chance, and depends on the modules that other tests have imported.
    changed = [path for path in changing if any(seen[f"POST {path}", status] for status in (200, 202))]
    assert len(changed) >= (3 if n >= 200 else 1 if n >= 40 else 0)


# Where it makes a difference what items are.
ABOUT_ITEMS = (
    *("/ask", "/answers", "/batch", "/changes", "/keep", "/label-studio", "/items", "/review", "/mistakes"),
    *("/duplicates", "/next", "/groups"),
)


@pytest.mark.slow
def test_nothing_that_is_sent_to_pictures_makes_it_fail(tmp_path):
    with picture_collection(tmp_path) as collection:
        learn_quickly(collection)
        real = REAL | {"id": ["red/red-3.png"], "label": ["warm", "blue"], "node": ["cold"]}
        seen = fuzzed(collection, 20, real, ABOUT_ITEMS)
    assert seen["GET /items.json", 200]


# ------------------------------------------------------------------ what other sites ask, and what stays


OTHER_SITES = [
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
    {
        "Sec-Fetch-Site": "same-site",
        "Sec-Fetch-Mode": "no-cors",
        "Sec-Fetch-Dest": "image",
    },  # another port of this host
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    {"Origin": "http://evil.com"},
    {"Origin": "null"},
    {"Referer": "http://evil.com/page"},
    {"Referer": "http://localhost:1/page"},
    {"Referer": "http://["},
]


@pytest.mark.slow
@pytest.mark.parametrize("token", [TOKEN, None])
@pytest.mark.parametrize("headers", OTHER_SITES)
def test_another_site_begins_no_work_even_by_reading(heaps, token, headers):
    client = client_of(heaps, token)
    if token:
        client.headers.pop("Authorization")
        client.get(f"/ask?token={token}")
    worked = []
    client.app.state.served.ask_item = lambda *given: worked.append(given)
    for path in ("/ask?id=row 0", "/ask.json?id=row 0", "/picture?id=row 0", "/how-good", "/map.bin", "/items"):
        for ask in (client.get, client.head):
            assert ask(path, headers=headers).status_code == 403
    assert not worked
    ours = [{"Sec-Fetch-Site": "same-origin"}, {"Sec-Fetch-Site": "none"}, {"Referer": "http://localhost/ask"}, {}]
    for allowed in ours:
        assert client.get("/items", headers=allowed).status_code == 200


def test_a_link_of_another_site_leads_to_the_first_page_and_no_further(heaps):
    client = client_of(heaps, None)
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert client.get("/", headers=followed).status_code == 200
    assert client.get("/items", headers=followed).status_code == 403
    assert client.get("/ask", headers={**followed, "Sec-Fetch-Dest": "iframe"}).status_code == 403


def test_no_picture_stays_in_the_browser(shades):
    client = client_of(shades)
    key = client.post("/ask.json", files={"picture": ("x.png", as_png(shade("red", 3)))}).json()["question"]["key"]
    for asked in ({"id": "red/red-1.png"}, {"question": key}):
        answer = client.get("/picture", params=asked)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
