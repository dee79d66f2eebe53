"""Generates the graphs that graph/run.py loads: python prepare.py GRAPH SCALE OUT.npy

kron is the Kronecker (R-MAT) graph of the Graph 500 and GAP benchmarks: 2^SCALE vertices, 16 edges
per vertex, A, B, C, D = 0.57, 0.19, 0.19, 0.05. urand is Erdos and Renyi's, with as many expected
edges. Generation takes longer than any kernel, so the recording does not include it.
"""

import sys

import networkit
import numpy

EDGES_PER_VERTEX = 16
KRON_QUADRANTS = (0.57, 0.19, 0.19, 0.05)
SEED = 1


def generate(graph, scale):
    """Returns the edges of the graph called `graph` over 2^`scale` vertices."""
    vertices = 1 << scale
    if graph == "kron":
        generator = networkit.generators.RmatGenerator(scale, EDGES_PER_VERTEX, *KRON_QUADRANTS)
    elif graph == "urand":
        probability = 2 * EDGES_PER_VERTEX / (vertices - 1)
        generator = networkit.generators.ErdosRenyiGenerator(vertices, probability, False)
    else:
        sys.exit(f"prepare.py: no graph is called {graph!r}; choose kron or urand")
    return generator.generate()


def main():
    graph, scale, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    networkit.setSeed(SEED, False)
    networkit.setNumberOfThreads(1)
    edges = numpy.array(list(generate(graph, scale).iterEdges()), dtype=numpy.uint64)
    # An R-MAT generator emits edges sorted by vertex; real edge lists are not sorted.
    numpy.random.default_rng(SEED).shuffle(edges)
    numpy.save(out, numpy.ascontiguousarray(edges.T))


main()
