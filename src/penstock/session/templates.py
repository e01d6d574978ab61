"""Conversion of templates into engine blocks."""

from __future__ import annotations

from penstock.engine import blocks as b
from penstock.optimizer.distribution import undivided
from penstock.queries.registry import TemplateInfo


def template_block(info: TemplateInfo) -> b.AddTemplate:
    """The block that adds a template to an engine."""
    plan, strategy = undivided(info.plan), info.strategy
    return b.AddTemplate(info.key, plan, info.params, info.emission, info.emits, strategy=strategy)


def is_unshared(info: TemplateInfo, history: bool) -> bool:
    """Whether no later query can share rows of Q: the template keeps no answer to start from."""
    return history and info.monotonic
