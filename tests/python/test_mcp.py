"""The MCP server over standard input and output and over HTTP, with the official client."""

from __future__ import annotations

import nearfield
import pytest
from agents import agent, inside, value
from nearfield.mcp import main


@pytest.fixture
def docs(shared, name):
    with nearfield.connect(shared.address) as client:
        made = client.create_collection(
            name, 3, metric="cosine", id_type="string", attributes={"year": int, "made": "timestamp"})
        made.upload([
            {"id": "a", "vector": [2, 0, 0], "payload": {"text": "aa"}, "year": 2020},
            {"id": "b", "vector": [0, 2, 0], "payload": "plain", "year": 2024},
            {"id": "ab", "vector": [1, 1, 0]},
        ])
        client.create_collection(f"{name}-hidden", 3, metric="dot")
        yield made
        for each in (name, f"{name}-hidden"):
            client.drop_collection(each)


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_an_agent_reads(shared, docs, tmp_path, kind):
    async with agent(kind, shared, tmp_path, docs.name) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools == {"search", "fetch", "count", "facets", "list_collections"}
        (listed,) = value(await client.call_tool("list_collections", {}))["result"]
        assert (listed["name"], listed["rows"], listed["attributes"]) == (docs.name, 3, {"year": "int64", "made": "timestamp"})
        found = value(await client.call_tool("search", {
            "collection": docs.name, "vector": [1, 0.1, 0], "k": 2, "filter": "year >= 2020"}))
        assert [(row["id"], row["payload"], row["attributes"]) for row in found["rows"]] == [
            ("a", {"text": "aa"}, {"year": 2020}), ("b", "plain", {"year": 2024})]
        assert found["matched_rows"] == 2 and found["rows"][0]["score"] > 0.9
        by_id = value(await client.call_tool("search", {"collection": docs.name, "id": "a", "k": 1}))
        assert [row["id"] for row in by_id["rows"]] == ["ab"]
        assert value(await client.call_tool("count", {"collection": docs.name}))["result"] == 3
        groups = value(await client.call_tool("search", {
            "collection": docs.name, "vector": [1, 0.1, 0], "group_by": "year", "k": 9}))["rows"]
        years = [row["attributes"]["year"] for row in groups]
        assert len(set(years)) == len(years) and 2020 in years
        boosted = value(await client.call_tool("search", {
            "collection": docs.name, "vector": [1, 0.1, 0], "k": 1, "terms": [
                {"form": "is", "filter": "id == 'b'", "weight": 3},
                {"form": "half_life", "attribute": "made", "half_life": "30d", "origin": "now"}]}))["rows"]
        assert boosted[0]["id"] == "b" and boosted[0]["parts"]["terms"] == 3.0
        facets = value(await client.call_tool("facets", {"collection": docs.name, "attributes": ["year"]}))
        assert sum(rows for _, rows in facets["facets"]["year"]["values"]) + facets["facets"]["year"]["rows_missing"] == 3
        fetched = value(await client.call_tool("fetch", {"collection": docs.name, "ids": ["b", "zz"]}))
        assert (fetched["rows"][0]["id"], fetched["missing"]) == ("b", ["zz"])


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_an_agent_writes_only_if_it_may(shared, docs, tmp_path, kind):
    async with agent(kind, shared, tmp_path, docs.name, "--write", "--embed", "embed_letters:letters") as client:
        stored = value(await client.call_tool("store", {
            "collection": docs.name, "id": "new", "text": "ccc", "payload": {"text": "ccc"},
            "attributes": {"year": 2025, "made": "2024-05-17T11:30:00+02:00"}}))
        assert stored == {"epoch": 2, "replaced": 0}
        found = value(await client.call_tool("search", {"collection": docs.name, "text": "cc", "k": 1}))["rows"]
        assert (found[0]["id"], found[0]["attributes"]["made"]) == ("new", "2024-05-17T09:30:00+00:00")
        assert value(await client.call_tool("delete", {"collection": docs.name, "ids": ["new", "zz"]}))["result"] == 1
    async with agent(kind, shared, tmp_path, docs.name) as client:
        refused = await client.call_tool("delete", {"collection": docs.name, "ids": ["a"]})
        assert refused.is_error and docs.count().rows_count == 3


