"""What is wrong with a cron expression or its time zone, said so that a person finds the place.

It knows nothing of how expressions are parsed or searched."""

from __future__ import annotations

from workfleet.errors import UsageError

_BEFORE, _AFTER = 40, 30


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

    def pointed(self) -> str:
        """Two lines: the expression and, below its wrong piece, carets. Of a long one, what is near; "" where no single
        place is to blame."""
        if self.column is None:
            return ""
        # One column for each character, whatever a terminal makes of it.
        shown = "".join(each if each.isprintable() else " " for each in self.expression)
        first = max(self.column - 1 - _BEFORE, 0)
        head, part = "…" if first else "", shown[first : self.column - 1 + _AFTER]
        tail = "…" if self.column - 1 + _AFTER < len(shown) else ""
        at = len(head) + self.column - 1 - first
        return f"  {head}{part}{tail}\n  {' ' * at}{'^' * max(min(len(self.text or ''), _AFTER), 1)}"
