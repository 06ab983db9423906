"""Sentence embeddings of BERT models such as all-MiniLM-L6-v2, in NumPy on the CPU.

The forward pass is that of a BERT encoder with mean pooling over the tokens and L2 normalization. A
text that is longer than the model reads is truncated, as the model's configuration specifies. This
file imports nothing of the package: scripts/data/make_corpus.py uses it, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
# Texts of one forward pass. A pass of 256 tokens of all-MiniLM-L6-v2 takes about 60 MB.
BATCH_TEXTS = 16
WORDS = "embeddings.word_embeddings.weight"


def gelu_(x: Floats) -> Floats:
    """Applies the exact (erf) GELU to x in place and returns it. Any shape, float32.

    erf is the approximation 7.1.26 of Abramowitz and Stegun: error below 1.5e-7.
    """
    z = np.abs(x)
    z *= np.float32(1.0 / math.sqrt(2.0))
    t = 1.0 / (1.0 + np.float32(0.3275911) * z)
    poly = np.full_like(t, 1.061405429)
    for c in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        poly *= t
        poly += np.float32(c)
    poly *= t
    np.multiply(z, z, out=z)
    np.negative(z, out=z)
    np.exp(z, out=z)
    poly *= z  # 1 - erf(|x| / sqrt(2))
    np.subtract(1.0, poly, out=poly)
    np.copysign(poly, x, out=poly)
    poly += 1.0
    poly *= 0.5
    x *= poly
    return x


def read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def difference(folder: Path) -> str | None:
    """Returns why a folder of sentence-transformers does not hold a model of this kind, or None."""
    config = read_json(folder / "config.json")
    steps = [each["type"].rpartition(".")[2] for each in read_json(folder / "modules.json") or ()]
    pooling = read_json(folder / "1_Pooling" / "config.json")
    modes = [
        name for name, on in pooling.items() if name.startswith("pooling_mode_") and on is True
    ]
    prompts = read_json(folder / "config_sentence_transformers.json").get("prompts") or {}
    for name, found, wanted in (
        ("model_type", config.get("model_type"), "bert"),
        ("hidden_act", config.get("hidden_act"), "gelu"),
        ("position_embedding_type", config.get("position_embedding_type", "absolute"), "absolute"),
        ("modules", steps, ["Transformer", "Pooling", "Normalize"]),
        ("pooling", modes, ["pooling_mode_mean_tokens"]),
        ("prompts", any(prompts.values()), False),
        ("model.safetensors", (folder / "model.safetensors").is_file(), True),
        ("tokenizer.json", (folder / "tokenizer.json").is_file(), True),
    ):
        if found != wanted:
            return f"{name} is {found}, not {wanted}"
    return None


class BertEncoder:
    """A sentence encoder: texts in, unit vectors of float32 out."""

    def __init__(self, folder: Path) -> None:
        """Loads the model in a folder of sentence-transformers. Raises ValueError for one of
        another kind, and ImportError without safetensors and tokenizers."""
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        why = difference(folder)
        if why is not None:
            raise ValueError(f"{folder}: {why}")
        config = read_json(folder / "config.json")
        limits = read_json(folder / "sentence_bert_config.json")
        self.dim: int = config["hidden_size"]
        self.layers: int = config["num_hidden_layers"]
        self.heads: int = config["num_attention_heads"]
        self.eps: float = config["layer_norm_eps"]
        self.max_tokens: int = limits.get("max_seq_length") or config["max_position_embeddings"]
        self.weights: dict[str, Floats] = {
            k: v.astype(np.float32)
            for k, v in load_file(str(folder / "model.safetensors")).items()
            if v.dtype != np.int64
        }
        if WORDS not in self.weights:
            raise ValueError(f"{folder}: model.safetensors has no tensor {WORDS}")
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length=self.max_tokens)

    def _linear(self, x: Floats, name: str) -> Floats:
        """[B, T, I] -> [B, T, O] through the layer's weight [O, I] and bias [O]."""
        y: Floats = x @ self.weights[name + ".weight"].T
        y += self.weights[name + ".bias"]
        return y

    def _norm(self, x: Floats, name: str) -> Floats:
        """Layer normalization over the last axis. [B, T, D] -> [B, T, D]."""
        x = x - x.mean(axis=-1, keepdims=True)
        var = np.mean(x * x, axis=-1, keepdims=True)
        x /= np.sqrt(var + np.float32(self.eps))
        x *= self.weights[name + ".weight"]
        x += self.weights[name + ".bias"]
        return x

    def _attention(self, x: Floats, bias: Floats, name: str) -> Floats:
        """Self-attention. x [B, T, D], bias [B, 1, 1, T] -> [B, T, D]."""
        b, t, _ = x.shape
        size = self.dim // self.heads

        def split(part: str) -> Floats:
            y = self._linear(x, f"{name}.self.{part}")
            return y.reshape(b, t, self.heads, size).transpose(0, 2, 1, 3)

        q, k, v = split("query"), split("key"), split("value")
        s: Floats = q @ k.transpose(0, 1, 3, 2)  # [B, heads, T, T]
        s *= np.float32(1.0 / math.sqrt(size))
        s += bias
        s -= s.max(axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=-1, keepdims=True)
        y = (s @ v).transpose(0, 2, 1, 3).reshape(b, t, self.dim)
        return self._norm(self._linear(y, name + ".output.dense") + x, name + ".output.LayerNorm")

    def _forward(self, ids: NDArray[np.int64], mask: Floats) -> Floats:
        """Token ids [B, T] and mask [B, T] (1 = token, 0 = padding) -> vectors [B, D]."""
        w = self.weights
        x = w[WORDS][ids]
        x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x += w["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(x, "embeddings.LayerNorm")
        bias = ((1.0 - mask) * np.float32(-1e9)).astype(np.float32)[:, None, None, :]
        for i in range(self.layers):
            name = f"encoder.layer.{i}"
            x = self._attention(x, bias, name + ".attention")
            h = gelu_(self._linear(x, name + ".intermediate.dense"))
            x = self._norm(self._linear(h, name + ".output.dense") + x, name + ".output.LayerNorm")
        pooled: Floats = (x * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
        return pooled

    def encode(
        self, texts: Sequence[str], progress: Callable[[int, int], None] | None = None
    ) -> Floats:
        """Embeds N texts: float32 [N, D], rows of norm 1, in the order of the texts.

        progress, if given, is called with (texts done, N) after each batch.
        """
        tokens = [e.ids for e in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda i: (len(tokens[i]), i))
        out = np.empty((len(tokens), self.dim), dtype=np.float32)
        for start in range(0, len(order), BATCH_TEXTS):
            rows = order[start : start + BATCH_TEXTS]
            width = max(len(tokens[i]) for i in rows)
            ids = np.zeros((len(rows), width), dtype=np.int64)
            mask = np.zeros((len(rows), width), dtype=np.float32)
            for r, i in enumerate(rows):
                ids[r, : len(tokens[i])] = tokens[i]
                mask[r, : len(tokens[i])] = 1.0
            out[rows] = self._forward(ids, mask)
            if progress is not None:
                progress(min(start + BATCH_TEXTS, len(order)), len(order))
        return out
