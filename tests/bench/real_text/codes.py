"""Lossy codes of rows, as a lower tier of a certified scan could store them, in torch.

A code gives for each row x a vector x' (in a basis of its own) and the exact norms of x - x', one
for each block of dimensions. By Cauchy and Schwarz, q.x is at most q.x' plus the sum of
|q_b| |(x - x')_b| over the blocks b.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Quantizer = Callable[[Tensor], Tensor]  # [rows, dim] in the basis -> x', same shape
SCALES = 24  # trial scales of a row


@dataclass(frozen=True)
class Code:
    name: str
    row_bytes: float
    basis: Tensor  # [dim, dim], orthonormal columns
    mean: Tensor  # [dim], subtracted from the rows
    quantize: Quantizer
    blocks: int = 1  # of equal size
    fits_scale: bool = True  # x' times a factor a row: then x - x' is orthogonal to x'


def hadamard_rotation(dim: int, generator: torch.Generator) -> Tensor:
    """Returns engine/bound/rotation.h's rotation for random signs, as an orthonormal matrix."""
    size = 1 << (dim.bit_length() - 1)
    h = torch.ones(1, 1)
    while len(h) < size:
        h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)))
    h = h / math.sqrt(size)
    signs = torch.randint(0, 2, (2, dim), generator=generator).float() * 2 - 1
    rotation = torch.diag(signs[0])
    rotation[:, :size] = rotation[:, :size] @ h
    rotation = rotation * signs[1]
    rotation[:, dim - size :] = rotation[:, dim - size :] @ h
    return rotation


