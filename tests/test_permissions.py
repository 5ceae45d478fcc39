"""Permissions: what is denied, asked about and allowed, and what the person is shown before saying yes.

Whatever is smuggled here is `touch canary`. The commands are read, not run; only those that come out as allowed are
also given to a real bash, in a temporary folder, to see that no canary appears.
"""

from __future__ import annotations

import subprocess
import threading
import time
from types import SimpleNamespace

import pytest
from conftest import talk

from offline_model.script import Call
from offline_model.script import Step


COMMON = (
    "bash(ls:*)",
    "bash(pwd)",
    "bash(cat:*)",
    "bash(echo:*)",
    "bash(printf:*)",
    "bash(grep:*)",
    "bash(wc:*)",
    "bash(head:*)",
    "bash(tail:*)",
    "bash(sort:*)",
    "bash(find:*)",
    "bash(test:*)",
    "bash(cd:*)",
    "bash(true)",
    "bash(git:*)",
    "bash(npm test)",
    "bash(npm run:*)",
    "bash(python -m pytest:*)",
)

EVERYDAY = [
    "ls",
    "  ls  ",
    "ls -la src",
    "ls\t-la",
    "ls *.py",
    "ls src/**/*.py",
    "ls file?.txt [ab].txt",
    "ls ~",
    "ls $HOME",
    'ls "$HOME/my files"',
    "ls 'a b' \"c d\" e\\ f",
    "'ls' -l",
    "l\\s -l",
    "ls -l | wc -l",
    "ls |& wc -l",
    "ls && pwd",
    "ls || echo none",
    "ls; pwd;",
    "ls\npwd\n",
    "ls |\nwc -l",
    "ls & pwd",
    "ls 2>&1",
    "ls 2>&1 | head -5",
    "ls > /dev/null",
    "ls >/dev/null 2>&1",
    "ls 2>/dev/null",
    "ls 2> /dev/null || true",
    "ls &> /dev/null",
    "ls >> /dev/null",
    "cat < /dev/null",
    "echo missing >&2",
    "echo 'it costs $5; touch canary'",
    'echo "a; b && c | d > e"',
    'echo "say \\"hi\\""',
    "echo 'several\nlines'",
    "echo touch canary",
    "echo a=b c:d e,f g@h 50% -- +x",
    "echo Grüße 你好",
    "grep -rn 'def .*(self)' src | sort | head -20",
    'grep -c "foo$" a.txt',
    "grep shutdown app.log",
    "find . -name '*.py' -type f",
    "find src/*.d -name core",
    "sort -k2 -n a.txt",
    "printf '%s\\n' a b",
    "test -f a.txt && cat a.txt",
    "cd src && ls",
    "git status",
    'git "status" --short',
    "git diff HEAD~1 -- src",
    "git log --oneline -5",
    "git show HEAD^:a.txt",
    "npm test",
    "npm 'test' 2>&1 | tail -20",
    "npm run build",
    "python -m pytest -q tests",
]

