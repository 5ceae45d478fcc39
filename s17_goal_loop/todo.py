"""The plan, kept where the model reads it, in a list that cannot be checked off at once.

Results pile up, and the plan made at the start thins out among them. So the harness keeps the plan: ``todo_write``
replaces the whole list and answers with the list as it now stands, and a reminder brings it back into view.

A list that the model keeps about itself invites a lie: nine of eleven items once became completed in one call, with no
work done (the rule is from https://github.com/ZhangShenao/harness9). The rules see changes, not work.
"""

from __future__ import annotations

import ast
import json
import unicodedata
from dataclasses import asdict
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any

from .hooks import AfterModel
from .hooks import BeforeModel
from .tools import Tool
from .tools import ToolError
from .tools import add_tool

if TYPE_CHECKING:
    from .agent import Agent

MAX_ITEMS = 20  # every write sends the whole list, and a person takes it in at a glance
MAX_CHARS = 200  # of a text or an id: a step on one line, not a report
MAX_INPUT = 100_000  # characters of a list that comes as text: far above any real one, and safe to parse
MAX_UNSTARTED = 1  # 0 refuses one honest step that was done and recorded at once; each more makes a fake quicker
REMIND_AFTER = 3  # turns: a step may well take two, and a voice at every turn is noise
MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}
OPEN, STARTED = ("pending", "in_progress"), ("in_progress", "completed")

SECTION = """Keep a list with todo_write for work of three or more steps, or of several requests; write it before the
first step. Use none for a question, or for work of one or two steps. Set an item to in_progress before you work on it.
Do the work with tools: a changed status is no work. Set the item to completed when you have seen the result, or to
cancelled when it is not needed after all."""
DESCRIPTION = """Replace the todo list: your own steps in this conversation. Returns the list as it now stands.
Send all items each time, in order; what you leave out is dropped. At most one item is in_progress at a time, and an
item is in_progress before it is completed. It is the same item by its text, or by its id if you reword it."""
VANISHED = (
    "Refused: {} is in_progress and cannot just vanish. List it as completed, cancelled or pending; to reword it keep its "
    "id, or cancel it and add another."
)
REVIVED = (
    "Refused: what was cancelled cannot become completed: {} (same text or id). Set it to pending or in_progress now, and "
    "complete it in a later reply. Other work needs another text and id."
)
LEAPT = (
    "Refused: {} items would become completed in this reply without having been in_progress before it, at most {} may: {}. "
    "Set the others to pending, or the next one to in_progress; do its work, and complete it in a later reply."
)
FIELDS = {"content": {"type": "string"}, "status": {"type": "string", "enum": list(MARKS)}, "id": {"type": "string"}}
ITEM = {"type": "object", "properties": FIELDS, "required": ["content", "status"], "additionalProperties": False}
ITEMS = {"type": ["array", "string"], "items": ITEM}  # string: some models send the list as text
SCHEMA = {"type": "object", "properties": {"todos": ITEMS}, "required": ["todos"], "additionalProperties": False}


@dataclass(frozen=True)
class Todo:
    """One step: what is to be done, one of the four statuses, and an id if the model gave one."""

    content: str
    status: str
    id: str = ""


class TodoStore:
    """The list, and the keys of what was cancelled. It keeps copies, hands out copies, and judges nothing."""

    _items: tuple[Todo, ...] = ()
    _cancelled: frozenset[str] = frozenset()

    def items(self) -> list[Todo]:
        return list(self._items)

    def cancelled(self) -> set[str]:
        return set(self._cancelled)

    def write(self, items: list[Todo], cancelled: set[str]) -> None:
        self._items, self._cancelled = tuple(items), frozenset(cancelled)


def install(
    agent: Agent,
    *,
    store: TodoStore | None = None,
    max_items: int = MAX_ITEMS,
    max_chars: int = MAX_CHARS,
    max_unstarted: int = MAX_UNSTARTED,
    remind_after: int = REMIND_AFTER,
    section: str = SECTION,
) -> None:
    """Give ``agent`` the tool todo_write, its reminder and its prompt section. Others read the list in ``store``."""
    todos = TodoList(store or TodoStore(), TodoStore(), max_items, max_chars, max_unstarted, remind_after)
    add_tool(agent, Tool("todo_write", DESCRIPTION, SCHEMA, todos.todo_write, read_only=True))
    agent.add_section("todo", section)
    agent.on(AfterModel, todos.begin_reply)
    agent.on(BeforeModel, todos.remind)
    agent.restores["todos"] = todos.restore


