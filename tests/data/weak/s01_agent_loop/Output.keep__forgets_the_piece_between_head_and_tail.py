# must fail: tests/test_shell.py::test_head_and_tail_are_kept_to_the_character
def keep(self, text: str) -> None:
    with self.lock:
        if len(self.head) < HEAD:
            self.head += text[: HEAD - len(self.head)]
            return
        self.tail.append(text)
        self.tail_length += len(text)
        while self.tail_length - len(self.tail[0]) > TAIL:
            dropped = self.tail.popleft()
            self.tail_length -= len(dropped)
            self.left_out += len(dropped)
