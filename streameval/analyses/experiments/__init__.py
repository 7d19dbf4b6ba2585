"""Experiments: is treatment better than control, is it real, and how long does it take?"""
