# must fail: tests/test_tasks.py::test_the_way_round_a_cycle
def cycle(self, id: int, blocked_by: Iterable[int]) -> list[int]:
    """Return the way from ``id`` back to itself that would be there if it waited for ``blocked_by``, or []."""
    came_from = {dependency: id for dependency in blocked_by}
    reached = deque(came_from)
    while reached:
        here = reached.popleft()
        if here == id:
            way = [id, came_from[id]]
            while way[-1] != id:
                way.append(came_from[way[-1]])
            return way[::-1]
    return []
