"""What a lesson says of its experiments is so: the change is made in a copy, the lesson is played, and this is printed."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from conftest import CHAPTERS
from conftest import ROOT

import offline_model

EXPERIMENTS = json.loads((Path(__file__).parent / "data" / "experiments.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda e: f"{e['chapter'][:3]}: {e['title']}")
def test_an_experiment_ends_as_its_lesson_says(experiment, tmp_path, monkeypatch, capsys):
    name = experiment["chapter"]
    package = f"changed_{name}"  # a name of its own, so that the chapter itself stays as it is
    shutil.copytree(ROOT / name, tmp_path / package)  # what is compiled, too: it fits all files but the changed one
    file = tmp_path / package / experiment["file"]
    text = file.read_text(encoding="utf-8")
    assert text.count(experiment["old"]) == 1, f"{name}/{experiment['file']} has changed: do the experiment again"
    file.write_text(text.replace(experiment["old"], experiment["new"]), encoding="utf-8")
    Path(cache_from_source(str(file))).unlink(missing_ok=True)
    monkeypatch.syspath_prepend(str(tmp_path))

    status, printed = play(package, name, experiment["arguments"], capsys)
    assert [line for line in experiment["expect"] if line not in printed] == []
    assert [line for line in experiment["reject"] if line in printed] == []
    assert {text: printed.count(text) for text in experiment.get("times", {})} == experiment.get("times", {})
    assert status == experiment.get("status", 0)


def play(package: str, name: str, arguments: list[str], capsys) -> tuple[int, str]:
    """Play the lesson ``name`` with the changed chapter; return its exit status and all that it printed."""
    load = lambda part: importlib.import_module(f"{package}.{part}")  # noqa: E731
    main, workspace = load("__main__"), offline_model.make_workspace()
    with offline_model.start(scenario=name) as server:
        model = load("model").Model(offline_model.MODEL, server.url, "x", server)
        if hasattr(model, "fallback"):
            model.fallback = offline_model.FALLBACK
        console = load("console").Console(one_shot=bool(arguments))
        asks = [main.who_to_ask(console, model, False)] if hasattr(main, "who_to_ask") else []
        try:
            agent = load("harness").build(model, workspace, console.show, *asks)
            status = main.one_shot(agent, console, " ".join(arguments)) if arguments else main.play(agent, console, model)
        except ValueError as error:
            print(error)  # what the deployer wrote is wrong, and the program does not start
            status = 1
    shutil.rmtree(workspace)
    for module in [each for each in sys.modules if each.startswith(package)]:
        del sys.modules[module]
    out, err = capsys.readouterr()
    return status, out + err


def test_each_lesson_has_three_experiments_and_they_are_these():
    for name in CHAPTERS:
        titles = {e["title"] for e in EXPERIMENTS if e["chapter"] == name and "(variant" not in e["title"]}
        text = (ROOT / name / "README.md").read_text(encoding="utf-8")
        assert len(titles) == 3 and [title for title in titles if f"**{title}.**" not in text] == []
