"""The requests of updates, without a server: they say what was given, and errors name the argument. Which calls
are repeated, and what a client remembers of attributes that others change."""

from __future__ import annotations

import copy
import datetime as dt
from typing import Any

import grpc
import nearfield
import numpy as np
import pandas
import pyarrow as pa
import pytest
from nearfield import F
from nearfield._attributes import Attribute, attribute_message, declare
from nearfield._columns import read_columns
from nearfield._proto import admin_pb2 as admin
from nearfield._proto import common_pb2 as common
from nearfield._proto import ingest_pb2 as ingest
from nearfield._records import CollectionInfo, read_collection
from nearfield._retry import RetryPolicy
from nearfield._sources.source import Spec
from nearfield._update import add_changes
from nearfield._values import to_ids
from scripted import Refusal
from update_model import DECLARED, Rows, draw_assignment, draw_changes, interpret, payload_of

Code = grpc.StatusCode
AWAY = Refusal(Code.UNAVAILABLE, "starting")
LIMITS = common.GetLimitsResponse(request_bytes_max=1 << 20, attribute_keyword_bytes_max=1024, attribute_list_values_max=1024,
                                  payload_bytes_max=65536)


def collection(epoch: int = 1, **declared: Any) -> admin.GetCollectionResponse:
    attributes = [attribute_message(each) for each in declare(declared or DECLARED)]
    return admin.GetCollectionResponse(collection=admin.CollectionInfo(
        name="docs", dim=2, id_type="ID_TYPE_UINT64", epoch=epoch, incarnation=5, attributes=attributes))


def info(**declared: Any) -> CollectionInfo:
    return read_collection(collection(**declared).collection)


def request_of(ids: Any = None, attributes: Any = None, payloads: Any = None, **declared: Any) -> ingest.UpdateRequest:
    request = ingest.UpdateRequest()
    add_changes(request, Spec(info(**declared)), None if ids is None else to_ids(ids), attributes, payloads)
    return request


def test_a_request_says_what_was_given(draw):
    for _ in range(400):
        ids = draw.sample(range(100), draw.randint(1, 20))
        rows = Rows()
        for each in draw.sample(range(100), 60) + ids:
            rows.put(each, {"year": each, "tags": ["x"]}, f"p{each}")
        other, given = copy.deepcopy(rows), draw_changes(draw, len(ids))
        request = request_of(ids, **given)
        assert list(request.ids.numbers) == ids
        interpret(request, rows, ids)
        other.update(ids, given.get("attributes"), given.get("payloads"))
        assert rows == other, given


def test_a_request_by_a_filter_has_one_entry_in_each_column(draw):
    for _ in range(100):
        rows, given = Rows(), draw_assignment(draw)
        for each in range(5):
            rows.put(each, {"year": each, "tags": ["x"]}, f"p{each}")
        other = copy.deepcopy(rows)
        interpret(request_of(None, **given), rows, [1, 3])
        for each in (1, 3):
            for name, value in given["attributes"].items():
                other.change(each, name, value)
            if given["payloads"] is not None:
                other.change(each, "payload", given["payloads"])
        assert rows == other, given


@pytest.mark.parametrize("column", [
    np.array([2020, 2021]), pa.array([2020, 2021]), pandas.Series([2020, 2021]), (2020, 2021), [np.int64(2020), 2021]])
def test_every_form_of_a_column_is_the_same_request(column):
    assert request_of([7, 8], {"year": column}) == request_of([7, 8], [{"year": 2020}, {"year": 2021}])


def test_a_gap_of_pandas_removes_the_value():
    wanted = request_of([7, 8], {"year": [2020, None]})
    assert request_of([7, 8], {"year": pandas.Series([2020, None])}) == wanted
    assert request_of([7, 8], pandas.DataFrame({"year": [2020, None]}).to_dict("records")) == wanted


def test_an_attribute_called_payload_is_a_column():
    """In rows the member payload is the payload, as in rows of an upload."""
    declared = {"payload": str}
    assert [each.column.attribute for each in request_of([7], {"payload": ["x"]}, **declared).attributes] == ["payload"]
    assert list(request_of([7], [{"payload": "x"}], **declared).payloads.payloads) == [b"x"]
    assert payload_of({"a": 1}) == request_of([7], payloads=[{"a": 1}]).payloads.payloads[0] == b'{"a":1}'


def test_no_ids_change_nothing():
    for attributes in ({"year": []}, {"year": 2020}, []):
        assert not len(request_of([], attributes).ids.numbers)


@pytest.mark.parametrize(("ids", "given", "kind", "words"), [
    ([1], {}, TypeError, "nothing changes: give attributes= or payloads="),
    ([1], {"attributes": {}}, TypeError, "nothing changes"), ([1, 2], {"attributes": [{}, {}]}, TypeError, "nothing changes"),
    ([1], {"attributes": {"yaer": [1]}}, ValueError, r"attributes\['yaer'\]: the collection 'docs' declares .*; did you mean year\?"),
    ([1], {"attributes": [{"yaer": 1}]}, ValueError, r"attributes\['yaer'\]: .*did you mean year\?"),
    (None, {"attributes": {"yaer": 1}}, ValueError, r"attributes\['yaer'\]: .*did you mean year\?"),
    ([1, 2], {"attributes": {"year": [1]}}, ValueError, r"attributes\['year'\]: 1 values for 2 ids"),
    ([7, 8], {"attributes": {"year": [1, "x"]}}, TypeError, r"row 1 \(id 8\): attributes\['year'\]: 'x'; the attribute is declared int64"),
    ([7, 8], {"attributes": [{}, {"year": 1.5}]}, TypeError, r"row 1 \(id 8\): attributes\['year'\]: 1.5"),
    ([7], {"attributes": {"year": "x"}}, TypeError, r"attributes\['year'\]: 'x'"), (None, {"attributes": {"year": "x"}}, TypeError, r"^attributes\['year'\]: 'x'"),
    (None, {"attributes": {"year": [1]}}, TypeError, r"attributes\['year'\]: \[1\]; the attribute is declared int64"),
    (None, {"attributes": {"tags": "x"}}, TypeError, r"attributes\['tags'\]: 'x'; the attribute is declared keyword\[\]"),
    ([7, 8], {"attributes": {"tags": ["x", "y"]}}, TypeError, r"row 0 \(id 7\): attributes\['tags'\]: 'x'; the attribute is declared keyword\[\]"),
    ([7], {"attributes": {"made": dt.datetime(2024, 1, 1)}}, ValueError, r"attributes\['made'\]: .* has no zone"),
    ([7], {"attributes": {"price": float("nan")}}, ValueError, r"attributes\['price'\]: NaN"),
    ([7], {"attributes": {"year": {"a": 1}}}, TypeError, r"attributes\['year'\]: {'a': 1}; a column is an array or a list"),
    ([7, 8], {"attributes": [{"year": 1}]}, ValueError, "attributes: 1 rows for 2 ids"),
    ([7], {"attributes": [7]}, TypeError, r"attributes\[0\]: 7; a dict of the values that change"),
    ([7], {"attributes": "year"}, TypeError, "attributes: 'year'; a dict of columns, or a list of a dict per id"),
    (None, {"attributes": [{"year": 1}]}, TypeError, "attributes: with filter= one value each"),
    ([7], {"payloads": "x"}, TypeError, "payloads: 'x'; with ids a list of one value for each"),
    ([7], {"payloads": {"a": 1}}, TypeError, "payloads: {'a': 1}; with ids a list"), ([7, 8], {"payloads": ["x"]}, ValueError, "payloads: 1 for 2 ids"),
    ([7, 8], {"payloads": ["x", {1, 2}]}, TypeError, r"row 1 \(id 8\): payload: .* has no form in JSON"),
    ([7], {"attributes": [{"payload": "x"}], "payloads": ["y"]}, TypeError, "payloads: the rows of attributes have a member payload, too"),
])
def test_an_error_names_the_argument_and_the_row(ids, given, kind, words):
    with pytest.raises(kind, match=words):
        request_of(ids, **given)


@pytest.fixture
def docs(scripted, connect, clock):
    """A collection that the client knows."""
    scripted.script.update(GetCollection=[collection()], GetLimits=[LIMITS])
    made = connect(scripted.address, _clock=clock, retry=RetryPolicy(unavailable_max=0)).collection("docs")
    made.info()
    return made


DONE = ingest.UpdateResponse(epoch=9, rows_updated=1, incarnation=5, missing=common.IdList(numbers=[4]))


