# must fail: tests/test_todo.py::test_an_id_that_wanders_over_the_calls_of_a_reply_makes_no_two_items_one
def check_progress(self, new: list[Todo], old: list[Todo]) -> tuple[Todo, ...]:
    """Refuse progress that is none. Returns what became completed in this reply without being started before it."""
    if vanished := [item for item in match(new, old)[1] if item.status == "in_progress"]:
        raise ToolError(
            f"Refused: {names(vanished)} is in_progress and cannot just vanish. List it as completed, cancelled or "
            "pending; to reword it keep its id, or cancel it and add another."
        )
    done = [item for item in new if item.status == "completed"]
    memory = self.store.cancelled() | self.before.cancelled()
    if revived := [item for item in done if keys(item) & memory]:
        raise ToolError(
            f"Refused: what was cancelled cannot become completed: {names(revived)} (same text or id). Set it to "
            "pending or in_progress now, and complete it in a later reply. Other work needs another text and id."
        )
    earlier, _ = match(new, self.before.items())  # what each was before this reply, not just before this call
    leaps = [item for item in done if item not in earlier or earlier[item].status not in STARTED]
    known, _ = match(leaps, list(self.unstarted))
    leaps = (*self.unstarted, *(item for item in leaps if item not in known))
    if len(leaps) > self.max_unstarted:
        raise ToolError(
            f"Refused: {len(leaps)} items would become completed in this reply without having been in_progress "
            f"before it, at most {self.max_unstarted} may: {names(leaps)}. Set the others to pending, or the next "
            "one to in_progress; do its work, and complete it in a later reply."
        )
    return leaps
