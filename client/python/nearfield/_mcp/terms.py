"""Row terms as agents write them: objects with a form and its parameters, in which a time is a text
or "now", and a span of time is a text such as "30d"."""

from __future__ import annotations

import inspect
import json
import re
import time
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError

from nearfield._arguments import refuse_unknown
from nearfield._terms import Clamped, HalfLife, Is, Linear, Term
from nearfield._time_text import parse_time

_FORMS: dict[str, type[Term]] = {
    "linear": Linear,
    "clamped": Clamped,
    "half_life": HalfLife,
    "is": Is,
}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)
_UNITS = {"s": 1e6, "m": 60e6, "h": 3600e6, "d": 86400e6}


def read_terms(given: list[dict[str, Any]] | None) -> list[Term]:
    """Raises ToolError, with the term and its parameter."""
    return [_read(each, f"terms[{i}]") for i, each in enumerate(given or ())]


def _read(given: dict[str, Any], field: str) -> Term:
    parameters = dict(given)
    form = parameters.pop("form", None)
    kind = _FORMS.get(form) if isinstance(form, str) else None
    if kind is None:
        raise ToolError(f"{field}.form: {json.dumps(form)}; one of {', '.join(_FORMS)}")
    known = inspect.signature(kind).parameters
    try:
        refuse_unknown(f"the form {form}", parameters, known.keys())
    except TypeError as error:
        raise ToolError(f"{field}.{error}") from None
    for name, parameter in known.items():
        if parameter.default is parameter.empty and name not in parameters:
            raise ToolError(f"{field}.{name}: not given; the form {form} needs it")
    if "origin" in parameters:
        parameters["origin"] = _moment(parameters["origin"], f"{field}.origin")
    for name in ("half_life", "offset"):
        if name in parameters:
            parameters[name] = _span(parameters[name], f"{field}.{name}")
    return kind(**parameters)


def _moment(value: Any, field: str) -> Any:
    if not isinstance(value, str):
        return value
    if value == "now":
        return float(time.time_ns() // 1000)
    try:
        return parse_time(value)
    except ValueError as error:
        raise ToolError(f"{field}: {json.dumps(value)} {error}") from None


def _span(value: Any, field: str) -> Any:
    if not isinstance(value, str):
        return value
    found = _SPAN.fullmatch(value)
    if found is None:
        raise ToolError(f"{field}: {json.dumps(value)}; a number, or a text such as 30d or 12h")
    return float(found[1]) * _UNITS[found[2]]
