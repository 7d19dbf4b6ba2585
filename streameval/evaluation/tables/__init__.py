"""Parquet, CSV and trec_eval files, read as columns; needs the extra `parquet`.

Functions raise MissingExtraError without pyarrow, and SourceError, which names file and line, for a
file that cannot be read or that lacks a column.
"""
