"""Settings: a wrong file stops the program with one line of cure; two files go together by one rule; trust comes first."""

from __future__ import annotations

import json
import os

import pytest
from test_shell import POSIX


class Desk:
    """A workspace and a home, each with its settings file, and a person who answers."""

    def __init__(self, load, folder):
        self.settings, self.strict_json = load("settings"), load("strict_json")
        self.workspace, self.own = folder / "workspace", folder / "home" / ".harness" / "settings.json"
        self.theirs = self.workspace / ".harness" / "settings.json"
        for path in (self.own, self.theirs):
            path.parent.mkdir(parents=True)
        self.asked = []

    def write(self, own=None, theirs=None):
        for path, value in ((self.own, own), (self.theirs, theirs)):
            if value is not None:
                path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")

    def load(self, answer="n", **more):
        def ask(question):
            self.asked.append(question)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return self.settings.load(self.workspace, own=self.own, ask=ask if answer is not None else None, **more)

    def refuse(self, text):
        """Write a file that must be refused. Returns the one line behind the path."""
        self.write(theirs=text)
        with pytest.raises(ValueError) as raised:
            self.load()
        told = str(raised.value)
        assert told.startswith(str(self.theirs)) and "\n" not in told and told.endswith((".", "?"))
        assert self.asked == []
        return told.removeprefix(str(self.theirs))


@pytest.fixture
def desk(load, tmp_path):
    return Desk(load, tmp_path)


# A wrong file stops the program: one line, with the line and the cure.

