"""Messages of the server in the words of Python: the server names the fields of the protocol."""

from __future__ import annotations

import re
from typing import Any

_NUMBER = r"(?:search\.)?quer(?:y|ies\[(?P<number>\d+)\])"
_VECTOR = re.compile(rf"{_NUMBER}\.encoded(?:\.data)?(?=: )")
_QUERY_ID = re.compile(rf"{_NUMBER}\.row_id(?P<wrong>: (?:number|text) is set)?")
_IDS = re.compile(r"(?<!\.)ids\.(numbers|texts): \d+ given")
_FILTER_IDS = re.compile(r"(?:if_)?filter_args\[\d+\]\.ids\.(numbers|texts): \d+ given")
_ARGUMENT = re.compile(r"(?<=\$)(\d+): (?=an? \w+, )")
_COLLECTION = re.compile(r", the collection has (?=dim|ids)")


def in_words_of_python(message: str, request: Any) -> str:
    """Returns a message with the names of arguments, and the collection's own. request: the one
    that the server refused."""
    search = getattr(request, "search", request)
    prefix = "if_" * message.startswith("if_")

    def vector(found: re.Match[str]) -> str:
        place = found["number"] or "0"
        return "vector" if place == "0" else f"vector[{place}]"

    def query_id(found: re.Match[str]) -> str:
        queries = getattr(search, "queries", None) or [getattr(search, "query", None)]
        at = int(found["number"] or 0)
        row_id = getattr(queries[at], "row_id", None) if at < len(queries) else None
        if not found["wrong"] or row_id is None:
            return "id" + (found["wrong"] or "")
        return f"id: {getattr(row_id, row_id.WhichOneof('value'))!r}"

    def ids(found: re.Match[str]) -> str:
        return f"ids: {getattr(request.ids, found[1])[0]!r}"

    def argument(found: re.Match[str]) -> str:
        arguments = getattr(search, f"{prefix}filter_args")
        if int(found[1]) > len(arguments):
            return found[0]
        given = arguments[int(found[1]) - 1]
        member = getattr(given, given.WhichOneof("argument"))
        values = [each for _, column in member.ListFields() for each in column]
        return f"{found[0]}{values[0]!r} is " if len(values) == 1 else found[0]

    if not (name := getattr(search, "collection", "")):
        return message
    message = _VECTOR.sub(vector, message)
    message = _QUERY_ID.sub(query_id, message)
    message = _IDS.sub(ids, message) if hasattr(request, "ids") else message
    if message.startswith(f"{prefix}filter_text: "):
        message = _ARGUMENT.sub(argument, message)
    message = _FILTER_IDS.sub(r"F.id: \1", message)
    return _COLLECTION.sub(lambda _: f"; the collection {name!r} has ", message)
