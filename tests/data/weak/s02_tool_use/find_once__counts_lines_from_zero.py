# must fail: tests/test_files.py::test_a_text_found_more_than_once_is_refused_with_the_places
def find_once(name: str, text: str, old: str) -> tuple[int, int]:
    """Return where ``old`` starts and ends in ``text``. Raises ToolError unless there is exactly one place."""
    # A line end in old matches either kind; to look ahead finds places that overlap, too.
    pattern = r"(?:\r\n|(?<!\r)\n)".join(map(re.escape, old.split("\n")))
    places = [match.span(1) for match in re.finditer(f"(?=({pattern}))", text)]
    if len(places) == 1:
        return places[0]
    if places:
        lines = ", ".join(str(text.count("\n", 0, start)) for start, _ in places[:PLACES])
        found = f"{len(places)} times, first in lines {lines}"
        raise ToolError(f"old_text is in {name} {found}: add what is around the place you mean.")
    words = r"\s+".join(map(re.escape, old.split()))
    close = re.search(words, text) if words else None
    hint = f", but for white space it is in line {text[: close.start()].count(chr(10)) + 1}" if close else ""
    raise ToolError(f"old_text is not in {name}{hint}: read the file again and copy exactly, without line numbers.")
