"""Statistics: relations of integers that can be merged in any order."""
