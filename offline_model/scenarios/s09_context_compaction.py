"""A week of logs in a small window: too much at once, then old results go, then a summary, in the middle of the work."""

from ..script import Call
from ..script import Exchange
from ..script import Scenario
from ..script import Step

ITEMS = (
    "Make logs of a week to try things on",
    "Read each day",
    "Write report.md",
    "Count the errors by the hour, over all days",
    "Check report.md against the logs",
)

MAKE_LOGS = '''\
"""Writes the logs of a shop's week, to try things on."""

from pathlib import Path

WRONG = {"mon": [9, 14], "tue": [11], "wed": [14, 15], "thu": [9], "fri": [14, 18, 19]}


def line(day, minute):
    hour, rest = divmod(minute, 60)
    is_wrong = hour in WRONG[day] and rest == 24
    what = "ERROR the payment timed out" if is_wrong else "INFO an order was paid"
    return f"{hour:02}:{rest:02} {what}, number {day}-{minute}\\n"


Path("logs").mkdir(exist_ok=True)
for day in WRONG:
    text = "".join(line(day, minute) for minute in range(8 * 60, 22 * 60, 12))
    Path("logs", f"{day}.log").write_text(text, encoding="utf-8", newline="\\n")
    print(f"logs/{day}.log: {len(text)} bytes")
'''
FOUND = {
    "Monday": ("09:24", "14:24"),
    "Tuesday": ("11:24",),
    "Wednesday": ("14:24", "15:24"),
    "Thursday": ("09:24",),
    "Friday": ("14:24", "18:24", "19:24"),
}
BY_HOUR = '''\
"""Counts the errors by the hour, over all days."""

from collections import Counter
from pathlib import Path


def errors(path):
    """The hours of the lines that say ERROR."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line[:2] for line in lines if " ERROR " in line]


def table(counts):
    """The hours as rows of a Markdown table, the worst first."""
    rows = [f"| {hour} | {count} |" for hour, count in counts.most_common()]
    return "\\n".join(["| hour | errors |", "|---|---|", *rows])


counts = Counter()
for path in sorted(Path("logs").glob("*.log")):
    counts.update(errors(path))
print(table(counts))
'''
TABLE = "| hour | errors |\n|---|---|\n| 14 | 3 |\n| 09 | 2 |\n| 18 | 1 |\n| 19 | 1 |\n| 15 | 1 |\n| 11 | 1 |\n"


def todos(done: int) -> Call:
    """The list with so many items completed and the next one in progress."""
    statuses = ["completed"] * done + ["in_progress"] + ["pending"] * len(ITEMS)
    return Call("todo_write", todos=[{"content": item, "status": status} for item, status in zip(ITEMS, statuses)])


def read(day: str) -> Call:
    """The log of one day, as a whole."""
    return Call("read_file", path=f"logs/{day}.log")


def section(day: str, times: tuple[str, ...]) -> str:
    """What the report says of one day."""
    rows = "".join(
        f"- {time}: a payment timed out. The order before it, twelve minutes earlier, was paid without any trouble, and so "
        "was the one after it. It was not tried a second time: no later line of that day has its number.\n"
        for time in times
    )
    return f"## {day}\n\nErrors: {len(times)}, of 70 orders.\n\n{rows}\n"


REPORT = "# The week\n\n" + "".join(section(day, times) for day, times in FOUND.items())
SUMMARY = """\
make_logs.py made logs/mon.log to logs/fri.log, 70 orders each. I read all five. Each error is a payment that timed out:
Monday 09:24, 14:24; Tuesday 11:24; Wednesday 14:24, 15:24; Thursday 09:24; Friday 14:24, 18:24, 19:24. Nine in all.
All at minute 24, most of them at 14. report.md has a section a day; by_hour.py counts by the hour, its table is at the top
of report.md. Printing all logs at once was too long. Open: check report.md against the logs."""
LATER = """\
report.md is written and checked against the logs: nine payments timed out in the week, always at minute 24. Times: Monday
09:24, 14:24; Tuesday 11:24; Wednesday 14:24, 15:24; Thursday 09:24; Friday 14:24, 18:24, 19:24."""

SCENARIO = Scenario(
    about="A week of logs in a window of 9,400 tokens.",
    context_limit=9_400,
    exchanges=[
        Exchange(
            says="Make logs of a week to try things on, read each day, and write report.md: what went wrong, when, and at "
            "which hours over all days. Check it in the end.",
            steps=[
                Step("Five steps, so I keep a list.", calls=[todos(0), Call("write_file", path="make_logs.py", content=MAKE_LOGS)]),
                Step(calls=[Call("bash", command="python make_logs.py")]),
                Step("Now all of them.", calls=[todos(1), Call("bash", command="cat logs/*.log")]),
                Step("All five, in one go. Now each by itself.", unless="too long to send", extra=True, calls=[read("mon")]),
                Step(
                    "That was too much at once, I see a beginning and an end. One day after the other.",
                    when="too long to send",
                    calls=[read("mon")],
                ),
                Step("Two errors on Monday.", calls=[read("tue")]),
                Step("One on Tuesday.", calls=[read("wed")]),
                Step("Two on Wednesday.", calls=[read("thu")]),
                Step("One on Thursday.", calls=[read("fri")]),
                Step(
                    "Three on Friday. Of Monday and Wednesday I need the lines once more.",
                    calls=[todos(2), read("mon"), read("wed")],
                ),
                Step("Now the report.", calls=[Call("write_file", path="report.md", content=REPORT)]),
                Step(calls=[todos(3), Call("write_file", path="by_hour.py", content=BY_HOUR), Call("bash", command="python by_hour.py")]),
                Step(
                    "That goes to the top of the report.",
                    calls=[
                        Call("edit_file", path="report.md", old_text="# The week\n", new_text=f"# The week\n\n{TABLE}"),
                        todos(4),
                        Call("read_file", path="report.md"),
                    ],
                ),
                Step(
                    "By my notes Monday had errors at 09:24 and 14:24, as the report says. Notes are no proof, so I look.",
                    calls=[Call("grep", pattern="ERROR", path="logs")],
                ),
                Step("All nine are in the report, each on its day.", calls=[todos(5)]),
                Step(
                    "report.md says what went wrong: nine payments timed out, three of them at 14 o'clock, always at minute "
                    "24. I checked it against the logs."
                ),
            ],
            answers={"write_file": "a", "edit_file": "a", "bash": ["a", "a", "a"]},
        ),
        Exchange(line="/compact keep the times"),
        Exchange(
            says="Which day was the worst, and when?",
            steps=[Step("Friday: 14:24, 18:24 and 19:24.")],
        ),
        Exchange(
            contains="The conversation grows too long.",
            typed=False,
            steps=[Step(SUMMARY, unless="keep the times"), Step(LATER, when="keep the times")],
        ),
    ],
)