HOOK = '{"hooks": {"PreToolUse": [{"matcher": "Bash",\n"hooks": [%s]}]}}'
NOT_JSON = {
    "empty": (" ", ", line 1: it is empty: write {}"),
    "a comment": ('{\n  "memory": true, // why not\n}', ", line 2: JSON has no comments"),
    "a comment of another kind": ('{"memory": true /* why not */}', ", line 1: JSON has no comments"),
    "a third kind": ("# mine\n{}", ", line 1: JSON has no comments"),
    "a comma too many": ('{\n  "memory": true,\n}', ", line 3: a comma stands before the }"),
    "a comma too many in a list": ('{"permissions": {"allow": ["bash",]}}', ", line 1: a comma stands before the ]"),
    "a comma too few": ('{\n"memory": true\n"sandbox": true}', ", line 3: a comma or a } is missing"),
    "a colon too few": ('{"memory" true}', ", line 1: a colon is missing behind the name 'memory'"),
    "single quotes": ("{'memory': true}", ", line 1: JSON has no single quotes"),
    "no quotes": ("{memory: true}", ", line 1: a name is missing: write it in double quotes"),
    "Python's words": ('{"memory": True}', ", line 1: a value is missing here"),
    "half a word": ('{"memory": tru}', ", line 1: this is no value"),
    "no number": ('{"limits": {"max_turns": NaN}}', ", line 1: a value is missing here"),
    "a huge number": ('{"limits": {"max_turns": %s}}' % ("9" * 5_000), ", line 1: "),
    "an open bracket": ('{"permissions": {\n"allow": []', ", line 2: it ends in the middle"),
    "an open text": ('{"model": "x}', ", line 1: this text is not closed"),
    "a Windows path": ('{"model": "C:\\dir"}', "write \\\\ for \\"),
    "two values": ("{}\n{}", ", line 2: something stands behind the end"),
    "a key twice": ('{\n"model": "a",\n"model": "b"}', ", line 3: 'model' stands there twice"),
    "a key twice deep down": ('{"permissions":\n{"deny": ["bash"],\n"deny": []}}', ", line 3: 'deny' stands there twice"),
    "far too deep": ('{"a":' * 200, ", line 1: nested deeper"),
}
NOT_MEANT = {
    "a list": ("[]", ", line 1: the file must be an object"),
    "an unknown key": ('{\n"modell": "x"}', ", line 2: 'modell' is not known: is 'model' meant?"),
    "another tool's spelling": ('{"mcpServers": {}}', "is 'mcp_servers' meant?"),
    "nothing near": ('{"xyzzy": 1}', ", line 1: 'xyzzy' is not known: there are permissions, hooks,"),
    "an unknown limit": ('{"limits": {\n"max_turn": 3}}', ", line 2: 'max_turn' is not known in limits: is 'max_turns'"),
    "a text for a number": ('{"limits": {"max_turns": "3"}}', "limits.max_turns must be a whole number"),
    "true for a number": ('{"limits": {"max_turns": true}}', "limits.max_turns must be a whole number"),
    "a limit too low": ('{"limits": {"max_turns": 0}}', "limits.max_turns must be from 1 to 10,000"),
    "a limit too high": ('{"limits": {"max_tokens": 1000001}}', "limits.max_tokens must be from 1 to 1,000,000"),
    "a number for a text": ('{"model": 5}', "model must be a text"),
    "an empty model": ('{"fallback_model": " "}', "fallback_model is empty"),
    "a number for yes": ('{"sandbox": 1}', "sandbox must be true or false"),
    "null": ('{"memory": null}', "memory must be true or false"),
    "rules in one text": ('{"permissions": {"allow": "bash"}}', "permissions.allow must be a list"),
    "a rule that is none": ('{"permissions": {"deny": ["bash",\n7]}}', ", line 2: permissions.deny[1] must be a rule"),
    "an unknown kind of rule": ('{"permissions": {"alow": []}}', "is 'allow' meant?"),
    "an unknown mode": ('{"permissions": {"default_mode": "accept"}}', "is 'accept-edits' meant?"),
    "a mode that is no text": ('{"permissions": {"default_mode": ["plan"]}}', "default_mode"),
    "a server without a program": ('{"mcp_servers": {\n"clock": {"args": []}}}', ", line 2: mcp_servers.clock.command"),
    "an unknown event": ('{"hooks": {"PreToolUs": []}}', "'PreToolUs' is not known in hooks: is 'PreToolUse' meant?"),
    "an event without a list": ('{"hooks": {"Stop": {}}}', "hooks.Stop must be a list"),
    "a flat hook": ('{"hooks": {"Stop": [{"type": "command", "command": "true"}]}}', 'needs a list "hooks" around'),
    "a group that is none": ('{"hooks": {"Stop": ["true"]}}', "hooks.Stop[0] must be an object"),
    "a matcher that is none": ('{"hooks": {"Stop": [{"matcher": null, "hooks": []}]}}', "hooks.Stop[0].matcher must be a text"),
    "a broken matcher": ('{"hooks": {"PreToolUse": [{"matcher": "(Bash", "hooks": []}]}}', "no regular expression"),
    "a slip in a group": ('{"hooks": {"PreToolUse": [{"macher": "Bash", "hooks": []}]}}', "is 'matcher' meant?"),
    "a hook without a type": (HOOK % '{"command": "true"}', ", line 2: hooks.PreToolUse[0].hooks[0].type is missing"),
    "a hook of a kind not done here": (HOOK % '{"type": "prompt", "command": "x"}', "'prompt' is not done here"),
    "a hook without a command": (HOOK % '{"type": "command"}', "command must be a text"),
    "an empty command": (HOOK % '{"type": "command", "command": " "}', "command is empty"),
    "a command with a NUL": (HOOK % '{"type": "command", "command": "a\\u0000b"}', "holds a NUL"),
    "a time limit in words": (HOOK % '{"type": "command", "command": "x", "timeout": "10"}', "timeout must be a number of seconds"),
    "no time at all": (HOOK % '{"type": "command", "command": "x", "timeout": 0}', "timeout must be a number of seconds"),
    "a slip in a hook": (HOOK % '{"type": "command", "command": "x", "timeout_ms": 5}', "is 'timeout' meant?"),
    "another shell": (HOOK % '{"type": "command", "command": "x", "shell": "powershell"}', 'can only be "bash"'),
    "arguments in one text": (HOOK % '{"type": "command", "command": "x", "args": "-v"}', "args must be a list"),
    "an if for what is no tool": (
        '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "x", "if": "Bash"}]}]}}',
        "works for tools alone",
    ),
    "an if that is no rule": (HOOK % '{"type": "command", "command": "x", "if": "(git"}', "must be a rule"),
}


@pytest.mark.parametrize("text, told", (NOT_JSON | NOT_MEANT).values(), ids=NOT_JSON | NOT_MEANT)
def test_a_wrong_file_stops_the_program(desk, text, told):
    assert told in desk.refuse(text)


