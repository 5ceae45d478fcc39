# must fail: tests/test_todo.py::test_a_reworded_item_is_named_by_its_old_words
def todo_write(self, agent: Agent, todos: Any) -> str:
    """The tool: replace the list, or change nothing. Returns the list as text, and what is no longer in it.

    ``todos`` is a list of objects, or the text of one in JSON or Python. Raises ToolError, with the list as it is.
    """
    old, memory = self.store.items(), self.store.cancelled()
    try:
        new = [read_item(number, item) for number, item in enumerate(read_list(todos), 1)]
        self.check_list(new, old)
        unstarted = self.check_progress(new, old)
    except ToolError as error:
        raise ToolError(f"{error}\nNothing was changed. The list:\n{render(old)}") from None
    self.unstarted, self.quiet_turns = unstarted, 0
    for item in new:  # whoever opens an item again takes back that it was cancelled
        memory = memory | keys(item) if item.status == "cancelled" else memory - keys(item)
        lost = match(new, old)[1]
    reply = render(new) + (f"\nNo longer in the list: {names(lost)}" if lost else "")
    if (new, memory) != (old, self.store.cancelled()):
        self.store.write(new, memory)
        agent.changed("todos", {"items": [asdict(item) for item in new], "cancelled": sorted(memory)})
        agent.show("todos", text="    " + reply.replace("\n", "\n    "))
    return reply
