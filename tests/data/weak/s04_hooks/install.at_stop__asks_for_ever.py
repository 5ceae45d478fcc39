# must fail: tests/test_syntax_check.py::test_but_it_is_asked_only_once
def at_stop(event: Stop) -> None:
    if event.reason != "end_turn":
        return
    for path in sorted(written):
        error = syntax_error(agent.workspace / path)
        # Asked once for each fault: a model that says that it is meant so may stop.
        if error:
            objected.add(f"{path}: {error}")
            event.objections.append(f"{path} does not compile: {error}. Mend it, or say why it has to be so.")
