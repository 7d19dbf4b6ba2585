"""Tests: contracts over everything in the catalogue, and real parts where a user has them."""
