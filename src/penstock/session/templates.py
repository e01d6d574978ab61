"""Conversion of templates into engine blocks."""

from __future__ import annotations

from penstock.engine import blocks as b
from penstock.optimizer.distribution import undivided
from penstock.queries.registry import TemplateInfo


def template_block(info: TemplateInfo) -> b.AddTemplate:
    """The block that adds a template to an engine."""
    return b.AddTemplate(info.key, undivided(info.plan), info.params, info.emission, info.emits)


def is_unshared(info: TemplateInfo, history: bool) -> bool:
    """Whether no later query can share rows of Q: the template keeps no answer to start from."""
    return history and info.monotonic
