# must fail: tests/test_permissions.py::test_a_deny_rule_that_cannot_be_checked_goes_before_a_whole_tool_and_a_hook
def decide(self, tool: Tool, call: dict[str, Any], workspace: Path) -> Decision:
    """Decide about ``call`` by the rules alone: allow, ask or deny."""

    deny, ask, allow = (self.rules_for(tool, kind) for kind in ("deny", "ask", "allow"))
    try:
        seen, needed, doubt = look(tool, call["input"], workspace)
    except ToolError as error:
        return Decision("deny", str(error))
    for rule in deny:
        if catches(rule, seen):
            return Decision("deny", DENIED.format(rule.text))
    for rule in ask:
        if catches(rule, seen):
            return Decision("ask", ASKED.format(rule.text))
    missing = [part for part in needed if not any(covers(rule, part) for rule in allow)]
    if not missing or tool.read_only or any(rule.is_whole_tool for rule in allow):
        return Decision("allow", "the rules allow it")
    if tool.name != "bash":
        return Decision("ask", f"no rule allows this {tool.name}", (Rule(tool.name, tool.name),))
    always = tuple(Rule(f"bash({written(part)})", "bash", part, only=True) for part in dict.fromkeys(missing))
    return Decision("ask", f"no rule allows `{written(missing[0])[:IN_SHORT]}`", always)
