# must fail: tests/test_memory.py::test_the_budget_says_how_many_are_left_out
def index(self) -> str:
    """Return the part of the prompt: the labels that fit into the budget, and how many do not; "" without memories."""
    facts = in_order(self.files.scan())
    self.report()
    if not facts:
        return ""
    rows, room = [], self.index_bytes
    for fact in facts:
        room -= len(row(fact).encode("utf-8")) + 1
        if room < 0:
            break
        rows.append(row(fact))
    labels = "\n".join([*rows, ])
    if self.framed[0] != labels:
        self.framed = labels, frame("memories", labels)
    return f"{self.section}\n{self.framed[1]}"
