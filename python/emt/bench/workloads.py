"""The eleven workloads of the paper's table 3, at sizes for an ordinary machine, and four programs
that people run (served.py).

Each is a function that builds its data and returns a step to be repeated: a few hundred
milliseconds to a few seconds of work, on inputs that a seed chooses. The paper's resident sets are
3.7 to 8.6 GB; here they are 500 MB or more.
"""

from __future__ import annotations

import os
import random
from collections import deque
from collections.abc import Callable
from typing import Any

Step = Callable[[], object]

#: 1 is the default size. A smaller scale is for measurements that do not depend on the size, such
#: as the recording of samples.
SCALE = float(os.environ.get("TIERWISE_EMT_BENCH_SCALE", "1"))
#: Another seed gives another input of the same kind: another graph, other queries, other keys.
SEED = 1000 * int(os.environ.get("TIERWISE_EMT_BENCH_SEED", "0"))
#: Nodes and edges of the graphs: some 550 MB in networkx.
NODES, EDGES = round(250_000 * SCALE), round(1_250_000 * SCALE)
#: Rows of the databases, whose objects stay in memory: some 500 MB.
ROWS = round(200_000 * SCALE)


def _graph(nodes: int = NODES, edges: int = EDGES) -> Any:
    import networkx

    draw = random.Random(1 + SEED)
    graph = networkx.Graph()
    graph.add_nodes_from(range(nodes))
    graph.add_weighted_edges_from(
        (draw.randrange(nodes), draw.randrange(nodes), draw.random()) for _ in range(edges)
    )
    # The k-core of a graph with self-loops is not defined.
    graph.remove_edges_from(list(networkx.selfloop_edges(graph)))
    return graph


def _pairs(nodes: int = NODES) -> Callable[[], tuple[int, int]]:
    draw = random.Random(2 + SEED)
    return lambda: (draw.randrange(nodes), draw.randrange(nodes))


def astar() -> Step:
    """Shortest path by A*."""
    import networkx

    graph, pair = _graph(), _pairs()

    def step() -> object:
        try:
            return networkx.astar_path(graph, *pair(), weight="weight")
        except networkx.NetworkXNoPath:
            return None

    return step


def bellman() -> Step:
    """Bellman-Ford from one source to a target."""
    import networkx

    graph, pair = _graph(), _pairs()

    def step() -> object:
        try:
            return networkx.bellman_ford_path_length(graph, *pair())
        except networkx.NetworkXNoPath:
            return None

    return step


def bfs() -> Step:
    """Breadth-first search at consecutive sources."""
    import networkx

    graph, sources = _graph(), iter(range(SEED % NODES, NODES))
    return lambda: deque(networkx.bfs_edges(graph, next(sources)), maxlen=0)


def bfs_rand() -> Step:
    """Breadth-first search at random sources."""
    import networkx

    graph, pair = _graph(), _pairs()
    return lambda: deque(networkx.bfs_edges(graph, pair()[0]), maxlen=0)


def bidirectional() -> Step:
    """Shortest paths by bidirectional search, two hundred per step."""
    import networkx

    graph, pair = _graph(), _pairs()

    def step() -> object:
        found = 0
        for _ in range(200):
            try:
                found += len(networkx.bidirectional_shortest_path(graph, *pair()))
            except networkx.NetworkXNoPath:
                continue
        return found

    return step


def kc() -> Step:
    """The k-core."""
    import networkx

    graph = _graph()
    return lambda: networkx.k_core(graph, 5).number_of_nodes()


def lc() -> Step:
    """Communities by Louvain's method."""
    import networkx

    graph, seeds = _graph(), iter(range(SEED, 10**9))
    return lambda: next(networkx.community.louvain_partitions(graph, seed=next(seeds)))


def sp() -> Step:
    """Lengths of all shortest paths from a source."""
    import networkx

    graph, pair = _graph(), _pairs()
    return lambda: len(networkx.single_source_shortest_path_length(graph, pair()[0]))


def _sql(parents: int, columns: int, batch: int) -> Step:
    from sqlalchemy import Column, ForeignKey, Integer, String, create_engine
    from sqlalchemy.orm import Session, declarative_base, relationship

    base: Any = declarative_base()

    class Parent(base):  # type: ignore[misc]
        __tablename__ = "parent"
        id = Column(Integer, primary_key=True)
        name = Column(String)
        children = relationship("Child", back_populates="parent")

    class Child(base):  # type: ignore[misc]
        __tablename__ = "child"
        id = Column(Integer, primary_key=True)
        parent_id = Column(Integer, ForeignKey("parent.id"))
        parent = relationship("Parent", back_populates="children")
        for _number in range(columns):
            locals()[f"text{_number}"] = Column(String)

    engine = create_engine("sqlite://")
    base.metadata.create_all(engine)
    session = Session(engine, expire_on_commit=False)
    draw = random.Random(3 + SEED)
    rows = [Parent(name=f"parent {number}") for number in range(parents)]
    session.add_all(rows)
    session.commit()
    kept: deque[Any] = deque(maxlen=ROWS)

    def insert(count: int) -> None:
        made = [
            Child(
                parent=draw.choice(rows),
                **{f"text{n}": f"{draw.random():.12f}" for n in range(columns)},
            )
            for _ in range(count)
        ]
        session.add_all(made)
        session.commit()
        kept.extend(made)

    while len(kept) < ROWS:
        insert(5000)
    return lambda: insert(batch)


def sql1() -> Step:
    """Two tables, few parents, narrow rows."""
    return _sql(parents=100, columns=3, batch=500)


def sql2() -> Step:
    """Many parents."""
    return _sql(parents=20_000, columns=3, batch=500)


def sql3() -> Step:
    """Wide rows."""
    return _sql(parents=1000, columns=10, batch=300)


def dataframe() -> Step:
    """A pandas job: slices of a table of orders, joined, grouped and filtered."""
    from served import dataframe

    return dataframe(SCALE, SEED)


def embedding() -> Step:
    """Inference with a large embedding table in NumPy."""
    from served import embedding

    return embedding(SCALE, SEED)


def service() -> Step:
    """A Flask service with a cache of its users."""
    from served import service

    return service(SCALE, SEED)


def lru() -> Step:
    """A least-recently-used cache of decoded JSON documents."""
    from served import lru

    return lru(SCALE, SEED)


WORKLOADS: dict[str, Callable[[], Step]] = {
    "astar": astar,
    "bellman": bellman,
    "bfs": bfs,
    "bfs-rand": bfs_rand,
    "bidirectional": bidirectional,
    "kc": kc,
    "lc": lc,
    "sp": sp,
    "sql1": sql1,
    "sql2": sql2,
    "sql3": sql3,
    "dataframe": dataframe,
    "embedding": embedding,
    "service": service,
    "lru": lru,
}
