# must fail: tests/test_files.py::test_paths_inside
def resolve(workspace: Path, path: str) -> Path:
    """Return the real place (absolute, links followed; nothing need be there) of ``path``, which is relative to
    ``workspace`` or absolute. Raises ToolError when it leads out: directly, by ``..``, or through a symbolic link.
    """
    if not path.strip() or "\0" in path or ".." in path:
        raise ToolError(f"{path!r} is no path: give one inside the workspace, such as 'src/app.py'.")
    if PureWindowsPath(path).drive.lower() not in ("", workspace.drive.lower()):
        raise ToolError(f"{path!r} is on another drive or computer: give a path inside the workspace.")
    target = Path(os.path.realpath(workspace / path))
    if not target.is_relative_to(workspace):
        if Path(os.path.normpath(workspace / path)).is_relative_to(workspace):
            raise ToolError(f"{path!r} follows a symbolic link that leads out of the workspace: stay inside it.")
        raise ToolError(f"{path!r} leads out of the workspace: give a path inside it.")
    # What is still a link now is part of a circle, and what realpath made of the rest of the path proves nothing.
    if any(os.path.islink(part) for part in (target, *target.parents)):
        raise ToolError(f"{path!r} follows symbolic links that lead in a circle: give another path.")
    return target
