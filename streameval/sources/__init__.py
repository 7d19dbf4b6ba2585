"""Sources of records: one contract (source.py), one suite (tests/contract/test_sources.py)."""
