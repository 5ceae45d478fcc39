# must fail: tests/test_permissions.py::test_links_are_followed
def names_of(workspace: Path, path: str) -> tuple[str, ...]:
    """Return a file's real name in the workspace, then its other names. Raises ToolError if it is not in there."""

    as_written = Path(os.path.normpath(workspace / path))
    if not path or "\0" in path or "\ud800" in path or not as_written.is_relative_to(workspace):
        raise ToolError(f"{path!r} is not in the workspace: give a path inside the workspace.")
    name = as_written.relative_to(workspace).as_posix()
    return name, alike(name)
