"""Sources of records; the contract is in source.py, its suite in tests/contract/test_sources.py."""
