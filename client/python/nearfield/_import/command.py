"""nearfield import: copies a collection of another store, or a file of vectors.

    nearfield import qdrant-folder --from docs          # Qdrant's local mode
    nearfield import docs-123-2026-01-31-12-00-00.snapshot
    nearfield import chroma-folder                      # Chroma's persistent client
    nearfield import lance-folder --from docs --metric cosine
    nearfield import docs.faiss --collection docs
    nearfield import base.u8bin --metric l2

All rows become one atomic commit. A field of the metadata that has one type is also an attribute,
for filters; every field is in the payload, as JSON. After an interruption the same command
continues. The packages of the stores read them: pip install qdrant-client (or qdrant-edge-py for
snapshots), chromadb or lancedb; files need none.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nearfield._client import Client, connect
from nearfield._collection import Collection
from nearfield._command import (
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    add_server_options,
    command_parser,
    fail,
    fail_call,
)
from nearfield._errors import Error, NotFound
from nearfield._import.found import Choice, Found, ImportRefused
from nearfield._import.plan import Seen, look, stored, without
from nearfield._import.stores import KINDS, opened
from nearfield._sources.places import placed
from nearfield._text.index import collection_name
from nearfield._upload_progress import Progress

PROGRAM = "nearfield import"
# The packages of the stores, by the names of their modules.
PACKAGES = {
    "qdrant_client": "qdrant-client",
    "qdrant_edge": "qdrant-edge-py",
    "chromadb": "chromadb",
    "lancedb": "lancedb",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = _parse(arguments)
    try:
        with connect(options.address, timeout=options.timeout, caller=options.caller) as client:
            return _run(client, options)
    except ImportError as error:
        package = PACKAGES.get(error.name or "")
        hint = f"; pip install {package}" if package else ""
        return fail(PROGRAM, f"{options.source}: {error}{hint}", EXIT_USAGE)
    except (Error, TypeError, ValueError, OSError) as error:
        named = str(options.source) in str(error) or getattr(error, "unreachable", False)
        return fail_call(PROGRAM, error if named else placed(error, str(options.source)))
    except KeyboardInterrupt:
        return fail(PROGRAM, "interrupted: the same command continues", EXIT_INTERRUPTED)


def _run(client: Client, options: argparse.Namespace) -> int:
    source: Path = options.source
    choice = Choice(options.collection_from, options.vector, options.ids)
    with opened(source, choice) as raw:
        found = without(raw, options.without)
        seen, content = look(source, found, client.limits(), options.attributes)
        docs, attributes = _collection(client, options, found, seen)
        if found.array is not None:
            data, ids = found.array, found.ids
        else:
            data, ids = _batches(source, found, seen, attributes), None
        show = _show if sys.stderr.isatty() else _ignore
        # Without a data directory the server keeps no rows of an upload that broke.
        token = options.token or (content if docs.info().durable else None)
        done = docs.upload(data, ids=ids, token=token, zero_rows="accept", progress=show)
    facts = _facts(docs.name, found, seen, attributes)
    facts |= {"rows_resumed": done.rows_resumed, "epoch": done.epoch}
    print(json.dumps(facts, ensure_ascii=False) if options.json else _summary(facts))
    return 0


def _collection(
    client: Client, options: argparse.Namespace, found: Found, seen: Seen
) -> tuple[Collection, list[str]]:
    """Returns the collection, which is created if there is none, and the attributes to send."""
    name = options.collection or collection_name(Path(found.name))
    metric = options.metric or found.metric
    try:
        info = client.get_collection(name)
    except NotFound:
        if not metric:
            raise ImportRefused(
                f"{options.source}: no metric that nearfield has; give --metric dot, cosine or l2"
            ) from None
        made = client.create_collection(
            name,
            found.dim,
            metric=metric,  # type: ignore[arg-type]
            dtype=found.dtype,  # type: ignore[arg-type]
            id_type=seen.id_type,  # type: ignore[arg-type]
            attributes=list(seen.attributes.values()),
            embedding_model=options.embedding_model,
        )
        return made, list(seen.attributes)
    for field, given, there in (
        ("metric", metric, info.metric),
        ("dim", found.dim, info.dim),
        ("id_type", seen.id_type, info.id_type),
        ("embedding_model", options.embedding_model, info.embedding_model),
    ):
        if given and given != there:
            raise ImportRefused(
                f"{options.source}: {field} {given}; the collection {name!r} has {there}"
            )
    return client.collection(name), [each for each in seen.attributes if each in info.declared]


def _batches(
    source: Path, found: Found, seen: Seen, attributes: list[str]
) -> Iterator[dict[str, Any]]:
    first = 0
    for part in found.parts() if found.parts is not None else ():
        yield stored(part, seen.id_type, attributes, first, source)
        first += len(part.vectors)


def _show(now: Progress) -> None:
    done = now.rows_skipped + now.rows_sent
    end = "\n" if done == now.rows_max else ""
    print(f"\r{done:,} of {now.rows_max:,} rows", end=end, file=sys.stderr, flush=True)


def _ignore(now: Progress) -> None:
    pass


def _facts(name: str, found: Found, seen: Seen, attributes: list[str]) -> dict[str, Any]:
    left = {each: "not declared" for each in seen.attributes if each not in attributes} | seen.left
    return {
        "collection": name,
        "rows": seen.rows,
        "dim": found.dim,
        "id_type": seen.id_type,
        "attributes": {each: seen.attributes[each].text for each in attributes},
        "payload_only": left,  # each with the reason
    }


def _summary(facts: dict[str, Any]) -> str:
    lines = [
        "{collection}: {rows:,} rows of {dim} numbers, ids of type {id_type}; the server had"
        " {rows_resumed:,} of them".format(**facts)
    ]
    for name, kind in facts["attributes"].items():
        lines.append(f"  attribute {name}:{kind}")
    for name, reason in facts["payload_only"].items():
        lines.append(f"  in payloads only: {name}: {reason}")
    return "\n".join(lines)


def _names(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_parser(PROGRAM, __doc__)
    add = parser.add_argument
    add("source", type=Path, metavar="SOURCE", help=KINDS)
    add("-c", "--collection", default="", help="to import into [its name in the source]")
    add(
        "--from",
        dest="collection_from",
        default="",
        metavar="NAME",
        help="the collection or table of the source",
    )
    add("--metric", default="", choices=("dot", "cosine", "l2"), help="[that of the source]")
    add("--vector", default="", metavar="NAME", help="which vectors, if the source has several")
    add(
        "--ids",
        default="",
        metavar="COLUMN",
        help="LanceDB: the column of the ids [id, or row numbers]",
    )
    add(
        "--attributes",
        type=_names,
        metavar="A,B",
        help="the fields to make attributes of; '' for none [all that can be]",
    )
    add(
        "--without",
        action="append",
        default=[],
        metavar="FIELD",
        help="leave a field out; may be repeated",
    )
    add(
        "--embedding-model",
        default="",
        metavar="NAME",
        help="the model that made the vectors, for a new collection",
    )
    add(
        "--token",
        default="",
        metavar="TEXT",
        help="names this import to the server [made of its rows]",
    )
    add("--json", action="store_true", help="print the outcome as one line of JSON")
    add("--timeout", type=float, default=30.0, help="seconds of a call [30]")
    add_server_options(parser, caller="")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
