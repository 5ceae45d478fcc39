"""What the launcher's commands for practice do: make a copy, check it once or at each save, give hints."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from . import Problem
from . import checks
from . import copies
from . import progress
from . import words

POLL = 0.5  # seconds between two looks for a saved file


def practice(root: Path, chapter: str, me: str, *, reset: bool, yes: bool, from_chapter: bool) -> int:
    """Make the practice copy of a chapter, unless there is one. Returns the exit status."""
    short, copy = chapter[:3], place_of(root, chapter)
    listed = copies.functions(root / chapter)
    name = shown(copy, root)
    there = f"{name} is there already, and stays as it is.\nGo on with      {me} check {short}\n"
    there += f"or begin anew   {me} practice {short} --reset   (keeps what is there beside it)"
    if os.path.lexists(copy):
        if not reset:
            print(there if state_of(copy) else no_copy(root, chapter, me))
            return 0 if state_of(copy) else 1
        if not yes and not agreed(f"Begin {name} anew? What is there is kept beside it. [y/N] ", me, short):
            print("Nothing was changed.")
            return 1
    try:
        kept = copies.make(root / chapter, copy, f"{me} check {short} --hint", anew=reset)
    except OSError:
        if reset or not state_of(copy):
            raise
        print(there)  # made by another one meanwhile
        return 0
    progress.save(root, chapter, None)
    if kept:
        print(f"What was there is now in {shown(kept, root)}.")
    if from_chapter:
        print("Each copy begins with everything before it solved, so nothing is missing from the earlier chapters.")
    print(f"{name} is the chapter without the bodies of these functions. Write them, in this order:\n")
    width = max(len(each.name) for each in listed)
    print(*(f"  {each.name:<{width}}  {each.file}" for each in listed), sep="\n")
    print(f"\nEach says what is wanted. The lesson is {chapter}/README.md."
          f"\nSee what is next   {me} check {short}"
          f"\nat each save       {me} check {short} --watch")
    return 0


def agreed(question: str, me: str, short: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise Problem(f"Nobody can be asked here. To begin anew all the same: {me} practice {short} --reset --yes")
    try:
        return input(question).strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False


def check(root: Path, python: str, chapter: str, me: str, *, hint: bool, verbose: bool) -> int:
    """Check the copy once and say what came of it. Returns the exit status: 0 if all pass."""
    copy = find_copy(root, chapter, me)
    outcome = checks.check(root, python, chapter, copy, verbose=verbose, tell=lambda text: print(text, flush=True))
    entry = progress.of(root, chapter)
    if not outcome.trouble or outcome.passed:
        entry["passed"] = outcome.passed
    entry["all"] = outcome.all_pass
    lines = words.report(outcome, me)
    open_ones = [each for each in outcome.functions if each.name not in entry["passed"]]
    wanted = outcome.next or (open_ones[0] if outcome.trouble and open_ones else None)
    if hint and wanted:
        lines = [*outcome.trouble, ""] if outcome.trouble else []
        lines += give_hint(wanted, entry["hints"], f"{me} check {chapter[:3]} --hint")
    elif hint and outcome.failure:
        for each in outcome.functions:
            lines += ["", *words.fill(f"{each.name}: {each.wanted}")]
            lines += [line for text in each.hints for line in words.fill(f"  {text}")]
    elif hint and outcome.all_pass:
        lines.append("So no hint is left to give.")
    progress.save(root, chapter, entry)
    print(*lines, sep="\n", flush=True)
    return 0 if outcome.all_pass else 1


def give_hint(function: copies.Function, given: dict[str, int], again: str) -> list[str]:
    """Return the next hint for a function, and count it in ``given``; after the last one, all of them."""
    total = len(function.hints)
    number = min(given.get(function.name, 0) + 1, total)
    repeated = given.get(function.name, 0) >= total
    given[function.name] = number
    lines = [f"Next: {function.name} ({function.file})", ""]
    for at in range(1 if repeated else number, number + 1):
        lines += words.fill(f"Hint {at} of {total}: {function.hints[at - 1]}")
    lines.append("")
    if repeated:
        lines += words.fill("There are no more. The failing test says what it wants: check without --hint shows it.")
    elif number < total:
        lines.append(f"One more: {again}")
    return lines


def watch(root: Path, python: str, chapter: str, me: str, *, verbose: bool) -> int:
    """Check now and after each save, until Ctrl-C. Returns the exit status of the last check."""
    copy = find_copy(root, chapter, me)
    status, seen = 1, None
    print(f"Watching {shown(copy, root)}: each save is checked. Ctrl-C ends it.", flush=True)
    try:
        while True:
            now = state_of(copy)
            if now != seen:
                seen = now
                print(f"\n--- {time.strftime('%H:%M:%S')} ---", flush=True)
                try:
                    status = check(root, python, chapter, me, hint=False, verbose=verbose)
                except Problem as problem:
                    status = 1
                    print(problem, flush=True)
            time.sleep(POLL)
    except KeyboardInterrupt:
        print("\nNo longer watching.")
        return status


def state_of(copy: Path) -> dict[str, tuple[int, int]]:
    """Return when each of the copy's modules was saved, and its size."""
    found = {}
    for path in copy.glob("*.py"):
        try:
            facts = path.stat()
        except OSError:  # just being replaced
            continue
        found[path.name] = (facts.st_mtime_ns, facts.st_size)
    return found


def find_copy(root: Path, chapter: str, me: str) -> Path:
    copies.functions(root / chapter)  # a chapter without practice says so
    copy = place_of(root, chapter)
    if not state_of(copy):
        raise Problem(no_copy(root, chapter, me))
    return copy


def no_copy(root: Path, chapter: str, me: str) -> str:
    """Return what to say when there is no copy, or something else in its place."""
    copy, again = place_of(root, chapter), f"{me} practice {chapter[:3]}"
    if os.path.lexists(copy):
        return f"{shown(copy, root)} is no copy of the chapter. Make one (keeps what is there beside it): {again} --reset"
    return f"There is no practice copy of {chapter} yet. Make one: {again}"


def latest_copy(root: Path, chapters: list[str], me: str) -> str:
    """Return the chapter whose copy was changed last."""
    def saved(chapter: str) -> int:
        return max((at for at, _ in state_of(place_of(root, chapter)).values()), default=0)

    best = max(chapters, key=saved)
    if not saved(best):
        raise Problem(f"There is no practice copy yet. Make one, as in: {me} practice {chapters[0][:3]}")
    return best


def solved(root: Path, chapter: str, me: str) -> None:
    """Raise Problem unless all tests of the copy passed when it was last checked."""
    find_copy(root, chapter, me)
    if not progress.of(root, chapter)["all"]:
        short, name = chapter[:3], shown(place_of(root, chapter), root)
        raise Problem(
            f"Not all tests passed at the last check of {name}: see {me} check {short}. "
            f"To see the chapter's own solution all the same: {me} diff {short} --practice --show-solution"
        )


def standing(root: Path, chapter: str) -> str:
    """Return in a word how far the learner came in a chapter; "" if nothing was begun."""
    entry = progress.of(root, chapter)
    if not state_of(place_of(root, chapter)):
        return ""
    if entry["all"]:
        return "practice: solved"
    try:
        names = [each.name for each in copies.functions(root / chapter)]
    except Problem:
        return ""
    count = len(set(names) & set(entry["passed"]))
    return f"practice: {count} of {len(names)}" + (" pass their own tests, not solved yet" if count == len(names) else "")


def place_of(root: Path, chapter: str) -> Path:
    return root / copies.FOLDER / chapter


def shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
