"""A tool whose arguments are taken as they are sent."""

from __future__ import annotations

import json
from typing import Any, get_args

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import FuncMetadata
from pydantic import ValidationError

from nearfield._arguments import refuse_unknown

# Characters of a refused value in an error.
SHOWN_MAX = 80


class _VerbatimTexts(FuncMetadata):
    """Arguments whose texts stay texts. The SDK decodes a text that is JSON unless the argument's
    type is exactly `str`: the filter "null" would be no filter. Lists and objects that a client
    sends as text are still decoded."""

    def pre_parse_json(self, data: dict[str, Any]) -> dict[str, Any]:
        fields = self.arg_model.model_fields
        texts = {name: data[name] for name in data if str in get_args(fields[name].annotation)}
        return super().pre_parse_json(data) | texts


class StrictTool(Tool):
    """A tool that refuses arguments that it does not have: the SDK would drop them, and a search
    without its filter has another answer."""

    def model_post_init(self, context: Any, /) -> None:
        self.parameters["additionalProperties"] = False
        known = self.fn_metadata
        self.fn_metadata = _VerbatimTexts(
            **{name: getattr(known, name) for name in type(known).model_fields}
        )

    async def run(self, arguments: dict[str, Any], *rest: Any, **options: Any) -> Any:
        try:
            refuse_unknown(self.name, arguments, self.parameters["properties"].keys())
        except TypeError as error:
            raise ToolError(str(error)) from None
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:  # its message is about types of Python
            reason = self._refusal(error, arguments)
            raise ToolError(f"Error executing tool {self.name}: {reason}") from None
        return await super().run(arguments, *rest, **options)

    def _refusal(self, error: ValidationError, arguments: dict[str, Any]) -> str:
        """Returns the first argument that is missing or has a wrong type, and what it takes."""
        wrong = error.errors()[0]
        name = str(wrong["loc"][0])
        given = "missing" if wrong["type"] == "missing" else json.dumps(arguments[name])
        shown = given if len(given) <= SHOWN_MAX else f"{given[:SHOWN_MAX]}..."
        needed = self.fn_metadata.arg_model.model_fields[name].description
        return f"{name}: {shown}; {needed} is needed"
