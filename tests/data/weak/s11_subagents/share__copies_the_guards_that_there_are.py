# must fail: tests/test_subagents.py::test_what_is_shared_and_what_is_not
def share(parent: Agent, child: Agent) -> Agent:
    """Put ``child`` under its parent's permissions and guards, and give it the tools that it has none of its own for.

    Guards are those of this moment and all that are added later. Returns the child.
    """
    child.tools = {name: child.tools.get(name, tool) for name, tool in parent.tools.items()}
    child.permissions = parent.permissions
    child.max_tokens = parent.max_tokens
    for event in (PreToolUse, PostToolUse):
        for hook in parent.hooks.table.get(event, []):
            child.on(event, hook)
    return child
