"""Ids, texts, times and numbers that JSON or its readers do not have, in every tool of the MCP server."""

from __future__ import annotations

import json

import nearfield
import numpy as np
import pytest
from agents import inside

LOOKS_LIKE_JSON = ["[1, 2]", '{"a": 1}', "null", "7", '"x"', "true", "NaN"]
NUMBERS = [0, 7, 2**53 - 1, 2**53, 2**53 + 1, 2**63 + 1, 2**64 - 1]
TIMES = ["2024-05-17", "2024-05-17T09:30Z", "2024-05-17t09:30:00z", "2024-05-17T11:30:00.25+02:00", "0000-01-01",
         "9999-12-31T23:59:59.999999Z", "2024-02-29T00:00:00.1234560-23:59", "1969-12-31T23:59:59.999999Z"]
NO_TIMES = ["2024-05-17T09:30", "2024-05-17T09:30:00.5", "2024-02-30", "2024-05-17T24:00Z", "2024-05-17T09:30:60Z",
            "2024-05-17 09:30Z", "2024-05-17Z", "2024-05-17T09:30.5Z", "2024-05-17T09:30:00,5Z", "2024-13-01",
            "2024-05-17T09:30:00.1234567Z", "2024-05-17T09:30:00+24:00", "0000-01-01T00:00+00:01", "tomorrow", "",
            "2024-05-17T09:30:00+0200", "9999-12-31T23:59-00:01", "10000-01-01", "24-05-17", "1715904000000000Z"]
NEEDED = {"search": {"vector": [1, 0, 0]}, "fetch": {"ids": ["a"]}, "count": {}, "delete": {"ids": ["a"]},
          "facets": {"attributes": ["lang"]},
          "store": {"id": "a", "vector": [1, 0, 0], "payload": "p"}, "update": {"ids": ["first"], "payload": "p"}}


@pytest.fixture
def admin(shared):
    with nearfield.connect(shared.address) as client:
        yield client


@pytest.fixture
def numbers(admin, name):
    """A collection whose ids are numbers."""
    made = admin.create_collection(name, 3, metric="dot", attributes={"n": int})
    made.upload(np.eye(3, dtype=np.float32)[[i % 3 for i in range(len(NUMBERS))]], ids=NUMBERS)
    return made


@pytest.fixture
def texts(admin, name):
    """A collection whose ids are texts."""
    declared = {"lang": str, "tags": [str], "made": "timestamp", "price": float, "prices": [float], "n": int}
    made = admin.create_collection(name, 3, metric="l2", id_type="string", attributes=declared)
    made.upload([[0, 0, 1]], ids=["first"])
    return made


def as_javascript_reads(reply):
    """Numbers become doubles."""
    return json.loads(json.dumps(reply), parse_int=lambda digits: int(float(digits)))


async def test_a_number_that_names_no_row_was_an_internal_error(shared, numbers):
    async with inside(shared, numbers.name) as agent:
        found = await agent("fetch", collection=numbers.name, ids=[7, 99, "98", str(2**63)])
        assert ([row["id"] for row in found["rows"]], found["missing"]) == ([7], [99, 98, str(2**63)])


async def test_ids_beyond_2_53_were_rounded_by_agents_in_javascript(shared, numbers):
    name = numbers.name
    async with inside(shared, name) as agent:
        found = as_javascript_reads(await agent("search", collection=name, vector=[1, 1, 1]))
        ids = [row["id"] for row in found["rows"]]
        assert sorted(map(int, ids)) == NUMBERS
        fetched = as_javascript_reads(await agent("fetch", collection=name, ids=ids))
        assert [row["id"] for row in fetched["rows"]] == ids and fetched["missing"] == []
        for each in ids:
            others = (await agent("search", collection=name, id=each))["rows"]
            assert len(others) == numbers.count().rows_count - 1 and each not in [row["id"] for row in others]
            stored = await agent("store", collection=name, id=each, vector=[0, 1, 0], payload=f"row {each}")
            assert stored["replaced"] == 1
            assert numbers.fetch([int(each)]).payloads == [f"row {each}".encode()]
            assert await agent("delete", collection=name, ids=[each]) == 1
        assert await agent("count", collection=name) == 0


