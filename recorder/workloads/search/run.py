"""Shortest paths in CPython: python run.py astar|dijkstra SIDE QUERIES

Searches between random nodes of a SIDE by SIDE road grid of NetworkX with random travel times.
CPython objects scatter a graph over the heap; each access to one also writes its reference count.
The graph is built before the mark "run"; every query counts as one operation.
"""

import os
import random
import sys

import networkx

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from marks import Marks  # noqa: E402

SEED = 4
# The least and the greatest travel time of a road; the least bounds the A* estimate from below.
TIME_MIN, TIME_MAX = 1.0, 3.0


def road_grid(side, draws):
    """Returns a grid whose nodes were added in random order, like a map's."""
    graph = networkx.Graph()
    nodes = [(x, y) for x in range(side) for y in range(side)]
    draws.shuffle(nodes)
    graph.add_nodes_from(nodes)
    for x, y in nodes:
        for neighbour in ((x + 1, y), (x, y + 1)):
            if neighbour in graph:
                graph.add_edge((x, y), neighbour, time=draws.uniform(TIME_MIN, TIME_MAX))
    return graph


def least_time(a, b):
    """Returns a lower bound: no path is faster than the fastest road along its whole length."""
    return TIME_MIN * (abs(a[0] - b[0]) + abs(a[1] - b[1]))


SEARCHES = {
    "astar": lambda graph, a, b: networkx.astar_path(graph, a, b, least_time, weight="time"),
    "dijkstra": lambda graph, a, b: networkx.dijkstra_path(graph, a, b, weight="time"),
}


def main():
    search, side, queries = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    if search not in SEARCHES:
        sys.exit(f"run.py: {search!r}: choose one of {', '.join(SEARCHES)}")
    marks = Marks()
    draws = random.Random(SEED)
    graph = road_grid(side, draws)
    marks.phase("run")
    for _ in range(queries):
        a, b = ((draws.randrange(side), draws.randrange(side)) for _ in range(2))
        SEARCHES[search](graph, a, b)
        marks.operations(1)


main()
