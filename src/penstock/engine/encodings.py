"""Convert Arrow columns to encodings that compute functions accept.

Values do not change: run ends and views are decoded, and an extension type becomes its storage
type. Columns in common encodings pass through unchanged.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_ENCODED = {pa.run_end_encoded(pa.int32(), pa.int64()).id, pa.string_view().id, pa.binary_view().id}


def decoded(values: Any) -> Any:
    """An Arrow array or chunked array without run ends, views or extension types."""
    kind = values.type
    if not _is_encoded(kind):
        return values
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if isinstance(kind, pa.BaseExtensionType):
        return decoded(_stored(values))
    if pa.types.is_run_end_encoded(kind):
        return _without_runs(values)
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(values.indices, decoded(values.dictionary))
    return values.cast(pa.string() if kind == pa.string_view() else pa.binary())


def _is_encoded(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_encoded(kind.value_type)
    return kind.id in _ENCODED or isinstance(kind, pa.BaseExtensionType)


def _without_runs(values: pa.RunEndEncodedArray) -> pa.Array:
    """Every value, repeated by its run length."""
    each = decoded(values.values)  # of the whole column: a slice is cut again below
    if pa.types.is_dictionary(each.type):
        each = each.dictionary_decode()
    whole = pa.RunEndEncodedArray.from_arrays(values.run_ends, each)
    return pc.run_end_decode(whole.slice(values.offset, len(values)))


def _stored(values: pa.ExtensionArray) -> pa.Array:
    if values.type.extension_name == "arrow.bool8":
        return values.storage.cast(pa.bool_())
    return values.storage


def widened(values: pa.Array) -> pa.Array:
    """An array in the widest of types that differ in width only, where more casts are exact."""
    kind = values.type
    if pa.types.is_large_string(kind):
        return values.cast(pa.string())
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    return values
