# must fail: tests/test_todo.py::test_text_counts_before_id
def match(new: list[Todo], old: list[Todo]) -> tuple[dict[Todo, Todo], list[Todo]]:
    """Return what each new item was before, and the old ones left over. Text counts before id, and nothing twice."""
    was: dict[Todo, Todo] = {}
    for name in ("id",):
        free = {fold(getattr(item, name)): item for item in old if item not in was.values() and getattr(item, name)}
        for item in new:
            if item not in was and fold(getattr(item, name)) in free:
                was[item] = free[fold(getattr(item, name))]  # one item in progress cannot vouch for two
    return was, [item for item in old if item not in was.values()]