async def test_mistakes_of_an_agent_are_explained(shared, docs, tmp_path):
    async with agent("stdio", shared, tmp_path, docs.name) as client:
        for tool, arguments, words in (
            ("search", {"collection": f"{docs.name}-hidden", "vector": [1, 0, 0]}, f"one of {docs.name}"),
            ("search", {"collection": docs.name, "vector": [1, 0, 0], "k": 101}, "from 1 to 100"),
            ("search", {"collection": docs.name, "vector": [1.0]}, "has dim 3"),
            ("search", {"collection": docs.name, "text": "aa"}, "no embedding"),
            ("search", {"collection": docs.name, "id": "zz"}, "NOT_FOUND"),
            ("search", {"collection": docs.name}, "give one of"),
            ("count", {"collection": docs.name, "filter": "yaer == 1"}, "yaer"),
        ):
            result = await client.call_tool(tool, arguments)
            assert result.is_error and words in result.content[0].text, result.content


@pytest.mark.parametrize(("tool", "arguments", "words"), [
    ("store", {"id": "a", "vector": [1, 0, 0]}, "payload: missing; an object or a text is needed"),
    ("store", {"id": "a", "vector": [1, 0, 0], "payload": 7}, "payload: 7; an object or a text is needed"),
    ("store", {"id": "a", "vector": [1, 0, 0], "payload": "p", "attributes": [1]}, "attributes: [1]; an object with"),
    ("fetch", {"ids": "a"}, 'ids: "a"; a list of ids, texts or whole numbers, is needed'), ("fetch", {}, "ids: missing; a list of ids"),
    ("delete", {"ids": "a"}, 'ids: "a"; a list of ids'), ("search", {"id": [1]}, "id: [1]; an id, a text or a whole number, is needed"),
    ("search", {"vector": [1, "x", 0]}, 'vector: [1, "x", 0]; a list of numbers is needed'), ("search", {"text": 7}, "text: 7; a text is needed"),
    ("search", {"vector": [1, 0, 0], "k": 2.5}, "k: 2.5; a whole number is needed"),
    ("count", {"filter": {"year": 2020}}, "filter: {\"year\": 2020}; a text such as 'year >= 2020' is needed"),
    ("count", {"collection": None}, "collection: null; the name of a collection is needed"),
    ("store", {"id": "a", "vector": [0, 0, 0], "payload": "p"}, "is zero in every dimension, and has no cosine"),
    ("update", {"attributes": {"year": 1}}, "ids: missing; a list of ids"), ("update", {"ids": ["a"], "payload": 7}, "payload: 7; an object or a text"),
    ("update", {"ids": ["a"]}, "attributes, payload: give one of them, or both"), ("update", {"ids": ["a"], "attributes": {}}, "attributes, payload: give"),
    ("update", {"ids": ["a"], "attributes": {"yaer": 1}}, "did you mean year?"), ("update", {"ids": ["a"], "attributes": {"year": "x"}}, "year"),
    ("update", {"ids": ["a"], "payload": "p", "if_filter": {"year": 1}}, "if_filter: {\"year\": 1}; a text such as"),
])
async def test_an_argument_of_a_wrong_type_was_answered_with_types_of_python(shared, docs, tool, arguments, words):
    async with inside(shared, docs.name) as client:
        text = await client.refused(tool, **{"collection": docs.name, **arguments})
        assert words in text and "pydantic" not in text and "accept" not in text and "\n" not in text
        for each in (await client.client.list_tools()).tools:
            assert all(schema["description"] for schema in each.input_schema["properties"].values())