def test_only_an_update_with_a_token_is_tried_again(docs, scripted):
    scripted.script["Update"] = [AWAY] * 4
    with pytest.raises(nearfield.Unavailable):
        docs.update([1], attributes={"year": 1})
    assert scripted.methods().count("Update") == 1
    scripted.script["Update"] = [AWAY, AWAY, DONE]
    done = docs.update([1, 4], attributes={"year": 1}, token="once")
    assert (done.rows, done.epoch, done.incarnation, done.missing.tolist(), len(done.refused)) == (1, 9, 5, [4], 0)
    tokens = [ingest.UpdateRequest.FromString(data).update_token for method, data, _ in scripted.calls if method == "Update"]
    assert tokens == [b"", b"once", b"once", b"once"]


def test_the_arguments_of_a_call_are_in_its_request(docs, scripted):
    scripted.script["Update"] = [DONE] * 2
    docs.update([1], attributes={"year": 1}, if_=(F.year == 3) & F.id.isin([1]), if_epoch=8, incarnation=5, token=b"\xff")
    docs.update(filter={"year": {"$gte": 2020}}, payloads="x")
    one, two = [ingest.UpdateRequest.FromString(data) for method, data, _ in scripted.calls if method == "Update"]
    assert (one.collection, one.if_filter_text, one.if_epoch, one.incarnation, one.update_token) == (
        "docs", "`year` == $1 and id in $2", 8, 5, b"\xff")
    assert [each.WhichOneof("argument") for each in one.if_filter_args] == ["values", "ids"] and not one.HasField("filter_text")
    assert (two.filter_text, len(two.filter_args), list(two.payloads.payloads)) == ("`year` >= $1", 1, [b"x"])
    for field in ("ids", "if_filter_text", "if_epoch", "incarnation", "update_token"):
        assert not two.HasField(field)


@pytest.mark.parametrize(("given", "kind", "words"), [
    ({}, TypeError, "give either ids or filter="), ({"ids": [1], "filter": "year == 1"}, TypeError, "give either ids or filter="),
    ({"ids": 7}, TypeError, "ids: one id; give a list"), ({"ids": [1], "if_": 7}, TypeError, "if_: filter: 7; an expression"),
    ({"ids": [1], "if_": {"$x": 1}}, ValueError, r"if_: filter: '\$x' is no operator"),
    ({"ids": [1], "if_epoch": -1}, ValueError, "if_epoch = -1"), ({"ids": [1], "if_epoch": "1"}, TypeError, "if_epoch: '1'"),
    ({"ids": [1], "token": 7}, TypeError, "token: 7; a text is needed"),
    ({"filter": F.year == 3, "payloads": ["x"]}, TypeError, "with filter= one value for all rows, not a list"),
    ({"ids": [1], "condition": "x"}, TypeError, "condition: no argument of update.*; did you mean if_"),
    ({"ids": [1], "metadatas": []}, TypeError, r"metadatas: .*did you mean payloads\?"),
])
def test_a_wrong_argument_is_named(docs, scripted, given, kind, words):
    with pytest.raises(kind, match=words):
        docs.update(**{"attributes": {"year": 1}, **given})
    assert "Update" not in scripted.methods()


def test_no_ids_return_the_present_epoch(docs, scripted):
    scripted.script["GetCollection"] = [collection(epoch=12)]
    done = docs.update([], attributes={"year": 1})
    assert (done.rows, done.epoch, done.incarnation, len(done.missing)) == (0, 12, 5, 0) and "Update" not in scripted.methods()


def test_a_later_read_waits_for_an_update(docs, scripted):
    from nearfield._proto import retrieval_pb2 as retrieval

    scripted.script.update(Update=[DONE], Count=[retrieval.CountResponse(rows_count=1)])
    docs.update([1], attributes={"year": 1})
    docs.count()
    request = retrieval.CountRequest.FromString(scripted.calls[-1][1])
    assert (request.min_epoch, request.incarnation) == (9, 5)


