"""From samples to moves, as the paper has it: plain code without clocks, threads or system calls.

One file an algorithm. The live loop (`tierwise.emt.loop`) and the tests drive the same code.
"""
