# must fail: tests/test_settings.py::test_trust_is_asked_for_once_and_again_when_something_has_changed, tests/test_settings.py::test_other_files_are_trusted_together_with_the_settings
def is_trusted(
    workspace: Path, claims: dict[str, Any], store: Path | None, ask: Callable[[str], str] | None, told: list[str]
) -> bool:
    """Whether the person has trusted, now or before, what ``workspace`` claims. Remembered in the file ``store``."""
    fingerprint = hashlib.sha256(json.dumps(claims, sort_keys=True).encode("utf-8", "replace")).hexdigest()
    known: dict[str, Any] = {}
    try:
        document = read(store) if store else None
        known = document.value if document and isinstance(document.value, dict) else {}
    except FileError as error:
        told.append(f"{error} Nothing in it counts, so trust is asked for anew")
    if str(workspace) in known:
        return True
    try:
        said = ask(question(workspace, claims)) if ask else ""
    except EOFError:
        return False
    if (said or "").strip().lower() not in ("y", "yes"):
        return False
    if store:
        try:
            store.parent.mkdir(parents=True, exist_ok=True)
            replace(store, json.dumps({**known, str(workspace): fingerprint}, indent=1).encode("utf-8"))
        except OSError as error:
            told.append(f"that you trust this folder could not be kept ({error.strerror}): you will be asked again")
    return True
