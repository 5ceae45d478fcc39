# must fail: tests/test_todo.py::test_no_reminder_without_open_items
def remind(self, event: BeforeModel) -> None:
    """Bring the open items back into view when the list was not written for some turns."""
    rows = "\n".join(row(item) for item in self.store.items() if item.status in OPEN)
    if self.quiet_turns >= self.remind_after:
        head = f"No todo_write in the last {self.quiet_turns} turns: bring the list up to date if it is not."
        event.agent.history.note("todo", f"{head} Open items:\n{rows}")
        event.agent.show("notice", text=f"  [reminder: {head}]")
        self.quiet_turns = 0
