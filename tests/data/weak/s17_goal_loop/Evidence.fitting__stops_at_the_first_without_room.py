# must fail: tests/test_goal.py::test_one_that_has_no_room_at_all_does_not_end_the_choice
def fitting(self, room: int) -> tuple[list[dict[str, Any]], int]:
    """Return the steps for which there is ``room`` (characters of JSON), oldest first, and how many are left out.

    The latest go first, then those that failed, then the others; one that is too long goes in without its output.
    """
    with self.lock:
        steps = list(self.steps.values())
    latest_first = sorted(range(len(steps)), reverse=True)
    failed = [number for number in latest_first if has_failed(steps[number])]
    chosen: dict[int, dict[str, Any]] = {}
    for number in dict.fromkeys([*latest_first[:LATEST], *failed, *latest_first]):
        bare = {name: value for name, value in steps[number].items() if name != "output_ends"}
        for step in (steps[number], bare):
            if size_of(step) <= room:
                chosen[number] = step
                room -= size_of(step)
                break
        else:
            break
    return [chosen[number] for number in sorted(chosen)], len(steps) - len(chosen)
