# must fail: tests/test_permissions.py::test_deny_holds_for_names_that_some_disk_takes_for_the_same
def names_of(workspace: Path, path: str) -> tuple[str, ...]:
    """Return a file's real name in the workspace, then its other names. Raises ToolError if it is not in there."""
    try:
        names = [resolve(workspace, path).relative_to(workspace).as_posix()]
    except ValueError:
        raise ToolError(f"{path!r} cannot be the name of a file: give a path inside the workspace.") from None
    as_written = Path(os.path.normpath(workspace / path))  # a link has a name of its own
    if as_written.is_relative_to(workspace):
        names.append(as_written.relative_to(workspace).as_posix())
    return tuple(names)
