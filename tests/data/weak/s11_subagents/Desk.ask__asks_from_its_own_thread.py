# must fail: tests/test_subagents.py::test_questions_are_asked_one_at_a_time_by_the_thread_that_waits
def ask(self, text: str) -> str:
    """Return the person's answer to ``text``. Raises EOFError when there is none, also since the subagent was ended."""
    name, stopped = getattr(self.here, "speaker", ("", None))
    if stopped is None:
        return self.ask_person(text)
    return self.ask_person(f"{FROM.format(name)}\n{text}")
