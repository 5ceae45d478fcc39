"""The conversation, and the only code that writes it.

The Messages API refuses a history in which a tool call has no result, a message is empty, or a text
cannot be encoded. One crooked message makes every later request fail. So nobody appends to the list of
messages by hand: everything goes through the few functions here, and each of them leaves it valid.
"""

from __future__ import annotations

import re
import threading
import uuid
from dataclasses import dataclass
from typing import Any
from typing import Callable
from typing import Sequence

USABLE = re.compile(r"[a-zA-Z0-9_-]{1,128}")  # what the API takes as the name of a tool, or the id of a call
UNKNOWN = "Interrupted while it ran: the outcome is unknown. Look at the state of things before you try again."
MARK = re.compile(r"<\s*/?\s*system-reminder\b(?:[^<>]*>)?", re.IGNORECASE)  # models read it loosely
NOTE_BYTES = 16_000  # of notes in one turn: enough for a plan and a reminder, too little to drown the work in

Block = dict[str, Any]
Message = dict[str, Any]


@dataclass(frozen=True)
class Note:
    """Harness text that waits for the next request. ``order`` is its place among others; ``cut`` lets it be shortened."""

    kind: str
    text: str
    order: int
    cut: bool


class History:
    """The messages of one conversation, in the API's own shape: plain dictionaries."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.notes: list[Note] = []
        self.lock = threading.RLock()
        self.ids: set[str] = set()
        self.begun: set[str] = set()
        self.listeners: list[Callable[..., None]] = []  # listener(kind, **data) hears of every change

    def add(self, role: str, blocks: list[Block]) -> None:
        """Append content blocks as ``role`` ("user" or "assistant").

        Blocks join the last message if it has the same role. Empty text is dropped, since the API refuses it;
        nothing is appended when nothing is left.
        """
        blocks = [clean(block) for block in blocks if block["type"] != "text" or block["text"].strip()]
        blocks = [self.with_usable_id(block) if block["type"] == "tool_use" else block for block in blocks]
        if not blocks:
            return
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"].extend(blocks)
        else:
            self.messages.append({"role": role, "content": blocks})
        self.tell("message", role=role, blocks=blocks)

    def note(self, kind: str, text: str, order: int = 50, cut: bool = False) -> None:
        """Leave a note from the harness (not from the person) for the model's next request, from any thread.

        All notes of a turn go out as one block, lower ``order`` first. When they are too long together, those that
        may be ``cut`` are, and the others wait for the next turn. One that is too long by itself is cut in any case.
        """
        with self.lock:
            self.notes.append(Note(kind, text, order, cut))

    def deliver(self, objections: Sequence[str] = ()) -> list[Message]:
        """Return the messages for the next request, the waiting notes at the end of the last user message.

        While the last message is the assistant's, notes wait; only objections to stopping start a message, and lead it.
        """
        with self.lock:
            is_users_turn = objections or self.messages[-1]["role"] == "user"
            texts, waiting = fitting(self.notes) if is_users_turn else ([], self.notes)
            if objections or texts:
                self.add("user", [text_block(reminder([*objections, *texts]))])
            self.notes = waiting  # after the add: where Ctrl-C falls in between, better twice than never
        return list(self.messages)

    def replace(self, messages: list[Message]) -> None:
        """Put ``messages`` in the place of all messages, in one step. Notes that wait go on waiting.

        Raises ValueError, with everything as it was, if the Messages API would refuse them.
        """
        messages = [{"role": message["role"], "content": clean(list(message["content"]))} for message in messages]
        check(messages)
        with self.lock:
            self.ids |= {block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"}
            self.messages = messages
        self.tell("replaced", messages=messages)

    def load(self, messages: list[Message], begun: set[str]) -> None:
        """Take over another conversation, in which the calls ``begun`` were about to run. The last calls may be open:
        settle them. Nobody hears of it, and no note of the old one is left."""
        messages = [{"role": message["role"], "content": clean(list(message["content"]))} for message in messages]
        with self.lock:
            self.messages, self.notes, self.begun = messages, [], set(begun)
            self.ids = {block["id"] for message in messages for block in message["content"] if block["type"] == "tool_use"}

    def tell(self, kind: str, **data: Any) -> None:
        """Let the listeners hear of a change: "message" (role, blocks), "replaced" (messages), "begun" (call)."""
        for listener in self.listeners:
            listener(kind, **data)

    def open_calls(self) -> list[Block]:
        """Return the tool calls of the last assistant message that have no result yet."""
        replies = (message["content"] for message in reversed(self.messages) if message["role"] == "assistant")
        calls = [block for block in next(replies, []) if block["type"] == "tool_use"]
        after = self.messages[-1]["content"] if self.messages else []
        answered = {block["tool_use_id"] for block in after if block["type"] == "tool_result"}
        return [call for call in calls if call["id"] not in answered]

    def with_usable_id(self, call: Block) -> Block:
        """Return ``call`` under an id and a name that the API takes, and no other call has; some servers send others."""
        is_usable = USABLE.fullmatch(call["id"]) and call["id"] not in self.ids
        call = {**call, "id": call["id"] if is_usable else f"toolu_{uuid.uuid4().hex}"}
        self.ids.add(call["id"])
        return call if USABLE.fullmatch(call["name"]) else {**call, "name": "invalid_name"}

    def begin(self, call: Block) -> None:
        """Note that ``call`` is about to run: if it never gets a result, its outcome is unknown."""
        self.begun.add(call["id"])
        self.tell("begun", call=call["id"])

    def settle(self, not_begun: str) -> None:
        """Answer every open tool call with an error result; ``not_begun`` is the text for one that was not begun.

        Needed on every way out of a run: a call without a result would make the next request invalid.
        """
        texts = [(call, UNKNOWN if call["id"] in self.begun else not_begun) for call in self.open_calls()]
        self.add("user", [result_block(call, text, is_error=True) for call, text in texts])


def check(messages: list[Message]) -> None:
    """Raise ValueError unless these messages can begin a request: turns, contents, and a result for every call."""
    waiting: list[str] = []
    seen: set[str] = set()
    for number, message in enumerate(messages):
        blocks = message["content"]
        if message["role"] != ("assistant" if number % 2 else "user"):
            raise ValueError(f"message {number} is the {message['role']}'s: the person begins, then they take turns.")
        if not blocks or any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            raise ValueError(f"message {number} is empty, or has a text that is: leave it out.")
        if any(block["type"] in ("tool_use", "thinking") for block in blocks) and message["role"] != "assistant":
            raise ValueError(f"message {number} has a call or a thought that is not the assistant's.")
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(answered) != sorted(waiting) or any(block["type"] != "tool_result" for block in blocks[: len(answered)]):
            raise ValueError(f"message {number} must begin with one result for each call before it: keep pairs whole.")
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if len(set(waiting)) < len(waiting) or seen & set(waiting):
            raise ValueError(f"message {number} has a call with an id that another call has.")
        seen |= set(waiting)
    if waiting:
        raise ValueError("the last message has calls without results: answer them first.")


def text_block(text: str) -> Block:
    """Return a text content block."""
    return {"type": "text", "text": text}


def result_block(call: Block, text: str, is_error: bool = False) -> Block:
    """Return the ``tool_result`` that answers ``call``, a ``tool_use`` block."""
    block = {"type": "tool_result", "tool_use_id": call["id"], "content": text or "(no output)"}
    return {**block, "is_error": True} if is_error else block


def reminder(texts) -> str:
    """Return harness text in the mark by which models know that it is not the person who speaks."""
    # A text that holds the mark could end it, and go on as somebody else.
    inside = [MARK.sub("[mark]", text) for text in texts]
    return "<system-reminder>\n" + "\n\n".join(inside) + "\n</system-reminder>"


def fitting(notes: list[Note]) -> tuple[list[str], list[Note]]:
    """Return the texts that fit into NOTE_BYTES, in order, and the notes that have to wait."""
    texts: list[str] = []
    waiting: list[Note] = []
    room = NOTE_BYTES
    for note in sorted(notes, key=lambda note: note.order):
        size = len(note.text.encode("utf-8", "replace"))
        if size > room and not note.cut and texts:
            waiting.append(note)
            continue
        text = note.text
        if size > room:
            text = text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + "\n[cut: too long]"
        texts.append(text)
        room = max(0, room - size)
    return texts, waiting


def clean(value: Any) -> Any:
    """Return ``value`` with every string in it encodable as UTF-8 (lone surrogates become "?")."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [clean(item) for item in value]
    return value
