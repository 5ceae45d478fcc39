"""Skills: manuals of which the model always sees the label, and the text only when it asks for it.

Ten manuals in the prompt are paid for in every request, and a task needs one of them. So the prompt carries a line for
each skill, and ``load_skill`` brings the manual into the conversation (progressive disclosure, as in the Agent Skills
format, https://agentskills.io). A skill is ``skills/<name>/SKILL.md`` in the workspace.

A manual speaks to the model and can do nothing by itself: what it asks for goes through permissions like any call.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from .hooks import BeforeModel
from .hooks import UserPromptSubmit
from .paths import relative
from .skill_files import MANIFEST
from .skill_files import MAX_BYTES
from .skill_files import Skill
from .skill_registry import MAX_FOLDERS
from .skill_registry import NONE
from .skill_registry import Registry
from .todo import fold
from .todo import one_line
from .tools import Tool
from .tools import ToolError
from .tools import add_tool

if TYPE_CHECKING:
    from .agent import Agent

FOLDER = "skills"
CATALOGUE_CHARS = 8_000  # of all labels together: some 2,000 tokens, one per cent of a common context window
LABEL_CHARS = 500  # of one label: two or three sentences, so that a talkative skill leaves room for others
MANUAL_BYTES = 40_000  # of a manual in one answer: some 10,000 tokens, twice what the format advises
BY_HAND_BYTES = 12_000  # of one that a person loads: it goes out as a note, and notes share a limit
MAX_FILES = 30  # named of those in a skill's folder: the manual itself says which one to read
ORDER = 60  # of the section: it changes more often than others, so it stands behind them

SECTION = """Skills are manuals for particular kinds of work. Here stand only their labels. When a label fits what you are
asked to do, load its manual with load_skill before you begin, and follow it. Labels and manuals are files of the
workspace: they say how work is done there, and allow nothing."""
DESCRIPTION = """Load a skill: returns its manual, its folder, and the names of the other files there. The skills are listed
in the system prompt and in later reminders; look there for the name."""
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "description": "Name of the skill, as listed."}},
    "required": ["name"],
    "additionalProperties": False,
}
HELP = "lists the skills; /skill NAME gives the manual to the model with your next prompt, /skill NAME TEXT at once"
MORE = "[{} more skills are left out here: load_skill with the name ? tells all names]"
BY_HAND = "The person has loaded a skill for what they ask here."
ABOVE = "The manual of {!r} stands above already, unchanged: follow it."


def install(
    agent: Agent,
    *,
    folder: str = FOLDER,
    section: str = SECTION,
    catalogue_chars: int = CATALOGUE_CHARS,
    label_chars: int = LABEL_CHARS,
    manual_bytes: int = MANUAL_BYTES,
    max_bytes: int = MAX_BYTES,
    max_folders: int = MAX_FOLDERS,
) -> Skills:
    """Give ``agent`` the skills in ``folder`` of its workspace: the tool load_skill, a prompt section, and /skill.

    The tool is there without skills, too: one may be written at any time, and a changed list of tools costs the cache.
    """
    registry = Registry(agent.workspace, folder, max_bytes, max_folders)
    skills = Skills(agent, registry, section, catalogue_chars, label_chars, manual_bytes)
    add_tool(agent, Tool("load_skill", DESCRIPTION, SCHEMA, skills.load_skill, read_only=True))
    agent.on(UserPromptSubmit, skills.begin)
    agent.on(BeforeModel, skills.announce)
    agent.command("skill", HELP, skills.by_hand)
    agent.restores["skills"] = skills.restore
    return skills


@dataclass
class Skills:
    """What one agent knows of its skills: which were loaded, and what model and person have been told of them."""

    agent: Agent
    registry: Registry
    section: str
    catalogue_chars: int
    label_chars: int
    manual_bytes: int
    loaded: list[str] = field(default_factory=list)  # names in the order of loading
    bodies: dict[str, str] = field(default_factory=dict)  # of the loaded ones, as they were then
    told: dict[str, str] | None = None  # the labels that the model knows; None before the first prompt
    reported: list[str] = field(default_factory=list)  # the warnings that the person knows

    def load_skill(self, agent: Agent, name: str) -> str:
        """The tool: return the manual of a skill. Raises ToolError with what there is if it is not found.

        The name is looked up among the skills that were found, and never becomes part of a path.
        """
        self.registry.scan()
        skill = self.registry.find(name)
        self.mark(skill)
        text = self.manual(skill, self.manual_bytes)
        return ABOVE.format(skill.name) if stands_in(text, agent) else text

    def begin(self, event: UserPromptSubmit) -> None:
        """Before the first request: look what there is, and put the labels into the system prompt."""
        if self.told is None:
            self.rebuild()

    def announce(self, event: BeforeModel) -> None:
        """Tell the model what has changed. At the end of the messages: the system prompt is in the provider's cache."""
        if self.told is None or event.agent is not self.agent:
            return
        self.registry.scan()
        labels = self.labels()
        new = [name for name in labels if name not in self.told]
        changed = [name for name in labels if self.told.get(name, labels[name]) != labels[name]]
        gone = [name for name in self.told if name not in labels]
        stale = [name for name, body in self.bodies.items() if name in labels and self.registry.find(name).body != body]
        parts = [
            f"{title}:\n{catalogue([labels[name] for name in names], self.catalogue_chars)}"
            for title, names in (("New skills", new), ("Skills with a new label", changed))
            if names
        ]
        parts += [f"No longer there: {', '.join(gone)}."] if gone else []
        parts += [f"Changed since it was loaded, load it again if you need it: {', '.join(stale)}."] if stale else []
        parts += self.report()
        self.told = labels
        for name in {*gone, *stale} & {*self.bodies}:
            del self.bodies[name]
        if parts:
            self.agent.history.note("skills", "\n".join(parts), cut=True)
        for title, names in (("new", new), ("label changed", changed), ("gone", gone), ("manual changed", stale)):
            if names:
                self.agent.show("notice", text=f"  [skills, {title}: {', '.join(names)}]")

    def by_hand(self, rest: str) -> None:
        """The command: list the skills, or give a manual to the model with the next prompt, or with this text."""
        self.registry.scan()
        if not rest:
            rows = [f"{label}{'  [loaded]' * (name in self.loaded)}" for name, label in self.labels().items()]
            rows = rows or [NONE.format(self.registry.folder)]
            self.reported = list(self.registry.warnings)
            return self.agent.show("notice", text="\n".join([*rows, *(f"! {warning}" for warning in self.registry.warnings)]))
        name, text = (rest, "") if fold(rest) in self.registry.skills else (*rest.split(maxsplit=1), "")[:2]
        try:
            skill = self.registry.find(name)
        except ToolError as error:
            return self.agent.show("notice", text=f"[{error}]")
        self.mark(skill)
        manual = self.manual(skill, min(self.manual_bytes, BY_HAND_BYTES))
        manual = ABOVE.format(skill.name) if stands_in(manual, self.agent) else manual
        if f"{BY_HAND}\n{manual}" not in [note.text for note in self.agent.history.notes]:  # else it waits already
            self.agent.history.note("skill", f"{BY_HAND}\n{manual}", cut=True)
        waits = f"waits for your next prompt; /skill {skill.name} TEXT sends both at once"
        goes = "goes to the model" if text else waits
        self.agent.show("notice", text=f"[the manual of {skill.name} {goes}]")
        if text.strip():
            self.agent.enqueue(text.strip())

    def rebuild(self) -> None:
        """Write the section anew. For moments at which a conversation begins anew: start, compaction, resume."""
        self.registry.scan()
        self.report()
        self.told = self.labels()
        self.agent.sections.pop("skills", None)
        if self.told:
            labels = catalogue([*self.told.values()], self.catalogue_chars)
            self.agent.add_section("skills", f"{self.section}\n{labels}", order=ORDER)

    def restore(self, value: dict[str, Any] | None) -> None:
        """Take back what ``agent.changed`` announced; None stands for nothing loaded."""
        self.loaded[:] = value["loaded"] if value else []

    def manual(self, skill: Skill, limit: int) -> str:
        """Return what the model reads of a skill: where it is, what else is there, and up to ``limit`` bytes of text."""
        path, folder = self.registry.shown(skill.manifest), self.registry.shown(skill.manifest.parent)
        files = files_in(skill.manifest.parent)
        more = " and more" if len(files) > MAX_FILES else ""
        head = f"Skill {skill.name}, in the folder {folder}: files that its manual names may lie there."
        head += f" Other files there: {', '.join(files[:MAX_FILES])}{more}." if files else ""
        lines, used, count = skill.body.split("\n"), 0, 0
        while count < len(lines) and (used := used + len(lines[count].encode("utf-8")) + 1) <= limit:
            count += 1
        if count < len(lines):
            lines = lines[:count] or [lines[0].encode("utf-8")[:limit].decode("utf-8", "ignore")]
            lines.append(f"[there is more: read_file with the path {path} and offset={skill.line + max(count, 1)}]")
        return f"{head}\n\n" + "\n".join(lines)

    def mark(self, skill: Skill) -> None:
        """Remember that a skill was loaded, and how it was then."""
        self.bodies[skill.name] = skill.body
        if skill.name not in self.loaded:
            self.loaded.append(skill.name)
            self.agent.changed("skills", {"loaded": list(self.loaded)})

    def labels(self) -> dict[str, str]:
        """Return the line of each skill, by its name."""
        return {skill.name: label(skill, self.label_chars) for skill in self.registry.skills.values()}

    def report(self) -> list[str]:
        """Show the person the warnings that are new, and return them."""
        new = [warning for warning in self.registry.warnings if warning not in self.reported]
        self.reported = list(self.registry.warnings)
        for warning in new:
            self.agent.show("notice", text=f"  [{warning}]")
        return new


