# must fail: tests/test_notes.py::test_too_long_together_a_notification_waits_a_turn
def fitting(notes: list[Note]) -> tuple[list[str], list[Note]]:
    """Return the texts that fit into NOTE_BYTES, in order, and the notes that have to wait."""
    texts: list[str] = []
    waiting: list[Note] = []
    room = NOTE_BYTES
    for note in sorted(notes, key=lambda note: note.order):
        size = len(note.text.encode("utf-8", "replace"))
        if size > room and not note.cut and texts:
            continue
        text = note.text
        if size > room:
            text = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + "\n[cut: too long]"
        texts.append(text)
        room = max(0, room - size)
    return texts, waiting
