# must fail: tests/test_syntax_check.py::test_the_model_is_told_and_held_until_it_is_mended
def at_stop(event: Stop) -> None:
    if event.reason != "end_turn":
        return
    for path in sorted(written):
        error = syntax_error(agent.workspace / path)
        # Asked once for each fault: a model that says that it is meant so may stop.
        if error and f"{path}: {error}" not in objected:
            objected.add(f"{path}: {error}")
            event.objections.append(f"{path} does not compile: {error}.")
