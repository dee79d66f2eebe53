"""Runs one of GAP's six kernels on a prepared graph: python run.py KERNEL EDGES.npy TRIALS

The trials' vertices are drawn with a fixed seed, like GAP's sources. The graph is built before the
mark "run"; every trial counts as one operation.
"""

import os
import sys

# One thread: the recorder serialises threads anyway, and one makes the trace repeatable.
os.environ["OMP_NUM_THREADS"] = "1"
# networkit imports these only for plots and tables; without them it starts in half the time.
for unused in ("IPython", "matplotlib", "networkx", "pandas", "seaborn", "tabulate"):
    sys.modules[unused] = None

import networkit  # noqa: E402
import numpy  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(__file__), ".."))
from marks import Marks  # noqa: E402

SEED = 2
# Brandes' algorithm is sampled, because the full betweenness takes one search per vertex.
BETWEENNESS_SAMPLES = 1
PAGERANK_TOLERANCE = 1e-4
WEIGHT_MAX = 255


def load(path, kernel):
    """Loads the graph in `path`. For shortest paths its weights are 1 to 255, as in GAP."""
    sources, targets = numpy.load(path, mmap_mode="r")
    vertices = 1 << int(max(sources.max(), targets.max())).bit_length()
    if kernel == "sssp":
        weights = numpy.random.default_rng(SEED).integers(1, WEIGHT_MAX + 1, len(sources))
        edges = (weights.astype(float), (sources, targets))
        return networkit.GraphFromCoo(edges, n=vertices, weighted=True, directed=False)
    return networkit.GraphFromCoo((sources, targets), n=vertices, directed=False)


def connected_source(graph, draws):
    """Draws a vertex with a neighbour; a Kronecker graph has many vertices without."""
    while True:
        vertex = int(draws.integers(graph.upperNodeIdBound()))
        if graph.degree(vertex) > 0:
            return vertex


KERNELS = {
    "bfs": lambda graph, source: networkit.distance.BFS(graph, source, storePaths=False),
    "sssp": lambda graph, source: networkit.distance.Dijkstra(graph, source, storePaths=False),
    "pr": lambda graph, _: networkit.centrality.PageRank(graph, tol=PAGERANK_TOLERANCE),
    "cc": lambda graph, _: networkit.components.ConnectedComponents(graph),
    "bc": lambda graph, _: networkit.centrality.EstimateBetweenness(graph, BETWEENNESS_SAMPLES),
    "tc": lambda graph, _: networkit.centrality.LocalClusteringCoefficient(graph, True),
}


def main():
    kernel, path, trials = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if kernel not in KERNELS:
        sys.exit(f"run.py: no kernel is called {kernel!r}; choose one of {', '.join(KERNELS)}")
    marks = Marks()
    networkit.setSeed(SEED, False)
    graph = load(path, kernel)
    draws = numpy.random.default_rng(SEED)
    marks.phase("run")
    for _ in range(trials):
        KERNELS[kernel](graph, connected_source(graph, draws)).run()
        marks.operations(1)


main()
