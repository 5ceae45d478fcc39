"""The todo list as a Markdown file: one a session, whole at every moment, in the right folder."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Step

ITEMS = [
    {"content": "read", "status": "completed", "id": ""},
    {"content": "write", "status": "in_progress", "id": "2"},
    {"content": "test", "status": "pending", "id": ""},
    {"content": "paint", "status": "cancelled", "id": ""},
]
TEXT = "# Todos\n\n- [x] read\n- [ ] **write** (in progress)\n- [ ] test\n- [ ] ~~paint~~ (cancelled)\n"


class Desk:
    """Stands in for an agent."""

    def __init__(self, load, workspace, **policy):
        self.events, self.workspace, self.shown = load("hooks"), workspace.resolve(), []
        self.workspace.mkdir(exist_ok=True)
        self.hooks = self.events.Hooks()
        self.on = self.hooks.on
        load("todo_copy").install(self, **policy)

    def show(self, kind, **data):
        self.shown.append(data["text"])

    def changed(self, items=ITEMS, name="todos"):
        return self.hooks.fire(self.events.StateChanged(self, name, {"items": items, "cancelled": []})).kept


def only(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def test_one_file_a_session_written_anew(load, tmp_path):
    desk = Desk(load, tmp_path / "w", folder=tmp_path / "own")
    assert desk.changed(ITEMS[:1])
    first = only(tmp_path / "own")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-[0-9a-f]{8}\.md", first.name)
    desk.changed()
    assert only(tmp_path / "own") == first and first.read_bytes().decode() == TEXT
    desk.changed([])
    assert first.read_text("utf-8") == "# Todos\n\n(none)\n"
    Desk(load, tmp_path / "w", folder=tmp_path / "own").changed()
    assert len(list((tmp_path / "own").iterdir())) == 2 and desk.shown == []


def test_other_state_is_none_of_its_business(load, tmp_path):
    desk = Desk(load, tmp_path / "w", folder=tmp_path / "own")
    desk.changed(name="plan_mode")
    assert not (tmp_path / "own").exists()


def test_the_session_names_the_file(load, tmp_path):
    session = SimpleNamespace(id="one")
    desk = Desk(load, tmp_path / "w", folder=tmp_path / "own", session=lambda: session.id)
    desk.changed()
    session.id = "../two"
    desk.changed()
    assert sorted(path.name for path in (tmp_path / "own").iterdir()) == ["one.md", "two.md"]


@pytest.mark.parametrize("where", ["w/.git/HEAD", "w/.git", ".git/HEAD"])
def test_in_a_git_repository_it_is_the_projects(load, tmp_path, where):
    (tmp_path / "w").mkdir()
    (tmp_path / where).parent.mkdir(exist_ok=True)
    (tmp_path / where).write_text("x", encoding="utf-8")
    Desk(load, tmp_path / "w", folder=tmp_path / "own").changed()
    assert only(tmp_path / "w" / ".planning" / "todos").read_text("utf-8") == TEXT
    assert not (tmp_path / "own").exists()


def test_it_is_decided_once(load, tmp_path):
    desk = Desk(load, tmp_path / "w", folder=tmp_path / "own")
    desk.changed()
    (tmp_path / "w" / ".git").mkdir()
    desk.changed()
    assert only(tmp_path / "own") and not (tmp_path / "w" / ".planning").exists()


def test_by_default_it_is_the_persons_own(load, tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    Desk(load, tmp_path / "w").changed()
    assert only(tmp_path / "home" / ".harness" / "plans").read_text("utf-8") == TEXT


def test_what_cannot_be_written_is_said_once_and_the_list_is_kept(load, tmp_path):
    (tmp_path / "own").write_text("a file", encoding="utf-8")
    desk = Desk(load, tmp_path / "w", folder=tmp_path / "own")
    assert desk.changed() and desk.changed()
    assert len(desk.shown) == 1 and "is not copied to" in desk.shown[0]


def test_no_link_leads_it_out_of_the_project(load, tmp_path):
    (tmp_path / "w" / ".git").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    try:
        (tmp_path / "w" / ".planning").symlink_to(tmp_path / "out")
    except OSError:
        return  # Windows without the right to
    desk = Desk(load, tmp_path / "w")
    desk.changed()
    assert list((tmp_path / "out").iterdir()) == [] and len(desk.shown) == 1


def test_through_the_tool_in_a_scratch_workspace(chapter):
    todos = [{"content": "look", "status": "in_progress"}]
    agent = chapter.agent(talk("go", Step(calls=[Call("todo_write", todos=todos)]), Step("Done.")))
    chapter.run(agent, "go")
    path = only(chapter.workspace / ".harness" / "todos")
    assert path.read_text("utf-8") == "# Todos\n\n- [ ] **look** (in progress)\n"
