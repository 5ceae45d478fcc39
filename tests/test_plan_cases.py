"""The cases seen in the field with planning-with-files: ours decides the same, or otherwise on purpose, with the reason.

Its files and variables are translated: tokens in .mode, the counters and the attestation are our state beside the plan,
PLAN_ID is what this session chose, PLANNING_DISABLED and a session that is not attached are /planfiles off.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from plan_desk import Desk
from plan_desk import touch

MECHANISM = "plan_files"
CASES = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "plan_files_cases.jsonl").read_text("utf-8").splitlines()
]

# What ours decides instead, and why. None: there is no such step here.
OURS = {
    "parse-06-mixed-undercount": (["allow:complete"], "each phase counts once, in whichever spelling"),
    "parse-10-heading-depth": (["allow:complete"], "any depth of heading and any case is a phase"),
    "parse-15-code-fence": (["allow:complete"], "an example in a code block is no phase"),
    "inject-08-empty-plan": (["silent"], "an empty frame tells nothing"),
    "post-04-stale-pointer": (["silent"], "where no plan is found there is nothing to keep"),
    "post-06-complete-plan": (["silent"], "a finished plan needs no entry"),
    "gate-17-shrinking-ledger-is-progress": (["allow:stall"], "only more entries are progress"),
    "gate-18-blank-line-is-progress": (["block", "allow:stall"], "a blank line is no entry"),
    "gate-29-bad-pin-falls-back": (["allow:no_plan"], "a choice that is not there is not replaced by a guess"),
    "gate-32-complete-but-stray-in-progress": (["allow:complete", "allow:complete"], "the line and the gate read one plan"),
    "res-04-mtime-is-of-dir": (["none"], "a time is a guess: of several plans none is taken"),
    "res-05-mtime-tie": (["none"], "a time is a guess: of several plans none is taken"),
    "res-07-stale-pointer": (["none", "refuse:ambiguous"], "the pointer names nothing, and two are left"),
    "res-08-pointer-traversal": (["none", "refuse:ambiguous"], "the pointer names nothing, and two are left"),
    "res-10-planid-typo-falls-through": (["none", "refuse:gone"], "a choice that is not there is not replaced by a guess"),
    "sess-04-stop-not-isolated": (["allow:no_plan"], "gate and model see the same plan, or both see none"),
    "catch-03-slug-plan-ignored": (["report", "report"], "one resolver; one earlier session is enough"),
    "catch-06-current-session-hides": (["report", "report"], "the running session is never the earlier one"),
    "ledger-02-invalid": ([None, None], "nobody but the harness writes the ledger: there is no command for it"),
    "ledger-03-summary-mixed": ([None, "allow:advisory"], "no summary: the state line says how many are in progress"),
    "status-01-set": ([None] * 4, "the harness never writes the model's judgement: it edits the file itself"),
    "status-03-runs-past-section": ([None], "the harness never writes the model's judgement: it edits the file itself"),
}


class Bench:
    """One case: a workspace, a desk in it, and the translation."""

    def __init__(self, load, tmp_path, case):
        self.load, self.out = load, tmp_path / "out"
        self.root = tmp_path / "project"
        self.root.mkdir()
        self.sessions = []
        for path, text in case["files"].items():
            self.write(path, text)
        self.case = case

    def place(self, path):
        return Path(path.replace("$CWD", str(self.root)).replace("$OUT", str(self.out)).replace("$HOME", str(self.out)))

    def write(self, path, text, mode="w"):
        target = self.root / self.place(path)
        if path.endswith("/"):
            return target.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        name, folder = target.name, target.parent
        if name == ".mode":
            return self.set_state(folder, gated="gate" in text.split())
        if name in (".stop_blocks", ".gate_last_ledger"):
            key = "blocks" if name == ".stop_blocks" else "seen"
            return self.set_state(folder, **{key: int(text) if text.strip().isdigit() else text})
        if name in (".plan-attestation", ".attestation"):
            return self.set_state(folder, seal=text.strip())
        if name.startswith("ledger-"):
            lines = [json.dumps({"event": "command", "exit_status": 0}) if line.strip() else "" for line in text.splitlines()]
            target, text, mode = folder / ".plan_ledger.jsonl", "".join(line + "\n" for line in lines), "a"
        with open(target, mode, encoding="utf-8", newline="") as file:
            file.write(text)

    def set_state(self, folder, **values):
        path = folder / ".plan_state.json"
        kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
        path.write_text(json.dumps({**kept, **values}), encoding="utf-8")

    def desk(self, env):
        """A session as the variables say."""
        cap = env.get("PWF_GATE_CAP", "")
        desk = Desk(self.load, self.root, cap=int(cap) if cap.isdigit() else None)
        plan_id, pin = env.get("PLAN_ID", ""), env.get("PWF_PLAN_ROOT", "")
        if plan_id and not self.load("plan_folder").NAME.fullmatch(plan_id):
            desk.typed(f"use {plan_id}")  # is refused, and changes nothing
        elif plan_id:
            desk.files.restore({"plan": plan_id})
        elif pin:
            desk.files.restore({"plan": "." if self.place(pin).is_dir() else "nonexistent"})
        attached = self.root / ".planning" / "sessions" / f"{env.get('PWF_SESSION_ID', '')}.attached"
        if env.get("PLANNING_DISABLED") == "1" or (attached.parent.is_dir() and not attached.exists()):
            desk.files.off = True
        desk.shown.clear()
        return desk

    def run(self):
        """Return what was decided at each step that is observed."""
        decided = []
        for step in self.case["action"]:
            env = {**self.case["env"], **step.get("env", {})}
            found = getattr(self, f"do_{step['op']}", lambda step, env: None)(step, env)
            if step["op"] not in ("write", "append", "delete", "mtime", "symlink", "session", "cwd_name"):
                decided.append(found)
        return decided

    def do_write(self, step, env):
        path = self.root / self.place(step["path"])
        times = path.stat() if step.get("keep_mtime") else None
        self.write(step["path"], step["content"])
        if times:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def do_append(self, step, env):
        self.write(step["path"], step["content"], "a")

    def do_mtime(self, step, env):
        touch(self.root / step["path"], step["epoch"])

    def do_symlink(self, step, env):
        os.symlink(self.place(step["target"]), self.root / step["path"])

    def do_inject(self, step, env):
        desk = self.desk(env)
        before_compaction = step.get("context") == "precompact"
        notes = desk.compacted() if before_compaction else desk.ask()
        if notes:
            return "precompact" if before_compaction else "inject"
        words = {"after it was sealed": "tampered", "several plans": "ambiguous", "not there any more": "gone"}
        return next((f"refuse:{word}" for part, word in words.items() if part in "".join(desk.shown)), "silent")

    def do_stop(self, step, env):
        given = json.loads(step["stdin"] or "{}")
        objections, lines = self.desk(env).stop(forced=int(given.get("stop_hook_active") is True))
        return "block" if objections else self.allowed("".join(lines))

    def do_advise(self, step, env):
        desk = self.desk(env)
        plan = desk.files.look()
        why = self.load("plan_gate").why_not(replace(plan, state=replace(plan.state, gated=False)), 0, 0, 20)
        return self.allowed(why)

    def allowed(self, line):
        words = {"all done": "complete", "the cap is": "cap", "nothing was written": "stall"}
        nothing = "silent" if self.desk(self.case["env"]).files.look().folder else "no_plan"
        return "allow:" + next((word for part, word in words.items() if part in line), "advisory" if line else nothing)

    def do_resolve(self, step, env):
        plan = self.desk(env).files.look()
        return "path" if plan.folder and plan.name != "." else "none"

    def do_posttool(self, step, env):
        desk = self.desk(env)
        desk.wrote("a.py")
        return "remind" if desk.request() else "silent"

    def do_attest(self, step, env):
        desk = self.desk(env)
        said = desk.typed({"--show": "status", "--clear": "seal off"}.get("".join(step.get("args", [])), "seal"))
        return "error" if "not sealed" in said or "Nothing was changed" in said else "ok"

    def do_init(self, step, env):
        desk = self.desk(env)
        desk.typed(f"init {' '.join(step['args'])}")
        return "ok" if desk.files.look().folder else "error"

    def do_session(self, step, env):
        if not step["name"].startswith("agent-"):
            self.sessions.append((step["epoch"], [*self.records(step)]))

    def records(self, step):
        cwd = step.get("rec_cwd", str(self.root))
        yield {"type": "session", **({"workspace": cwd} if cwd else {})}
        for number, row in enumerate(step["dsl"]):
            time, (kind, *rest) = step["epoch"] + number, row
            record = {"type": "message", "time": float(time), "role": "user" if kind in ("U", "UM", "R") else "assistant"}
            if kind == "RAW":
                yield rest[0]
            elif kind == "R":
                yield {**record, "blocks": [{"type": "tool_result", "tool_use_id": rest[0], "is_error": rest[1], "content": rest[2]}]}
            elif kind in ("W", "E"):
                path = self.place(rest[0])
                call = {"type": "tool_use", "id": f"w{number}", "name": "write_file", "input": {"path": str(path)}}
                yield {**record, "blocks": [call]}
                yield {**record, "role": "user", "blocks": [{"type": "tool_result", "tool_use_id": f"w{number}", "content": "ok"}]}
                if path.exists():
                    touch(path, time)
            elif kind == "B":
                yield {**record, "blocks": [{"type": "tool_use", "id": rest[1], "name": "bash", "input": {"command": rest[0]}}]}
            else:
                text = rest[0]
                if kind == "UM" or text.startswith(("<command-", "<local-command", "<task-")):  # from the host: ours is marked
                    text = f"<system-reminder>\n{text}\n</system-reminder>"
                yield {**record, "blocks": [{"type": "text", "text": text}]}

    def do_catchup(self, step, env):
        desk = self.desk(env)
        earlier = sorted(self.sessions, key=lambda pair: pair[0])
        earlier = earlier[:-1] if len(earlier) > 1 else earlier  # the newest of several is the one that is running
        desk.earlier = earlier[-1][1]
        desk.ask()
        shown = "".join(desk.shown)
        return "skip_notice" if "is not used" in shown else "report" if "follow the plan files" in shown else "silent"

    do_catchup_plugin = do_catchup

    def after(self, path):
        """What our state says in place of one of their files; None where there is none."""
        folder = (self.root / path).parent
        name, state = Path(path).name, self.load("plan_folder").load_state(folder)
        if name in (".stop_blocks", ".gate_last_ledger"):
            number = state.blocks if name == ".stop_blocks" else state.seen
            return f"{number}\n" if number or state.blocks else None
        if name in (".attestation", ".plan-attestation"):
            return state.seal or None
        return None


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_case_from_the_field(load, tmp_path, case):
    if os.name == "nt" and any(step["op"] == "symlink" for step in case["action"]):
        return  # needs a right that not everybody has there
    bench = Bench(load, tmp_path, case)
    decided = bench.run()
    wanted = [each["decision"] for each in case["expect"] if "decision" in each]
    ours, why = OURS.get(case["id"], (wanted, ""))
    assert decided == ours
    assert (ours != wanted) == bool(why)
    if case["id"] not in OURS:
        for files in (each["files_after"] for each in case["expect"] if "files_after" in each):
            assert {path: bench.after(path) for path in files} == files


def test_what_ours_does_otherwise_are_cases_of_the_field():
    assert set(OURS) <= {case["id"] for case in CASES} and len(CASES) == 86