@pytest.mark.parametrize("refused_by", ["client", "server"])
def test_attributes_that_another_client_has_changed_are_used(docs, scripted, refused_by):
    """The client remembered that year is an int64."""
    now = collection(year=str if refused_by == "client" else float)
    wrong = Refusal(Code.INVALID_ARGUMENT, "attributes[0].column.values: int64 values of a double")
    scripted.script.update(GetCollection=[now], Update=[DONE] if refused_by == "client" else [wrong, DONE])
    docs.update([1], attributes={"year": "MMXX" if refused_by == "client" else 2020})
    sent = ingest.UpdateRequest.FromString(scripted.calls[-1][1])
    assert len(sent.attributes) == 1 and list(sent.ids.numbers) == [1]
    values = sent.attributes[0].column.values
    assert list(values.keyword_values) == ["MMXX"] or list(values.double_values) == [2020.0]


def test_a_wrong_value_is_not_sent_again(docs, scripted):
    """The attributes are those that the client knows: the error stands."""
    wrong = Refusal(Code.INVALID_ARGUMENT, "too large")
    scripted.script.update(GetCollection=[collection()] * 2, Update=[wrong])
    with pytest.raises(nearfield.InvalidArgument, match="too large"):
        docs.update([1], attributes={"year": 1})
    with pytest.raises(TypeError, match="year"):
        docs.update([1], attributes={"year": "x"})
    assert scripted.methods().count("Update") == 1


@pytest.mark.parametrize(("call", "reply"), [
    (lambda docs: docs.add_attribute("status", str), common.AddAttributeResponse(epoch=9, incarnation=5)),
    (lambda docs: docs.drop_attribute("year"), common.DropAttributeResponse(epoch=9, incarnation=5)),
])
def test_a_client_forgets_the_attributes_that_it_changes(docs, scripted, call, reply):
    """By all names of the collection."""
    method = type(reply).__name__.removesuffix("Response")
    scripted.script.update({method: [reply], "GetCollection": [collection(status=str)], "Update": [DONE]})
    assert call(docs) == 9
    docs.update([1], attributes={"status": "done"})
    assert [each for each in scripted.methods() if each != "GetLimits"] == ["GetCollection", method, "GetCollection", "Update"]


def test_an_attribute_is_added_in_the_spelling_of_a_declaration(docs, scripted):
    wanted = {"a": str, "b": "keyword[]", "c": [int], "until": "timestamp:expires"}
    scripted.script["AddAttribute"] = [common.AddAttributeResponse(epoch=9, incarnation=5)] * 4
    for name, kind in wanted.items():
        docs.add_attribute(name, kind)
    sent = [common.AddAttributeRequest.FromString(data).attribute for method, data, _ in scripted.calls if method == "AddAttribute"]
    assert sent == [attribute_message(each) for each in declare(wanted)] and [each.expires for each in sent] == [False] * 3 + [True]
    assert declare({"until": "timestamp:expires"})[0].text == "timestamp:expires"
    with pytest.raises(ValueError, match=r"attributes\['x'\]: 'txet'; one of int64"):
        docs.add_attribute("x", "txet")


DAY = common.AttributeColumn(attribute="a", values=common.AttributeValues(timestamp_us_values=[1]))


@pytest.mark.parametrize("known", ["int64", "keyword[]", "timestamp", "timestamp[]", None])
@pytest.mark.parametrize(("column", "rows", "values", "kind"), [
    (common.AttributeColumn(attribute="a", values=common.AttributeValues(keyword_values=["x", "y"])), 2, ["x", "y"], "keyword"),
    (common.AttributeColumn(attribute="a", values=common.AttributeValues(int64_values=[1, 2]), list_sizes=[2, 0]), 2, [[1, 2], []], "int64[]"),
    (common.AttributeColumn(attribute="a", list_sizes=[0], presence=b"\2"), 2, [None, []], None),
    (common.AttributeColumn(attribute="a", presence=b"\0"), 2, [None, None], None), (DAY, 1, [1], "timestamp"),
])
def test_an_epoch_with_an_earlier_attribute_of_the_name_is_read(known, column, rows, values, kind):
    """The client knows the attribute as it is declared now; the values are those of another type."""
    declared = {} if known is None else {each.name: each for each in declare({"a": known})}
    (found,) = read_columns([column], rows, declared)
    assert found.raw() == values and (kind is None or found.attribute.text == kind)
    if kind is None and known is not None and (known.endswith("[]") or not column.list_sizes):
        assert found.attribute == Attribute("a", known.removesuffix("[]"), known.endswith("[]"))  # type: ignore[arg-type]