async def test_an_argument_that_a_tool_does_not_have_was_dropped(shared, docs, tmp_path):
    """A search whose filter was misspelled answered without it. The law holds for every tool."""
    given = {"search": {"vector": [1, 0, 0]}, "fetch": {"ids": ["a"]}, "count": {}, "facets": {"attributes": ["year"]}, "list_collections": {},
             "store": {"id": "a", "vector": [1, 0, 0], "payload": "x"}, "update": {"ids": ["a"], "payload": "x"},
             "delete": {"ids": ["a", "b"]}}
    async with agent("stdio", shared, tmp_path, docs.name, "--write") as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == set(given)
        for tool in tools:
            assert tool.input_schema["additionalProperties"] is False
            named = {} if tool.name == "list_collections" else {"collection": docs.name}
            result = await client.call_tool(tool.name, {**named, **given[tool.name], "filters": "year == 2020"})
            text = result.content[0].text
            assert result.is_error and text.startswith(f"filters: no argument of {tool.name}"), text
            assert all(name in text for name in tool.input_schema["properties"])
            assert ("did you mean filter?" in text) is ("filter" in tool.input_schema["properties"])
    assert docs.count().rows_count == 3 and docs.fetch(["a"]).payloads == [b'{"text":"aa"}']


async def test_a_vector_next_to_a_text_was_dropped(shared, docs, tmp_path):
    both = {"collection": docs.name, "text": "aa", "vector": [0, 0, 1]}
    async with agent("stdio", shared, tmp_path, docs.name, "--write", "--embed", "embed_letters:letters") as client:
        for tool, more in (("search", {}), ("store", {"id": "a", "payload": "x"})):
            result = await client.call_tool(tool, {**both, **more})
            assert result.is_error and "give one of them" in result.content[0].text
    assert docs.fetch(["a"]).vectors.tolist() == [[2, 0, 0]]


async def test_attributes_named_like_parts_of_a_row_were_dropped(shared, docs, name, tmp_path):
    """An attribute called id, vector or payload was replaced by that part of the row."""
    attributes = {"id": "seven", "vector": [1.5], "payload": "note", "score": 0.5, "query": 3, "attributes": True}
    declared = {"id": str, "vector": [float], "payload": str, "score": float, "query": int, "attributes": bool}
    with nearfield.connect(shared.address) as admin:
        named = admin.create_collection(f"{name}-named", 3, metric="dot", attributes=declared)
        async with agent("stdio", shared, tmp_path, named.name, "--write") as client:
            row = {"collection": named.name, "id": 7, "vector": [1, 0, 0], "payload": {"a": 1}}
            value(await client.call_tool("store", {**row, "attributes": attributes}))
            found = value(await client.call_tool("fetch", {"collection": named.name, "ids": [7]}))["rows"]
            assert found == [{"id": 7, "payload": {"a": 1}, "attributes": attributes}]
            (hit,) = value(await client.call_tool("search", {"collection": named.name, "vector": [2, 0, 0]}))["rows"]
            assert hit == {**found[0], "score": 2.0}
            result = await client.call_tool("store", {**row, "attributes": {"yaer": 1}})
            assert result.is_error and "yaer" in result.content[0].text


def test_an_abbreviated_option_gave_the_right_to_write(capsys):
    """--w was taken as --write."""
    with pytest.raises(SystemExit) as ended:
        main(["docs", "--w"])
    assert ended.value.code == 2 and "unrecognized arguments: --w" in capsys.readouterr().err


async def test_an_agent_changes_rows(shared, docs):
    async with inside(shared, docs.name) as client:
        changed = await client("update", collection=docs.name, ids=["a", "b", "zz"], attributes={"year": 2030, "made": "2024-05-17"},
                               if_filter="year == 2020")
        assert changed == {"epoch": 2, "rows": 1, "missing": ["zz"], "refused": ["b"]}
        (row,) = (await client("fetch", collection=docs.name, ids=["a"]))["rows"]
        assert row == {"id": "a", "payload": {"text": "aa"}, "attributes": {"year": 2030, "made": "2024-05-17T00:00:00+00:00"}}
        await client("update", collection=docs.name, ids=["a", "ab"], attributes={"year": None}, payload={"text": "new"})
        rows = (await client("fetch", collection=docs.name, ids=["a", "ab"]))["rows"]
        assert [each["payload"] for each in rows] == [{"text": "new"}] * 2 and "year" not in rows[0]["attributes"]
        await client("update", collection=docs.name, ids=["a"], attributes={"year": str(2**62)}, payload="")
        assert (await client("fetch", collection=docs.name, ids=["a"]))["rows"][0] == {
            "id": "a", "payload": None, "attributes": {"year": str(2**62), "made": "2024-05-17T00:00:00+00:00"}}
        assert "beyond 2^53" in await client.refused("update", collection=docs.name, ids=["a"], attributes={"year": 2**62})
    assert docs.fetch(["a", "b", "ab"]).vectors.tolist() == [[2, 0, 0], [0, 2, 0], [1, 1, 0]]


