#!/usr/bin/env python3
"""Embeds the corpus of make_passages.py with a model in a folder of sentence-transformers.

Mean pooling over the tokens and L2 normalization, as the model cards of all-MiniLM-L6-v2 and
all-mpnet-base-v2 say; fp16 on a GPU, fp32 on a CPU. Texts of equal token count form a batch, so no
batch has padding. Writes what `certified_bench --real` reads: packages.fp16.npy (the rows) and
queries.f32.npy. Needs torch, transformers and NumPy, and no network.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import AutoModel

BATCH_TOKENS = 1 << 17
CHUNK_TEXTS = 1 << 16  # per call of the tokenizer: bounds its memory


def read_lines(path: Path, count: int | None) -> list[str]:
    """Returns the texts of the first `count` lines of a .jsonl file, plain, .gz or .xz."""
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    texts: list[str] = []
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if len(texts) == count:
                break
            texts.append(json.loads(line)["text"])
    return texts


class Embedder:
    """The model on its device."""

    def __init__(self, folder: Path, device: torch.device) -> None:
        torch.backends.cuda.enable_cudnn_sdp(False)  # it compiles a plan for each shape of a batch
        dtype = torch.float16 if device.type == "cuda" else torch.float32
        limits = json.loads((folder / "sentence_bert_config.json").read_text("utf-8"))
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(max_length=limits["max_seq_length"])
        model = AutoModel.from_pretrained(folder, local_files_only=True, add_pooling_layer=False)
        self.model = model.to(device=device, dtype=dtype).eval()
        self.device = device

    def tokenize(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the tokens of all texts, one text after the other, and their count per text.

        The tokenizer uses all cores.
        """
        tokens: list[np.ndarray] = []
        for begin in range(0, len(texts), CHUNK_TEXTS):
            encoded = self.tokenizer.encode_batch_fast(texts[begin : begin + CHUNK_TEXTS])
            tokens += [np.array(each.ids, np.int32) for each in encoded]
        return np.concatenate(tokens), np.array([len(each) for each in tokens])

    @torch.inference_mode()
    def embed(self, texts: list[str]) -> torch.Tensor:
        """Returns unit vectors [texts, dim] of fp32, in the order of the texts."""
        begin = time.monotonic()
        tokens, lengths = self.tokenize(texts)
        read = time.monotonic()
        # Everything is on the device before the first batch: the loop never waits for a copy.
        flat = torch.from_numpy(tokens).to(self.device)
        starts = torch.from_numpy(lengths.cumsum() - lengths).to(self.device)
        order = torch.from_numpy(lengths.argsort(kind="stable")).to(self.device)
        vectors = torch.empty(len(texts), self.model.config.hidden_size, device=self.device)
        widths, counts = np.unique(lengths, return_counts=True)
        for width, group in zip(widths.tolist(), order.split(counts.tolist()), strict=True):
            offsets = torch.arange(width, device=self.device)
            for rows in group.split(max(1, BATCH_TOKENS // width)):
                ids = flat[starts[rows, None] + offsets].long()
                hidden = self.model(ids).last_hidden_state
                pooled = hidden.mean(dim=1, dtype=torch.float32)
                vectors[rows] = torch.nn.functional.normalize(pooled, dim=1)
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        spent = f"{read - begin:.1f} s for tokens, {time.monotonic() - read:.1f} s for vectors"
        print(f"{len(texts)} texts, {len(tokens)} tokens: {spent}", flush=True)
        return vectors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, required=True, help="folder of the model")
    parser.add_argument("--passages", type=Path, required=True, help="passages.jsonl.gz or .xz")
    parser.add_argument("--queries", type=Path, required=True, help="queries.jsonl.gz")
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--rows", type=int, help="only the first ROWS passages")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    embedder = Embedder(arguments.model, device)
    arguments.out.mkdir(parents=True, exist_ok=True)
    queries = embedder.embed(read_lines(arguments.queries, None))
    np.save(arguments.out / "queries.f32.npy", queries.cpu().numpy())
    rows = embedder.embed(read_lines(arguments.passages, arguments.rows))
    np.save(arguments.out / "packages.fp16.npy", rows.half().cpu().numpy())


if __name__ == "__main__":
    main()
