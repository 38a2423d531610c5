"""The container and the service run what they name, with no more rights than they need; the page on it is true."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request

import pytest
import typer.main

from nearsay.cli import app
from nearsay.web.app import MAX_CONNECTIONS
from nearsay.web.content import uploads
from nearsay.web.content.served_collection import ServedCollection
from nearsay.web.pages.answering import MOST_QUESTIONS
from nearsay.web.pages.changing import MOST_CHANGED
from nearsay.web.server.gate import BodyLimits
from tests.project.test_packaging import EXTRAS, ROOT, read
from tests.served_collections import numbers_collection

UNIT = "deploy/nearsay@.service"


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, continued lines as one."""
    lines = re.sub(r"^#.*\n", "", read("Dockerfile"), flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.strip().partition(" ") for line in lines if line.strip())]


def values(wanted: str) -> list[str]:
    return [rest for word, rest in instructions() if word == wanted]


def settings() -> dict[str, list[str]]:
    """What the unit sets, every value of a name that comes more than once."""
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", read(UNIT), flags=re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


def check_serve(words: list[str]) -> None:
    """Raise where ``nearsay serve`` has no such option."""
    serve = typer.main.get_command(app).commands["serve"]
    known = {option for each in serve.params for option in each.opts}
    assert words[0] == "serve"
    assert [word for word in words if word.startswith("--") and word not in known] == []


def test_the_image_runs_as_nobody_in_particular_and_writes_to_its_volumes_alone():
    words = [word for word, _ in instructions()]
    assert all(re.fullmatch(r"\S+:[\w.-]*\d[\w.-]*( AS \w+)?", base) for base in values("FROM")), "a version each"
    last = words[len(words) - 1 - words[::-1].index("FROM") :]
    assert "ADD" not in words
    assert re.fullmatch(r"[1-9]\d{3,}:[1-9]\d{3,}", values("USER")[-1])
    assert last.index("USER") > max(place for place, word in enumerate(last) if word in ("RUN", "COPY"))
    volumes = json.loads(values("VOLUME")[0])
    made = next(rest for rest in values("RUN") if "install --directory" in rest)
    assert all(volume in made for volume in volumes)
    for name, value in environment().items():
        assert not value.startswith("/") or name == "PATH" or value.startswith((*volumes, "/tmp/")), name
    assert "--no-cache-dir" in read("Dockerfile")


def environment() -> dict[str, str]:
    return dict(pair.split("=", 1) for rest in values("ENV") for pair in shlex.split(rest))


def test_the_image_holds_what_it_copies_and_installs_extras_that_there_are():
    ignored = read(".dockerignore").splitlines()
    for rest in values("COPY"):
        if not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists()
                assert f"!{source}" in ignored
    (wanted,) = re.findall(r'"\.\[([\w,]+)\]"', read("Dockerfile"))
    assert set(wanted.split(",")) <= set(EXTRAS)


def test_the_image_and_the_service_start_nearsay_with_options_that_it_has():
    assert json.loads(values("ENTRYPOINT")[0]) == ["nearsay"]
    started = json.loads(values("CMD")[0])
    check_serve(started)
    assert started[1].startswith(json.loads(values("VOLUME")[0])[0])
    assert values("EXPOSE") == [started[started.index("--port") + 1]]
    check_serve(shlex.split(settings()["ExecStart"][0])[1:])
    for line in re.findall(r"nearsay (serve .*?)\n", read("docs/operate.md")):
        check_serve(shlex.split(line, comments=True))


def test_the_service_has_no_right_that_it_does_not_need():
    unit = settings()
    on = ("NoNewPrivileges", "ProtectHome", "PrivateTmp", "PrivateDevices", "RestrictNamespaces", "LockPersonality")
    assert [unit[name] for name in on] == [["yes"]] * len(on)
    assert (unit["ProtectSystem"], unit["CapabilityBoundingSet"]) == (["strict"], [""])
    assert unit["User"] != ["root"]
    assert "MemoryDenyWriteExecute" not in unit, "loops are compiled"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here")
