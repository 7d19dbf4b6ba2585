"""Simulated experiments: what intervals and comparisons promise, held against worlds of users."""
