"""The tools of an assistant, driven by the client of the ``mcp`` package: over a pipe, and within the process."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import anyio
import pytest

pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters

from nearsay.cli.mcp import server_of
from nearsay.collection import LiveCollection
from nearsay.collection.indexing import index_source

READS, WRITES = ["ask", "neighbors", "mistakes", "next"], ["correct", "undo"]


@pytest.fixture(scope="module")
def leaves(tmp_path_factory):
    folder = tmp_path_factory.mktemp("leaves")
    rows = [f"{kind}{i},{width + i / 50},{kind}" for kind, width in (("beech", 1), ("elm", 7)) for i in range(12)]
    (folder / "leaves.csv").write_text("\n".join(["id,width,species", *rows, "new,6.9,", "odd,1.1,elm"]) + "\n")
    index_source(folder / "leaves.csv", folder / "leaves")
    return folder / "leaves"


async def using(server, work):
    async with Client(server) as client:

        async def call(name, **given):
            done = await client.call_tool(name, given)
            return done.content[0].text if done.is_error else done.structured_content

        call.names = [tool.name for tool in (await client.list_tools()).tools]
        return await work(call)


def with_tools(path, work, *, write=False):
    """Do some work with the tools of a collection, in this process."""
    with LiveCollection.open(path, read_only=True) as collection:
        return run(using, server_of(collection, "ada, by mcp", write=write), work)


def run(*work):
    """In a thread of its own: the browser of other tests leaves an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(anyio.run, *work).result()


@pytest.mark.slow
def test_a_client_talks_to_the_command_over_a_pipe(leaves):
    arguments = ["-m", "nearsay", "mcp", str(leaves), "--write", "--who", "ada"]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))

    async def work(call):
        assert call.names == READS + WRITES
        assert (await call("ask", row="width=1.2"))["label"] == "beech"
        assert [each["id"] for each in (await call("mistakes", n=1))["mistakes"]] == ["odd"]
        done = await call("correct", id="odd", label="beech")
        assert (await call("mistakes"))["mistakes"] == []
        assert (await call("undo"))["undone"]["number"] == done["event"]
        return done["event"]

    event = run(partial(using, command, work))
    with LiveCollection.open(leaves, read_only=True) as collection:
        made, undone = collection.history(event - 1)
        assert (made.who, made.undone_by) == ("ada, by mcp", undone.number)


def test_nothing_can_be_changed_unless_writing_is_allowed(leaves):
    async def work(call):
        assert call.names == READS
        assert "correct" in await call("correct", id="odd", label="beech")

    with LiveCollection.open(leaves) as collection:
        version = collection.version
    with_tools(leaves, work)
    with LiveCollection.open(leaves, read_only=True) as collection:
        assert collection.version == version


def test_answers_are_those_of_the_collection_with_the_items_that_voted(leaves):
    with LiveCollection.open(leaves, read_only=True) as collection:
        (expected,) = collection.label_items(["odd"])
        (new,) = collection.label([[6.95]])

    async def work(call):
        told = await call("ask", id="odd")
        assert (told["label"], told["probability"], told["text"]) == ("beech", expected.probability, expected.text)
        assert (told["set"], told["set_nodes"]) == (expected.set_, expected.set_nodes)
        near = (await call("neighbors", row="6.95", n=3))["neighbors"]
        assert [each["id"] for each in near] == [each.id for each in new.neighbors[:3]]
        assert near[0]["label"] == "elm"
        assert [each["id"] for each in (await call("next"))["next"]] == ["new"]

    with_tools(leaves, work)


def test_what_cannot_be_done_is_said_in_a_sentence(leaves):
    async def work(call):
        assert "one of id, text, row and picture" in await call("ask")
        assert "one of id, text, row and picture" in await call("ask", id="odd", row="1")
        assert "needs a number" in await call("ask", row="wide")
        assert "rows of numbers" in await call("ask", text="a beech")
        assert "is called 'od'" in await call("ask", id="od")
        assert "from 1 to 100" in await call("next", n=0)
        assert "keywords, or both" in await call("correct", id="odd")
        assert "Ask the user" in await call("undo", event=1)
        assert "Did you mean 'beech'" in await call("correct", id="odd", label="beeech")
        with LiveCollection.open(leaves):
            assert "is being written to" in await call("correct", id="odd", label="beech")

    with_tools(leaves, work, write=True)
