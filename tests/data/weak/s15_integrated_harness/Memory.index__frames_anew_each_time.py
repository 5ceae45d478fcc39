# must fail: tests/test_memory.py::test_the_labels_are_in_the_prompt_as_data_and_cost_no_cache
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
    labels = "\n".join([*rows, *([MORE.format(len(facts) - len(rows))] if len(rows) < len(facts) else [])])
    self.framed = labels, frame("memories", labels)
    return f"{self.section}\n{self.framed[1]}"
