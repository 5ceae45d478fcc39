# must fail: tests/test_files.py::test_links_that_lead_out_are_refused_by_every_tool
def resolve(workspace: Path, path: str) -> Path:
    """Return the real place (absolute, links followed; nothing need be there) of ``path``, which is relative to
    ``workspace`` or absolute. Raises ToolError when it leads out: directly, by ``..``, or through a symbolic link.
    """
    if not path.strip() or "\0" in path:
        raise ToolError(f"{path!r} is no path: give one inside the workspace, such as 'src/app.py'.")
    if PureWindowsPath(path).drive.lower() not in ("", workspace.drive.lower()):
        raise ToolError(f"{path!r} is on another drive or computer: give a path inside the workspace.")
    if not Path(os.path.normpath(workspace / path)).is_relative_to(workspace):
        raise ToolError(f"{path!r} leads out of the workspace: give a path inside it.")
    return Path(os.path.realpath(workspace / path))
