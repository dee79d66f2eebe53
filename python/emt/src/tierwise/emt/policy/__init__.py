"""The paper's path from samples to moves: plain code without clocks, threads or system calls.

Each algorithm has one file. The live loop (`tierwise.emt.tracking`) and the tests run the same
code.
"""
