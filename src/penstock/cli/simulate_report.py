"""The report of a simulation: as numbers for programs, as tables for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from penstock.cli.output import plural
from penstock.pipeline.arrivals import SECOND
from penstock.pipeline.simulation import Simulation, Source
from penstock.pipeline.units import Unit
from penstock.session.pipelined import PipelinedSession

_SHOWN = 20
_MS = 1e6


@dataclass(frozen=True, slots=True)
class Report:
    """A run at the given pace, and one in batches that never waits, of the same rows."""

    script: str
    schedule: str
    session: PipelinedSession
    paced: Simulation
    fast: Simulation

    # ---- the whole -------------------------------------------------------------------
    @property
    def seconds(self) -> float:
        """Virtual seconds until the last change."""
        return self.paced.engine.moment.now / SECOND

    @property
    def offered(self) -> float:
        """Rows per second between the first arrival and the last; 0 if all come at once."""
        end = self.paced.arrivals.end
        return (self.paced.arrivals.rows - 1) / (end / SECOND) if end else 0.0

    @property
    def capacity(self) -> float:
        """Rows per second of work, in batches."""
        return self.fast.arrivals.rows / max(1e-9, self.fast.busy / SECOND)

    @property
    def keeps_up(self) -> bool | None:
        """Whether fewer rows arrive than can be processed; None if all come at once."""
        return self.offered < self.capacity if self.offered else None

    def verdict(self) -> str:
        """The answer in one line."""
        can = f"{self.capacity:,.0f} rows/s can be processed"
        if self.keeps_up is None:
            return f"{self.script}: all rows arrive at once, {can}"
        says = "keeps up" if self.keeps_up else "does not keep up"
        return f"{self.script} {says}: {self.offered:,.0f} rows/s arrive, {can}"

    def figures(self) -> dict[str, Any]:
        """All figures, for JSON."""
        paced = self.paced
        return {
            "script": self.script,
            "schedule": self.schedule,
            "batch_rows": paced.rules.batch_rows,
            "rows": paced.arrivals.rows,
            "seconds": round(self.seconds, 6),
            "seconds_after_last_row": round(self.seconds - paced.arrivals.end / SECOND, 6),
            "offered_rows_per_s": round(self.offered, 3),
            "capacity_rows_per_s": round(self.capacity, 3),
            "keeps_up": self.keeps_up,
            "busy_share": _share(paced.busy, paced.engine.moment.now),
            "queued": {"average": self._average_queued(), "most": paced.most},
            "streams": [_stream(source) for source in paced.sources],
            "queries": self.queries(),
            "operators": [self._operator(unit) for unit in paced.units],
            "over_time": self.over_time(),
        }

    def _average_queued(self) -> float:
        return round(sum(map(_waited, self.paced.units)) / max(1, self.paced.engine.moment.now), 3)

    # ---- the parts -------------------------------------------------------------------
    def queries(self) -> list[dict[str, Any]]:
        """The changes of each plan and their delays."""
        return [
            {
                "query": self._name(key),
                "changes": a.changes,
                "deletes": a.deletes,
                "delay_ms": {
                    "average": _ms(a.delays.average),
                    "median": _ms(a.delays.percentile(50)),
                    "p95": _ms(a.delays.percentile(95)),
                    "p99": _ms(a.delays.percentile(99)),
                    "max": _ms(a.delays.most),
                },
                "waiting_for_event_time_ms": _ms(a.waited / max(1, a.changes)),
            }
            for key, a in self.paced.answers.items()
        ]

    def _name(self, template: int) -> str:
        """The first query of a plan, and how many others it has."""
        names = self.session.queries_of(template)
        if len(names) < 2:
            return names[0] if names else f"plan {template}"
        return f"{names[0]} and {len(names) - 1:,} more"

    def _operator(self, unit: Unit) -> dict[str, Any]:
        now = max(1, self.paced.engine.moment.now)
        if isinstance(unit, Source):
            of, most = [unit.stream.name], unit.most
        else:
            of, most = [self._name(t.key) for t in unit.templates], _most(unit)
        plus = sum(queue.figures.plus for queue in unit.inputs)
        minus = sum(queue.figures.minus for queue in unit.inputs)
        return {
            "operator": unit.name,
            "of": of,
            "steps": unit.steps,
            "busy_s": round(unit.busy / SECOND, 6),
            "busy_share": _share(unit.busy, now),
            "waiting": {"average": round(_waited(unit) / now, 3), "most": most},
            "plus_rows": plus,
            "minus_rows": minus,
            "minus_per_plus": round(minus / plus, 4) if plus else 0.0,
        }

    def over_time(self) -> list[dict[str, Any]]:
        """Delays and waiting rows in each slice of the time."""
        course = self.paced.course
        return [
            {
                "second": round(place * course.width / SECOND, 6),
                "changes": part.changes,
                "delay_average_ms": _ms(part.total / max(1, part.changes)),
                "delay_max_ms": _ms(part.most),
                "queued": part.queued,
            }
            for place, part in sorted(course.slices.items())
        ]


def _stream(source: Source) -> dict[str, Any]:
    return {
        "stream": source.stream.name,
        "rows": source.taken,
        "late": source.late,
        "quarantined": source.quarantined,
    }


def _waited(unit: Unit) -> int:
    """Rows × nanoseconds that have waited for a unit."""
    if isinstance(unit, Source):
        return unit.area
    return sum(queue.figures.area for queue in unit.inputs)


def _most(unit: Unit) -> int:
    return sum(queue.figures.most for queue in unit.inputs)


def _ms(nanoseconds: float) -> float:
    return round(nanoseconds / _MS, 4)


def _share(part: int, whole: int) -> float:
    return round(part / max(1, whole), 4)


# ---- for people ----------------------------------------------------------------------
def show(report: Report, console: Console) -> None:
    """Print the verdict and the tables."""
    figures = report.figures()
    console.print(report.verdict(), style="bold", highlight=False, markup=False)
    late = sum(s["late"] for s in figures["streams"])
    console.print(
        f"{plural(figures['rows'], 'row')} ({late:,} late) in {figures['seconds']:,.3f} s of "
        f"virtual time, busy for {figures['busy_share']:.1%}; the last change came "
        f"{figures['seconds_after_last_row']:,.3f} s after the last row; "
        f"{figures['queued']['average']:,.1f} rows waited on average, at most "
        f"{figures['queued']['most']:,}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    _print(console, _answers(figures["queries"]), len(figures["queries"]), "plan")
    _print(console, _operators(figures["operators"]), len(figures["operators"]), "operator")


def _print(console: Console, table: Table, count: int, what: str) -> None:
    console.print(table)
    if count > _SHOWN:
        console.print(f"  and {plural(count - _SHOWN, 'more ' + what)}; --json has all")


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for at, name in enumerate(columns):
        table.add_column(name, justify="left" if at == 0 else "right", overflow="fold")
    return table


def _answers(queries: list[dict[str, Any]]) -> Table:
    table = _table(
        "delay of changes (ms)", "changes", "average", "median", "99 %", "maximum", "of it waiting"
    )
    for q in sorted(queries, key=lambda q: -q["delay_ms"]["max"])[:_SHOWN]:
        delay = q["delay_ms"]
        numbers = delay["average"], delay["median"], delay["p99"], delay["max"]
        waiting = q["waiting_for_event_time_ms"]
        cells = (f"{number:,.3f}" for number in (*numbers, waiting))
        table.add_row(q["query"], f"{q['changes']:,}", *cells)
    return table


def _operators(operators: list[dict[str, Any]]) -> Table:
    table = _table(
        "operator", "of", "steps", "busy", "waiting", "at most", "+1 rows", "−1 rows", "−1 per +1"
    )
    for o in operators[:_SHOWN]:
        table.add_row(
            o["operator"], ", ".join(o["of"][:2]) + (" …" if len(o["of"]) > 2 else ""),
            f"{o['steps']:,}", f"{o['busy_share']:.1%}", f"{o['waiting']['average']:,.1f}",
            f"{o['waiting']['most']:,}", f"{o['plus_rows']:,}", f"{o['minus_rows']:,}",
            f"{o['minus_per_plus']:.2f}",
        )  # fmt: skip
    return table