SMUGGLED = [
    # more commands
    "ls; touch canary",
    "ls;touch canary",
    "ls && touch canary",
    "ls || touch canary",
    "ls | touch canary",
    "ls |& touch canary",
    "ls & touch canary",
    "ls &touch canary",
    "ls\ntouch canary",
    "ls\n\n\ttouch canary",
    "touch canary; ls",
    "ls 2>&1; touch canary",
    "ls 2>&1&touch canary",
    "ls >/dev/null;touch canary",
    "cd . && touch canary",
    "! touch canary",
    # commands within words
    "ls $(touch canary)",
    'ls "$(touch canary)"',
    "ls `touch canary`",
    'ls "`touch canary`"',
    "ls ${X:-$(touch canary)}",
    'ls "${X:-`touch canary`}"',
    "ls $((a[$(touch canary)]))",
    "ls $[a[$(touch canary)]]",
    'ls "$[a[$(touch canary)]]"',
    "ls $$(touch canary)",
    "ls $'a\\'; touch canary; echo \\''",
    "ls <(touch canary)",
    "ls >(touch canary)",
    "echo 'a'$(touch canary)'b'",
    'echo "a\\\\$(touch canary)"',
    # groups, functions, words of the shell's own
    "(touch canary)",
    "{ touch canary; }",
    "ls() { touch canary; }; ls",
    "function ls { touch canary; }\nls",
    "if ls; then touch canary; fi",
    "for x in 1; do touch canary; done",
    "while touch canary; do ls; done",
    "case x in x) touch canary;; esac",
    "coproc touch canary",
    "time touch canary",
    "[[ 'a[$(touch canary)]' -eq 1 ]]",
    "alias ls='touch canary'\nls",
    "trap 'touch canary' EXIT",
    # quotes, comments and backslashes that hide where a command ends
    "ls # it's\ntouch canary",
    'ls # "\ntouch canary #"',
    "ls '\n'\ntouch canary",
    "ls \\\n; touch canary",
    "ls \\\\\ntouch canary",
    "ls \\'; touch canary; ls \\'",
    "ls \"\\\\\"; touch canary; ls \"\"",
    "ls '\\'; touch canary; ls '\\'",
    "ls $\\\n(touch canary)",
    'ls "a',
    "ls 'a",
    "ls \\",
    "ls\r\ntouch canary",
    "ls\vtouch canary",
    "ls \x00; touch canary",
    "ls \x1b[2K; touch canary",
    # text for a command that runs it
    "cat <<END\n$(touch canary)\nEND",
    "cat <<'END'\nEND\ntouch canary",
    "cat <<-END; touch canary\n\tEND",
    "cat <<< $(touch canary)",
    "echo touch canary | sh",
    "echo touch canary | bash -s",
    "echo canary | xargs touch",
    "ls | xargs -I {} touch canary",
    "find . -exec touch canary ;",
    "find . -exec touch canary \\;",
    "find . '-exec' touch canary ';'",
    "find . -execdir touch canary +",
    "find . -ok touch canary \\;",
    "find . -fprintf canary x",
    "find . -fprint canary",
    "find . -{exec,touch,canary} \\;",
    "find .$IFS-exec$IFS'touch'$IFS'canary'$IFS';'",
    "find . $X touch canary \\;",
    "find . *exec touch canary \\;",
    "printf -v 'a[$(touch canary)]' x",
    "printf -va['$(touch canary)'] x",
    "test -v 'a[$(touch canary)]'",
    "sort --compress-program='touch canary' a.txt",
    "sort -o canary a.txt",
    "sort -no canary a.txt",
    "sort --outp=canary a.txt",
    "git -c alias.x='!touch canary' x",
    "git '-c' 'alias.x=!touch canary' x",
    "git --config-env=alias.x=X x",
    "git --exec-path=. status",
    "git rebase --exec 'touch canary' HEAD~1",
    "git rebase --exe 'touch canary' HEAD~1",
    "git rebase -x 'touch canary' HEAD~1",
    "git grep -Otouch canary",
    "git grep --open-files-in-pager='touch canary' x",
    "git fetch --upload-pack='touch canary' .",
    "git diff --output=canary",
    "git config alias.x '!touch canary'",
    "git submodule foreach 'touch canary'",
    "git bisect run touch canary",
    # programs and options that run what they are given
    "env touch canary",
    "env X=1 touch canary",
    "/usr/bin/env touch canary",
    "sh -c 'touch canary'",
    "bash -c 'touch canary'",
    "eval touch canary",
    "eval 'touch' 'canary'",
    "exec touch canary",
    "command touch canary",
    "builtin eval touch canary",
    "nohup touch canary",
    "timeout 5 touch canary",
    "nice touch canary",
    "sudo touch canary",
    "python -c 'import os; os.system(\"touch canary\")'",
    "awk 'BEGIN { system(\"touch canary\") }'",
    "sed '1e touch canary' a.txt",
    ". ./a.txt",
    "source a.txt",
    # variables, files, and names that the shell works out
    "X=1 touch canary",
    "X=1 ls",
    "PATH=.:$PATH ls",
    "X=touch; $X canary",
    "a[0]=1 touch canary",
    "A+=1 touch canary",
    "$X touch canary",
    "{touch,canary}",
    "{ls,} ; touch canary",
    "ls {a,b}",
    "tou?h canary",
    "[t]ouch canary",
    "~/touch canary",
    "./ls",
    "ls > canary",
    "ls>canary",
    "ls >> canary",
    "ls 2> canary",
    "ls &> canary",
    "ls >& canary",
    "ls >| canary",
    "ls <> canary",
    "ls 2>&1canary",
    "ls 12>&1",
    "ls >/dev/null/../canary",
    "ls >/dev/null/canary",
    'ls >/dev/null"/canary"',
    "> canary",
    "ls > /dev/null > canary",
    "npm test canary",
    "npm testcanary",
    "pwd canary",
    "",
    "   ",
    "# ls",
]


class World:
    """A workspace, some tools, and short ways to ask about a call."""

    def __init__(self, load, folder):
        self.module = load("permissions")
        self.longest = load("rules").LONGEST
        self.Tool = load("tools").Tool
        self.tools = {}
        self.bash = self.tool("bash", "command")
        self.read = self.tool("read_file", "path", read_only=True)
        self.write = self.tool("write_file", "path", "content")
        self.mcp = self.tool("mcp__web__fetch", "path")
        self.plan = self.tool("todo_write", "todos")
        self.agent = SimpleNamespace(workspace=folder.resolve(), tools={}, show=lambda kind, **data: None)
        self.asked = []

    def tool(self, name, *arguments, read_only=False):
        schema = {"type": "object", "properties": {argument: {"type": "string"} for argument in arguments}}
        self.tools[name] = self.Tool(name, "", schema, lambda agent: "", read_only)
        return self.tools[name]

    def install(self, *answers, nobody=False, **rules):
        """Put the agent under rules, with a person who gives these answers, one for each question."""
        waiting = list(answers)

        def ask(question):
            self.asked.append(question)
            answer = waiting.pop(0)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        self.module.install(self.agent, ask=None if nobody else ask, rules=self.module.Rules(**rules))
        return self

    def decide(self, tool, **arguments):
        call = {"type": "tool_use", "id": "toolu_1", "name": tool.name, "input": arguments}
        return self.agent.permissions.decide(tool, call, self.agent.workspace)

    def check(self, tool, minimum="", **arguments):
        call = {"type": "tool_use", "id": "toolu_1", "name": tool.name, "input": arguments}
        return self.agent.permissions.check(self.agent, tool, call, minimum)

    def command(self, command):
        return self.decide(self.bash, command=command).verdict


@pytest.fixture
def world(load, tmp_path):
    return World(load, tmp_path)


# Commands


@pytest.mark.parametrize("command", EVERYDAY)
def test_everyday_commands_do_not_ask(world, command):
    world.install(allow=COMMON)
    decision = world.decide(world.bash, command=command)
    assert decision.verdict == "allow", decision.reason


@pytest.mark.parametrize("command", SMUGGLED)
def test_nothing_is_smuggled_past_the_rules(world, command):
    assert world.install(allow=COMMON).command(command) == "ask"


@pytest.mark.parametrize("command", SMUGGLED)
def test_what_nobody_can_read_is_allowed_by_its_very_text_alone(world, command):
    """One rule for several commands is no rule; all else can be written out, and then allows this and nothing more."""
    try:
        world.install(allow=(*COMMON, f"bash({command})"))
    except ValueError as error:
        assert "one simple command" in str(error) or not command.strip()
        return
    assert world.command(command) == "allow"
    assert world.command(f"{command}\nx") == "ask"


