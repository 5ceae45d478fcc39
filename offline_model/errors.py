"""The one way in which a request is refused."""

from __future__ import annotations

# Error type of each status, as the API documents them.
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class ApiError(Exception):
    """A refusal as the client sees it: HTTP status, error type, message, and for some a machine-readable code."""

    def __init__(self, status: int, message: str, error_type: str = "", code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.type = error_type or ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        self.message = message
        self.code = code

    def body(self, request_id: str) -> dict:
        """The JSON body of the answer."""
        error: dict = {"type": self.type, "message": self.message}
        if self.code:
            error["details"] = {"error_code": self.code}
        return {"type": "error", "error": error, "request_id": request_id}


def invalid(message: str, code: str = "") -> ApiError:
    """A 400, the commonest refusal."""
    return ApiError(400, message, code=code)
