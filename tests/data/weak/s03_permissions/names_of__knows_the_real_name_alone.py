# must fail: tests/test_permissions.py::test_a_denied_name_is_denied_though_it_is_a_link
def names_of(workspace: Path, path: str) -> tuple[str, ...]:
    """Return a file's real name in the workspace, then its other names. Raises ToolError if it is not in there."""
    try:
        names = [resolve(workspace, path).relative_to(workspace).as_posix()]
    except ValueError:
        raise ToolError(f"{path!r} cannot be the name of a file: give a path inside the workspace.") from None
    return (*names, *map(alike, names))