def test_what_is_allowed_leaves_no_canary_in_a_real_shell(world, load, tmp_path):
    world.install(allow=COMMON)
    bash = load("shell").find_bash()
    (tmp_path / "src").mkdir()
    (tmp_path / "a.txt").write_text("a\n", encoding="utf-8")
    skipped = ("npm", "python")  # they take seconds, or are not there
    allowed = [c for c in EVERYDAY + SMUGGLED if world.command(c) == "allow" and not c.startswith(skipped)]
    assert len(allowed) > 40
    for command in allowed:
        subprocess.run([bash, "-c", command], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        assert not list(tmp_path.rglob("canary*")), command


@pytest.mark.parametrize(
    "rule, command, verdict",
    [
        ("bash(npm test)", "npm test", "allow"),
        ("bash(npm test)", "npm  'test'", "allow"),
        ("bash(npm test)", 'npm "test"', "allow"),
        ("bash(npm test)", "npm te\\st", "allow"),
        ('bash(echo \'a"b\')', 'echo "a\\"b"', "allow"),
        ("bash(npm test)", "npm test 2>/dev/null", "allow"),
        ("bash(npm test)", "npm test \u00b2>/dev/null", "ask"),
        ("bash(npm test)", "npm test --watch", "ask"),
        ("bash(npm test)", "npm", "ask"),
        ("bash(git status:*)", "git status", "allow"),
        ("bash(git status:*)", "git status -s", "allow"),
        ("bash(git status:*)", "git statusx", "ask"),
        ("bash(git status:*)", "git", "ask"),
        ("bash(git status:*)", "git -C x status", "ask"),
        ("bash(ls)", "LS", "ask"),
        ("bash(ls)", "/bin/ls", "ask"),
        ("bash(ls *.py)", "ls *.py", "allow"),
        ("bash(ls '*.py')", "ls *.py", "ask"),
        ("bash(ls *.py)", "ls '*.py'", "ask"),
        ("bash(cat $HOME)", "cat '$HOME'", "ask"),
        ("bash(npm run test:unit:*)", "npm run test:unit -- -x", "allow"),
        ("bash(git switch -c new)", "git switch -c new", "allow"),
        ("bash(timeout 9 npm test)", "timeout 9 npm test", "allow"),
        ("bash(timeout 9 npm test)", "timeout 9 npm test; timeout 9 npm test", "ask"),
        ("bash(cd src > x && ls)", "cd src > x && ls", "allow"),
        ("bash(python tool.py:*)", "python tool.py -c x", "allow"),
        ("bash(python -m pytest:*)", "python -m pytest | python -", "ask"),
        ("bash(python3 -m pytest:*)", "python3 -m pytest -x", "allow"),
        ("bash", "anything $(at all)", "allow"),
    ],
)
def test_what_a_rule_for_a_command_covers(world, rule, command, verdict):
    assert world.install(allow=(rule,)).command(command) == verdict


def test_a_program_that_runs_its_input_is_never_allowed_as_a_part(world):
    """`sh` alone may be harmless; behind a pipe it is whatever comes through."""
    world.install(allow=("bash(sh)", "bash(echo:*)"))
    assert world.command("sh") == "allow"
    assert world.command("echo touch canary | sh") == "ask"


@pytest.mark.parametrize("program", ["env", "xargs", "sh", "bash", "nohup", "timeout", "sudo", "eval", "exec", "command"])
def test_a_prefix_rule_cannot_allow_what_runs_other_commands(world, program):
    with pytest.raises(ValueError, match="write the whole command"):
        world.install(allow=(f"bash({program}:*)",))
    assert world.install(deny=(f"bash({program}:*)",)).command(f"{program} touch canary") == "deny"


@pytest.mark.parametrize("rule", ["bash(find . -exec:*)", "bash(git -c:*)", "bash(python:*)", "bash(python3.12 -c:*)", "bash(node:*)"])
def test_nor_one_with_an_option_that_does(world, rule):
    with pytest.raises(ValueError, match="write the whole command"):
        world.install(allow=(rule,))


@pytest.mark.parametrize(
    "command",
    [
        "touch canary",
        "touch",
        "ls; touch canary",
        "ls | touch canary",
        "ls &touch canary",
        "X=1 Y=2 touch canary",
        "a[1]=2 touch canary",
        "'touch' canary",
        "t\\ouch canary",
        "/usr/bin/touch canary",
        "TOUCH canary",
        "touch.exe canary",
        "'C:\\bin\\touch.exe' canary",
        "cat <<END; touch canary\nEND",
        "env X=1 touch canary",
        "sudo touch canary",
        "if ls; then touch canary; fi",
        "{ touch canary; }",
        "(touch canary)",
        "case x in x) touch canary;; esac",
        "ls $(touch canary)",
        "ls `touch canary`",
        "ls() { touch canary; }",
        "ls # it's\ntouch canary",
        "> out touch canary",
        "2>&1 touch canary",
        "touch canary > out",
        "touch canary; ls 'open",
        "touch canary <<END\nEND",
        "touch canary \x1b",
        "touch canary {a,b}",
    ],
)
def test_deny_sees_what_can_be_seen(world, command):
    decision = world.install(allow=("bash",), deny=("bash(touch:*)",)).decide(world.bash, command=command)
    assert decision.verdict == "deny"
    assert "bash(touch:*)" in decision.reason


@pytest.mark.parametrize(
    "command",
    [
        "echo touch canary",
        "ls touch",
        "'touch canary'",
        "touching canary",
        "cat <<END > notes.md\ntouch canary\nEND",
        "ls > touch",
        "# touch canary",
        "make touch",
        "git commit -m 'touch; touch canary'",
    ],
)
def test_deny_does_not_see_what_is_not_there(world, command):
    assert world.install(deny=("bash(touch:*)",)).command(command) == "ask"


def test_a_rule_of_several_words_catches_no_fewer_and_no_others(world):
    world.install(deny=("bash(hg push --force:*)", "bash(hg pull)"))
    assert world.command("hg push --force now") == "deny"
    assert world.command("hg pull") == "deny"
    for command in ("hg", "hg push", "hg push -f", "hg pop --force", "hg pull now", "hg status"):
        assert world.command(command) == "ask"


@pytest.mark.parametrize("allow", ["bash", "bash(hg:*)"])
@pytest.mark.parametrize("command", ["hg $X push", "hg pus[h]", "hg *", 'hg "$X" push', "hg ~ push"])
def test_where_the_shell_may_make_a_denied_command_a_person_looks(world, command, allow):
    world.install("n", allow=(allow,), deny=("bash(hg push:*)",))
    assert world.check(world.bash, command=command).verdict == "deny"
    assert "hg push" in world.asked[0] and "always" not in world.asked[0]


@pytest.mark.parametrize("command", ["hg $X push", "hg pus[h]", "hg *", 'hg "$X" push'])
def test_where_the_shell_may_make_a_denied_command_it_is_firmly_asked(world, command):
    decision = world.install(deny=("bash(hg push:*)",)).decide(world.bash, command=command)
    assert (decision.verdict, decision.firm, decision.always) == ("ask", True, ())
    assert "hg push" in decision.reason


@pytest.mark.parametrize("command", ["hg $X push", "hg pus[h]"])
def test_where_the_shell_may_make_a_denied_command_not_even_its_very_text_allows_it(world, command):
    """The text is the same each time, and what the shell makes of it is not."""
    world.install(allow=(f"bash({command})",), deny=("bash(hg push:*)",))
    decision = world.decide(world.bash, command=command)
    assert (decision.verdict, decision.firm, decision.always) == ("ask", True, ())
    world.install(allow=(f"bash({command})",), ask=("bash(hg push:*)",))
    decision = world.decide(world.bash, command=command)
    assert (decision.verdict, decision.firm, decision.always) == ("ask", False, ())


def test_a_deny_rule_that_cannot_be_checked_goes_before_a_whole_tool_and_a_hook(world):
    world.install("n", "n", allow=("bash",), deny=("bash(touch:*)",))
    for command in ('ls "$(touch canary)"', "sh -c 'touch canary'"):
        assert world.command(command) == "ask"
        assert world.check(world.bash, "allow", command=command).verdict == "deny"
    assert len(world.asked) == 2


LONG = [
    "x",
    "ls;",
    "a ",
    "'\"",
    '"\\',
    "\\a",
    "env ",
    "$",
    "2>&1 ",
    "find -n ",
    "(",
    "X=",
    "#",
    "`\n",
    "<<x\n",
    "{",
]


@pytest.mark.parametrize("piece", LONG)
def test_a_long_command_is_decided(world, piece):
    """It ends: twice as long takes twice the time. Above some length nobody reads it and no system starts it."""
    world.install(allow=("bash(ls:*)",), deny=("bash(touch:*)", "bash(git push)"))
    for before in ("", 'ls "'):
        command = before + piece * ((world.longest - 10) // len(piece))
        assert world.command(command) in ("allow", "ask")
        assert world.command((command * 11)[:1_000_000]) == "deny"


@pytest.mark.parametrize("command", ["ls \udc80", "ls \ud800; touch canary", "\udcff", "ls \x7f", "ls \x85"])
def test_what_is_no_text_asks(world, command):
    world.install("n", allow=COMMON)
    assert world.check(world.bash, command=command).verdict == "deny"
    world.asked[0].encode("utf-8")


# Precedence and defaults


@pytest.mark.parametrize(
    "rules, verdict",
    [
        ({}, "ask"),
        ({"allow": ("bash(ls:*)",)}, "allow"),
        ({"allow": ("bash(ls:*)",), "ask": ("bash(ls -l:*)",)}, "ask"),
        ({"allow": ("bash(ls -l)",), "ask": ("bash",)}, "ask"),
        ({"allow": ("bash(ls -l)",), "ask": ("bash(ls -l)",), "deny": ("bash(ls:*)",)}, "deny"),
        ({"allow": ("bash(ls -l)",), "deny": ("bash",)}, "deny"),
        ({"allow": ("bash",), "deny": ("bash(ls)",)}, "allow"),
    ],
)
def test_deny_goes_before_ask_and_ask_before_allow(world, rules, verdict):
    assert world.install(**rules).command("ls -l") == verdict


def test_each_part_must_be_allowed_and_none_denied(world):
    world.install(allow=("bash(ls:*)", "bash(pwd)"), ask=("bash(date)",), deny=("bash(touch:*)",))
    assert world.command("ls | pwd") == "allow"
    assert world.command("ls | wc") == "ask"
    assert world.command("ls | date | pwd") == "ask"
    assert world.command("date | touch canary") == "deny"


def test_without_a_rule_reading_is_allowed_and_the_rest_asks(world):
    world.install()
    assert world.decide(world.read, path="a.txt").verdict == "allow"
    assert world.decide(world.write, path="a.txt", content="").verdict == "ask"
    assert world.decide(world.plan, todos="[]").verdict == "ask"
    assert world.decide(world.mcp, path="/anywhere").verdict == "ask"
    assert world.command("ls") == "ask"


def test_the_rules_of_the_house(world):
    world.module.install(world.agent, ask=None)
    assert world.command("ls -la") == "allow"
    assert world.command("pwd") == "allow"
    assert world.command("touch canary") == "ask"
    assert world.decide(world.read, path="src/a.py").verdict == "allow"
    for path in (".env", "sub/.env", "sub/../.env", ".ENV"):
        assert world.decide(world.read, path=path).verdict == "deny"
        assert world.decide(world.write, path=path, content="").verdict == "deny"
    for path in (".git", "sub/.git", ".git/config", "sub/.git/hooks/x", "x/../.git/config", ".Git/config"):
        assert world.decide(world.write, path=path, content="").verdict == "deny"
    for path in (".env.example", "git/config", ".github/x", ".gitignore"):
        assert world.decide(world.write, path=path, content="").verdict == "ask"


@pytest.mark.parametrize(
    "rule, verdict", [("mcp__web__fetch", "deny"), ("mcp__web__*", "deny"), ("mcp__*", "deny"), ("mcp__we__*", "ask"), ("mcp__web", "ask")]
)
def test_rules_for_tools_from_elsewhere(world, rule, verdict):
    assert world.install(deny=(rule,)).decide(world.mcp, path="x").verdict == verdict
    assert (world.install(allow=(rule,)).decide(world.mcp, path="x").verdict == "allow") is (verdict == "deny")


def test_two_agents_share_nothing(world, tmp_path):
    world.install("a")
    first = world.agent.permissions
    world.check(world.bash, command="touch canary")
    world.install()
    assert world.agent.permissions is not first
    assert world.command("touch canary") == "ask"


# Paths


@pytest.mark.parametrize(
    "pattern, path, fits",
    [
        ("src/**", "src/a.py", True),
        ("src/**", "src/deep/er/a.py", True),
        ("src/**", "src/../src/a.py", True),
        ("src/**", "./src//a.py", True),
        ("src/**", "src", False),
        ("src/**", "src/../secret.txt", False),
        ("src/**", "srcs/a.py", False),
        ("src/**", "lib/src/a.py", False),
        ("src/*", "src/a.py", True),
        ("src/*", "src/deep/a.py", False),
        ("src/*.py", "src/a.pyc", False),
        ("src/?.py", "src/a.py", True),
        ("src/?.py", "src/ab.py", False),
        ("src/?.py", "src//.py", False),
        ("**/test_*.py", "test_a.py", True),
        ("**/test_*.py", "a/b/test_a.py", True),
        ("**/test_*.py", "a/b/xtest_a.py", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a/**/b", "ab", False),
        ("**", "anything/at/all", True),
        ("*.md", "README.md", True),
        ("*.md", "docs/deep/README.md", True),
        ("*.md", "README.mdx", False),
        ("notes.txt", "a/notes.txt", True),
        ("notes.txt", "notesxtxt", False),
        ("docs/a+(b).txt", "docs/a+(b).txt", True),
        ("SRC/**", "src/a.py", False),
    ],
)
def test_what_a_pattern_for_a_path_covers(world, pattern, path, fits):
    world.install(allow=(f"write_file({pattern})",))
    assert world.decide(world.write, path=path, content="").verdict == ("allow" if fits else "ask")
    if pattern.lower() == pattern:
        world.install(deny=(f"write_file({pattern})",))
        assert world.decide(world.write, path=path, content="").verdict == ("deny" if fits else "ask")


def test_an_absolute_path_inside_is_the_same_path(world):
    world.install(allow=("write_file(src/**)",))
    assert world.decide(world.write, path=str(world.agent.workspace / "src" / "a.py"), content="").verdict == "allow"


@pytest.mark.parametrize("path", ["../x", "src/../../x", "/elsewhere/x", "a\0b", "", "a\ud800"])
def test_nobody_is_asked_about_a_path_that_is_refused_anyway(world, path):
    world.install(allow=("write_file",))
    decision = world.check(world.write, "ask", path=path, content="")
    assert decision.verdict == "deny"
    assert "inside" in decision.reason


def test_links_are_followed(world, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "private").mkdir()
    (tmp_path / "secret.txt").write_text("x", encoding="utf-8")
    (tmp_path / "src" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "src" / "folder").symlink_to(tmp_path / "private")
    (tmp_path / "out").symlink_to(tmp_path.parent)
    world.install(allow=("write_file(src/**)",))
    assert world.decide(world.write, path="src/link.txt", content="").verdict == "ask"
    assert world.decide(world.write, path="src/folder/new.txt", content="").verdict == "ask"
    assert world.decide(world.write, path="out/x", content="").verdict == "deny"
    world.install(deny=("read_file(secret.txt)", "read_file(private/**)"))
    assert world.decide(world.read, path="src/link.txt").verdict == "deny"
    assert world.decide(world.read, path="src/folder/x").verdict == "deny"


def test_a_denied_name_is_denied_though_it_is_a_link(world, tmp_path):
    (tmp_path / "keys").write_text("x", encoding="utf-8")
    (tmp_path / ".env").symlink_to(tmp_path / "keys")
    world.install(deny=("read_file(.env)",))
    assert world.decide(world.read, path=".env").verdict == "deny"
    assert world.decide(world.read, path="x/../.env").verdict == "deny"


@pytest.mark.parametrize("path", [".ENV", ".Env", ".env.", ".env ", ".env::$DATA", "sub/.eNv"])
def test_deny_holds_for_names_that_some_disk_takes_for_the_same(world, path):
    world.install(deny=("read_file(.env)",), allow=("read_file(.env)",))
    assert world.decide(world.read, path=path).verdict == "deny"


def test_deny_holds_for_folders_too(world):
    world.install(deny=("read_file(keys/**)",))
    for path in ("keys/a", "keys./a", "KEYS /a", "x/../keys/a"):
        assert world.decide(world.read, path=path).verdict == "deny"
    assert world.decide(world.read, path="keysa/a").verdict == "allow"


def test_deny_holds_however_a_letter_is_composed(world):
    world.install(deny=("read_file(caf\u00e9.txt)",))
    assert world.decide(world.read, path="cafe\u0301.txt").verdict == "deny"
    world.install(deny=("read_file(cafe\u0301.txt)",))
    assert world.decide(world.read, path="caf\u00e9.txt").verdict == "deny"


def test_a_path_left_out_is_the_workspace(world):
    glob = world.tool("glob", "pattern", "path", read_only=True)
    world.install(deny=("glob(src/**)",))
    assert world.decide(glob, pattern="*").verdict == "allow"
    assert world.decide(glob, pattern="*", path="src/x").verdict == "deny"


def test_a_pattern_for_a_tool_that_comes_later_without_a_path_denies_but_never_allows(world):
    assert world.install(allow=("todo_write(x)",)).decide(world.plan, todos="").verdict == "ask"
    assert world.install(ask=("todo_write(x)",), allow=("todo_write",)).decide(world.plan, todos="").verdict == "ask"
    assert world.install(deny=("todo_write(x)",)).decide(world.plan, todos="").verdict == "deny"


# Malformed rules


@pytest.mark.parametrize(
    "rule",
    [
        "",
        " ",
        "bash(",
        "bash()",
        "bash( )",
        "bash(ls:*",
        "bash(:*)",
        "bash ls",
        "ls -la",
        " bash(ls)",
        "bash(ls) ",
        "bash(*)",
        "bash(git *)",
        "(ls)",
        "*",
        "bash*(ls)",
        "mcp__web__fetch(x)",
        "write_file(/elsewhere/**)",
        "write_file(../x)",
        "write_file(./x)",
        "write_file(~/x)",
        "write_file(a//b)",
        "write_file(src/)",
        "write_file(a\\b)",
        "write_file(a**)",
        "write_file(a/b**/c)",
        None,
        7,
        ("bash",),
    ],
)
@pytest.mark.parametrize("kind", ["allow", "ask", "deny"])
def test_a_malformed_rule_fails_at_the_start_and_says_how_to_write_it(world, rule, kind):
    with pytest.raises(ValueError) as caught:
        world.install(**{kind: (rule,)})
    assert repr(rule) in str(caught.value)
    assert ": " in str(caught.value) and str(caught.value).endswith(".")


@pytest.mark.parametrize("rule", ["bash(ls | wc)", "bash(ls > x)", "bash($X:*)", "bash(X=1 ls:*)", "bash(ls $(pwd):*)", "bash(# x:*)"])
def test_a_rule_names_one_simple_command(world, rule):
    for kind in ("ask", "deny"):
        with pytest.raises(ValueError, match="one simple command"):
            world.install(**{kind: (rule,)})
    if rule.endswith(":*)") or "|" in rule:
        with pytest.raises(ValueError, match="one simple command"):
            world.install(allow=(rule,))


def test_rules_are_a_list(world):
    with pytest.raises(ValueError, match="The rule 'b'"):
        world.install(deny="bash")


def test_a_rule_is_compared_with_the_tools_that_are_there(world):
    world.agent.tools = world.tools
    with pytest.raises(ValueError, match="the tool's name is bash"):
        world.install(deny=("Bash(rm:*)",))
    with pytest.raises(ValueError, match="write todo_write alone"):
        world.install(deny=("todo_write(src/**)",))
    world.install(deny=("todo_write", "write_file(src/**)", "bash(ls)", "comes_later"))


# The person


@pytest.mark.parametrize("answer", ["y", "Y", "yes", " YES \n", "a", "A", "always", " Always"])
def test_a_clear_yes_allows(world, answer):
    world.install(answer)
    assert world.check(world.bash, command="touch canary").verdict == "allow"
    assert len(world.asked) == 1


@pytest.mark.parametrize("answer", ["n", "N", "no", "", "   ", None, EOFError()])
def test_no_answer_is_no(world, answer):
    world.install(answer, allow=("bash(ls)",))
    decision = world.check(world.bash, command="ls; touch canary")
    assert decision.verdict == "deny"
    assert decision.reason == world.module.SAID_NO


@pytest.mark.parametrize(
    "answer", ["ye", "yy", "y.", "y y", "ok", "sure", "yes, but in src", "ja", "1", "true", "allow", "ye\u017f", "\uff59", "no, use a.txt"]
)
def test_any_other_words_are_no_and_reach_the_model(world, answer):
    world.install(answer)
    decision = world.check(world.bash, command="touch canary")
    assert decision.verdict == "deny"
    assert answer in decision.reason
    assert world.command("touch canary") == "ask"


def test_ctrl_c_goes_through_and_leaves_the_next_question_possible(world):
    world.install(KeyboardInterrupt(), "y")
    with pytest.raises(KeyboardInterrupt):
        world.check(world.bash, command="touch canary")
    assert world.check(world.bash, command="touch canary").verdict == "allow"


def test_an_error_while_asking_allows_nothing(world):
    world.install(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"))
    with pytest.raises(UnicodeDecodeError):
        world.check(world.bash, command="touch canary")


def test_nobody_is_asked_without_need(world):
    world.install(allow=("bash(ls)",), deny=("bash(touch:*)",))
    assert world.check(world.bash, command="ls").verdict == "allow"
    assert world.check(world.bash, command="touch canary").verdict == "deny"
    assert world.check(world.bash, "ask", command="touch canary").verdict == "deny"
    assert world.check(world.read, path="a").verdict == "allow"
    assert not world.asked


def test_if_nobody_can_be_asked_the_answer_is_no(world):
    world.install(nobody=True, allow=("bash(ls)",))
    decision = world.check(world.bash, command="touch canary")
    assert decision.verdict == "deny"
    assert "nobody can be asked" in decision.reason and "touch canary" in decision.reason
    assert world.check(world.bash, "ask", command="ls").verdict == "deny"
    assert world.check(world.bash, command="ls").verdict == "allow"


@pytest.mark.parametrize(
    "minimum, answers, verdict",
    [
        ("", ["n"], {"rule": "allow", "none": "deny", "ask": "deny", "deny": "deny", "odd": "deny"}),
        ("allow", [], {"rule": "allow", "none": "allow", "ask": "allow", "deny": "deny", "odd": "allow"}),
        ("ask", ["n"], {"rule": "deny", "none": "deny", "ask": "deny", "deny": "deny", "odd": "deny"}),
        ("ask", ["y"], {"rule": "allow", "none": "allow", "ask": "allow", "deny": "deny", "odd": "allow"}),
        ("deny", [], {"rule": "deny", "none": "deny", "ask": "deny", "deny": "deny", "odd": "deny"}),
    ],
)
def test_what_hooks_said_counts(world, minimum, answers, verdict):
    commands = {"rule": "ls", "none": "pwd", "ask": "date", "deny": "touch canary", "odd": "ls `pwd`"}
    for name, command in commands.items():
        rules = {} if name == "odd" else {"deny": ("bash(touch:*)",)}
        world.install(*answers, allow=("bash(ls)",), ask=("bash(date)",), **rules)
        assert world.check(world.bash, minimum, command=command).verdict == verdict[name], name


# Always


def test_always_is_offered_for_each_missing_part_once(world):
    decision = world.install().decide(world.bash, command="touch canary && wc -l; touch 'canary'")
    assert [rule.text for rule in decision.always] == ["bash(touch canary)", "bash(wc -l)"]


def test_what_is_in_doubt_is_allowed_by_its_very_text_beside_a_deny_rule_and_always_offers_that(world):
    decision = world.install(deny=("bash(touch:*)",)).decide(world.bash, command="ls > x")
    assert decision.verdict == "ask" and decision.firm
    assert [rule.text for rule in decision.always] == ["bash(ls > x)"]
    assert world.install(allow=("bash(ls > x)",), deny=("bash(touch:*)",)).command("ls > x") == "allow"


def test_always_remembers_the_parts_that_were_not_allowed_yet(world):
    world.install("a", allow=("bash(ls:*)",))
    assert world.check(world.bash, command="ls -l && touch 'can ary' | wc -l; touch 'can ary'").verdict == "allow"
    assert "bash(touch 'can ary'), bash(wc -l)\n" in world.asked[0]
    assert world.command("touch 'can ary'") == "allow"
    assert world.command("wc -l && ls") == "allow"
    assert world.command("touch") == "ask"
    assert world.command("touch 'can ary' b") == "ask"
    assert world.command("touch can ary") == "ask"
    assert world.command("wc") == "ask"


@pytest.mark.parametrize(
    "command, other",
    [
        ("echo touch canary | sh", "echo touch canary; sh"),
        ("ls | xargs touch", "pwd | xargs touch"),
        ("PATH=. ; ls", "PATH=. ; pwd"),
        ("ls > canary", "pwd > canary"),
        ("cat <<E\na\nE", "cat <<E\nb\nE"),
    ],
)
def test_always_remembers_only_the_very_text_of_what_cannot_be_judged(world, command, other):
    world.install("a", allow=("bash(ls)", "bash(pwd)", "bash(echo:*)"))
    assert world.check(world.bash, command=command).verdict == "allow"
    assert world.command(command) == "allow"
    assert world.command(f" {command}\n") == "allow"
    for rest in (other, f"{command}; {command}", command.split("|")[-1].split(";")[0] + " "):
        assert rest.strip() in ("ls", command) or world.command(rest) == "ask"


def test_always_means_the_whole_of_another_tool_and_says_so(world):
    world.install("a", deny=("write_file(.env)",))
    assert world.check(world.write, path="a.txt", content="x").verdict == "allow"
    assert "write_file, with whatever arguments" in world.asked[0]
    assert world.decide(world.write, path="b/c.txt", content="y").verdict == "allow"
    assert world.decide(world.write, path=".env", content="y").verdict == "deny"
    assert world.decide(world.plan, todos="").verdict == "ask"


def test_always_silences_no_ask_rule_and_is_not_offered_there(world):
    world.install("a", "y", ask=("bash(touch:*)",))
    assert world.check(world.bash, command="touch canary").verdict == "allow"
    assert world.check(world.bash, command="touch canary").verdict == "allow"
    assert len(world.asked) == 2
    assert "bash(touch:*)" in world.asked[0] and "always" not in world.asked[0].lower()


def test_always_silences_no_hook_and_is_not_offered_there(world):
    world.install("a", "n", allow=("bash(ls)",))
    assert world.check(world.bash, "ask", command="ls").verdict == "allow"
    assert world.check(world.bash, "ask", command="ls").verdict == "deny"
    assert "always" not in world.asked[0].lower() and "hook" in world.asked[0]


def test_yes_is_for_once(world):
    world.install("y", "n")
    assert world.check(world.bash, command="touch canary").verdict == "allow"
    assert world.check(world.bash, command="touch canary").verdict == "deny"


# The question


def test_the_question_shows_the_tool_the_whole_command_the_reason_and_the_choices(world):
    command = "touch " + "canary" * 5_000
    world.install("n")
    world.check(world.bash, command=command, timeout=7)
    first, shown, timeout, why, always, choices = world.asked[0].split("\n")
    assert first == "bash wants to run with:"
    assert shown == f"    command: {command}"
    assert timeout == "    timeout: 7"
    assert why.startswith("Asked because no rule allows `touch canary")
    assert always.endswith(f"bash({command})")
    assert choices == "y = yes, a = always, n = no, other words = no, and the model reads them: "


def test_long_content_is_cut_with_a_count_behind_the_whole_path(world):
    world.install("n")
    world.check(world.write, content="x" * 3_000, path="d/" * 1_500 + "a.txt")
    lines = world.asked[0].split("\n")
    assert lines[1] == "    path: " + "d/" * 1_500 + "a.txt"
    assert lines[2] == "    content: " + "x" * world.module.SHOWN + f" … and {3_000 - world.module.SHOWN} characters more"


def test_long_content_of_many_lines_is_cut_with_a_count(world):
    world.install("n")
    world.check(world.write, content="one\n\n" * 100, path="a.txt")
    shown = [line for line in world.asked[0].split("\n") if line.startswith("      |")]
    assert len(shown) == world.module.SHOWN_LINES and shown[:3] == ["      | one", "      |", "      | one"]
    assert f" … and {500 - len(chr(10).join(line[8:] for line in shown))} characters more\n" in world.asked[0]


def test_the_question_says_where_a_path_really_leads(world, tmp_path):
    (tmp_path / "real.txt").write_text("x", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    world.install("n", "n", "n")
    for path in ("link.txt", "a/../real.txt", "real.txt"):
        world.check(world.write, path=path, content="")
    assert "    path: link.txt (that is real.txt)\n" in world.asked[0]
    assert "    path: a/../real.txt (that is real.txt)\n" in world.asked[1]
    assert "    path: real.txt\n" in world.asked[2]


NASTY = {
    "\n": "\\n",
    "\r": "\\r",
    "\x1b[2K\x1b[1A": "\\x1b[2K\\x1b[1A",
    "\u202e": "\\u202e",
    "\u2066": "\\u2066",
    "\u200b": "\\u200b",
    "\u2028": "\\u2028",
    "\x85": "\\x85",
    "\x9b1A": "\\x9b1A",
    "\x00": "\\x00",
    "\x08": "\\x08",
    "\x7f": "\\x7f",
    "\ud800": "\\ud800",
    "\U000e0041": "\\U000e0041",
    "\u00a0": "\\xa0",
    "\u3164": "\\u3164",
    "\u2800": "\\u2800",
    "\u034f": "\\u034f",
    "\ufe0f": "\\ufe0f",
    "\U000e0100": "\\U000e0100",
}


@pytest.mark.parametrize("nasty", NASTY)
@pytest.mark.parametrize("field", ["command", "content", "path", "name", "mcp"])
def test_nothing_can_forge_a_line_of_the_question_or_hide_in_it(world, nasty, field):
    fake = f"touch canary{nasty}y = yes, everything is fine: "
    world.install("n")
    if field == "command":
        world.check(world.bash, command=fake)
    elif field == "content":
        world.check(world.write, path="a.txt", content=fake)
    elif field == "path" and nasty not in ("\x00", "\ud800"):  # with these it is no path
        world.check(world.write, path=fake, content="")
    elif field == "name":
        world.check(world.plan, **{fake: "x"})
    else:
        world.check(world.mcp, path=fake, deep=[{"x": fake}])
    (question,) = world.asked
    lines = question.split("\n")
    assert all(line.isprintable() for line in lines)
    assert sum("everything is fine" in line and not line.startswith(("    ", "Asked", "Always")) for line in lines) == 0
    assert (NASTY[nasty] if (nasty, field) != ("\n", "content") else "\n      | y = yes") in question
    assert lines[-1].startswith("y = yes, a = always") and len(lines) <= 8


def test_long_blanks_push_nothing_into_a_line_of_its_own(world):
    world.install("n")
    world.check(world.bash, command="touch canary" + " " * 90 + "Asked because a rule allows it.")
    assert "    command: touch canary [90 blanks] Asked because a rule allows it.\n" in world.asked[0]


def test_escaped_text_is_marked_and_cannot_be_mistaken(world):
    world.install("n", "n")
    world.check(world.bash, command="echo a\\nb")
    world.check(world.bash, command="echo a\\nb\n")
    assert "    command: echo a\\nb\n" in world.asked[0]
    assert "    command (escaped): echo a\\\\nb\\n\n" in world.asked[1]


# Threads


def test_questions_come_one_at_a_time(world):
    open_questions, most, count = [], [], 8

    def ask(question):
        open_questions.append(question)
        most.append(len(open_questions))
        time.sleep(0.01)
        open_questions.remove(question)
        return "y"

    world.module.install(world.agent, ask=ask, rules=world.module.Rules())
    verdicts = []
    threads = [
        threading.Thread(target=lambda n=n: verdicts.append(world.check(world.bash, command=f"touch canary{n}").verdict)) for n in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * count
    assert verdicts == ["allow"] * count


def test_always_settles_the_same_question_of_another_thread(world):
    other, verdicts, asked = [], [], []

    def ask(question):
        asked.append(question)
        thread = threading.Thread(target=lambda: verdicts.append(world.check(world.bash, command="touch canary").verdict))
        other.append(thread)
        thread.start()
        time.sleep(0.05)  # so that it waits for this question
        return "a"

    world.module.install(world.agent, ask=ask, rules=world.module.Rules())
    assert world.check(world.bash, command="touch canary").verdict == "allow"
    other[0].join()
    assert verdicts == ["allow"] and len(asked) == 1


def test_what_is_allowed_does_not_wait_for_a_question(world):
    inside = []

    def ask(question):
        thread = threading.Thread(target=lambda: inside.append(world.check(world.bash, command="ls").verdict))
        thread.start()
        thread.join(10)
        return "n"

    world.module.install(world.agent, ask=ask, rules=world.module.Rules(allow=("bash(ls)",)))
    world.check(world.bash, command="touch canary")
    assert inside == ["allow"]


def test_what_is_refused_does_not_run_and_the_model_reads_why(chapter):
    agent = chapter.agent(talk("go", Step(calls=[Call("bash", command="ls; touch canary")]), Step("Done.")), ask=lambda question: "n")
    assert chapter.run(agent, "go").text == "Done."
    [result] = [b for m in agent.history.messages for b in m["content"] if b["type"] == "tool_result"]
    assert result.get("is_error") and "The person said no" in result["content"]
    assert not (chapter.workspace / "canary").exists()
