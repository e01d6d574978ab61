"""Per row the strategy that costs least (Agarwal et al. 2009, §4).

A router serves one side of one part of an index. It knows how many partners a row has, from the
SteM, and about how many queries accept it, from histograms. It computes what each strategy would
cost for each row of a batch, and cuts the batch into one piece per strategy.

The structure of a strategy is built once it pays: when the rows so far would have cost less with
it, by what it costs to build. So no structure of little use is built, and none comes too late:
all together costs at most about twice what it would if the future were known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from penstock.arrays import I64
from penstock.indexes.pairs.amounts import Amounts, partners_of
from penstock.indexes.pairs.constants import Constants, of_this_machine
from penstock.indexes.pairs.costs import Work, formulas_of
from penstock.indexes.pairs.estimates import F64
from penstock.indexes.pairs.ssi import lists_in
from penstock.indexes.pairs.strategies import STRATEGIES
from penstock.indexes.pairs.strategy import Strategy, probing_order, slot_bits
from penstock.kernels.pairs.coded import Coded, probe_coded
from penstock.kernels.pairs.data import Entries, Found, Grouping, Partner, Probes, Queries, Triples
from penstock.kernels.pairs.order import order_triples
from penstock.kernels.pairs.ssi import Lists

PairStrategy = Literal["auto", "vanilla", "data_outer", "merge", "select_first", "ssi", "hotspot"]
PAIR_STRATEGIES: tuple[PairStrategy, ...] = get_args(PairStrategy)
"""How rows find partners: per row by what is cheapest, or always in the same way."""

FEW = 64
"""So few queries are looked at one by one: to choose would cost more."""
_NO_GROUPS = Grouping(*np.empty((2, 0), np.int64))


@dataclass(frozen=True, slots=True)
class Policy:
    """Which strategy, and what strategies cost here."""

    strategy: PairStrategy = "auto"
    constants: Constants = field(default_factory=of_this_machine)


class Tally(dict[str, int]):
    """Rows by strategy."""

    def count(self, strategy: str, rows: int) -> None:
        """Some more rows went to a strategy."""
        self[strategy] = self.get(strategy, 0) + rows

    def shares(self) -> dict[str, float]:
        """The share of each strategy, the largest first."""
        every = max(sum(self.values()), 1)
        return {name: n / every for name, n in sorted(self.items(), key=lambda known: -known[1])}


class Router:
    """Sends rows to the strategies that find their partners.

    `groups` gives the hot stabbing groups of the queries, or all if it is called with True.
    """

    def __init__(
        self, queries: Queries, groups: Callable[[bool], Grouping], policy: Policy, tally: Tally
    ) -> None:
        self._queries, self._groups, self._policy, self._tally = queries, groups, policy, tally
        self._bits = slot_bits(queries)
        self.formulas = formulas_of(queries)
        self._amounts: Amounts | None = None
        self._built: dict[str, Strategy] = {}
        self._saved: dict[str, float] = {}  # nanoseconds, by strategy that is not built

    @property
    def nbytes(self) -> int:
        """Bytes of the structures that are built."""
        return sum(strategy.nbytes for strategy in self._built.values())

    @property
    def built(self) -> tuple[str, ...]:
        """The strategies that have a structure."""
        return tuple(self._built)

    def probe(self, probes: Probes, entries: Entries, partner: Partner) -> Triples:
        """Give every pair and query that holds, in order of (row, position, slot)."""
        order, data = probing_order(probes), (probes, entries, partner, self._queries)
        pieces = self.pieces(order, probes, entries)
        found = []
        for name, rows in pieces:
            self._tally.count(name, rows.shape[0])
            found.append(self._strategy(name).find(rows, self._bits, *data))
        routed = [rows for _, rows in pieces]
        return order_triples(*_joined(found, routed, order), probes.floor, self._bits)

    def probe_coded(
        self, probes: Probes, entries: Entries, partner: Partner
    ) -> tuple[tuple[Lists, Coded] | None, Triples]:
        """Like `probe`, for a pure template; pairs from lists of groups are coded.

        The lists are those that the codes speak of.
        """
        order, data = probing_order(probes), (probes, entries, partner, self._queries)
        coded, found, routed = None, list[Found](), list[I64]()
        for name, rows in self.pieces(order, probes, entries):
            self._tally.count(name, rows.shape[0])
            strategy = self._strategy(name)
            lists, rest = lists_in(strategy)
            if lists is not None:
                coded = lists, probe_coded(lists, rows, probes, entries)
            if rest is not None:
                found.append(rest.find(rows, self._bits, *data))
                routed.append(rows)
        return coded, order_triples(*_joined(found, routed, order), probes.floor, self._bits)

    def _strategy(self, name: str) -> Strategy:
        if name not in self._built:
            has_groups = name in ("hotspot", "ssi")
            grouping = self._groups(name == "ssi") if has_groups else _NO_GROUPS
            self._built[name] = STRATEGIES[name].build(self._queries, grouping)
        return self._built[name]

    # ---- choosing --------------------------------------------------------------------
    def pieces(self, order: I64, probes: Probes, entries: Entries) -> list[tuple[str, I64]]:
        """Strategies, and the rows for each in the order in which they probe.

        Rows that have no partners are in no piece.
        """
        fixed = self._policy.strategy
        if fixed != "auto":
            return [(fixed, order)]
        if self._queries.low.shape[0] <= FEW:
            return [("vanilla", order)]
        order, work = self.work(order, probes, entries)
        costs = self.costs(work, order.shape[0])
        names = self._ready(costs)
        calls = [self.formulas[name].call(self._policy.constants) for name in names]
        best = choose(np.stack([costs[name] for name in names]), calls)
        pieces = [(name, order[best == at]) for at, name in enumerate(names)]
        return [(name, rows) for name, rows in pieces if rows.shape[0]]

    def work(self, order: I64, probes: Probes, entries: Entries) -> tuple[I64, Work]:
        """The rows that have partners, in order, and what they meet."""
        if self._amounts is None:
            self._amounts = Amounts.of(self._queries, self._groups(False))
        partners = partners_of(order, probes, entries)
        some = np.flatnonzero(partners)
        order = order[some]
        return order, self._amounts.work(probes.own[:, order], partners[some], entries)

    def costs(self, work: Work, rows: int) -> dict[str, F64]:
        """Nanoseconds by strategy and row. Without hot groups there is no hotspot strategy."""
        constants = self._policy.constants
        return {
            name: np.broadcast_to(formula.cost(constants, work), rows)
            for name, formula in self.formulas.items()
            if name != "hotspot" or work.hot.groups
        }

    def _ready(self, costs: dict[str, F64]) -> list[str]:
        """The strategies to choose from: the structure of each is built, or pays by now."""
        n, constants = self._queries.low.shape[0], self._policy.constants
        ready = [name for name in costs if name == "vanilla" or name in self._built]
        while missing := [name for name in costs if name not in ready]:
            least = np.min(np.stack([costs[name] for name in ready]), axis=0)
            saved = {
                name: self._saved.get(name, 0) + float(np.maximum(least - costs[name], 0).sum())
                for name in missing
            }
            pays = {name: saved[name] - self.formulas[name].price(constants, n) for name in saved}
            best = max(pays, key=pays.__getitem__)
            if pays[best] <= 0:
                self._saved = saved
                break
            self._strategy(best)
            self._saved = {}
            ready.append(best)
        return ready


def choose(costs: F64, calls: list[float]) -> I64:
    """By row the strategy that costs least; `costs` are [strategy, row], `calls` those of a call.

    Rows of a strategy that saves less than its call go to the one that is cheapest for all rows.
    """
    best: I64 = np.argmin(costs, axis=0)
    most = int(np.argmin(costs.sum(axis=1) + calls))
    for at in range(costs.shape[0]):
        rows = np.flatnonzero(best == at)
        if at != most and (costs[most, rows] - costs[at, rows]).sum() < calls[at]:
            best[rows] = most
    return best


def _joined(found: list[Found], routed: list[I64], order: I64) -> tuple[Found, I64]:
    """Join the finds of strategies, each for its own rows; also give the order of all rows."""
    if len(found) == 1 and routed[0].shape[0] == order.shape[0]:
        return found[0], routed[0]
    left = np.ones(order.shape[0], np.bool_)
    for rows in routed:
        left[rows] = False
    counts = [np.diff(part.starts) for part in found]
    counts.append(np.zeros(int(np.count_nonzero(left)), np.int64))
    words = [part.words[: part.starts[-1]] for part in found]
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.concatenate(counts))])
    every = np.concatenate([*routed, np.flatnonzero(left)])
    return Found(np.concatenate([*words, np.empty(0, np.int64)]), starts), every
