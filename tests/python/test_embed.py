"""Models that make vectors of texts: of functions, of an OpenAI-compatible server on loopback, of
fastembed and of sentence-transformers; their errors; and the collection's name of its model."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import checksum_model
import nearfield
import numpy as np
import pytest
from nearfield import Embedder, EmbedError, _embed_models
from nearfield._embed import BATCH_TEXTS, embedder_of

KEY = "sk-secret"
TEXTS = [f"text {i}" for i in range(2 * BATCH_TEXTS + 3)]


def test_any_batches_make_the_same_vectors():
    calls = []

    def model(texts: list[str]) -> np.ndarray:
        calls.append(len(texts))
        return checksum_model.model(texts)

    embedder = embedder_of(model)
    assert embedder.documents(TEXTS).tobytes() == checksum_model.model(TEXTS).tobytes()
    assert max(calls) <= BATCH_TEXTS and sum(calls) == len(TEXTS)
    assert embedder.query("a").tobytes() == embedder.documents(["a"]).tobytes()
    assert embedder.documents([]).shape == (0, 8) == (0, embedder.dim)


def test_queries_may_have_a_function_of_their_own():
    embedder = Embedder(lambda texts: [[1, 0]] * len(texts), lambda texts: [[0, 1]] * len(texts), name="m")
    assert embedder_of(embedder) is embedder
    assert embedder.documents(["a"]).tolist() == [[1, 0]] and embedder.query("a").tolist() == [0, 1]


async def later(texts: list[str]) -> list[list[float]]:
    return [[1.0]]


def fails(texts: list[str]) -> None:
    raise RuntimeError("no model")


@pytest.mark.parametrize(("model", "words"), [
    (lambda texts: None, "it made None of a list of 1 texts"), (lambda texts: 1.0, "it made 1.0 of"),
    (lambda texts: [1.0, 2.0], r"it made \[1.0, 2.0\] of"), (lambda texts: [[]], r"it made \[\[\]\] of"),
    (lambda texts: [[1.0], [2.0]], "not one vector for each"), (lambda texts: [[[1.0]]], "not one vector for each"),
    (lambda texts: texts, "ValueError: could not convert"), (lambda texts: [[1.0], [1.0, 2.0]], "ValueError: "),
    (lambda texts: [[1.0, float("nan")]], "not finite"), (lambda texts: [[1e39]], "not finite"),
    (later, "asynchronous"), (fails, "embed: the function: RuntimeError: no model"),
])
def test_what_is_no_vector_is_refused(model, words):
    for call in (lambda embedder: embedder.dim, lambda embedder: embedder.documents(["a"]), lambda embedder: embedder.query("a")):
        with pytest.raises(EmbedError, match=words):
            call(embedder_of(model))


def test_vectors_of_another_dimension_than_before_are_refused():
    dims = iter([3, 3, 4])
    embedder = embedder_of(lambda texts: [[1.0] * next(dims)])
    embedder.query("a")
    embedder.query("a")
    with pytest.raises(EmbedError, match="vectors of 4 numbers, before 3"):
        embedder.query("a")


@pytest.mark.parametrize(("given", "kind", "words"), [
    (None, TypeError, "give a function, an Embedder, or a text"), ([1.0], TypeError, "give a function"),
    ("openai", EmbedError, "write fastembed:MODEL"), ("fastembed:", EmbedError, "write"), ("fastembed:@/", EmbedError, "write"),
    ("openai:m@ftp://x", EmbedError, "give a URL"), ("openai:m@https:///v1", EmbedError, "give a URL"),
    ("openai:m@https://name:key@x/v1", EmbedError, "without a name or a key"), ("openai:m@http://[x", EmbedError, "Invalid IPv6"),
    ("fastembed:m@/no/such/folder", EmbedError, "no such folder: /no/such/folder"),
    ("sentence-transformers:m@/no/such/folder", EmbedError, "no such folder"),
    ("checksum_model:mode", EmbedError, "did you mean model?"),
])
def test_what_names_no_model_is_refused(given, kind, words):
    with pytest.raises(kind, match=words):
        embedder_of(given)


@pytest.mark.parametrize(("provider", "module"), [("fastembed", "fastembed"), ("sentence-transformers", "sentence_transformers")])
def test_a_missing_package_is_named_with_its_command(monkeypatch, provider, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EmbedError, match=f"{module}.*; pip install {provider}$"):
        embedder_of(f"{provider}:some/model")


class Server:
    """An OpenAI-compatible server. Each request is answered with `answer`, a function of the request's body
    that returns a status and a body."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict, dict]] = []
        self.answer = self.vectors
        self.location = ""

    def vectors(self, asked: dict) -> tuple[int, bytes]:
        made = checksum_model.model(asked["input"]).tolist()
        data = [{"index": i, "embedding": vector} for i, vector in enumerate(made)]
        return 200, json.dumps({"data": data[::-1]}).encode()  # in no order

    def __call__(self, model: str = "some/model") -> Embedder:
        return embedder_of(f"openai:{model}@{self.url}")


