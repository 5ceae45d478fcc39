# must fail: tests/test_files.py::test_a_text_that_is_not_there_is_refused_with_the_cure
def find_once(name: str, text: str, old: str) -> tuple[int, int]:
    """Return where ``old`` starts and ends in ``text``. Raises ToolError unless there is exactly one place."""
    # A line end in old stands for either kind, so both are looked at with one kind; ends says where one was longer.
    ends = [match.start() - number for number, match in enumerate(re.finditer("\r\n", text))]
    plain = text.replace("\r\n", "\n")
    places = []
    while (start := plain.find(old, places[-1] + 1 if places else 0)) >= 0:
        places.append(start)
    if len(places) == 1:
        start, end = places[0], places[0] + len(old)
        return start + bisect_left(ends, start), end + bisect_left(ends, end)
    if places:
        lines = ", ".join(str(plain.count("\n", 0, start) + 1) for start in places[:PLACES])
        found = f"{len(places)} times, first in lines {lines}"
        raise ToolError(f"old_text is in {name} {found}: add what is around the place you mean.")
    words = r"\s+".join(map(re.escape, old.split())) if len(old) <= HINT_CHARS else ""
    close = re.search(words, plain) if words else None
    if close:
        return close.span()
    raise ToolError(f"old_text is not in {name}: read the file again and copy exactly, without line numbers.")
