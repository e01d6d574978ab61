"""agarwal_table2: constants of the cost formulas, fitted to measurements (Agarwal §5.4, table II).

The same as `penstock calibrate`: nanoseconds per unit of work with 95 % confidence intervals.
Below its full size it takes the shorter measurement.
"""

from __future__ import annotations

from benchmarks.pipeline import Result
from penstock.indexes.pairs.calibration import calibrate
from penstock.indexes.pairs.costs import BUILD, CALL, FORMULAS


def run(scale: float = 1.0) -> Result:
    found = calibrate(quick=scale < 1).fitted
    texts = {f.name: {t.constant: t.text for t in f.terms} for f in FORMULAS}
    once = {BUILD: "to build it, per |Q|·log |Q|", CALL: "a call"}
    return {
        f"{name}, {letter} ({(texts[name] | once)[letter]})":
            f"{c.value:.3g} ns, [{c.low:.3g}, {c.high:.3g}]"
        for name, letters in found.items()
        for letter, c in letters.items()
    }  # fmt: skip
