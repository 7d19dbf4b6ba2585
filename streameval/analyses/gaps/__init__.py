"""Gaps between values of a segment: who is served worse?"""
