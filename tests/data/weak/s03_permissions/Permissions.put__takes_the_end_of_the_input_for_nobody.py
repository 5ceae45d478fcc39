# must fail: tests/test_permissions.py::test_no_answer_is_no
def put(self, agent: Agent, tool: Tool, call: dict[str, Any], decision: Decision) -> Decision:
    """Put the question to the person. Only a clear yes is one; Ctrl-C goes through."""
    if self.ask is None:
        return Decision("deny", NOBODY.format(decision.reason))
    try:
        said = (self.ask(question(agent, tool, call["input"], decision)) or "").strip()
    except EOFError:
        return Decision("deny", NOBODY.format(decision.reason))
    if said.lower() in ALWAYS:
        self.rules["allow"] += decision.always
    if said.lower() in YES + ALWAYS:
        return Decision("allow", "the person allowed it")
    return Decision("deny", SAID_NO if said.lower() in NO else SAID.format(said))
