"""A sentence model with random weights in the layout of sentence-transformers: small enough to be
made by each test, and run by the code that runs real models."""

from __future__ import annotations

import json
import string
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

MAX_TOKENS = 24


def make_model(folder: Path, rng: np.random.Generator, dim: int = 8, layers: int = 2) -> Path:
    """Writes a BERT model whose tokens are single letters and digits; returns its folder."""
    folder.mkdir(parents=True)
    letters = string.ascii_lowercase + string.digits
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{each}" for each in letters)]
    wide = 2 * dim

    def floats(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    weights = {
        "embeddings.word_embeddings.weight": floats(len(tokens), dim),
        "embeddings.position_embeddings.weight": floats(MAX_TOKENS, dim),
        "embeddings.token_type_embeddings.weight": floats(2, dim),
    }
    norms = ["embeddings.LayerNorm"]
    for i in range(layers):
        name = f"encoder.layer.{i}"
        norms += [f"{name}.attention.output.LayerNorm", f"{name}.output.LayerNorm"]
        for part, out, into in (
            *((f"attention.self.{each}", dim, dim) for each in ("query", "key", "value")),
            ("attention.output.dense", dim, dim), ("intermediate.dense", wide, dim), ("output.dense", dim, wide),
        ):
            weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"] = floats(out, into), floats(out)
    for name in norms:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = floats(dim), floats(dim)
    save_file(weights, str(folder / "model.safetensors"))
    write_json(folder / "config.json", {
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": dim, "num_hidden_layers": layers,
        "num_attention_heads": 2, "layer_norm_eps": 1e-12, "max_position_embeddings": MAX_TOKENS})
    write_json(folder / "modules.json", [
        {"type": f"sentence_transformers.models.{each}"} for each in ("Transformer", "Pooling", "Normalize")])
    write_json(folder / "1_Pooling" / "config.json", {
        "word_embedding_dimension": dim, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True})
    write_tokenizer(folder / "tokenizer.json", tokens)
    return folder


def write_tokenizer(path: Path, tokens: list[str]) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordPiece({each: i for i, each in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(path))


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))
