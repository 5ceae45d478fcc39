# must fail: tests/test_permissions.py::test_where_the_shell_may_make_a_denied_command_not_even_its_very_text_allows_it
def decide(self, tool: Tool, call: dict[str, Any], workspace: Path) -> Decision:
    """Decide about ``call`` by the rules alone: allow, ask or deny."""
    deny, ask, allow = (self.rules_for(tool, kind) for kind in ("deny", "ask", "allow"))
    try:
        seen, needed, doubt = look(tool, call["input"], workspace)
    except ToolError as error:
        return Decision("deny", str(error))
    # "Always" adds to what is allowed, so it silences neither of these.
    for verdict, rules, reason in (("deny", deny, DENIED), ("ask", ask, ASKED)):
        for rule in rules:
            if catches(rule, seen):
                return Decision(verdict, reason.format(rule.text))

    missing = [part for part in needed if not any(covers(rule, part) for rule in allow)]
    unsure = [rule for rule in deny + ask if doubt or catches(rule, seen, maybe=True)]
    if unsure and all(any(rule.only and covers(rule, part) for rule in allow) for part in needed):
        return Decision("allow", "a rule allows exactly this text")
    if not unsure and (not missing or tool.read_only or any(rule.is_whole_tool for rule in allow)):
        return Decision("allow", "the rules allow it")
    if tool.name != "bash":
        return Decision("ask", f"no rule allows this {tool.name}", (Rule(tool.name, tool.name),))
    firm = any(rule in deny for rule in unsure)
    if unsure and not doubt:
        return Decision("ask", f"the rule “{unsure[0].text}” may be meant for it", firm=firm)
    always = tuple(Rule(f"bash({written(part)})", "bash", part, only=True) for part in dict.fromkeys(missing))
    if doubt:
        return Decision("ask", f"its words do not tell what it does ({doubt})", always, firm)
    return Decision("ask", f"no rule allows `{written(missing[0])[:IN_SHORT]}`", always)
