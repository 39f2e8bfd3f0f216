"""The reference solutions of the course: one module for each step of the ladder.

`naive` is chapter 01 in NumPy. It is the clearest version, and what faster ones are held against.
"""
