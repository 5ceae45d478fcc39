# must fail: tests/test_shell.py::test_head_and_tail_are_kept_to_the_character
def keep(self, text: str) -> None:
    with self.lock:
        room = HEAD - len(self.head)
        self.head += text[:room]
        self.tail.append(text[room:])
        self.tail_length += len(text[room:])
        while self.tail_length > TAIL:
            dropped = self.tail.popleft()
            self.tail_length -= len(dropped)
            self.left_out += len(dropped)