@dataclass
class TodoList:
    """The list of one agent, its limits, and what the rules remember from one call to the next."""

    store: TodoStore
    before: TodoStore  # the list as it stood before this reply
    max_items: int
    max_chars: int
    max_unstarted: int
    remind_after: int
    unstarted: tuple[Todo, ...] = ()  # became completed in this reply without having been started before it
    quiet_turns: int = 0  # model turns since the last successful write or reminder

    def todo_write(self, agent: Agent, todos: Any) -> str:
        """The tool: replace the list, or change nothing. Returns the list as text, and what is no longer in it.

        ``todos`` is a list of objects, or the text of one in JSON or Python. Raises ToolError, with the list as it is.
        """
        old, memory = self.store.items(), self.store.cancelled()
        try:
            new = [read_item(number, item) for number, item in enumerate(read_list(todos), 1)]
            self.check_list(new, old)
            unstarted = self.check_progress(new, old)
        except ToolError as error:
            raise ToolError(f"{error}\nNothing was changed. The list:\n{render(old)}") from None
        self.unstarted, self.quiet_turns = unstarted, 0
        for item in new:  # whoever opens an item again takes back that it was cancelled
            memory = memory | keys(item) if item.status == "cancelled" else memory - keys(item)
        said = {fold(item.content) for item in new}
        lost = [item for item in old if fold(item.content) not in said]
        reply = render(new) + (f"\nNo longer in the list: {names(lost)}" if lost else "")
        if (new, memory) != (old, self.store.cancelled()):
            self.store.write(new, memory)
            agent.changed("todos", {"items": [asdict(item) for item in new], "cancelled": sorted(memory)})
            agent.show("todos", text="    " + reply.replace("\n", "\n    "))
        return reply

    def check_list(self, new: list[Todo], old: list[Todo]) -> None:
        """Refuse a list that is too long, or in which one could not tell what is what."""
        if len(new) > self.max_items:
            raise ToolError(f"{len(new)} items, at most {self.max_items}: merge small steps, leave out what is done.")
        kept = {(item.content, item.id) for item in old}  # a limit lowered between two sessions must trap no item
        for place, item in enumerate(new):
            if max(len(item.content), len(item.id)) > self.max_chars and (item.content, item.id) not in kept:
                raise ToolError(f"Item {place + 1} has more than {self.max_chars} characters: say it shorter.")
            if same := [other for other in new[:place] if keys(other) & keys(item)]:
                raise ToolError(f"Same text or id: {names([*same, item])}. Merge them, or tell them apart.")
        if len(active := [item for item in new if item.status == "in_progress"]) > 1:
            raise ToolError(f"Only one item may be in_progress, not {names(active)}: set the others to pending.")

    def check_progress(self, new: list[Todo], old: list[Todo]) -> tuple[Todo, ...]:
        """Refuse progress that is none. Returns what became completed in this reply without being started before it."""
        if vanished := [item for item in match(new, old)[1] if item.status == "in_progress"]:
            raise ToolError(VANISHED.format(names(vanished)))
        done = [item for item in new if item.status == "completed"]
        memory = self.store.cancelled() | self.before.cancelled()
        if revived := [item for item in done if keys(item) & memory]:
            raise ToolError(REVIVED.format(names(revived)))
        earlier, _ = match(new, self.before.items())  # what each was before this reply, not just before this call
        leaps = [item for item in done if item not in earlier or earlier[item].status not in STARTED]
        leaps = tuple(dict.fromkeys([*self.unstarted, *(earlier.get(item, item) for item in leaps)]))
        if len(leaps) > self.max_unstarted:
            raise ToolError(LEAPT.format(len(leaps), self.max_unstarted, names(leaps)))
        return leaps

    def begin_reply(self, event: AfterModel) -> None:
        """A reply is in: what its calls write is judged against the list as it stands now."""
        self.before.write(self.store.items(), self.store.cancelled())
        self.unstarted = ()
        self.quiet_turns += 1

    def remind(self, event: BeforeModel) -> None:
        """Bring the open items back into view when the list was not written for some turns."""
        rows = "\n".join(row(item) for item in self.store.items() if item.status in OPEN)
        if rows and self.quiet_turns >= self.remind_after:
            head = f"No todo_write in the last {self.quiet_turns} turns: bring the list up to date if it is not."
            event.agent.history.note("todo", f"{head} Open items:\n{rows}")
            event.agent.show("notice", text=f"  [reminder: {head}]")
            self.quiet_turns = 0

    def restore(self, value: dict[str, Any] | None) -> None:
        """Take back what ``agent.changed`` announced; None stands for an empty list."""
        value = value or {"items": [], "cancelled": []}
        self.store.write([Todo(**item) for item in value["items"]], set(value["cancelled"]))


