# must fail: tests/test_files.py::test_a_text_that_is_not_there_is_refused_with_the_cure
def find_once(name: str, text: str, old: str) -> tuple[int, int]:
    """Return where ``old`` starts and ends in ``text``. Raises ToolError unless there is exactly one place."""
    # A line end in old matches either kind; to look ahead finds places that overlap, too.
    pattern = r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, old.split("\n")))
    places = [match.span(1) for match in re.finditer(f"(?=({pattern}))", text)]
    if len(places) == 1:
        return places[0]
    if places:
        lines = ", ".join(str(text.count("\n", 0, start) + 1) for start, _ in places[:PLACES])
        found = f"{len(places)} times, first in lines {lines}"
        raise ToolError(f"old_text is in {name} {found}: add what is around the place you mean.")
    words = r"\s+".join(map(re.escape, old.split()))
    close = re.search(words, text) if words else None
    if close:
        return close.span()
    raise ToolError(f"old_text is not in {name}: read the file again and copy exactly, without line numbers.")
