"""The part that all calls of a collection share."""

from __future__ import annotations

from collections.abc import Mapping

from nearfield._attributes import Attribute
from nearfield._core import Core


class Handle:
    """A collection by its name, which may be an alias. Making a handle calls nothing."""

    def __init__(self, core: Core, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"name: {name!r}; the name of a collection is a text")
        self._core = core
        self.name = name

    def __repr__(self) -> str:
        return f"<collection {self.name!r}>"

    async def _declared(self, deadline: float | None) -> Mapping[str, Attribute]:
        return (await self._core.info(self.name, deadline)).declared
