"""Golden files as one script of `penstock run`: their rows in files, their views in sinks.

A script is run before its input is read, and at its end all streams move to the time of the last
row of any. So streams that are nothing but clocks bring event time to where the last golden has
been, and the changes until then must be those of the golden's own calls, at every instant.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import penstock
from golden.runner import sections, table, value
from penstock.files.sinks import json_lines
from spark.goldens import Calls, renamed

META = ("_query", "_change_type", "_time", "_batch", "_seq")
SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
Net = Counter[tuple[str, str]]
"""What changes come to, by time and row."""

BETWEEN = "a statement comes between its rows, and a script is run before its input"
MANY = "query_many() takes a table of constants, which no statement does"
LATE = "its rows are late because of the batches that they come in"
NOTHING = "it has no views"
UNFIT = {
    "above_negation": BETWEEN,
    "agarwal_fig1_stabbing": MANY,
    "agarwal_fig4_band_join": MANY,
    "agarwal_fig5_select_join": MANY,
    "agarwal_fig6_skylines": MANY,
    "drop": BETWEEN,
    "empty_batches": LATE,
    "errors": NOTHING,
    "history": BETWEEN,
    "identical": BETWEEN,
    "lateness": LATE,
    "negation": BETWEEN,
    "nonretroactive": BETWEEN,
    "outer": BETWEEN,
    "own_length": MANY,
    "per_row": MANY,
    "per_row_on_commit": MANY,
    "pair_totals": MANY,
    "query_bands": MANY,
    "query_bands_negated": MANY,
    "relation": BETWEEN,
    "union_expiry": BETWEEN,
    "union_unbounded": BETWEEN,
}
"""Goldens that no script can say, and why."""


class Unfit(Exception):
    """The golden cannot be said in a script."""


@dataclass(slots=True)
class Piece:
    """What a golden file adds to the script."""

    path: Path
    statements: list[str] = field(default_factory=list)
    rows: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    views: list[str] = field(default_factory=list)
    times: list[object] = field(default_factory=list)
    begun: bool = False  # rows have come


def piece_of(path: Path) -> Piece:
    """The statements and rows of a golden file; raises `Unfit`."""
    made = Piece(path)
    for section in sections(path):
        text = "\n".join(section.lines)
        match section.words:
            case ["statement"]:
                _declare(made, text)
            case ["history", name]:
                _declare(made, f"CREATE MATERIALIZED VIEW {name} AS {text} WITH HISTORY")
            case ["many", *_]:
                raise Unfit(MANY)
            case ["push", stream]:
                names, rows = table(section.lines)
                made.rows[stream] += [dict(zip(names, row, strict=True)) for row in rows]
                made.times += [row.get("ts") for row in made.rows[stream]]
                made.begun = True
            case ["advance", _, time]:
                made.times.append(value(time))
    if not made.views:
        raise Unfit(NOTHING)
    return made


def _declare(made: Piece, text: str) -> None:
    if made.begun:
        raise Unfit(BETWEEN)
    if found := re.match(r"CREATE\s+STREAM\s+(\w+)", text, re.IGNORECASE):
        made.rows[found[1]] = []
        text += f" FROM json OPTIONS (path '{{home}}/in/{found[1]}')"
    made.statements.append(text)
    if found := re.match(r"CREATE\s+MATERIALIZED\s+VIEW\s+(\w+)", text, re.IGNORECASE):
        made.views.append(found[1])
        sink = f"INTO json OPTIONS (path '{{home}}/{{out}}/{found[1]}')"
        made.statements.append(f"CREATE SINK out_{found[1]} FROM {found[1]} {sink}")


@dataclass(slots=True)
class Script:
    """Goldens that run together."""

    pieces: list[Piece]
    home: Path

    @property
    def ends(self) -> tuple[int, dt.datetime]:
        """The last times of plain units and of timestamps."""
        times = [time for piece in self.pieces for time in piece.times if time is not None]
        units = [time for time in times if isinstance(time, int)]
        stamps = [time for time in times if isinstance(time, dt.datetime)]
        return max(units, default=0), max(stamps, default=dt.datetime(2024, 1, 1))

    def write(self) -> None:
        """Write the files of all streams."""
        rows = {name: some for piece in self.pieces for name, some in piece.rows.items()}
        clocks = dict(zip(("clock_units", "clock_us"), self.ends, strict=True))
        for name, some in (rows | {n: [{"ts": ts}] for n, ts in clocks.items()}).items():
            folder = self.home / "in" / name
            folder.mkdir(parents=True)
            lines = [json.dumps(row, default=dt.datetime.isoformat) for row in some]
            (folder / "0.json").write_text("".join(line + "\n" for line in lines))

    def inputs(self) -> list[str]:
        """Options of the command that push every second golden's rows, in place of its FROM."""
        names = [name for piece in self.pieces[1::2] for name in piece.rows]
        return [f"--input={name}={self.home}/in/{name}/0.json" for name in names]

    def text(self, out: str) -> str:
        """The script, with sinks in directory `out`."""
        clocks = [
            f"CREATE STREAM clock_{unit} (ts {kind}) TIMESTAMP BY ts "
            f"FROM json OPTIONS (path '{{home}}/in/clock_{unit}')"
            for unit, kind in (("units", "BIGINT"), ("us", "TIMESTAMP"))
        ]
        all_ = [*clocks, *(text for piece in self.pieces for text in piece.statements)]
        return "".join(
            text.replace("{home}", str(self.home)).replace("{out}", out) + ";\n" for text in all_
        )

    def written(self, out: str) -> dict[str, Net]:
        """What the sinks in `out` hold, by view."""
        return {
            name: net(_lines(self.home / out / name), "on_commit" not in piece.path.stem)
            for piece in self.pieces
            for name in piece.views
        }

    def expected(self) -> dict[str, Net]:
        """What the goldens' own calls give, when time has come as far."""
        found: dict[str, Net] = {}
        for piece in self.pieces:
            with penstock.connect(runner="inprocess") as session:
                found |= self.called(piece, session)
        return found

    def called(self, piece: Piece, session: Any) -> dict[str, Net]:
        """What one golden's own calls give; raises `Unfit`."""
        for _ in Calls(piece.path, session).run():
            pass
        units, stamp = self.ends
        for row in session.sql("SHOW STREAMS").to_pylist():
            column = session.sql(f"DESCRIBE {row['name']}").to_pylist()
            stamped = next(c["type"] for c in column if c["column"] == row["time"]) == "TIMESTAMP"
            if row["late"]:
                raise Unfit(LATE)
            session.advance(row["name"], stamp if stamped else units)
        by_time = "on_commit" not in piece.path.stem
        return {
            name: net(map(json.loads, json_lines(session[name].changes()).splitlines()), by_time)
            for name in piece.views
        }


