# must fail: tests/test_files.py::test_only_the_place_changes
def find_once(name: str, text: str, old: str) -> tuple[int, int]:
    """Return where ``old`` starts and ends in ``text``. Raises ToolError unless there is exactly one place."""
    plain = text
    places = []
    while (start := plain.find(old, places[-1] + 1 if places else 0)) >= 0:
        places.append(start)
    if len(places) == 1:
        return places[0], places[0] + len(old)
    if places:
        lines = ", ".join(str(plain.count("\n", 0, start) + 1) for start in places[:PLACES])
        found = f"{len(places)} times, first in lines {lines}"
        raise ToolError(f"old_text is in {name} {found}: add what is around the place you mean.")
    words = r"\s+".join(map(re.escape, old.split())) if len(old) <= HINT_CHARS else ""
    close = re.search(words, plain) if words else None
    hint = f", but for white space it is in line {plain.count(chr(10), 0, close.start()) + 1}" if close else ""
    raise ToolError(f"old_text is not in {name}{hint}: read the file again and copy exactly, without line numbers.")
