"""A real Label Studio asks and teaches the backend; NEARSAY_LABEL_STUDIO names its command.

It has a hundred dependencies, so it is no extra; tests/web/test_label_studio.py replays what it sent.
"""

from __future__ import annotations

import os
import subprocess
import time

import pytest

pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

import httpx

from nearsay.cli.serving import listening
from nearsay.collection import LiveCollection
from nearsay.collection.indexing import index_source
from nearsay.collection.ingest.text_description import TextDescription
from tests.served_collections import TOKEN, served

COMMAND = os.environ.get("NEARSAY_LABEL_STUDIO")
KEY = "0123456789abcdef0123456789abcdef01234567"
PATIENCE = 300.0
pytestmark = [pytest.mark.slowest, pytest.mark.skipif(not COMMAND, reason="NEARSAY_LABEL_STUDIO names no command")]


@pytest.fixture
def studio(tmp_path):
    """A client of a Label Studio that was just started."""
    with listening() as socket:
        port = socket.getsockname()[1]
    home = f"http://127.0.0.1:{port}"
    settings = {
        "HOME": str(tmp_path), "LABEL_STUDIO_BASE_DATA_DIR": str(tmp_path), "ML_BLOCK_LOCAL_IP": "0",
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "1", "COLLECT_ANALYTICS": "0", "LATEST_VERSION_CHECK": "0",
        "SENTRY_DSN": "", "USE_DEFAULT_BANNED_SUBNETS": "0",
    }  # fmt: skip
    user = ["--username", "ada@example.org", "--password", "a-password-of-ada", "--user-token", KEY]
    with open(tmp_path / "log", "w") as log:
        started = subprocess.Popen(
            [COMMAND, "start", "--no-browser", "--port", str(port), *user],
            env={"PATH": os.environ["PATH"], **settings}, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        with httpx.Client(base_url=home, headers={"Authorization": f"Token {KEY}"}, timeout=60) as client:
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until and started.poll() is None:
                try:
                    if client.get("/api/projects/").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                time.sleep(1)
            yield client
    finally:
        started.terminate()
        started.wait(30)


def test_it_predicts_for_a_real_label_studio_and_learns_from_its_annotators(studio, tmp_path):
    lines = ["block my card,card", "where is my card,card", "my new card,card", "will it rain,rain", "rain today,rain"]
    (tmp_path / "t.csv").write_text("\n".join(["text,label", *lines, "rain again,rain"]) + "\n")
    index_source(tmp_path / "t.csv", tmp_path / "t", description=TextDescription.choose(["words"]))
    with LiveCollection.open(tmp_path / "t") as collection, served(collection) as base:
        before = collection.version
        interface = httpx.get(f"{base}/label-studio", headers={"Authorization": f"Bearer {TOKEN}"}).text
        about = {"title": "cards", "label_config": interface, "show_collab_predictions": True}
        project = studio.post("/api/projects/", json=about).raise_for_status().json()["id"]
        address = base.replace("http://", f"http://studio:{TOKEN}@")
        backend = {"project": project, "title": "nearsay", "url": f"{address}/label-studio"}
        connected = studio.post("/api/ml/", json=backend).raise_for_status().json()
        assert (connected["readable_state"], connected["model_version"]) == ("Connected", f"nearsay {before}")
        studio.post(f"/api/projects/{project}/import", json=[{"text": "block the card"}]).raise_for_status()
        (task,) = studio.get("/api/tasks/", params={"project": project}).json()["tasks"]
        (prediction,) = studio.get(f"/api/tasks/{task['id']}").json()["predictions"]
        assert prediction["result"][0]["value"] == {"choices": ["card"]}
        assert prediction["model_version"] == f"nearsay {before}"
        answer = {"from_name": "label", "to_name": "item", "type": "choices", "value": {"choices": ["rain"]}}
        studio.post(f"/api/tasks/{task['id']}/annotations/", json={"result": [answer]}).raise_for_status()
        until = time.monotonic() + 30
        while collection.version == before and time.monotonic() < until:
            time.sleep(0.2)
        (event,) = collection.history(before)
        assert (event.kind, event.who) == ("add", "the page: annotator 1")
        assert len(collection) == 7
