# must fail: tests/test_shell.py::test_a_hundred_megabytes_are_kept_in_little_memory
def keep(self, text: str) -> None:
    with self.lock:
        room = HEAD - len(self.head)
        self.head += text[:room]
        self.tail.append(text[room:])
        self.tail_length += len(text[room:])
