"""Times of calls on the current device of torch, for the examples."""

from __future__ import annotations

from typing import Any

import torch


def milliseconds(function: Any, repeats: int) -> float:
    """Returns the mean time of a call on the device."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):
        function()
    begin.record()
    for _ in range(repeats):
        function()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / repeats


def graph_of(function: Any) -> Any:
    """Returns a function that replays the work of another."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay
