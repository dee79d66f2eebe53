"""`make lab-bench` runs programs under every policy in timed guests, and records them.

programs.py has the programs, for both. In the guest: __main__.py runs them, run.py is one
run, policies.py and damos.py place the pages, measure.py counts. On the host, where
tierlab/bench.py starts: recording.py records, table.py prints. `tierwise validate` then replays the
recordings in the simulator.
"""