@pytest.mark.parametrize("given", [True, 7.0, -1, "-1", "1.5", "007", "", " 7", "seven", str(2**64), "9" * 5000, 2**53 + 1])
async def test_an_id_that_was_rounded_or_is_no_number_named_another_row(shared, numbers, given):
    """true was the row 1, and 2^53 + 1 as a number has already become 2^53 in JavaScript."""
    async with inside(shared, numbers.name) as agent:
        for tool, arguments in (
            ("search", {"id": given}), ("fetch", {"ids": [7, given]}), ("delete", {"ids": [7, given]}),
            ("store", {"id": given, "vector": [1, 0, 0], "payload": "x"}),
        ):
            text = await agent.refused(tool, collection=numbers.name, **arguments)
            assert "id" in text and "2**" not in text
    assert numbers.count().rows_count == len(NUMBERS)


async def test_a_number_is_no_id_of_a_collection_of_texts(shared, texts):
    async with inside(shared, texts.name) as agent:
        for tool, arguments in (("search", {"id": 7}), ("fetch", {"ids": [7]}), ("delete", {"ids": ["first", 7]})):
            assert 'texts: "7"' in await agent.refused(tool, collection=texts.name, **arguments)
    assert texts.count().rows_count == 1


@pytest.mark.parametrize("text", LOOKS_LIKE_JSON)
async def test_a_text_that_looks_like_json_was_decoded(shared, texts, text):
    """Its search failed, or the filter "null" was no filter and counted every row."""
    name, tried = texts.name, set()
    async with inside(shared, name) as agent:
        async def call(tool: str, how=agent, **arguments: object):
            tried.update((tool, argument) for argument, given in arguments.items() if text in (given, *given))
            return await how(tool, **{"collection": name, **arguments})

        attributes = {"lang": text, "tags": [text, text]}
        await call("store", id=text, text=text, payload=text, attributes=attributes)
        stored = texts.fetch([text], attributes="*")
        assert stored.payloads == [text.encode()]
        assert (stored.attributes["lang"], stored.attributes["tags"]) == ([text], [[text, text]])
        found = (await call("search", text=text))["rows"]
        assert agent.embedded[1:] == [text, text]  # after one that finds the dim
        assert (found[0]["id"], found[0]["attributes"]) == (text, attributes)
        assert found[0]["payload"] == ({"a": 1} if text == '{"a": 1}' else text)
        assert [row["id"] for row in (await call("search", id=text))["rows"]] == ["first"]
        assert (await call("fetch", ids=[text, "none"]))["missing"] == ["none"]
        changed = await call("update", ids=[text, "none"], payload=text, attributes={"lang": None, "tags": [text]})
        assert (changed["rows"], changed["missing"]) == (1, ["none"])
        stored = texts.fetch([text], attributes="*")
        assert (stored.payloads, stored.attributes["lang"], stored.attributes["tags"]) == ([text.encode()], [None], [[text]])
        assert await call("delete", ids=[text]) == 1
        for tool, needed in NEEDED.items():
            if tool in ("search", "count", "facets", "update"):
                condition = "if_filter" if tool == "update" else "filter"
                assert f"INVALID_ARGUMENT: {condition}" in await call(tool, agent.refused, **needed, **{condition: text})
            assert repr(text) in await call(tool, agent.refused, **needed, collection=text)
        assert "INVALID_ARGUMENT: group_by" in await call("search", agent.refused, **NEEDED["search"], group_by=text)
        assert "INVALID_ARGUMENT: attributes[0]" in await call("facets", agent.refused, attributes=[text])
        tools = (await agent.client.list_tools()).tools
    assert tried == {(tool.name, argument) for tool in tools
                     for argument, schema in tool.input_schema["properties"].items() if "string" in json.dumps(schema)}


async def test_lists_and_objects_that_a_client_sends_as_text_are_decoded(shared, texts):
    async with inside(shared, texts.name) as agent:
        await agent("store", collection=texts.name, id="a", payload="p", vector="[0, 1, 0]", attributes='{"lang": "de"}')
        found = await agent("fetch", collection=texts.name, ids='["a"]')
        assert found["rows"] == [{"id": "a", "payload": "p", "attributes": {"lang": "de"}}]


