# must fail: tests/test_permissions.py::test_nobody_is_asked_about_a_path_that_is_refused_anyway
def names_of(workspace: Path, path: str) -> tuple[str, ...]:
    """Return a file's real name in the workspace, then its other names. Raises ToolError if it is not in there."""
    names = [resolve(workspace, path).relative_to(workspace).as_posix()]
    as_written = Path(os.path.normpath(workspace / path))  # a link has a name of its own
    if as_written.is_relative_to(workspace):
        names.append(as_written.relative_to(workspace).as_posix())
    return (*names, *map(alike, names))
