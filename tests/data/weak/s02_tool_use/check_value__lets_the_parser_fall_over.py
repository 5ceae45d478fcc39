# must fail: tests/test_tools.py::test_wrong_arguments_are_named
def check_value(what: str, schema: dict[str, Any], value: Any) -> Any:
    """Return ``value`` if it is what ``schema`` asks for. Raises ToolError that begins with ``what``."""
    types = schema.get("type", list(TYPES))
    types = [types] if isinstance(types, str) else types
    if isinstance(value, str) and "string" not in types and {"array", "object"} & set(types):
        try:
            value = json.loads(value)
        except ValueError:
            raise ToolError(f"{what} must be {' or '.join(types)}, and this text is no JSON.") from None
    if not any(has_type(value, name) for name in types):
        raise ToolError(f"{what} must be {' or '.join(types)}, not {kind_of(value)}.")
    if "enum" in schema and value not in schema["enum"]:
        raise ToolError(f"{what} must be one of {', '.join(map(str, schema['enum']))}.")
    if "minimum" in schema and value < schema["minimum"]:
        raise ToolError(f"{what} must be at least {schema['minimum']}.")
    if "maximum" in schema and value > schema["maximum"]:
        raise ToolError(f"{what} must be at most {schema['maximum']}.")
    if isinstance(value, list) and "items" in schema:
        value = [check_value(f"{what}, item {number}", schema["items"], item) for number, item in enumerate(value, 1)]
    return value
