"""What is wrong with a cron expression or its time zone, said so that a person finds the place.

It knows nothing of how expressions are parsed or searched."""

from __future__ import annotations

from workfleet.errors import UsageError


class CronError(UsageError, ValueError):
    """An expression or time zone that cannot be used.

    `expression` is the whole text, `field` the name of its wrong part ("hour", "timezone"…), `number` that field's
    place (from 1, None where no single field is to blame), `column` the character in the expression (from 1), `text`
    the wrong piece, `allowed` what may stand there (empty where a range says nothing) and `reason` what is wrong with
    it."""

    code = "cron_invalid"

    def __init__(
        self,
        expression: str,
        reason: str,
        *,
        field: str = "expression",
        number: int | None = None,
        column: int | None = None,
        text: str | None = None,
        allowed: str = "",
    ) -> None:
        self.expression, self.reason, self.field, self.number = expression, reason, field, number
        self.column, self.text, self.allowed = column, text, allowed
        place = f"{field} (field {number}, column {column})" if number is not None else field
        piece = f" {text!r}" if text is not None else ""
        rule = f" (allowed: {allowed})" if allowed else ""
        super().__init__(f"cron expression {expression!r}: {place}{piece}: {reason}{rule}")
