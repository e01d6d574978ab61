"""The layout of errors on a terminal: code, message, the line with a caret, the remedy."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from penstock.cli.script import Script, ScriptError
from penstock.errors import PenstockError, Place


def error_panel(error: PenstockError | ScriptError) -> Panel:
    """The error as a panel."""
    place: Place | None
    if isinstance(error, ScriptError):
        cause, script, place = error.error, error.script, error.place
    else:
        cause, script, place = error, None, error.place
    parts: list[RenderableType] = [Text(cause.message)]
    if script and place:
        parts += ["", _excerpt(script, place, exact=cause.place is not None)]
    elif place:
        parts += ["", Text(str(place), style="dim")]
    if cause.remedy:
        parts += ["", Text.assemble(("remedy: ", "bold green"), cause.remedy)]
    return Panel(
        Group(*parts),
        title=f"[bold red]{cause.code}[/]",
        title_align="left",
        border_style="red",
        expand=False,
    )


def _excerpt(script: Script, place: Place, exact: bool) -> Text:
    """The offending line under its name, with a caret when the column is known."""
    lines = script.text.split("\n")
    number = str(place.line)
    text = Text()
    text.append(f"{script.name}:{place.line}:{place.column}\n", style="dim")
    if place.line <= len(lines):
        line = lines[place.line - 1]
        text.append(f"{number} │ ", style="cyan")
        text.append(line.replace("\t", " "))
        if exact:
            text.append(f"\n{' ' * len(number)} │ ", style="cyan")
            text.append(" " * (place.column - 1) + "^", style="bold red")
    return text


def print_error(console: Console, error: PenstockError | ScriptError) -> None:
    """Show the error; never a traceback."""
    console.print(error_panel(error))
