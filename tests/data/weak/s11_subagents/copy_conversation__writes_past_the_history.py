# must fail: tests/test_subagents.py::test_a_call_of_a_fork_has_an_id_that_no_call_of_its_parents_has
def copy_conversation(parent: Agent, child: Agent) -> None:
    """Give ``child`` the messages of its parent up to the reply that is being worked on: its calls have no results yet."""
    messages = parent.history.messages
    last_reply = max(number for number, message in enumerate(messages) if message["role"] == "assistant")
    for message in messages[:last_reply]:
        child.history.messages.append({"role": message["role"], "content": list(message["content"])})
