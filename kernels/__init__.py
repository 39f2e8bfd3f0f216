"""The reference solutions of the course: one module for each step of the ladder.

`naive` is chapter 01 in NumPy. It is the clearest version, and what faster ones are held against.
`online_softmax` is chapter 02, a softmax whose scores arrive block by block. `tiled` is chapter 03,
FlashAttention's loops over tiles, forward and backward. Both are NumPy too.
"""
