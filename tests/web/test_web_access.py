"""Tokens with roles and names, JSON bodies, many questions at once, a proxy, health, metrics and the access log."""

from __future__ import annotations

import json
import logging
import re

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from nearsay.errors import InputError
from nearsay.web.access import ROLES, AccessToken, read_tokens
from nearsay.web.app import make_app
from nearsay.web.parameters import PageRoute
from tests.served_collections import TOKEN, client_of

PEOPLE = {role: AccessToken(f"{role}er", role, f"secret of {role}".ljust(20, ".")) for role in ROLES}


def person(app, role):
    headers = {"Authorization": f"Bearer {PEOPLE[role].secret}"} if role else {}
    return TestClient(app, base_url="http://localhost", headers=headers, raise_server_exceptions=False)


def test_no_role_may_more_than_it_should_on_any_route(heaps):
    app = make_app(heaps, list(PEOPLE.values()))
    routes = [route for route in app.routes if isinstance(route, PageRoute)]
    refused = {}
    for role in (None, *ROLES):
        client = person(app, role)
        for route in routes:
            method = "POST" if "POST" in route.methods else "GET"
            status = client.request(method, route.path.replace("{key}", "none"), follow_redirects=False).status_code
            refused[role, method, route.path] = status == 403
    for (role, method, path), was_refused in refused.items():
        asked = ("/ask", "/ask.json", "/answers", "/answers.json", "/label-studio/setup", "/label-studio/predict")
        reads = method == "GET" or path in asked
        allowed = {
            None: path in ("/health", "/label-studio/health"),
            "read": reads,
            "label": reads or path not in ("/learn", "/learn.json"),
            "admin": True,
        }[role]
        assert was_refused != allowed, (role, method, path)


def test_the_history_says_who_it_was_and_readers_see_no_forms(heaps):
    app = make_app(heaps, list(PEOPLE.values()))
    done = person(app, "label").post("/change.json", data={"id": "row 3", "label": "someone's"})
    assert heaps.history(done.json()["event"] - 1)[0].who == "labeler"
    assert '<details class="correct">' not in person(app, "read").get("/items").text
    assert '<details class="correct">' in person(app, "label").get("/items").text
    heaps.undo(who="test")


def test_each_person_has_a_session_of_their_own(heaps):
    app = make_app(heaps, list(PEOPLE.values()))
    sessions = {}
    for role, token in PEOPLE.items():
        client = TestClient(app, base_url="http://localhost")
        client.get(f"/?token={token.secret}")
        sessions[role] = next(iter(client.cookies.values()))
        assert token.secret not in sessions[role]
        sent = client.post("/change.json", data={"id": "nobody"}, headers={"origin": "http://localhost"})
        assert (sent.status_code == 403) == (role == "read")
    assert len(set(sessions.values())) == len(ROLES)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("ada owner 0123456789abcdef", "no role"),
        ("ada read short", "at least 16"),
        ("ada read", "NAME ROLE TOKEN"),
        ("# nothing", "holds no token"),
        ("ada read 0123456789abcdef\nbob read 0123456789abcdef", "there already"),
    ],
)
def test_a_token_file_that_cannot_be_used_is_refused(text, why):
    with pytest.raises(InputError, match=why):
        read_tokens(text, "tokens.txt")


def test_json_bodies_do_what_forms_do(heaps):
    client = client_of(heaps)
    by_form = client.post("/ask.json", data={"text": "0 0 0 0"}).json()
    by_json = client.post("/ask.json", json={"text": "0 0 0 0"}).json()
    assert by_json["answer"] == by_form["answer"]
    done = client.post("/label-many.json", json={"id": ["row 1", "row 2"], "label": "both"}).json()
    assert done["items"] == 2
    assert client.post("/undo.json", json={"event": done["event"]}).status_code == 200
    for body in (b"[1]", b"{", b'"x"', b"[" * 100_000):
        sent = client.post("/change.json", content=body, headers={"content-type": "application/json"})
        assert sent.status_code == 400, sent.text


