"""Templates as the engine takes them."""

from __future__ import annotations

from penstock.engine import blocks as b
from penstock.optimizer.distribution import undivided
from penstock.queries.registry import TemplateInfo


def template_block(info: TemplateInfo) -> b.AddTemplate:
    """What makes a template in an engine."""
    return b.AddTemplate(info.key, undivided(info.plan), info.params, info.emission, info.emits)


def is_unshared(info: TemplateInfo, history: bool) -> bool:
    """Whether no later query shares their rows of Q: they keep no answer that it could be told."""
    return history and info.monotonic
