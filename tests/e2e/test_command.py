"""The command `nearfield` with real servers, compared with a model: attributes, filters, pages,
waits, upload modes and tokens."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import attributes
import numpy as np
import pytest
from conftest import damage

DIM = 4
ROWS = 3000


def json_value(name: str, value):
    return attributes.time_text(value) if name == "made" else "inf" if value == float("inf") else value


def json_row(identity: int, vector: np.ndarray, row: dict) -> str:
    fields = {name: json_value(name, value) for name, value in row.items()}
    return json.dumps({"id": identity, "vector": [float(each) for each in vector], **fields}) + "\n"


ATTRIBUTES = [part for name, kind in attributes.TYPES.items()
              for part in ("--attribute", f"{name}:{kind.lower()}{'[]' if name in attributes.LISTS else ''}")]


@pytest.fixture
def books(nearfield, rng, tmp_path):
    """books(server) -> a collection of 200 rows with attributes, made by the command, and its
    expected content."""
    def make(server) -> SimpleNamespace:
        draw = random.Random(int(rng.integers(2**32)))
        rows = {identity: attributes.draw_row(draw) for identity in range(200)}
        vectors = rng.integers(-3, 4, (200, DIM)).astype(np.float32)
        path = tmp_path / "books.jsonl"
        path.write_text("".join(json_row(identity, vectors[identity], row) for identity, row in rows.items()))
        nearfield(server, "upload", "books", path, "--create", "--metric", "dot", *ATTRIBUTES)
        return SimpleNamespace(rows=rows, draw=draw, path=path, vectors=vectors)
    return make


def passing(books: SimpleNamespace, tree: tuple) -> list[int]:
    return [identity for identity, row in books.rows.items() if attributes.passes(tree, row, identity)]


def test_filters_as_text_choose_what_the_model_says(start, nearfield, books):
    server = start("--data-dir", "none")
    library = books(server)
    shown = nearfield(server, "collections", "show", "books", "--json").json[0]["attributes"]
    assert [(each["name"], each["type"].upper(), each["is_list"]) for each in shown] == [
        (name, kind, name in attributes.LISTS) for name, kind in attributes.TYPES.items()]
    for _ in range(60):
        tree = attributes.draw_filter(library.draw, list(library.rows))
        text = attributes.to_text(tree)
        counted = nearfield(server, "count", "books", "--filter", text, "--json").json[0]
        assert counted == {"rows_count": len(passing(library, tree)), "epoch": 1}, text
    for _ in range(10):
        tree = attributes.draw_filter(library.draw, list(library.rows))
        found = nearfield(server, "search", "books", "--id", 7, "-k", 1000, "--filter", attributes.to_text(tree), "--verify", "--json").json[0]
        assert sorted(each["id"] for each in found["neighbors"]) == [each for each in passing(library, tree) if each != 7]
        assert found["matched_rows"] == len(found["neighbors"]) and found["verified"], "row 7 is the query"
    nearfield(server, "verify", "books", "--sample", 5, "--filter", "exists(year)", "--score-threshold", "-2")


def test_the_example_of_the_help(start, nearfield, books):
    server = start("--data-dir", "none")
    library = books(server)
    text = 'language == "de" and (year >= 2020 or not exists(price)) and tags any ("de", "en") and id in (1, 2, 3, 4, 5, 6, 7, 8)'
    expected = [identity for identity, row in library.rows.items() if row.get("language") == "de"
                and (row.get("year", 0) >= 2020 or "price" not in row) and set(row.get("tags", [])) & {"de", "en"} and identity in range(1, 9)]
    assert nearfield(server, "count", "books", "--filter", text).out == f"{len(expected)}\n"
    refused = nearfield(server, "count", "books", "--filter", 'language = "de"', code=3)
    assert "INVALID_ARGUMENT: filter_text: column 10: write ==" in refused.err
    nearfield(server, "count", "books", "--filter", "", code=2)


def test_what_a_filter_deletes_is_gone(start, nearfield, books):
    server = start("--data-dir", "none")
    library = books(server)
    gone = passing(library, ("comparison", "year", "LESS", 2021))
    done = nearfield(server, "delete", "books", "--filter", "year < 2021", "--json").json[0]
    assert done == {"rows_deleted": len(gone), "epoch": 2}
    assert nearfield(server, "count", "books", "--min-epoch", 2).out == f"{200 - len(gone)}\n"
    assert nearfield(server, "count", "books", "--filter", "year < 2021").out == "0\n"


def test_all_pages_are_the_whole_order(start, nearfield, books):
    server = start("--data-dir", "none", "--k-max", "16")
    books(server)
    pages = nearfield(server, "search", "books", "--id", 3, "--all", "--json").json
    assert len(pages) >= 199 // 16 and {page["epoch"] for page in pages} == {1}
    whole = [(each["score"], each["id"]) for page in pages for each in page["neighbors"]]
    assert len(whole) == 199 and whole == sorted(whole, key=lambda each: (-each[0], each[1]))
    threshold = whole[40][0]
    reaching = nearfield(server, "search", "books", "--id", 3, "--all", "--score-threshold", threshold, "--json").json
    assert [each["id"] for page in reaching for each in page["neighbors"]] == [each[1] for each in whole if each[0] >= threshold]
    some = nearfield(server, "search", "books", "--id", 3, "--all", "--results-max", 21, "-k", 10, "--json").json
    assert [len(page["neighbors"]) for page in some] == [10, 10, 1]
    by_hand, cursor = [], None
    while True:
        page = nearfield(server, "search", "books", "--id", 3, "-k", 16, "--json", *(["--cursor", cursor] if cursor else ["--with-cursor"])).json[0]
        by_hand += [(each["score"], each["id"]) for each in page["neighbors"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert by_hand == whole


def test_all_pages_go_beyond_the_rows_that_search_reaches(start, nearfield, books):
    server = start("--data-dir", "none", "--k-max", "16", "--page-rows-max", "40")
    books(server)
    pages = nearfield(server, "search", "books", "--id", 3, "--all", "--json").json
    assert sum(len(page["neighbors"]) for page in pages) == 199
    cursor = ["--with-cursor"]
    for rows, code in ((16, 0), (16, 0), (8, 1)):
        page = nearfield(server, "search", "books", "--id", 3, "-k", 16, "--json", *cursor, code=code).json[0]
        assert len(page["neighbors"]) == rows
        cursor = ["--cursor", page.get("next_cursor")]
    assert page["cut"] and "next_cursor" not in page, "a limit that cuts the order is told"


def test_a_pinned_epoch_is_read_after_later_commits(start, nearfield, books):
    server = start("--data-dir", "none")
    books(server)
    search = ["search", "books", "--id", 3, "--json"]
    before = nearfield(server, *search).json[0]["neighbors"]
    pinned = nearfield(server, "collections", "pin", "books", "--json").json[0]
    assert (pinned["epoch"], pinned["rows_count"]) == (1, 200) and pinned["kept_ms"] > 0
    nearfield(server, "delete", "books", "--filter", "exists(year) or not exists(year)")
    assert nearfield(server, "count", "books").out == "0\n"
    assert nearfield(server, "count", "books", "--at-epoch", 1).out == "200\n"
    assert nearfield(server, *search, "--at-epoch", 1).json[0]["neighbors"] == before
    assert nearfield(server, "fetch", "books", 3, "--at-epoch", 1).out
    late = nearfield(server, "count", "books", "--at-epoch", 3, code=3)
    assert "at_epoch: epoch 3 is not reached" in late.err


def test_waits_priorities_and_callers(start, nearfield, books):
    server = start("--data-dir", "none")
    books(server)
    nearfield(server, "search", "books", "--id", 3, "--min-epoch", 1, "--priority", "batch", "--caller", "crawler")
    nearfield(server, "fetch", "books", 3, "--min-epoch", 1)
    for command in (["search", "books", "--id", "3"], ["fetch", "books", "3"], ["count", "books"]):
        for _ in range(10):  # a server that gets no CPU for a tenth of a second answers too late
            late = nearfield(server, *command, "--min-epoch", 2, "--timeout", 0.5, code=3)
            if "DEADLINE_EXCEEDED" not in late.err:
                break
        assert "min_epoch" in late.err


def test_modes(start, nearfield, books, tmp_path):
    server = start("--data-dir", "none")
    library = books(server)
    few = tmp_path / "few.jsonl"
    few.write_text("".join(json_row(identity, library.vectors[0], {"year": 1}) for identity in (5, 6, 1000)))
    assert "ALREADY_EXISTS" in nearfield(server, "upload", "books", few, code=3).err
    done = nearfield(server, "upload", "books", few, "--mode", "upsert", "--json").json[0]
    assert (done["rows_count"], done["rows_replaced"], done["epoch"]) == (3, 2, 2)
    assert nearfield(server, "count", "books", "--filter", "year == 1").out == "3\n"
    assert nearfield(server, "upload", "books", few, "--mode", "replace", "--json").json[0]["rows_replaced"] == 201
    assert nearfield(server, "count", "books").out == "3\n"


def test_rows_are_shown_with_their_attributes(start, nearfield, books):
    server = start("--data-dir", "none")
    rows = {identity: {name: json_value(name, row[name]) if name in row else None for name in attributes.TYPES}
            for identity, row in books(server).rows.items()}
    found = nearfield(server, "search", "books", "--id", 7, "-k", 1000, "--with-attributes", "*", "--json").json[0]
    assert {each["id"]: each["attributes"] for each in found["neighbors"]} == {key: row for key, row in rows.items() if key != 7}
    for line in nearfield(server, "fetch", "books", *range(20), "--with-attributes", "tags,year", "--no-payload", "--json").json:
        assert list(line["attributes"].items()) == [(name, rows[line["id"]][name]) for name in ("year", "tags")]
    assert "attributes[0]" in nearfield(server, "search", "books", "--id", 7, "--with-attributes", "colour", code=3).err


def test_attributes_beside_a_binary_file(start, nearfield, rng, tmp_path):
    server = start("--data-dir", "none")
    np.save(tmp_path / "v.npy", rng.standard_normal((3, DIM)).astype(np.float32))
    (tmp_path / "a.csv").write_text('title,year,tags,language\nx,2019,"[""a"",""b""]",de\ny,,[],\nz,2021,,""\n')
    declared = ["--attribute", "year:int64", "--attribute", "tags:keyword[]", "--attribute", "language:keyword"]
    nearfield(server, "upload", "c", "v.npy", "--create", "--metric", "cosine", *declared, "--attributes", "a.csv")
    for text, count in [("year > 2000", 2), ("exists(tags)", 2), ('tags all ("a", "b")', 1), ('language == ""', 1), ("not exists(language)", 1)]:
        assert nearfield(server, "count", "c", "--filter", text).out == f"{count}\n", text


@pytest.fixture
def upload_files(rng, tmp_path):
    """Returns the arguments of an upload of 3,000 rows with attributes n = 0, 1, ..."""
    np.save(tmp_path / "v.npy", rng.standard_normal((ROWS, DIM)).astype(np.float32))
    (tmp_path / "a.jsonl").write_text("".join(f'{{"n": {number}}}\n' for number in range(ROWS)))
    return ["upload", "c", "v.npy", "--create", "--metric", "dot", "--attribute", "n:int64", "--attributes", "a.jsonl",
            "--token", "nightly", "--block-bytes", "1024"]


@pytest.mark.parametrize("killed", [False, True])
def test_an_upload_with_a_token_goes_on(start, nearfield, upload_files, tmp_path, killed):
    kept = str(tmp_path / "kept")
    server = start("--data-dir", kept)
    # Another client with the same token stops half way; then the server may be killed.
    pb_upload(server, list(range(ROWS // 2)), np.load(tmp_path / "v.npy"))
    assert nearfield(server, "uploads", "show", "c", "nightly").out.startswith("open: ")
    if killed:
        server.kill()
        server = start("--data-dir", kept)
    durable = nearfield(server, "uploads", "get", "c", "nightly", "--json").json[0]
    listed = nearfield(server, "uploads", "list", "--json").json
    assert [(each["token"], each["collection"], each["rows_count"], each["is_live"]) for each in listed] == [
        ("nightly", "c", durable["rows_count"], False)]
    done = nearfield(server, *upload_files, "--json")
    assert done.json[0]["rows_skipped"] == (durable["rows_count"] if killed else ROWS // 2) and done.json[0]["rows_count"] == ROWS
    for text in (f"n < {ROWS}", f"n >= {ROWS // 2 - 1} and n <= {ROWS // 2} or n >= 0"):
        assert nearfield(server, "count", "c", "--filter", text).out == f"{ROWS}\n"
    assert nearfield(server, "count", "c", "--filter", "n == 1499 and id == 1499").out == "1\n"
    again = nearfield(server, *upload_files)
    assert "uploaded before: 3,000 rows" in again.out
    assert nearfield(server, "count", "c").out == f"{ROWS}\n"
    assert nearfield(server, "uploads", "show", "c", "nightly").out == "committed: 3,000 rows, visible from epoch 1\n"
    assert nearfield(server, "uploads", "list", "--json").out == ""
    assert "NOT_FOUND" in nearfield(server, "uploads", "show", "c", "other", code=1).err


def test_a_collection_that_could_not_be_loaded_is_not_called_empty(start, nearfield, books, tmp_path):
    """Regression: verify reported it as empty and ended with 0; drop reported 0 rows."""
    kept = tmp_path / "kept"
    server = start("--data-dir", str(kept))
    books(server)
    server.kill()
    segment = sorted(kept.glob("*.seg"))[-1]
    damage(segment)
    server = start("--data-dir", str(kept))
    for more in ([], ["--filter", "year > 2000"]):
        refused = nearfield(server, "verify", "books", *more, code=3)
        assert "DATA_LOSS" in refused.err and segment.name in refused.err and refused.out == ""
    assert nearfield(server, "collections", "drop", "books", "--yes").out == "dropped books; its rows could not be loaded, nor counted\n"


def test_a_token_of_another_file_is_refused(start, nearfield, tmp_path):
    server = start("--data-dir", str(tmp_path / "kept"))
    for mode in ("insert", "upsert", "replace"):
        # an upsert counts rows with the same id once
        identities = [1, 2, 1, 3, 1] if mode == "upsert" else range(5)
        rows = [f'{{"id": {identity}, "vector": [{number}]}}\n' for number, identity in enumerate(identities)]
        file = tmp_path / "rows.jsonl"
        command = ["upload", mode, file, "--create", "--metric", "dot", "--mode", mode, "--token", mode, "--json"]
        file.write_text("".join(rows))
        first = nearfield(server, *command).json[0]
        again = nearfield(server, *command).json[0]
        assert not first["was_committed"] and again["was_committed"]
        assert first["rows_count"] == again["rows_count"] == len(set(identities))
        for other in ([rows[:2]] if mode == "upsert" else [rows[:2], rows + ['{"id": 9, "vector": [1]}\n']]):
            file.write_text("".join(other))
            refused = nearfield(server, *command, code=3)
            assert f"token: its upload had {first['rows_count']} rows, the file has {len(other)}" in refused.err and refused.out == ""


class Cutter:
    """A proxy that forwards connections to a server and cuts each of the first ones after a given
    number of bytes."""

    def __init__(self, address: str, cuts: list[int]) -> None:
        host, port = address.split(":")
        self.target = (host, int(port))
        self.cuts = cuts
        self.cuts_made = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(self.target)
            left = self.cuts.pop(0) if self.cuts else None
            threading.Thread(target=self._pass, args=(client, upstream, left), daemon=True).start()
            threading.Thread(target=self._pass, args=(upstream, client, None), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, left: int | None) -> None:
        try:
            while data := source.recv(4096):
                sink.sendall(data)
                left = None if left is None else left - len(data)
                if left is not None and left <= 0:
                    self.cuts_made += 1
                    break
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def test_an_upload_with_a_token_goes_on_by_itself_over_a_broken_line(start, nearfield, upload_files, tmp_path):
    server = start("--data-dir", str(tmp_path / "kept"))
    cutter = Cutter(server.address, [20000, 20000])
    done = nearfield(cutter, *upload_files, "--json")
    cutter.listener.close()
    assert cutter.cuts_made == 2 and done.json[0]["rows_count"] == ROWS
    assert nearfield(server, "count", "c", "--filter", f"n < {ROWS}").out == f"{ROWS}\n"
    assert nearfield(server, "verify", "c", "--sample", 3).err == ""


def pb_upload(server, numbers: list[int], vectors: np.ndarray) -> None:
    """Sends a stream with the token, in two blocks, that ends without a commit."""
    pb = server.pb
    server.admin.CreateCollection(pb.CreateCollectionRequest(
        name="c", dim=DIM, metric=pb.METRIC_DOT, dtype=pb.DATA_TYPE_FLOAT32, id_type=pb.ID_TYPE_UINT64,
        attributes=[pb.AttributeSpec(name="n", type=pb.ATTRIBUTE_TYPE_INT64)]), timeout=60)
    requests = [pb.UploadRequest(begin=pb.UploadBegin(
        collection="c", rows_max=len(vectors), payload_bytes_max=0, upload_token=b"nightly"))]
    for part in np.array_split(np.array(numbers), 2):
        requests.append(pb.UploadRequest(block=pb.UploadBlock(
            ids=pb.IdList(numbers=part.tolist()), vectors=pb.VectorBlock(dtype=pb.DATA_TYPE_FLOAT32, data=vectors[part].tobytes()),
            attributes=[pb.AttributeColumn(attribute="n", values=pb.AttributeValues(int64_values=part.tolist()))])))
    replies = []
    with pytest.raises(Exception):
        for reply in server.ingest.Upload(iter(requests), timeout=60):
            replies.append(reply)
    assert replies[0].WhichOneof("message") == "accepted"


def test_counters_tell_what_was_done(start, nearfield, books):
    server = start("--data-dir", "none", "--audit-one-in", "0")
    library = books(server)
    rows = len(library.vectors)
    for _ in range(3):
        nearfield(server, "search", "books", "--id", 3, "-k", 7)
    assert "NOT_FOUND" in nearfield(server, "count", "nothing", code=1).err
    counters = nearfield(server, "counters", "--json").json[0]
    calls = {(each["method"], each["status"]): (each["calls_count"], each["rows_count"]) for each in counters["calls"]}
    assert calls["Upload", "OK"] == (1, rows)
    assert calls["Search", "OK"] == (3, 21)
    assert calls["Count", "NOT_FOUND"] == (1, 0)
    passes = counters["passes"]
    assert passes["passes_count"] == 3
    assert passes["queries_int8_count"] + passes["queries_rows_count"] == 3
    assert passes["bytes_read"] > 0 and passes["candidates"] >= 21
    assert set(counters["audit"].values()) == {0}
    assert "escalations  none\n" in nearfield(server, "counters").out


def test_pipes_are_files(request, start, nearfield, tmp_path):
    """Vectors, ids, payloads and queries through bash's <(command), and the README's upload twice."""
    server = start("--data-dir", "none")
    np.save(tmp_path / "v.npy", np.eye(3, DIM, dtype=np.float32))
    program = Path(request.config.getoption("--cli")).resolve()

    def in_bash(line: str) -> str:
        done = subprocess.run(["bash", "-c", line.replace("nearfield", f"'{program}' -a {server.address}", 1)], cwd=tmp_path,
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    upload = ("nearfield upload docs <(cat v.npy) --format npy --create --if-missing --mode upsert --metric dot "
              "--ids <(seq 7 9) --id-type uint64 --payloads <(printf '{\"n\": %s}\\n' 1 2 3) --attribute n:int64 "
              "--attributes <(printf 'n\\n1\\n\\n3\\n') --json")
    assert json.loads(in_bash(upload))["rows_replaced"] == 0
    assert json.loads(in_bash(upload))["rows_replaced"] == 3
    assert nearfield(server, "count", "docs", "--filter", "n >= 1 and id in (7, 9)").out == "2\n"
    found = json.loads(in_bash("nearfield search docs --queries <(echo '[0, 1, 0, 0]') -k 1 --json"))
    assert [each["id"] for each in found["neighbors"]] == [8]


def test_times_of_rfc_3339_are_the_same_in_rows_and_filters(start, nearfield, tmp_path):
    server = start("--data-dir", "none")
    noon = datetime(2024, 5, 17, 12, tzinfo=timezone(timedelta(hours=2)))
    rows = tmp_path / "r.jsonl"
    rows.write_text("".join(json.dumps({"id": number, "vector": [1], "made": (noon + timedelta(hours=number)).isoformat()}) + "\n"
                            for number in range(3)))
    nearfield(server, "upload", "c", rows, "--create", "--metric", "dot", "--attribute", "made:timestamp")
    assert nearfield(server, "count", "c", "--filter", 'made >= "2024-05-17T11:00:00Z"').out == "2\n"
    assert nearfield(server, "count", "c", "--filter", f'made == "{noon.isoformat()}"').out == "1\n"
    refused = nearfield(server, "count", "c", "--filter", f'made == "{noon.replace(tzinfo=None).isoformat()}"', code=3)
    assert "has no offset from UTC" in refused.err
