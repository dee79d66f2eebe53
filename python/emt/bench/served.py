"""Four programs that people run, beside the paper's: a pandas job, inference with an embedding
table, a web service with a cache, and a cache of objects. At scale 1 each has some 500 MB.

Keys are drawn by Zipf's law with exponent 1, which is near the 0.99 of YCSB: rank r has a share of
1/r. Which key has which rank depends on the seed.
"""

from __future__ import annotations

import json
import math
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Step = Callable[[], object]

#: A prime above every number of keys, so that multiplying by it permutes them.
PRIME = 2_147_483_647


def zipf(keys: int, seed: int) -> Callable[[], int]:
    """Returns a function that draws keys from 0 to keys - 1.

    The rank is keys to the power of a uniform number: the inverse of ln(rank) / ln(keys), which is
    the distribution with exponent 1.

    >>> draw = zipf(1000, 7)
    >>> drawn = [draw() for _ in range(10_000)]
    >>> 0 <= min(drawn) and max(drawn) < 1000
    True
    >>> 0.09 < max(drawn.count(key) for key in set(drawn)) / 10_000 < 0.12  # ln 2 / ln 1000
    True
    """
    random_ = random.Random(seed)
    logarithm = math.log(keys)

    def draw() -> int:
        rank = min(int(math.exp(random_.random() * logarithm)) - 1, keys - 1)
        return (rank * PRIME + seed * 31) % keys

    return draw


def dataframe(scale: float, seed: int) -> Step:
    """A table of orders by day; a step looks at ten days, most often recent ones."""
    import numpy
    import pandas

    draw = numpy.random.default_rng(seed)
    orders, customers, days = round(6_000_000 * scale), round(300_000 * scale), 1000
    cities = [f"city {number}" for number in range(500)]
    people = pandas.DataFrame(
        {
            "customer": numpy.arange(customers),
            "city": draw.choice(cities, customers),
            "name": [f"customer {number} of {seed}" for number in range(customers)],
        }
    )
    table = pandas.DataFrame(
        {
            "day": numpy.sort(draw.integers(0, days, orders)),
            "customer": draw.integers(0, customers, orders),
            "product": draw.integers(0, 1000, orders),
            "amount": draw.random(orders),
            "note": draw.choice([f"note {number}" for number in range(5000)], orders),
        }
    )
    first = numpy.searchsorted(table["day"].to_numpy(), numpy.arange(days + 1))
    ago = zipf(days - 10, 0)

    def step() -> object:
        # Zipf's rank 1 of seed 0 is day 0, which stands for today.
        start = days - 10 - ago()
        part = table.iloc[first[start] : first[start + 10]]
        joined = part.merge(people, on="customer")
        by_city = joined.groupby("city")["amount"].sum()
        return by_city.nlargest(10), joined[joined["note"].str.startswith("note 1")].shape

    return step


def embedding(scale: float, seed: int) -> Step:
    """A step scores 64 requests of 100 items each with two dense layers."""
    import numpy

    draw = numpy.random.default_rng(seed)
    items, width = round(2_000_000 * scale), 64
    table = draw.random((items, width), dtype=numpy.float32)
    first = draw.random((width, 256), dtype=numpy.float32)
    second = draw.random((256, 16), dtype=numpy.float32)

    def step() -> object:
        ranks = numpy.exp(draw.random((64, 100)) * math.log(items)).astype(numpy.int64) - 1
        chosen = (ranks * PRIME + seed * 31) % items
        pooled = table[chosen].mean(axis=1)
        return numpy.argmax(numpy.maximum(pooled @ first, 0) @ second, axis=1)

    return step


@dataclass
class User:
    """A user as a service's cache has it."""

    number: int
    name: str
    mail: str
    friends: list[int]
    settings: dict[str, str] = field(default_factory=dict)
    seen: int = 0


def service(scale: float, seed: int) -> Step:
    """Flask's test client calls two routes; every request is also logged in memory.

    A step is 100 requests, one in five for a feed of ten friends.
    """
    from flask import Flask, jsonify

    draw = random.Random(seed)
    count = round(500_000 * scale)
    users: dict[int, User] = {}
    log: list[dict[str, Any]] = []
    for number in range(count):
        users[number] = User(
            number,
            f"user {number}",
            f"{number}@example.org",
            [draw.randrange(count) for _ in range(10)],
            {"theme": f"theme {number % 7}", "language": draw.choice(["en", "de", "fr"])},
        )
        log.append({"user": number, "path": f"/sign-up/{number}", "status": 201})
    app = Flask(__name__)

    def show(number: int) -> Any:
        user = users[number]
        user.seen += 1
        return jsonify(name=user.name, mail=user.mail, settings=user.settings, seen=user.seen)

    def feed(number: int) -> Any:
        friends = (users[friend] for friend in users[number].friends)
        return jsonify([{"name": friend.name, "seen": friend.seen} for friend in friends])

    # Not by decorators: without Flask's types mypy refuses them.
    app.add_url_rule("/user/<int:number>", view_func=show)
    app.add_url_rule("/feed/<int:number>", view_func=feed)
    client, key = app.test_client(), zipf(count, seed)

    def step() -> object:
        status = 0
        for _ in range(100):
            number = key()
            path = f"/feed/{number}" if draw.random() < 0.2 else f"/user/{number}"
            status = client.get(path).status_code
            log.append({"user": number, "path": path, "status": status})
        return status

    return step


def lru(scale: float, seed: int) -> Step:
    """A step is 2,000 look-ups among four times as many keys as the cache holds."""
    capacity = round(500_000 * scale)
    cache: OrderedDict[int, Any] = OrderedDict()
    key = zipf(4 * capacity, seed)

    def load(number: int) -> Any:
        return json.loads(
            f'{{"id": {number}, "title": "document {number}", "tags": ["a{number % 97}", '
            f'"b{number % 89}"], "price": {number / 7}, "body": "{"text " * 40}{number}"}}'
        )

    def look_up(number: int) -> Any:
        try:
            cache.move_to_end(number)
            return cache[number]
        except KeyError:
            found = cache[number] = load(number)
            if len(cache) > capacity:
                cache.popitem(last=False)
            return found

    while len(cache) < capacity:
        look_up(key())

    def step() -> object:
        return sum(len(look_up(key())["tags"]) for _ in range(2000))

    return step