def test_files_that_cannot_be_read_at_all(desk):
    assert "longer than" in desk.refuse('{"model": "' + "x" * 200_000 + '"}')
    desk.theirs.write_bytes('{\n"model": "ü"}'.encode("latin-1"))
    with pytest.raises(ValueError, match="line 2: this is no UTF-8: save the file as UTF-8"):
        desk.load()
    desk.theirs.write_bytes('{"model": "x"}'.encode("utf-16"))
    with pytest.raises(ValueError, match="no UTF-8"):
        desk.load()
    desk.theirs.unlink()
    desk.theirs.mkdir()
    with pytest.raises(ValueError, match="this is no file"):
        desk.load()


def test_nothing_waits_for_a_pipe(desk):
    if not POSIX:
        return
    os.mkfifo(desk.theirs)
    with pytest.raises(ValueError, match="this is no file"):
        desk.load()


def test_the_persons_own_file_is_judged_as_well(desk):
    desk.write(own='{"modell": "x"}')
    with pytest.raises(ValueError, match=r"home.+line 1: 'modell' is not known"):
        desk.load()


def test_a_mark_at_the_beginning_is_no_fault(desk):
    desk.theirs.write_bytes(b"\xef\xbb\xbf" + b'{"model": "x"}')  # editors on Windows put it there
    assert desk.load().model == "x"


def test_every_line_is_known_and_half_characters_do_no_harm(desk):
    desk.write(theirs='{\r\n"model": "a\\ud800b",\r\n"limits":\r\n{"max_turns": 1}}')
    document = desk.strict_json.read(desk.theirs)
    assert document.lines == {(): 1, ("model",): 2, ("limits",): 3, ("limits", "max_turns"): 4}
    assert document.value["model"] == "a?b"
    wrong = desk.strict_json.Wrong(("limits", "no such thing", 3), "Wrong.")
    assert str(document.error(wrong)) == f"{desk.theirs}, line 3: Wrong."


# Two files.


def test_without_files_there_are_the_defaults(desk, load):
    settings = desk.load()
    assert settings == desk.settings.Settings(rules=settings.rules)
    assert set(load("permissions").DEFAULT_RULES.deny) < set(settings.rules.deny)
    assert (settings.mode, settings.hooks, settings.model, settings.sandbox, settings.memory) == ("default", (), "", False, True)


def test_rules_add_up_and_what_the_person_denies_stays_denied(desk, load):
    desk.write(
        own={"permissions": {"deny": ["bash(git push:*)"], "allow": ["bash(git log:*)"]}},
        theirs={"permissions": {"allow": ["bash(git push:*)", "bash(npm test)"], "ask": ["write_file"], "deny": ["grep"]}},
    )
    rules = desk.load("y").rules
    assert rules.allow[-3:] == ("bash(git log:*)", "bash(git push:*)", "bash(npm test)")
    assert rules.ask == ("write_file",) and {"bash(git push:*)", "grep"} < set(rules.deny)

    permissions, tools = load("permissions"), load("tools")
    bash = tools.Tool("bash", "", {"properties": {"command": {"type": "string"}}}, None)
    judge = permissions.Permissions(rules, None, {"bash": bash})
    assert judge.decide(bash, {"input": {"command": "git push"}}, desk.workspace).verdict == "deny"
    assert judge.decide(bash, {"input": {"command": "npm test"}}, desk.workspace).verdict == "allow"


def test_the_models_tools_cannot_write_the_settings(desk):
    assert {"write_file(.harness/settings.json)", "edit_file(.harness/settings.json)"} < set(desk.load().rules.deny)


def test_of_models_limits_and_memory_the_workspaces_value_holds(desk):
    desk.write(
        own={"model": "mine", "fallback_model": "small", "memory": True, "limits": {"max_turns": 5, "max_tokens": 100}},
        theirs={"model": "theirs", "memory": False, "limits": {"max_turns": 50, "max_forced": 0}},
    )
    settings = desk.load(None)
    assert (settings.model, settings.fallback_model, settings.memory) == ("theirs", "small", False)
    assert settings.limits == {"max_turns": 50, "max_tokens": 100, "max_forced": 0}
    assert settings.trusted and settings.told == () and desk.asked == []