@pytest.fixture
def server(monkeypatch):
    served = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            served.requests.append((self.path, dict(self.headers), body))
            status, reply = served.answer(body)
            self.send_response(status)
            if served.location:
                self.send_header("Location", served.location)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def do_GET(self) -> None:  # what a redirect becomes
            served.requests.append((self.path, dict(self.headers), {}))
            self.send_error(405)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for variable in ("NEARFIELD_EMBED_KEY_FILE", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        served.url = f"http://127.0.0.1:{http.server_port}/v1"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        http.shutdown()
        thread.join()


def test_a_server_makes_the_vectors_of_its_texts(server):
    embedder = server()
    assert embedder.name == "some/model"
    assert embedder.documents(TEXTS).tobytes() == checksum_model.model(TEXTS).tobytes()
    assert {path for path, _, _ in server.requests} == {"/v1/embeddings"}
    assert {body["model"] for _, _, body in server.requests} == {"some/model"}
    assert [text for _, _, body in server.requests for text in body["input"]] == TEXTS
    assert max(len(body["input"]) for _, _, body in server.requests) <= BATCH_TEXTS


def keys_of(server: Server) -> list[str | None]:
    return [headers.get("Authorization") for _, headers, _ in server.requests]


def test_a_key_goes_only_to_the_server_for_which_it_is(server, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai")
    server().query("a")
    assert keys_of(server) == [None]
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("NEARFIELD_EMBED_KEY_FILE", str(tmp_path / "key"))
    server().query("a")
    assert keys_of(server)[1:] == [f"Bearer {KEY}"]
    server.answer, server.location = lambda _: (302, b""), f"{server.url}/elsewhere"
    with pytest.raises(EmbedError, match="status 405"):
        server().query("a")
    assert keys_of(server)[2:] == [f"Bearer {KEY}", None]  # a redirect loses it
    for host in ("192.0.2.7", "embed.example.com"):
        with pytest.raises(EmbedError, match="sent unencrypted") as refused:
            embedder_of(f"openai:m@http://{host}/v1")
        assert KEY not in str(refused.value)
    embedder_of("openai:m@https://embed.example.com/v1")


def test_the_key_of_openai_is_sent_to_openai(server, monkeypatch):
    monkeypatch.setattr(_embed_models, "OPENAI_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert embedder_of("openai:text-embedding-3-small").dim == 8
    assert keys_of(server) == [f"Bearer {KEY}"]


@pytest.mark.parametrize("key", ["sk-\u00e4", "sk-a\nsk-b", " \n", None])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(monkeypatch, tmp_path, key):
    path = tmp_path / "key"
    if key is not None:
        path.write_text(key)
    monkeypatch.setenv("NEARFIELD_EMBED_KEY_FILE", str(path))
    with pytest.raises(EmbedError, match="key") as refused:
        embedder_of("openai:m@https://embed.example.com/v1")
    assert "sk-" not in str(refused.value)


@pytest.mark.parametrize(("status", "body", "words"), [
    (401, b'{"error": "wrong key"}', "/v1/embeddings: status 401: {\"error\": \"wrong key\"}"), (500, b"\xff", "status 500"),
    (200, b"<html>", "no embeddings in the reply '<html>'"), (200, b"{}", "no embeddings"), (200, b'{"data": 1}', "no embeddings"),
    (200, b'{"data": [{"embedding": [1]}]}', "no embeddings"), (200, b'{"data": [{"index": 1, "embedding": [1]}]}', "no embeddings"),
    (200, b'{"data": []}', "it made [] of a list of 1 texts"), (200, b'{"data": [{"index": 0, "embedding": [NaN]}]}', "not finite"),
    (200, b'{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1]}]}', "not one vector for each"),
    (200, b" " * 1000, "a reply of more than 999 bytes"),
])
def test_a_reply_without_the_vectors_is_shown(server, monkeypatch, status, body, words):
    monkeypatch.setattr(_embed_models, "REPLY_BYTES_MAX", 999)
    server.answer = lambda _: (status, body)
    with pytest.raises(EmbedError) as failed:
        server().query("a")
    assert words in str(failed.value)


def test_a_server_that_is_not_there_or_is_silent_is_named(server, monkeypatch):
    gone, answered = threading.Event(), threading.Event()
    with pytest.raises(EmbedError, match=r"http://127.0.0.1:1/v1/embeddings: .*refused") as failed:
        embedder_of("openai:m@http://127.0.0.1:1/v1").query("a")
    assert isinstance(failed.value.__cause__, ConnectionError)
    monkeypatch.setattr(_embed_models, "REQUEST_S_MAX", 0.05)

    def silent(asked: dict) -> tuple[int, bytes]:
        gone.wait()
        answered.set()
        return 200, b""

    server.answer = silent
    with pytest.raises(EmbedError, match="timed out"):
        server().query("a")
    gone.set()
    assert answered.wait(30)


@pytest.mark.skipif(importlib.util.find_spec("fastembed") is None, reason="fastembed is not installed")
def test_fastembed_runs_a_model_of_a_folder(tmp_path, rng):
    """Without a network: a model whose vectors are the mean of those of the words."""
    words = {"[UNK]": 0, "tea": 1, "salt": 2}
    rows = rng.standard_normal((3, 5), np.float32)
    header = json.dumps({"embeddings": {"dtype": "F32", "shape": [3, 5], "data_offsets": [0, rows.nbytes]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + rows.tobytes())
    (tmp_path / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None, "decoder": None, "truncation": None, "padding": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "[UNK]"}}))
    embedder = embedder_of(f"fastembed:minishlab/potion-base-8M@{tmp_path}")
    assert (embedder.name, embedder.dim) == ("minishlab/potion-base-8M", 5)
    both = rows[1] + rows[2]
    expected = np.stack([rows[1], both]) / np.linalg.norm([rows[1], both], axis=1, keepdims=True)
    np.testing.assert_allclose(embedder.documents(["tea", "salt tea"]), expected, rtol=1e-6)
    np.testing.assert_allclose(embedder.query("tea"), expected[0], rtol=1e-6)
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(EmbedError, match=f"embed: 'fastembed:minishlab/potion-base-8M@{tmp_path}': "):
        embedder_of(f"fastembed:minishlab/potion-base-8M@{tmp_path}")


def test_sentence_transformers_gets_documents_and_queries_apart(monkeypatch, tmp_path):
    loaded = []

    class SentenceTransformer:
        def __init__(self, model):
            loaded.append(model)

        def encode_query(self, texts):
            return np.array([[1.0, len(each)] for each in texts])

        def encode_document(self, texts):
            return np.array([[2.0, len(each)] for each in texts])

    package = types.ModuleType("sentence_transformers")
    package.SentenceTransformer = SentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", package)
    for place, wanted in (("", "intfloat/e5"), (f"@{tmp_path}", str(tmp_path))):
        embedder = embedder_of(f"sentence-transformers:intfloat/e5{place}")
        assert embedder.name == "intfloat/e5" and loaded.pop() == wanted
        assert embedder.query("abc").tolist() == [1, 3] and embedder.documents(["a", "bb"]).tolist() == [[2, 1], [2, 2]]


def test_a_collection_keeps_the_name_of_its_model(shared, name):
    longest = "\u00e4" * 127 + "b"  # 255 bytes
    with nearfield.connect(shared.address) as client:
        for kept in ("", "some/model", longest):
            client.create_collection(name, 8, metric="dot", embedding_model=kept)
            client.create_collection(name, 8, metric="dot", embedding_model=kept, if_missing=True)
            info = client.get_collection(name)
            assert info.embedding_model == kept and info in client.list_collections()
            with pytest.raises(nearfield.AlreadyExists, match="embedding_model"):
                client.create_collection(name, 8, metric="dot", embedding_model="other", if_missing=True)
            for given in ("other", "", kept):
                fits = kept in ("", given)
                with contextlib.nullcontext() if fits else pytest.raises(EmbedError, match=f"of the model '{kept}', not of '{given}'"):
                    Embedder(checksum_model.model, name=given).check(info)
            with pytest.raises(EmbedError, match=r"makes vectors of 10 numbers; the collection '.*' has dim 8"):
                Embedder(checksum_model.wide, name=kept).check(info)
            client.drop_collection(name)
        with pytest.raises(nearfield.InvalidArgument, match="embedding_model = 256 bytes, must be at most 255") as refused:
            client.create_collection(name, 8, metric="dot", embedding_model=longest + "b")
        assert refused.value.field == "embedding_model"
