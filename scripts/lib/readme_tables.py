"""The tables of README.md, made from receipts of measurements. scripts/readme_tables compares them;
scripts/peer_campaign --readme writes that of the CPU from its receipt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from campaign import RECEIPTS, ROOT, Facts, Row

README = ROOT / "README.md"
PEERS_LINK = re.compile(r"tests/bench/receipts/(peers_\w+\.json)")
NAMES = {"nearfield": "**nearfield**", "nearfield-server": "**nearfield**", "faiss": "FAISS", "lancedb": "LanceDB",
         "chroma": "Chroma", "qdrant": "Qdrant"}  # fmt: skip


def read(receipt: str | Path) -> Facts:
    return dict(json.loads((RECEIPTS / receipt).read_text(encoding="utf-8")))


def row_of(receipt: str, **wanted: object) -> Row:
    """Returns the first row of a receipt that has these values."""
    return next(row for row in read(receipt)["rows"] if all(row.get(name) == value for name, value in wanted.items()))


def percent(share: float) -> str:
    """Formats a share; never rounds to 0% or 100%."""
    return f"{100 * share:.0f}%" if share in (0, 1) else f"{min(max(100 * share, 0.1), 99.9):.1f}%"


def cpu_table(receipt: Facts) -> str:
    """Returns the table of the CPU."""
    lines = ["| | queries/s | p50 | recall@10 | ids in the oracle's order | score bits of the oracle |", "| --- | --- | --- | --- | --- | --- |"]
    for row in receipt["rows"]:
        rate, p50 = row["queries_per_s"], row["p50_us"] / 1000
        lines.append(f"| {NAMES[row['name']]} {row['version']}, {row['setting']} | {rate:,.{0 if rate >= 10 else 1}f} | {p50:,.{0 if p50 >= 100 else 1}f} ms | "
                     f"{row['recall']:.3f} | {percent(row['same_order'])} | {percent(row['same_score_bits'])} |")  # fmt: skip
    return "\n".join(lines)


def cpu_part(name: str) -> str:
    """Returns the sentence about the machine, and the table of the CPU."""
    receipt = read(name)
    row = receipt["rows"][0]
    return (f"{row['n']:,} x {row['dim']} fp32 rows, k = {row['k']}; {receipt['threads']} threads on {receipt['cores']} cores "
            f"({receipt['cpu']}),\nload average {receipt['load_average_before']} before the run "
            f"([receipt](tests/bench/receipts/{name})):\n\n{cpu_table(receipt)}")  # fmt: skip


def ratios(row: Row, peers: dict[str, str]) -> str:
    """Names how many times as fast as each peer of the same run nearfield is."""
    return ", ".join(f"{name} {row['peers_us'][key] / row['us']:.1f} times" for key, name in peers.items())


def gpu_line(what: str, figure: str, compared: str, receipt: str) -> str:
    return f"| {what} | {figure} | {compared} | [receipt](tests/bench/receipts/{receipt}) |"


def gpu_part() -> str:
    """Returns the table of the GPU."""
    one, batch, served, chosen = (f"{name}_nvidia_h200.json" for name in ("search", "certified", "service", "select"))
    torch, cuvs = "PyTorch fp32", "cuVS"
    lines = ["| measurement | nearfield | faster than, same run | |", "| --- | --- | --- | --- |"]
    for rows, dim, k in ((100_000, 768, 32), (1_000_000, 1024, 100)):
        row = row_of(one, n=rows, dim=dim, k=k)
        lines.append(gpu_line(f"one query, {rows:,} x {dim}, k = {k}", f"{row['us']:.0f} us, p99 {row['p99_us']:.0f} us",
                              ratios(row, {"torch.mv+topk": torch, "cuvs.brute_force": cuvs}), one))  # fmt: skip
    row = row_of(batch, n=1_000_000, dim=1024, k=10, batch=256, generations=8, metric="dot")
    names = {"torch.mm+topk.fp32": torch, "cuvs.brute_force": cuvs, "torch.mm+topk.bf16": "PyTorch bf16 (inexact)"}
    lines.append(gpu_line("256 queries in one batch, 1,000,000 x 1024, k = 10", f"{row['queries_per_s']:,.0f} queries/s", ratios(row, names), batch))
    row = row_of(served, what="closed", n=1_000_000, dim=768, k=10, load=64.0)
    lines.append(gpu_line("64 callers of the server, 1,000,000 x 768, k = 10", f"{row['per_second']:,.0f} searches/s, p99 {row['p99_us'] / 1000:.1f} ms", "", served))
    row = row_of(chosen, name="adaptive", batch=1, n=1_000_000, k=100, dtype="fp32", input="normal")
    lines.append(gpu_line("select 100 of 1,000,000 scores", f"{row['us']:.0f} us", ratios(row, {"torch.topk": "torch.topk"}), chosen))
    return "\n".join(lines)


def replaced(text: str, name: str, part: str) -> str:
    """Returns the text with another part between the two comments of this name."""
    begin, end = f"<!-- {name}: scripts/readme_tables -->\n", f"\n<!-- {name}: end -->"
    return text[: text.index(begin) + len(begin)] + part + text[text.index(end) :]


def expected(text: str, peers: Path | None = None) -> str:
    """Returns README.md with its tables as the receipts have them. Without `peers`, the receipt of
    the CPU is the one that the text links."""
    found = PEERS_LINK.search(text)
    name = peers.name if peers else found.group(1) if found else ""
    parts: dict[str, Callable[[], str]] = {"cpu": lambda: cpu_part(name), "gpu": gpu_part}
    for part, make in parts.items():
        text = replaced(text, part, make())
    return text


def write(readme: Path = README, peers: Path | None = None) -> None:
    readme.write_text(expected(readme.read_text(encoding="utf-8"), peers), encoding="utf-8")
