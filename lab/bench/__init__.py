"""`make lab-bench`: programs under every policy, in timed guests, and the same in the
simulator.

programs.py says what runs, for both sides. In the guest: __main__.py runs it, run.py is one run of
it, policies.py and damos.py what places the pages, measure.py what is counted. On the host, where
tierlab/bench.py starts: simulate.py records and simulates, ranking.py compares two rankings,
table.py prints.
"""
