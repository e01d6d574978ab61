"""The valid options of FROM format OPTIONS (…): those of Spark's own sources, on every runner.

Names are case-insensitive, as in Spark. Unknown options are refused with the nearest name, and
invalid values are refused too. Formats that are not listed (a user's data source) take any
option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches

from penstock.errors import DataError

CODE = "PS-SRC-002"
_TRUTH = ("true", "false")
_BYTES = re.compile(r"\d+\s*([bkmgtp]|[kmgtp]b)?", re.IGNORECASE)
Judge = Callable[[str], str]
"""A check: what the value must be, in words; empty if it is valid."""


def _any(value: str) -> str:
    return ""


def _given(value: str) -> str:
    return "" if value else "a text"


def _truth(value: str) -> str:
    return "" if value.lower() in _TRUTH else "'true' or 'false'"


def _natural(value: str) -> str:
    return "" if value.isascii() and value.isdigit() else "a whole number, 0 or more"


def _positive(value: str) -> str:
    return "" if not _natural(value) and int(value) > 0 else "a whole number, 1 or more"


def _bytes(value: str) -> str:
    fits = _BYTES.fullmatch(value) and int(re.match(r"\d+", value)[0]) > 0  # type: ignore[index]
    return "" if fits else "a number of bytes such as '64m', 1 or more"


def _share(value: str) -> str:
    try:
        return "" if 0 <= float(value) <= 1 else "a number from 0 to 1"
    except ValueError:
        return "a number from 0 to 1"


def _one_of(*words: str) -> Judge:
    told = " or ".join(f"'{word}'" for word in words)
    return lambda value: "" if value.lower() in words else told


FILES: Mapping[str, Judge] = {
    "path": _any,  # checked when the source is opened
    "maxFilesPerTrigger": _positive,
    "maxBytesPerTrigger": _bytes,
    "latestFirst": _truth,
    "fileNameOnly": _truth,
    "maxFileAge": _given,
    "maxCachedFiles": _natural,
    "discardCachedInputRatio": _share,
    "cleanSource": _one_of("off", "archive", "delete"),
    "sourceArchiveDir": _given,
    "pathGlobFilter": _given,
    "recursiveFileLookup": _truth,
    "basePath": _given,
    "ignoreCorruptFiles": _truth,
    "ignoreMissingFiles": _truth,
}
"""Options of every source of files."""
_TEXTS: Mapping[str, Judge] = {
    **FILES,
    "encoding": _given,
    "charset": _given,
    "lineSep": _given,
    "locale": _given,
    "timeZone": _given,
    "mode": _one_of("permissive", "dropmalformed", "failfast"),
    "multiLine": _truth,
    "dateFormat": _given,
    "timestampFormat": _given,
    "timestampNTZFormat": _given,
    "enableDateTimeParsingFallback": _truth,
}
_REBASE = _one_of("exception", "corrected", "legacy")
SOURCES: Mapping[str, Mapping[str, Judge]] = {
    "parquet": {
        **FILES, "mergeSchema": _truth, "datetimeRebaseMode": _REBASE, "int96RebaseMode": _REBASE,
    },
    "orc": {**FILES, "mergeSchema": _truth},
    "avro": {
        **FILES, "avroSchema": _given, "avroSchemaUrl": _given, "mode": _TEXTS["mode"],
        "datetimeRebaseMode": _REBASE, "positionalFieldMatching": _truth,
        "ignoreExtension": _truth, "enableStableIdentifiersForUnionType": _truth,
        "stableIdentifierPrefixForUnionType": _given, "recursiveFieldMaxDepth": _given,
    },
    "json": {
        **_TEXTS,
        **dict.fromkeys((
            "allowBackslashEscapingAnyCharacter", "allowComments", "allowNonNumericNumbers",
            "allowNumericLeadingZeros", "allowSingleQuotes", "allowUnquotedControlChars",
            "allowUnquotedFieldNames", "explodeEmbeddedArray", "primitivesAsString",
        ), _truth),
    },
    "csv": {
        **_TEXTS,
        **dict.fromkeys((
            "header", "enforceSchema", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace",
            "preferDate", "columnPruning",
        ), _truth),
        **dict.fromkeys((
            "sep", "delimiter", "quote", "escape", "charToEscapeQuoteEscaping", "comment",
            "emptyValue", "nanValue", "negativeInf", "positiveInf", "nullValue",
            "unescapedQuoteHandling",
        ), _any),
        **dict.fromkeys(("maxColumns", "inputBufferSize"), _positive),
        "maxCharsPerColumn": _given,
        "extension": _given,
    },
    "text": {**FILES, "wholetext": _truth, "lineSep": _given, "encoding": _given},
    "rate": {
        "rowsPerSecond": _positive, "rampUpTime": _given, "numPartitions": _positive,
    },
    "rate-micro-batch": {
        "rowsPerBatch": _positive, "numPartitions": _positive, "startTimestamp": _natural,
        "advanceMillisPerBatch": _natural,
    },
    "socket": {"host": _given, "port": _positive},
    "kafka": {
        **dict.fromkeys((
            "assign", "subscribe", "subscribePattern", "startingTimestamp", "startingOffsets",
            "startingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "endingTimestamp",
            "endingOffsets", "endingOffsetsByTimestamp", "groupIdPrefix", "maxTriggerDelay",
        ), _given),
        **dict.fromkeys(("failOnDataLoss", "includeHeaders"), _truth),
        **dict.fromkeys((
            "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "minPartitions",
            "maxRecordsPerPartition", "kafkaConsumer.pollTimeoutMs",
        ), _positive),
        **dict.fromkeys((
            "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
        ), _natural),
    },
}  # fmt: skip
"""Spark's built-in sources and their options."""
_DECLARED = "the columns of the stream are declared; leave the option out"
_WRITTEN = "it is for writing files; leave the option out"
_NEEDLESS: Mapping[str, str] = {
    **dict.fromkeys((
        "inferschema", "samplingratio", "prefersdecimal", "infertimestamp", "dropfieldifallnull",
        "singlevariantcolumn", "schema",
    ), _DECLARED),
    "columnnameofcorruptrecord": "rows that cannot be read are in quarantine(); leave it out",
    **dict.fromkeys((
        "compression", "codec", "quoteall", "escapequotes", "ignorenullfields", "pretty",
    ), _WRITTEN),
    **dict.fromkeys(
        ("modifiedbefore", "modifiedafter"),
        "a stream reads files as they come; maxFileAge leaves old ones out",
    ),
}  # fmt: skip
"""Options that other readers have, with what to do instead."""


def check_options(format: str, options: Mapping[str, str], what: str) -> None:
    """Refuse options that the source does not have, and invalid values."""
    kind = format.lower()
    known = SOURCES.get(kind)
    if known is None:
        return
    judges = {name.lower(): (name, judge) for name, judge in known.items()}
    for given, value in options.items():
        if kind == "kafka" and given.lower().startswith("kafka."):
            continue
        if given.lower() not in judges:
            raise unknown(kind, given, known, what)
        name, judge = judges[given.lower()]
        if wanted := judge(value):
            raise DataError(
                f"{what}: option {name} is {value!r}", code=CODE, remedy=f"give it {wanted}"
            )


def unknown(kind: str, given: str, known: Iterable[str], what: str) -> DataError:
    """An option that a source of this kind does not have."""
    instead = _NEEDLESS.get(given.lower())
    if instead is None:
        by_name = {name.lower(): name for name in known}
        near = get_close_matches(given.lower(), by_name, 1, 0.6)
        all_of_it = f"the options of {kind} are {', '.join(sorted(known, key=str.lower))}"
        instead = f"write {by_name[near[0]]}" if near else all_of_it
    return DataError(
        f"{what}: {kind} has no option {given}", code=CODE, remedy=instead
    )  # fmt: skip
