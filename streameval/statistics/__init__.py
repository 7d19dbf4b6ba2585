"""What is remembered: integers only, mergeable in any order."""
