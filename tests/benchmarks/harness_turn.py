"""What all mechanisms together add to a turn: ``python tests/benchmarks/harness_turn.py [chapter]``.

Measured as in turns.py, at the lengths that long sessions have, with a plan on the todo list, so that what looks at it in
each turn has something to look at. The aim is a harness that takes at most AIM times as long as the bare SDK loop.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

import turns

LENGTHS = (10, 100, 400)  # turns that the conversation has when the measuring begins
BLOCKS = 20  # each side takes its turn so often; the median of many short blocks is steadier than that of few long ones
TURNS = 10  # in a block
AIM = 1.15
PLAN = [{"content": f"Step {n}", "status": "in_progress" if n == 0 else "pending"} for n in range(10)]


def main() -> None:
    chapter = sys.argv[1] if len(sys.argv) > 1 else sorted(path.name for path in turns.ROOT.glob("s[0-9][0-9]_*"))[-1]
    server = subprocess.Popen([sys.executable, turns.__file__, "--serve"], stdout=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
    print(f"{chapter}: milliseconds a turn, median of {BLOCKS} times {TURNS} turns on each side; the aim is {AIM}")
    print(f"{'turns before':>12} {'bare loop':>10} {'harness':>10} {'ratio':>7}")
    try:
        for length in LENGTHS:
            bare, ours = measure(chapter, url, length)
            print(f"{length:>12} {bare:>10.2f} {ours:>10.2f} {ours / bare:>7.2f}")
    finally:
        server.kill()
        server.wait()


def measure(chapter: str, url: str, length: int) -> tuple[float, float]:
    """Return the milliseconds that a turn takes in the bare loop and in the harness."""
    harness = turns.Harness(chapter, url, length)
    if "todo_write" in harness.agent.tools:
        harness.agent.tools["todo_write"].function(harness.agent, todos=PLAN)
    sides = {"bare": turns.Bare(harness.agent.request(), url, length), "harness": harness}
    times: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side.run(3)  # connects and warms up
    for _ in range(BLOCKS):
        for name, side in sides.items():
            times[name] += side.run(TURNS)
    return statistics.median(times["bare"]), statistics.median(times["harness"])


if __name__ == "__main__":
    main()