def label(skill: Skill, chars: int) -> str:
    """Return the line of a skill: name and description, up to ``chars`` characters, nothing in it that passes for markup."""
    text = f"- {skill.name}: {skill.description}".replace("<", "&lt;").replace(">", "&gt;")
    return text if len(text) <= chars else text[: chars - 1] + "…"


def catalogue(labels: list[str], chars: int) -> str:
    """Return the labels that fit into ``chars`` characters, one a line, and a line that says how many do not."""
    lines, room = [], chars
    for line in labels:
        room -= len(line) + 1
        if room < 0:
            break
        lines.append(line)
    left_out = len(labels) - len(lines)
    return "\n".join([*lines, *([MORE.format(left_out)] if left_out else [])])


def stands_in(text: str, agent: Agent) -> bool:
    """Whether the model of ``agent`` still has ``text`` before it: a compaction, or another conversation, may lack it."""
    blocks = [block for message in agent.history.messages for block in message["content"]]
    return any(text in str(block.get("content") or block.get("text")) for block in blocks)


def files_in(folder: Path) -> list[str]:
    """Return the other files of a skill, relative to its folder; it stops when there are more than MAX_FILES."""
    found: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        found += [one_line(relative(folder, Path(place, name))) for name in sorted(names) if name[0] != "."]
        if len(found) > MAX_FILES + 1:
            break
    return [name for name in found if name != MANIFEST]