def _lines(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("part-*.json")):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def net(changes: Any, by_time: bool) -> Net:
    """What changes come to at each instant, or in all."""
    found: Net = Counter()
    for change in changes:
        row = {name: v for name, v in sorted(change.items()) if name not in META}
        time = str(change["_time"]) if by_time else ""
        found[time, json.dumps(row)] += SIGNS[change["_change_type"]]
    return Counter({key: n for key, n in found.items() if n})


def _without_first_beats(path: Path) -> Path:
    """Time begins with the rows: a script cannot say that it has come somewhere before."""
    first, push, rest = path.read_text().partition("\npush ")
    path.write_text(re.sub(r"^advance .*\n", "", first, flags=re.MULTILINE) + push + rest)
    return path


def script_of(files: list[Path], home: Path) -> tuple[Script, dict[str, str]]:
    """One script of all golden files that have one, and why the others have none."""
    pieces, unfit = [], {}
    folder = home / "goldens"
    folder.mkdir()
    for number, path in enumerate(files):
        try:
            piece = piece_of(_without_first_beats(renamed(path, number, folder)))
            with penstock.connect(runner="inprocess") as session:
                Script([piece], home).called(piece, session)
            pieces.append(piece)
        except Unfit as why:
            unfit[path.stem] = str(why)
    return Script(pieces, home), unfit
