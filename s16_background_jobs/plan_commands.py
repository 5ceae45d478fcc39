"""What the person says about the plan files: /planfiles sets one up, chooses it, seals it, and leaves it.

Only here is a plan gated or sealed, so only the person can do it: there is no tool for it.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from dataclasses import replace as changed
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Callable

from .paths import need_file
from .paths import relative
from .paths import replace
from .paths import resolve
from .plan_files import PlanFiles
from .plan_folder import FILES
from .plan_folder import MAX_BYTES
from .plan_folder import PLAN
from .plan_folder import PLANNING
from .plan_folder import POINTER
from .plan_folder import State
from .plan_folder import candidates
from .plan_folder import folder_of
from .plan_folder import read_bytes
from .plan_folder import seal_of
from .plan_folder import shown
from .plan_folder import update_state
from .tools import ToolError

if TYPE_CHECKING:
    from .agent import Agent

SLUG = 40  # characters of a plan's name, without its date: it is a folder
DATED = re.compile(r"\d{4}-\d\d-\d\d-[a-z0-9][a-z0-9-]*")
SKILL = "planning-files/SKILL.md"
BOTH = " It is gated and sealed: any edit breaks the seal, and then the gate holds nobody."
HELP = "the plan that is kept in files: init NAME [--gated], use NAME, status, seal [off], off"
USAGE = "Say /planfiles init NAME [--gated], use NAME, status, seal, seal off, or off."


def install(
    agent: Agent,
    *,
    files: PlanFiles,
    skills: str = "skills",
    today: Callable[[], date] = date.today,
) -> None:
    """Give the person /planfiles. ``skills`` is the folder of the workspace that gets the shipped skill; "" for none."""
    agent.command("planfiles", HELP, Commands(agent, files, skills, today).run)


@dataclass
class Commands:
    """The commands of one agent. Each returns what the person is told, and raises ToolError or OSError."""

    agent: Agent
    files: PlanFiles
    skills: str
    today: Callable[[], date]

    def run(self, rest: str) -> None:
        """Do what stands after /planfiles, and show what came of it."""
        verb, _, rest = rest.partition(" ")
        actions = {"init": self.init, "use": self.use, "status": self.status, "seal": self.seal, "off": self.leave}
        try:
            said = actions[verb](rest.strip()) if verb in actions else USAGE
        except (ToolError, ValueError) as error:
            said = f"Nothing was changed: {error}"
        except OSError as error:  # in the middle of it, perhaps
            said = f"That was not done, or not all of it: {error}"
        self.agent.show("notice", text=said)

    def init(self, rest: str) -> str:
        """Set up a plan; or the one of exactly this name anew: its files and its seal stay, the gate counts from zero."""
        words = rest.split()
        flags = [word for word in words if word.startswith("-")]
        name = self.name_for(" ".join(word for word in words if word not in flags))
        if set(flags) - {"--gated"} or not name:
            raise ToolError(f"a plan needs a name, and the only option is --gated. {USAGE}")
        folder = resolve(self.agent.workspace, f"{PLANNING}/{name}")
        shipped = Path(__file__).parent
        copies = [(folder / file, shipped / "templates" / file) for file in FILES]
        if self.skills:
            copies.append((self.agent.workspace / self.skills / SKILL, shipped / "skills" / SKILL))
        # First all places, so that nothing is changed if one is refused.
        copies = [(place_for(self.agent.workspace, target), source) for target, source in copies]
        for target, source in copies:
            put(target, source)
        state = update_state(folder, lambda state: State(gated=bool(flags), seal=state.seal))
        said = f"{self.use(name)} It is {'' if flags else 'not '}gated. Its files are in {PLANNING}/{name}."
        return said + (BOTH if state.gated and state.seal else "")

    def name_for(self, text: str) -> str:
        """Return the name for a plan: the date and what a folder can be named of ``text``; "" if there is no text."""
        if not text or DATED.fullmatch(text):
            return text
        slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:SLUG].strip("-")
        name = free = f"{self.today().isoformat()}-{slug or 'untitled-' + uuid.uuid4().hex[:8]}"
        number = 1
        while (self.agent.workspace / PLANNING / free).exists():
            number += 1
            free = f"{name}-{number}"
        return free

    def use(self, name: str) -> str:
        """Work on the plan ``name``: in this session, and in others that choose none themselves."""
        if folder_of(self.agent.workspace, name) is None:
            raise ToolError(f"there is no plan {name!r}. There are: {self.all_names()}.")
        planning = resolve(self.agent.workspace, PLANNING)
        planning.mkdir(exist_ok=True)
        replace(planning / POINTER, f"{name}\n".encode("utf-8"))
        self.files.choose(name, off=False)
        return f"The plan {name} is in use."

    def leave(self, rest: str) -> str:
        """Go on without plan files, in this session."""
        self.files.choose(self.files.chosen, off=True)
        return "This session goes on without plan files. /planfiles use NAME takes one up again."

    def seal(self, rest: str) -> str:
        """Seal the plan as it stands: from now on only this text is shown to the model. Or take the seal off."""
        plan = self.files.look()
        if plan.folder is None or rest not in ("", "off"):
            raise ToolError(plan.problem or USAGE)
        data = read_bytes(self.agent.workspace, plan.folder / PLAN)
        if len(data) > MAX_BYTES:
            raise ToolError(f"{PLAN} has more than {MAX_BYTES:,} bytes: make it shorter, then seal it.")
        state = update_state(plan.folder, lambda state: changed(state, seal="" if rest else seal_of(data)))
        said = f"{shown(self.agent.workspace, plan.folder / PLAN)} is {'no longer ' if rest else ''}sealed."
        return said + (BOTH if state.gated and state.seal else "")

    def status(self, rest: str) -> str:
        """Say where the plan stands, or why there is none, and which there are."""
        plan = self.files.look()
        if plan.folder is None or plan.problem:
            off = "Plan files are off in this session." if self.files.off else "No plan is in use."
            return f"{plan.problem or off} There are: {self.all_names()}."
        going = ", ".join(phase.title for phase in plan.phases if phase.status == "in_progress")
        gate = f"gated (stops held: {plan.state.blocks})" if plan.state.gated else "not gated"
        return f"{plan.summary()}{f' ({going})' if going else ''}; {gate}; {'sealed' if plan.state.seal else 'not sealed'}."

    def all_names(self) -> str:
        return ", ".join(candidates(self.agent.workspace)) or "none yet, /planfiles init NAME sets one up"


def place_for(workspace: Path, target: Path) -> Path:
    """Return where ``target`` really is. Raises ToolError if no file can be there."""
    target = resolve(workspace, str(target))
    if target.exists():
        need_file(workspace, target)
    above = next(parent for parent in target.parents if parent.exists())
    if not above.is_dir():
        raise ToolError(f"{relative(workspace, above)} is no folder: take it away, or give it another name.")
    return target


def put(target: Path, source: Path) -> None:
    """Copy a file that is shipped, unless there is something already. Raises OSError."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        replace(target, source.read_bytes())
