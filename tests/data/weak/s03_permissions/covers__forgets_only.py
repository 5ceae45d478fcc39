# must fail: tests/test_permissions.py::test_what_a_rule_for_a_command_covers
def covers(rule: Rule, part: tuple) -> bool:
    """Whether an allow rule with a pattern is enough for a part."""
    if rule.words:
        return rule.words == part[: len(rule.words)]
    return bool(rule.path and part and rule.path.fullmatch(part[0]))