async def test_numbers_that_json_does_not_have_were_lost(shared, admin, name):
    """The text of the reply was no JSON, and the structured reply had null."""
    docs = admin.create_collection(name, 2, metric="cosine", attributes={"price": float, "prices": [float]})
    infinite = float("inf")
    docs.upload([[1, 2], [0, 0], [2, 1]], ids=[1, 2, 3], zero_rows="accept",
                attributes={"price": [infinite, -infinite, 0.5], "prices": [[infinite, 1.5, -infinite], None, None]},
                payloads=['{"a": [NaN, {"b": -Infinity}], "c": Infinity, "d": 1e999}', "NaN", "Infinity"])
    async with inside(shared, name) as agent:
        first, third, second = (await agent("search", collection=name, vector=[1, 2]))["rows"]
        assert first["payload"] == {"a": ["NaN", {"b": "-inf"}], "c": "inf", "d": "inf"}
        assert first["attributes"] == {"price": "inf", "prices": ["inf", 1.5, "-inf"]}
        assert (second["score"], second["payload"], second["attributes"]) == ("-inf", "NaN", {"price": "-inf"})
        assert (third["payload"], third["attributes"]) == ("Infinity", {"price": 0.5})
        fetched = (await agent("fetch", collection=name, ids=[1]))["rows"]
        assert fetched == [{key: first[key] for key in ("id", "payload", "attributes")}]
        await agent("store", collection=name, id=1, vector=[1, 2], payload="p", attributes=first["attributes"])
        again = docs.fetch([1], attributes="*").attributes
        assert again == {"price": [infinite], "prices": [[infinite, 1.5, -infinite]]}


@pytest.mark.parametrize("payload", [
    '{"half": "\\ud83d", "\\ud83d": 1}', '{"a":' * 300 + "1" + "}" * 300, '{"a":' * 5000 + "1" + "}" * 5000,
    '{"digits": ' + "9" * 5000 + "}", b"\xff\xfe{}", b"", "[" * 5000])
async def test_a_payload_that_json_cannot_hold_failed_the_whole_search(shared, texts, payload):
    texts.upload([[5, 5, 5]], ids=["odd"], payloads=[payload])
    async with inside(shared, texts.name) as agent:
        rows = (await agent("search", collection=texts.name, vector=[5, 5, 5]))["rows"]
        assert [row["id"] for row in rows] == ["odd", "first"]
        if payload and len(payload) > 100:
            assert rows[0]["payload"] == payload


async def test_integers_beyond_2_53_were_rounded_by_agents_in_javascript(shared, texts):
    given = {"n": str(-2**63), "made": str(2**62)}
    async with inside(shared, texts.name) as agent:
        row = {"collection": texts.name, "id": "big", "vector": [1, 1, 1]}
        await agent("store", **row, payload='{"n": 9007199254740993, "m": -9007199254740993, "k": 3}', attributes=given)
        assert texts.fetch(["big"], attributes="*").attributes["n"] == [-2**63]
        (found,) = as_javascript_reads(await agent("fetch", collection=texts.name, ids=["big"]))["rows"]
        assert found["attributes"] == given
        assert found["payload"] == {"n": "9007199254740993", "m": "-9007199254740993", "k": 3}
        for name in ("n", "made"):
            text = await agent.refused("store", **row, payload="p", attributes={name: 2**53 + 1})
            assert text.startswith(f"attributes['{name}']: ") and "give it as text" in text


@pytest.mark.parametrize("time", TIMES)
async def test_a_time_that_filters_take_was_refused_by_store(shared, texts, time):
    async with inside(shared, texts.name) as agent:
        row = {"collection": texts.name, "id": "a", "vector": [1, 0, 0], "payload": "p"}
        await agent("store", **row, attributes={"made": time})
        assert await agent("count", collection=texts.name, filter=f'made == "{time}"') == 1
        (found,) = (await agent("fetch", collection=texts.name, ids=["a"]))["rows"]
        await agent("store", **{**row, "id": "b"}, attributes=found["attributes"])
        assert await agent("count", collection=texts.name, filter=f'made == "{time}"') == 2


@pytest.mark.parametrize("time", NO_TIMES)
async def test_a_time_that_filters_refuse_was_stored_or_answered_with_advice_for_python(shared, texts, time):
    async with inside(shared, texts.name) as agent:
        assert "INVALID_ARGUMENT" in await agent.refused("count", collection=texts.name, filter=f'made == "{time}"')
        text = await agent.refused("store", collection=texts.name, id="a", vector=[1, 0, 0], payload="p",
                                   attributes={"made": time})
        assert text.startswith(f"attributes['made']: {json.dumps(time)} ")
        assert not any(word in text for word in ("datetime", "replace", "tzinfo", "isoformat"))
    assert texts.count().rows_count == 1


async def test_a_search_without_a_query_advised_names_of_python(shared, texts):
    async with inside(shared, texts.name) as agent:
        text = await agent.refused("search", collection=texts.name)
        assert text == "text, vector, id: give one of them"