def test_systemd_understands_the_service_and_finds_it_safe(tmp_path):
    unit = tmp_path / "nearsay@birds.service"
    unit.write_text(read(UNIT).replace("/opt/nearsay/bin/nearsay", sys.executable), encoding="utf-8")
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "birds" in line]) == (0, [])
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", str(unit)], capture_output=True, text=True
    )
    assert judged.returncode == 0, judged.stdout[-200:]


@pytest.mark.slow
def test_what_the_container_starts_answers_its_health_check(tmp_path):
    """Without an engine: its command and its environment, with its folders elsewhere."""
    numbers_collection(tmp_path).close()

    def here(text: str) -> str:
        return re.sub(r"^/(collections|cache|tmp)", rf"{tmp_path}/\1", text)

    home = {name: here(value) for name, value in environment().items() if name != "PATH"}
    (tmp_path / "collections").mkdir()
    os.rename(tmp_path / "heaps.nearsay", tmp_path / "collections" / "collection.nearsay")
    words = [here(word) for word in json.loads(values("CMD")[0])]
    words[words.index("--port") + 1], words[words.index("--host") + 1] = "0", "127.0.0.1"
    server = subprocess.Popen(
        [sys.executable, "-m", "nearsay", *words],
        env={**os.environ, **home, "NEARSAY_TOKEN": "0123456789abcdef"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        address = server.stdout.readline().strip()
        check = json.loads(re.search(r"CMD (\[.*\])", values("HEALTHCHECK")[0])[1])
        asked = check[-1].replace("http://127.0.0.1:8017/", address)
        assert asked != check[-1]
        assert subprocess.run([sys.executable, *check[1:-1], asked]).returncode == 0
        assert urllib.request.urlopen(f"{address}health").status == 200
    finally:
        server.terminate()
        _, log = server.communicate(timeout=30)
    assert server.returncode in (0, -15), "it ended by itself, or by the signal once everything was closed"
    assert '"path": "/health", "status": 200' in log
    assert subprocess.run([sys.executable, *check[1:-1], asked], stderr=subprocess.DEVNULL).returncode != 0


@pytest.mark.slowest
@pytest.mark.skipif(
    not shutil.which("docker") or subprocess.run(["docker", "info"], capture_output=True).returncode != 0,
    reason="There is no container engine.",
)
def test_the_image_is_built_and_starts_with_nothing_to_write_but_its_volumes(tmp_path):
    def docker(*words: str) -> str:
        return subprocess.run(["docker", *words], check=True, capture_output=True, text=True).stdout.strip()

    numbers_collection(tmp_path).close()
    docker("build", "--tag", "nearsay-test", str(ROOT))
    limits = ("--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges")
    volume, started = docker("volume", "create"), ""
    try:
        docker(
            *("run", "--rm", "-v", f"{volume}:/collections", "-v", f"{tmp_path}:/from:ro", "nearsay-test"),
            *("restore", "/from/heaps.nearsay", "/collections/collection.nearsay"),
        )
        token = ("-e", "NEARSAY_TOKEN=0123456789abcdef")
        started = docker("run", "--detach", *limits, "-v", f"{volume}:/collections", *token, "nearsay-test")
        for _ in range(60):
            state = docker("inspect", "--format", "{{.State.Health.Status}}", started)
            if state == "healthy":
                break
            subprocess.run(["sleep", "2"])
        assert state == "healthy", docker("logs", started)
    finally:
        if started:
            docker("rm", "--force", started)
        docker("volume", "rm", volume)


def test_the_limits_on_the_page_are_those_of_the_code():
    page = read("docs/operate.md")
    for said in (
        f"{ServedCollection.at_once} are worked on, {ServedCollection.most_waiting} wait",
        f"{MAX_CONNECTIONS} connections",
        f"{BodyLimits.most_bytes >> 20} MiB, all together {BodyLimits.most_held >> 20} MiB",
        f"{MOST_QUESTIONS:,} (`POST /answers`)",
        f"as one event: {MOST_CHANGED:,}",
        f"{uploads.MOST_FILES} pictures, or one table of {uploads.MOST_ROWS:,} rows",
    ):
        assert said in page