async def test_a_dropped_collection_hid_the_others(shared, docs, name):
    with nearfield.connect(shared.address) as admin:
        admin.create_collection(f"{name}-dropped", 3, metric="dot")
        async with inside(shared, f"{name}-dropped", docs.name) as client:
            admin.drop_collection(f"{name}-dropped")
            dropped, listed = await client("list_collections")
            assert dropped["name"] == f"{name}-dropped" and "NOT_FOUND" in dropped["error"]
            assert (listed["name"], listed["rows"]) == (docs.name, 3) and "error" not in listed
            assert "NOT_FOUND" in await client.refused("count", collection=f"{name}-dropped")
            assert await client("count", collection=docs.name) == 3


async def test_an_agent_reads_no_name_of_another_collection(shared, docs, name):
    """An error of the client suggests the name of a similar collection."""
    with nearfield.connect(shared.address) as admin:
        admin.create_collection(f"{name}-secret", 3, metric="dot")
        with pytest.raises(nearfield.NotFound, match="secret"):
            admin.collection(f"{name}-secre").count()
    async with inside(shared, f"{name}-secre", docs.name) as client:
        assert "secret" not in await client.refused("count", collection=f"{name}-secre")
        assert "secret" not in await client.refused("fetch", collection=f"{name}-secre", ids=["a"])
        assert "secret" not in str(await client("list_collections"))


async def test_a_collection_created_again_was_taken_for_the_first(shared, name):
    """Its ids and attributes have other types. The client remembers those of the first."""
    declared = {"made": "timestamp", "price": "double"}
    with nearfield.connect(shared.address) as admin:
        admin.create_collection(name, 3, metric="dot", attributes=declared)
        async with inside(shared, name) as client:
            row = {"collection": name, "vector": [1, 0, 0], "payload": "p"}
            await client("store", id="7", attributes={"made": "2024-05-17", "price": "inf"}, **row)
            assert (await client("fetch", collection=name, ids=["7"]))["rows"][0]["id"] == 7
            admin.drop_collection(name)
            admin.create_collection(name, 3, metric="dot", id_type="string", attributes=dict.fromkeys(declared, "keyword"))
            attributes = {"made": "2024-05-17", "price": "inf"}
            await client("store", id="7", attributes=attributes, **row)
            expected = [{"id": "7", "payload": "p", "attributes": attributes}]
            assert await client("fetch", collection=name, ids=["7"]) == {"rows": expected, "missing": []}
            found = await client("search", collection=name, vector=[1, 0, 0])
            assert found["rows"] == [{**expected[0], "score": 1.0}]
            assert await client("delete", collection=name, ids=["7"]) == 1


async def test_a_failed_embedding_gave_no_reason(shared, docs):
    def embed(texts: list[str]) -> list[list[float]]:
        if "tea" in texts:
            raise RuntimeError("no model for tea")
        return [[1.0, 0.0, 0.0]]

    async with inside(shared, docs.name, embed=embed) as client:
        assert "RuntimeError: no model for tea" in await client.refused("search", collection=docs.name, text="tea")


async def test_texts_of_a_collection_of_another_model_are_refused(shared, name):
    """Also if the collection got its name after the start."""
    def letters(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0, 0.0] for _ in texts]

    letters.name = "letters"
    with nearfield.connect(shared.address) as admin:
        async with inside(shared, name, embed=letters) as client:
            for model, refused in (("letters", False), ("other", True)):
                admin.create_collection(name, 3, metric="dot", embedding_model=model)
                for tool, more in (("search", {}), ("store", {"id": 1, "payload": "p"})):
                    if refused:
                        words = f"collection {name!r} has vectors of the model 'other', not of 'letters'"
                        assert words in await client.refused(tool, collection=name, text="tea", **more)
                    else:
                        await client(tool, collection=name, text="tea", **more)
                admin.drop_collection(name)