def render(items: list[Todo]) -> str:
    """Return the list as text: one row an item, then a line that counts."""
    done, dropped = (sum(item.status == status for item in items) for status in ("completed", "cancelled"))
    count = f"({done}/{len(items)} completed" + (f", {dropped} cancelled)" if dropped else ")")
    return "\n".join([*map(row, items), count]) if items else "(no todos)"


def row(item: Todo) -> str:
    return f"{MARKS[item.status]} {item.content}" + (f" (id: {item.id})" if item.id else "")


def names(items: list[Todo] | tuple[Todo, ...]) -> str:
    return ", ".join(f'"{item.content}"' for item in items)


def read_list(todos: Any) -> list[Any]:
    """Return the list that ``todos`` is, or is the text of. Raises ToolError."""
    for parse in (json.loads, ast.literal_eval):
        try:
            todos = parse(todos) if isinstance(todos, str) and len(todos) <= MAX_INPUT else todos
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
    if not isinstance(todos, (list, tuple)):
        raise ToolError("todos must be a list of objects with content and status: send it as a list, not as text.")
    return list(todos)


def read_item(number: int, item: Any) -> Todo:
    """Return one item of the list as a Todo. Raises ToolError that says which item it is and what is wrong."""
    if not isinstance(item, dict):
        raise ToolError(f"Item {number} must be an object with content and status.")
    for name, value in item.items():
        if name not in FIELDS or type(value) not in (str, int, type(None)):
            raise ToolError(f"Item {number}: {str(name)[:40]!r} is no field, or no text. Fields: {', '.join(FIELDS)}.")
    content, status, id_ = (one_line(item.get(name)) for name in FIELDS)
    while content[:3].lower() in MARKS.values():  # copied from a row, or meant to pass for one
        content = content[3:].strip()
    if not content:
        raise ToolError(f"Item {number} needs a content: a line of text that says what is to be done.")
    status = fold(status).replace(" ", "_").replace("-", "_")
    if status not in MARKS:
        raise ToolError(f"Item {number} has the status {status[:40]!r}: use {', '.join(MARKS)}.")
    return Todo(content, status, id_)


def one_line(value: str | int | None) -> str:
    """Return ``value`` as text on one line, without the characters that nobody sees."""
    text = "" if value is None else str(value)
    return " ".join("".join(char for char in text if char.isspace() or char.isprintable()).split())


def fold(text: str) -> str:
    """Return ``text`` in the form in which it is compared: case, width and spaces do not count."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).split())


def keys(item: Todo) -> set[str]:
    """Return what makes it the same item: its text and, if it has one, its id."""
    return {"text:" + fold(item.content)} | ({"id:" + fold(item.id)} if item.id else set())


def match(new: list[Todo], old: list[Todo]) -> tuple[dict[Todo, Todo], list[Todo]]:
    """Return what each new item was before, and the old ones left over. Text counts before id, and nothing twice."""
    was: dict[Todo, Todo] = {}
    for name in ("content", "id"):
        free = {fold(getattr(item, name)): item for item in old if item not in was.values() and getattr(item, name)}
        for item in new:
            if item not in was and fold(getattr(item, name)) in free:
                was[item] = free[fold(getattr(item, name))]  # one item in progress cannot vouch for two
    return was, [item for item in old if item not in was.values()]