def principal_axes(rows: Tensor, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the variances, descending, and the principal axes of a sample as columns."""
    centered = (rows - mean).double()
    values, vectors = torch.linalg.eigh(centered.T @ centered / len(rows))
    return values.flip(0).float(), vectors.flip(1).float()


def int8(rows: Tensor) -> Tensor:
    """Codes -127..127 with the scale of the largest element, as engine/bound encodes rows."""
    scale = rows.abs().amax(1, keepdim=True).clamp_min(1e-30) / 127
    return torch.round(rows / scale) * scale


def int8_twice(rows: Tensor) -> Tensor:
    """A second int8 code of what the first leaves."""
    first = int8(rows)
    finer = rows.abs().amax(1, keepdim=True).clamp_min(1e-30) / (127 * 254)
    return first + torch.round((rows - first) / finer).clamp(-127, 127) * finer


def narrow(bits: int) -> Quantizer:
    """Codes of 2^bits levels, odd multiples of half a step, with a scale for each row.

    Takes the scale of the smallest residual among SCALES trials. 0 bits leave nothing of a row.
    """

    def quantize(rows: Tensor) -> Tensor:
        best = torch.zeros_like(rows)
        if bits == 0:
            return best
        top = rows.abs().amax(1, keepdim=True).clamp_min(1e-30)
        least = torch.full_like(top, math.inf)
        levels = 1 << (bits - 1)
        for i in range(SCALES):
            step = top * ((i + 1 + SCALES / 3) / (SCALES * 4 / 3) / levels)
            trial = ((rows / step).floor().clamp(-levels, levels - 1) + 0.5) * step
            error = (rows - trial).square().sum(1, keepdim=True)
            best = torch.where(error < least, trial, best)
            least = torch.minimum(error, least)
        return best

    return quantize


def mixed(bits: list[int]) -> Quantizer:
    """Codes of bits[i] bits for block i of the dimensions, with a scale for each row and block."""

    def quantize(rows: Tensor) -> Tensor:
        parts = rows.chunk(len(bits), 1)
        return torch.cat([narrow(b)(part) for b, part in zip(bits, parts, strict=True)], 1)

    return quantize


def spread_bits(variances: Tensor, blocks: int, mean_bits: int) -> list[int]:
    """Returns bits per dimension for each block: each bit goes to the block of the most error."""
    bits = [0] * blocks
    errors: list[float] = variances.view(blocks, -1).sum(1).tolist()
    for _ in range(mean_bits * blocks):
        worst = max(range(blocks), key=lambda i: errors[i] if bits[i] < 8 else -1.0)
        bits[worst] += 1
        errors[worst] /= 4
    return bits


class ProductQuantizer:
    """256 centroids for each group of `group` dimensions, by k-means."""

    def __init__(self, dim: int, group: int, sample: Tensor) -> None:
        self.parts, self.group = dim // group, group
        picked = torch.linspace(0, len(sample) - 1, 256).long().to(sample.device)
        self.centroids = self._split(sample[picked]).contiguous()  # [parts, 256, group]

    def _split(self, rows: Tensor) -> Tensor:
        return rows.reshape(len(rows), self.parts, self.group).transpose(0, 1)

    def assign(self, rows: Tensor) -> Tensor:
        """Returns the nearest centroid of each part: [parts, rows]."""
        bias = self.centroids.square().sum(2)[:, None, :] / 2
        nearest = []
        for begin in range(0, len(rows), 8192):
            chunk = rows[begin : begin + 8192]
            products = torch.baddbmm(bias, self._split(chunk), self.centroids.transpose(1, 2),
                                     alpha=-1)  # fmt: skip
            nearest.append(products.argmin(2))
        return torch.cat(nearest, 1)

    def train(self, sample: Tensor, rounds: int) -> None:
        for _ in range(rounds):
            nearest = self.assign(sample)
            offset = torch.arange(self.parts, device=sample.device)[:, None] * 256
            flat = (nearest + offset).flatten()
            sums = torch.zeros(self.parts * 256, self.group, device=sample.device)
            sums.index_add_(0, flat, self._split(sample).reshape(-1, self.group))
            counts = torch.bincount(flat, minlength=self.parts * 256)[:, None]
            means = (sums / counts.clamp_min(1)).view_as(self.centroids)
            self.centroids = torch.where(counts.view(self.parts, 256, 1) > 0, means, self.centroids)

    def quantize(self, rows: Tensor) -> Tensor:
        index = self.assign(rows)[:, :, None].expand(-1, -1, self.group)
        return self.centroids.gather(1, index).transpose(0, 1).reshape(len(rows), -1)


def balanced_axes(variances: Tensor, axes: Tensor, group: int) -> Tensor:
    """Returns the axes ordered so that groups have similar products of variances (OPQ's start)."""
    members: list[list[int]] = [[] for _ in range(len(variances) // group)]
    weights = [0.0] * len(members)
    logs = variances.clamp_min(1e-12).log().tolist()
    floor = min(logs)
    for axis, log in enumerate(logs):
        open_groups = (i for i in range(len(members)) if len(members[i]) < group)
        chosen = min(open_groups, key=lambda i: weights[i])
        members[chosen].append(axis)
        weights[chosen] += log - floor
    return axes[:, [axis for each in members for axis in each]]


def optimized(
    sample: Tensor, start: Tensor, group: int, rounds: int
) -> tuple[ProductQuantizer, Tensor]:
    """OPQ: alternates k-means and the best rotation. Source: Ge et al., CVPR 2013.

    Returns the quantizer and its rotation."""
    rotation = start
    quantizer = ProductQuantizer(sample.shape[1], group, sample @ rotation)
    for _ in range(rounds):
        rotated = sample @ rotation
        quantizer.train(rotated, 2)
        product = sample.T @ quantizer.quantize(rotated)
        left, _, right = torch.linalg.svd(product.double().cpu())  # quicker than on a GPU
        rotation = (left @ right).float().to(sample.device)
    quantizer.train(sample @ rotation, 10)
    return quantizer, rotation


def make_codes(sample: Tensor, seed: int) -> list[Code]:
    """Returns the codes to compare, trained on a sample of the rows."""
    dim = sample.shape[1]
    generator = torch.Generator().manual_seed(seed)
    rotation = hadamard_rotation(dim, generator).to(sample.device)
    mean = sample.mean(0)
    none = torch.zeros_like(mean)
    variances, axes = principal_axes(sample, mean)
    blocks = dim // 64
    local = torch.zeros(dim, dim)
    for begin in range(0, dim, 64):
        local[begin : begin + 64, begin : begin + 64] = hadamard_rotation(64, generator)
    codes = [
        Code("int8", dim + 16, rotation, none, int8, fits_scale=False),
        Code("int8 + residual int8", 2 * dim + 16, rotation, none, int8_twice, fits_scale=False),
        Code("int5", dim * 5 / 8 + 16, rotation, none, narrow(5)),
        Code("int4", dim / 2 + 16, rotation, none, narrow(4)),
        Code("int4, mean subtracted", dim / 2 + 16, rotation, mean, narrow(4)),
    ]
    for wanted in (4, 2):
        bits = spread_bits(variances, blocks, wanted)
        codes.append(Code(f"principal axes, blocks of 64, {wanted} bits on average",
                          dim * wanted / 8 + 4 * blocks, axes @ local.to(sample.device), mean,
                          mixed(bits), blocks, False))  # fmt: skip
    identity = torch.eye(dim, device=sample.device)
    for wanted, group in ((4, 2), (2, 4)):
        plain = ProductQuantizer(dim, group, sample - mean)
        plain.train(sample - mean, 25)
        codes.append(
            Code(f"PQ, {wanted} bits a dimension", dim / group + 12, identity, mean, plain.quantize)
        )
        start = balanced_axes(variances, axes, group)
        best, turned = optimized(sample - mean, start, group, 15)
        codes.append(
            Code(f"OPQ, {wanted} bits a dimension", dim / group + 12, turned, mean, best.quantize)
        )
    return codes
