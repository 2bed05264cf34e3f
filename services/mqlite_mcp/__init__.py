"""The MCP server: the broker's calls as tools for AI agents, over stdin and stdout."""