@pytest.mark.parametrize(
    "mine, theirs, holds",
    [
        ("plan", None, "plan"),
        (None, "plan", "plan"),
        (None, "deny-asks", "deny-asks"),
        ("plan", "default", "plan"),
        ("accept-edits", "default", "default"),
        ("accept-edits", None, "accept-edits"),
        (None, "accept-edits", "default"),
        ("deny-asks", "plan", "plan"),
    ],
)
def test_of_two_modes_the_stricter_one_holds(desk, mine, theirs, holds):
    files = [{"permissions": {"default_mode": mode}} if mode else {} for mode in (mine, theirs)]
    desk.write(*files)
    settings = desk.load("y")
    assert settings.mode == holds
    assert [bool(theirs and holds != theirs)] == [any("can only be stricter" in told for told in settings.told)]


@pytest.mark.parametrize("mine, theirs, holds", [(True, False, True), (False, True, True), (False, False, False)])
def test_the_sandbox_is_on_when_one_wants_it(desk, mine, theirs, holds):
    desk.write({"sandbox": mine}, {"sandbox": theirs})
    assert desk.load().sandbox is holds


def hook(command):
    return {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}


def test_hooks_add_up_and_the_persons_server_wins(desk):
    desk.write(
        {**hook("mine"), "mcp_servers": {"clock": {"command": "mine"}}},
        {**hook("theirs"), "mcp_servers": {"clock": {"command": "theirs"}, "map": {"command": "map"}}},
    )
    settings = desk.load("y")
    assert [each.command for each in settings.hooks] == ["mine", "theirs"]
    assert settings.mcp_servers == {"clock": {"command": "mine"}, "map": {"command": "map"}}
    assert "'clock'" in settings.told[0] and "yours" in settings.told[0]


def test_where_the_workspace_is_the_home_there_is_one_file(desk):
    desk.write(own={**hook("mine"), "permissions": {"allow": ["bash"]}})
    settings = desk.settings.load(desk.own.parent.parent, own=desk.own, ask=None)
    assert [each.command for each in settings.hooks] == ["mine"] and settings.told == ()
    assert "bash" in settings.rules.allow


def test_the_persons_own_file_is_in_the_home(desk, monkeypatch, tmp_path):
    monkeypatch.setattr(desk.settings.Path, "home", lambda: tmp_path)
    assert desk.settings.own_file() == tmp_path / ".harness" / "settings.json"

    def nobody():
        raise RuntimeError

    monkeypatch.setattr(desk.settings.Path, "home", nobody)
    assert desk.settings.own_file() is None
    assert desk.settings.load(desk.workspace, own=None).model == ""


# Trust: what a folder brings runs nothing before the person has said so.

GRANTS = {
    "hooks": hook("touch canary"),
    "mcp_servers": {"mcp_servers": {"clock": {"command": "clock"}}},
    "permissions.allow": {"permissions": {"allow": ["bash"]}},
}


@pytest.mark.parametrize("answer", ["n", "", "yes, but", None, EOFError()])
@pytest.mark.parametrize("name", GRANTS)
def test_without_trust_nothing_that_grants_holds(desk, name, answer):
    desk.write(theirs={"model": "x", **GRANTS[name]})
    settings = desk.load(answer)
    assert (settings.hooks, settings.mcp_servers, settings.model) == ((), {}, "x")
    assert "bash" not in settings.rules.allow and not settings.trusted
    assert name in settings.told[0] and "not trusted this folder" in settings.told[0]
    assert not (desk.own.parent / "trusted.json").exists()


def test_what_is_stricter_needs_no_trust(desk):
    desk.write(theirs={"permissions": {"deny": ["grep"], "ask": ["glob"], "allow": ["bash"], "default_mode": "plan"}})
    settings = desk.load(None)
    assert "grep" in settings.rules.deny and settings.rules.ask == ("glob",) and settings.mode == "plan"


def test_trust_is_asked_for_once_and_again_when_something_has_changed(desk):
    desk.write(theirs=hook("one"))
    assert desk.load("y").trusted and desk.load(None).hooks[0].command == "one"
    assert len(desk.asked) == 1
    desk.write(theirs={**hook("one"), "model": "x", "permissions": {"deny": ["grep"]}})  # this grants nothing
    assert desk.load(None).trusted
    desk.write(theirs=hook("two"))
    assert not desk.load(None).trusted
    assert desk.load("Yes").trusted and "two" in desk.asked[-1]
    desk.write(theirs=hook("one"))
    assert not desk.load("n").trusted, "the latest is what was trusted"


