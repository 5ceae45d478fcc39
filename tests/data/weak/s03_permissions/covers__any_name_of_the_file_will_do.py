# must fail: tests/test_permissions.py::test_links_are_followed
def covers(rule: Rule, part: tuple) -> bool:
    """Whether an allow rule with a pattern is enough for a part."""
    if rule.words:
        return rule.words == (part if rule.only else part[: len(rule.words)])
    return bool(rule.path and any(rule.path.fullmatch(name) for name in part))
