"""The query book: templates and queries by name, known texts, and the state of windows."""

from __future__ import annotations

from collections import Counter

import numpy as np

from penstock.arrays import BEGINNING, I64, Bool
from penstock.engine.engine import Engine
from penstock.errors import NameError_
from penstock.queries.names import Names
from penstock.queries.registry import Group, QueryInfo, Registry, TemplateInfo
from penstock.session import reading
from penstock.session.catalog import SessionCatalog
from penstock.session.known_texts import KnownTexts
from penstock.session.windows import Lengths, longest
from penstock.sql.catalog import ViewDef


class QueryBook:
    """The session's records of its queries; the engine has their rows of Q."""

    def __init__(self, catalog: SessionCatalog, engine: Engine) -> None:
        self.registry = Registry()
        self.lengths = Lengths(lambda: self.registry)
        self.texts = KnownTexts(self.lengths)
        self.followed: dict[str, ViewDef] = {}  # views that queries follow by their changes
        self._catalog = catalog
        self._engine = engine

    # ---- names -----------------------------------------------------------------------
    def info(self, name: str) -> QueryInfo:
        """The query called `name`."""
        found = self.registry.find(name)
        if found is None:
            raise NameError_(f"there is no query {name}", remedy="SHOW QUERIES lists them")
        return found

    def template(self, info: QueryInfo) -> TemplateInfo:
        """The template of a query."""
        return self.registry.templates[info.template]

    def running(self, name: str) -> tuple[QueryInfo, TemplateInfo]:
        """A running query and its template; raises an error if it does not run."""
        info = self.info(name)
        reading.check_runs(self.registry, info)
        return info, self.template(info)

    def readable(self, name: str) -> QueryInfo:
        """A query with a readable answer; raises an error if it has none."""
        info, template = self.running(name)
        reading.check_keeps(template, name)
        return info

    def fresh_names(self, count: int) -> Names:
        """Names for anonymous queries."""
        return self.registry.fresh_names(count, self._catalog.relations)

    def is_taken(self, name: str, if_not_exists: bool) -> bool:
        """Whether `name` exists; raises an error if it does, unless IF NOT EXISTS was written."""
        if self._catalog.relation(name) is None and name not in self.registry:
            return False
        if if_not_exists:
            return True
        raise NameError_(
            f"{name} already exists",
            code="PS-NAME-008",
            remedy="choose another name, drop it first, or write IF NOT EXISTS",
        )

    def check_names(self, names: Names) -> None:
        """Raise an error if one of the names is taken; automatic names are always free."""
        for name in names.given or ():
            self.is_taken(name, False)
        if len(set(names.given or ())) < len(names.given or ()):
            twice = next(name for name, n in Counter(names).items() if n > 1)
            raise NameError_(
                f"params has the qid {twice} twice",
                code="PS-NAME-005",
                remedy="give every row its own qid",
            )

    # ---- windows ---------------------------------------------------------------------
    def warming(self, group: Group, places: I64) -> Bool:
        """Which queries of a group have windows to fill; failed queries have none."""
        return np.asarray(self.filled_at(group, places) > BEGINNING)

    def filled_at(self, group: Group, places: I64) -> I64:
        """When the windows of queries, and of the views they read, are full.

        BEGINNING if they are.
        """
        info, started = self.registry.templates[group.template], group.registered_at
        full = np.full(places.shape[0], BEGINNING)
        for view in info.views:
            found = self.registry.find(view)
            if found is not None and found.failure is None:
                np.maximum(full, self.filled_at(found.group, np.array([found.at])), out=full)
        if group.history or not info.windows or started == BEGINNING:
            return full
        template = self._engine.templates[group.template]
        own = started + longest(info.windows, template.queries.params_of(group.qids[places]))
        return np.asarray(np.maximum(full, np.where(template.clock < own, own, BEGINNING)))