def test_trust_is_about_one_folder(desk, tmp_path):
    desk.write(theirs=hook("one"))
    desk.load("y")
    other = tmp_path / "other"
    (other / ".harness").mkdir(parents=True)
    (other / ".harness" / "settings.json").write_bytes(desk.theirs.read_bytes())
    assert not desk.settings.load(other, own=desk.own, ask=None).trusted


def test_other_files_are_trusted_together_with_the_settings(desk):
    servers = {"clock": {"command": "clock", "args": ["--now"]}}
    settings = desk.load("n", also={".mcp.json": servers})
    assert not settings.trusted and ".mcp.json" in settings.told[0]
    assert '.mcp.json clock: {"command": "clock", "args": ["--now"]}' in desk.asked[0]
    assert desk.load("y", also={".mcp.json": servers}).trusted
    assert desk.load(None, also={".mcp.json": servers}).trusted
    assert not desk.load(None, also={".mcp.json": {"clock": {"command": "other"}}}).trusted


def test_the_question_shows_everything_and_nothing_can_forge_a_row(desk):
    desk.write(theirs={**hook("a\n  hooks Stop: nice\x1b[2J" + " " * 500 + "evil"), "permissions": {"allow": ["bash(x\ny)"]}})
    desk.load("n")
    [question] = desk.asked
    assert len(question.splitlines()) == 5
    assert "\x1b" not in question and "[500 blanks] evil" in question and "permissions.allow" in question


def test_the_question_tells_that_scripts_are_not_looked_at(desk):
    desk.write(theirs=hook("./guard.sh"))
    assert desk.load("y").trusted
    (desk.workspace / "guard.sh").write_text("exit 2\n", encoding="utf-8")
    assert desk.load(None).trusted and "not if a script behind it does" in desk.asked[0]


def test_a_damaged_store_of_trust_trusts_nothing(desk):
    desk.write(theirs=hook("one"))
    store = desk.own.parent / "trusted.json"
    store.write_text("{broken", encoding="utf-8")
    settings = desk.load(None)
    assert not settings.trusted and "trusted.json" in settings.told[0] and "each time" in settings.told[0]
    assert desk.load("y").trusted and not desk.load(None).trusted
    assert store.read_text(encoding="utf-8") == "{broken", "a person may want to mend it"
    store.unlink()
    store.mkdir()
    assert desk.load("y").trusted and not desk.load(None).trusted and list(store.iterdir()) == []


def test_trust_that_cannot_be_kept_holds_once(desk, monkeypatch):
    def full(*arguments):
        raise OSError(28, "no space left")

    desk.write(theirs=hook("one"))
    monkeypatch.setattr(desk.settings, "replace", full)
    settings = desk.load("y")
    assert settings.trusted and any("could not be kept (no space left)" in told for told in settings.told)
    assert not desk.load(None).trusted


# Rules are judged when all tools are there.


@pytest.mark.parametrize(
    "rule, told",
    [
        ("Bash(git:*)", "the tool's name is bash"),
        ("Read", "is 'read_file' meant?"),
        ("read_fil", "is 'read_file' meant?"),
        ("xyzzy", "there are bash,"),
        ("bash(", "write a tool's name"),
        ("read_file(/etc/passwd)", "relative to the workspace"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_told_with_its_line(desk, load, rule, told):
    desk.write(theirs='{"permissions": {"ask": ["bash",\n%s]}}' % json.dumps(rule))
    tools = load("tools")
    schema = {"properties": {"path": {"type": "string"}}}
    known = {name: tools.Tool(name, "", schema, None) for name in ("bash", "read_file", "write_file")}
    with pytest.raises(ValueError) as raised:
        desk.load().check_rules(known)
    assert str(raised.value).startswith(f"{desk.theirs}, line 2: The rule {rule!r}") and told in str(raised.value)


def test_rules_that_can_be_meant_pass(desk, load):
    desk.write(own={"permissions": {"allow": ["mcp__clock__now", "mcp__clock__*", "bash(ls:*)"], "deny": ["bash"]}})
    tools = load("tools")
    desk.load().check_rules({"bash": tools.Tool("bash", "", {}, None)})