def test_a_request_that_cannot_be_read_says_what_came_and_what_is_expected(heaps):
    client = client_of(heaps)
    for body, why in (
        (b'{"questions": [{"id": }]}', "The body is not JSON: Expecting value at character 22"),
        (b"id=row+1", "The body is not JSON: Expecting value at character 0"),
        (b"\xff", "The body is not JSON: it is not UTF-8"),
        (b'{"questions": NaN}', "The body is not JSON: NaN is no number in JSON"),
        (b"[" * 100_000, "The body is not JSON: it is nested too deeply"),
        (b"[1, 2]", "The body must be a JSON object; got a list of 2"),
        (b'"x"', "The body must be a JSON object; got 'x'"),
        (b'{"question": []}', "Unknown field of body 'question' (did you mean 'questions'?)"),
    ):
        answer = client.post("/answers", content=body)
        assert answer.status_code == 400
        assert answer.json()["error"].startswith(why), answer.text
    vector = client.post("/answers", json={"questions": [{"vector": [1, 2]}]}).json()["answers"][0]["error"]
    assert vector == "vector must have 4 numbers; got 2."
    taken = client.get("/answers")
    assert (taken.status_code, taken.headers["allow"]) == (405, "POST")
    assert taken.json()["error"] == "/answers does not take GET; send POST."


def test_a_token_that_is_missing_or_wrong_is_told_where_to_find_it_and_programs_in_json(heaps):
    client = TestClient(make_app(heaps, TOKEN), base_url="http://localhost")
    for path in ("/answers", "/ask.json"):
        for headers, why in (
            ({}, "Send the token"),
            ({"Authorization": "Bearer wrong-wrong"}, "Wrong token. Send the"),
        ):
            refused = client.post(path, json={}, headers=headers)
            assert refused.status_code == 403
            assert refused.json()["error"].startswith(why)
            assert "Authorization: Bearer" in refused.json()["error"]
    assert client.get("/").text == "Open the address that nearsay serve printed: it holds a token."
    assert client.get("/?token=wrong").text == "Wrong token. Open the address that nearsay serve printed last."


def test_many_questions_are_answered_as_one_by_one(heaps):
    client = client_of(heaps)
    X = np.random.default_rng(0).normal(size=(50, 4)).round(3)
    questions = [{"vector": row} for row in X.tolist()] + [{"id": "row 4"}, {"id": "nobody"}, {"vector": [1]}, {}, 7]
    got = client.post("/answers", json={"questions": questions, "accuracy": 0.8}).json()["answers"]
    assert len(got) == len(questions)
    expected = heaps.label(X, accuracy=0.8)
    for answer, right in zip(got, expected, strict=False):
        assert answer["probabilities"] == right.to_dict()["probabilities"]
        assert answer["set"] == right.set_
    assert got[50]["label"] == heaps.label_items(["row 4"])[0].label
    assert all("error" in each for each in got[51:])
    too_many = client.post("/answers", json={"questions": [{"id": "row 1"}] * 1001})
    assert too_many.status_code == 400
    assert "at most 1,000" in too_many.json()["error"]


def test_behind_a_proxy_every_address_is_below_its_path(shades):
    app = make_app(shades, None, root="/birds")
    client = TestClient(app, base_url="http://localhost")
    for path in ("/", "/ask?id=red/red-4.png", "/items", "/map", "/history", "/nowhere"):
        for address in (path, f"/birds{path}"):  # whether the proxy takes its path out or not
            page = client.get(address).text
            found = re.findall(r'(?:href|src|action|data-points|data-next|data-source)="(/[^"]*)"', page)
            assert found
            assert all(each.startswith("/birds/") for each in found), (address, found)
    sent = client.post("/ask", data={"text": "blue-11"}, follow_redirects=False, headers={"origin": "http://localhost"})
    assert sent.headers["location"].startswith("/birds/ask?id=")


def test_health_needs_no_token_and_metrics_do(heaps, caplog):
    app = make_app(heaps, list(PEOPLE.values()))
    assert person(app, None).get("/health").json() == {"status": "ok"}
    assert person(app, None).get("/metrics").status_code == 403
    reader = person(app, "read")
    with caplog.at_level(logging.INFO, logger="nearsay.access"):
        for _ in range(3):
            reader.get("/items.json?label=low")
    lines = [json.loads(record.message) for record in caplog.records if record.name == "nearsay.access"]
    assert [(each["who"], each["path"], each["status"]) for each in lines] == [("reader", "/items.json", 200)] * 3
    text = reader.get("/metrics").text
    assert 'nearsay_requests_total{route="/items.json",method="GET",status="200"} 3' in text
    assert f"nearsay_items {len(heaps)}" in text
    count = int(re.search(r"nearsay_request_seconds_count (\d+)", text)[1])
    assert int(re.search(r'le="\+Inf"} (\d+)', text)[1]) == count
    assert all(re.fullmatch(r"(# TYPE \S+ \w+|\S+ [0-9.e+-]+)", line) for line in text.splitlines())
