"""A tool that refuses arguments it does not have, and says what is wrong with others, in words for its agent."""

from typing import Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

from ramet.likeness import suggestion

# Fields of the HTTP interface, which agents know from its errors and documentation, and the arguments for them.
ARGUMENTS = {"target_time": "to"}


class CheckedTool(Tool):
    """A tool whose arguments are checked before the library does so."""

    def model_post_init(self, context: Any, /) -> None:
        """Say in the schema that there are no other arguments."""
        self.parameters["additionalProperties"] = False

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Run the tool. Raises ToolError, also for arguments that are unknown, missing or wrong."""
        known = set(self.parameters["properties"])
        if unknown := sorted(arguments.keys() - known):
            free = known - arguments.keys()
            field = ARGUMENTS.get(unknown[0])
            meant = f"Did you mean {field!r}? " if field in free else suggestion(unknown[0], sorted(free))
            has = ", ".join(sorted(known)) or "none"
            raise ToolError(f"{self.name} has no argument {unknown[0]!r}: {meant}It has {has}.")
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            raise ToolError(f"{self.name}: {'; '.join(_problems(error))}.") from error
        return await super().run(arguments, context, convert_result)


def _problems(error: ValidationError) -> list[str]:
    found = []
    for one in error.errors(include_url=False):
        name = one["loc"][0]
        if one["type"] == "missing":
            found.append(f"the argument {name!r} is missing")
        else:
            found.append(f"the argument {name!r} is wrong: {one['msg']} (got {one['input']!r})")
    return found
