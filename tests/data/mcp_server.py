"""An MCP server made with the official SDK, whose tools answer in every form that an answer can have."""

from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Audio
from mcp.server.mcpserver import Image
from mcp.types import BlobResourceContents
from mcp.types import EmbeddedResource
from mcp.types import ResourceLink
from mcp.types import TextResourceContents

server = MCPServer("forms")


@server.tool()
def picture() -> list:
    return ["a red dot", Image(data=b"\x89PNG" + bytes(96), format="png")]


@server.tool()
def sound() -> list:
    return [Audio(data=bytes(10), format="wav")]


@server.tool()
def link() -> list:
    return [ResourceLink(type="resource_link", uri="file:///notes.txt", name="notes", mime_type="text/plain")]


@server.tool()
def resource() -> list:
    inside = TextResourceContents(uri="file:///notes.txt", text="remember the milk", mime_type="text/plain")
    blob = BlobResourceContents(uri="file:///a.bin", blob="AAAA", mime_type="application/x-a")
    return [EmbeddedResource(type="resource", resource=inside), EmbeddedResource(type="resource", resource=blob)]


@server.tool()
def structured() -> dict[str, int]:
    """Returns data, as JSON and as text."""
    return {"answer": 42}


@server.tool()
def nothing() -> list:
    return []


@server.tool()
def add(a: int, b: int = 1) -> int:
    return a + b


if __name__ == "__main__":
    server.run("stdio")
