"""The arena: what is below a name is found without looking at all others."""

from __future__ import annotations

from random import Random

from penstock.state.arena import Arena

_SCOPES = ("a/1", "a/1/x", "a/1/x/y", "a/12", "a/2", "b", "b/3", "b/3/z")


def test_names_in_a_scope_are_those_that_begin_with_it() -> None:
    for seed in range(20):
        rng, arena = Random(seed), Arena()
        kept = arena.snapshot()
        for _ in range(60):
            scope = arena.scope(rng.choice(_SCOPES))
            match rng.randrange(8):
                case 0:
                    scope.free()
                    assert not any(n.startswith(f"{scope.prefix}/") for n in arena.names())
                case 1:
                    kept = arena.snapshot()
                case 2:
                    arena.restore(kept)
                case 3:
                    with arena.aside():
                        scope.array("one", 2)
                        scope.free()
                case _:
                    scope.array(rng.choice(("one", "two")), 2)
                    scope.reserve(rng.choice([n for n in ("one", "two") if n in scope]), 40)
            for prefix in _SCOPES:
                below = [n for n in arena.names() if n.startswith(f"{prefix}/")]
                assert sorted(arena.names_in(prefix)) == sorted(below)
                assert arena.scope(prefix).nbytes == sum(arena.arrays()[n].nbytes for n in below)
