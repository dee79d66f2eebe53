"""`make lab-bench` runs programs under every policy, in timed guests and in the simulator.

programs.py has the programs, for both sides. In the guest: __main__.py runs them, run.py is one
run, policies.py and damos.py place the pages, measure.py counts. On the host, where
tierlab/bench.py starts: simulate.py records and simulates, ranking.py compares two rankings,
table.py prints.
"""
