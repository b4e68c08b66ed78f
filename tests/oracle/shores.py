"""Shores, one segment and one vessel at a time."""

import math


def nearest_point(point, segment):
    """The point of a segment (x, y, end x, end y) that is nearest to a point."""
    (x, y), (ax, ay, bx, by) = point, segment
    square = (bx - ax) ** 2 + (by - ay) ** 2
    share = 0.0 if square == 0.0 else ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / square
    share = min(max(share, 0.0), 1.0)
    return ax + share * (bx - ax), ay + share * (by - ay)


def distance(point, segment):
    """The distance of a point from a segment."""
    return math.dist(point, nearest_point(point, segment))


def nearest(point, shores, count):
    """The segments nearest to a point, by rising distance."""
    return sorted(shores, key=lambda segment: distance(point, segment))[:count]


def side(point, first, second):
    """Above 0 for a point to the left of a line on a chart: x is north, y east."""
    return (second[1] - first[1]) * (point[0] - first[0]) - (second[0] - first[0]) * (point[1] - first[1])


def crosses(start, end, segment):
    """Whether the way from start to end crosses a segment."""
    first, second = segment[:2], segment[2:]
    return side(start, first, second) * side(end, first, second) < 0.0 and (
        side(first, start, end) * side(second, start, end) < 0.0
    )


def ray(point, angle, segment):
    """The distance along a ray from a point to a segment, found by halving the angle at which its points are seen."""
    cos, sin = math.cos(angle), math.sin(angle)

    def seen(share):
        x, y = (a + share * (b - a) - p for a, b, p in zip(segment[:2], segment[2:], point, strict=True))
        return cos * x + sin * y, cos * y - sin * x

    low, high = 0.0, 1.0
    if seen(low)[1] * seen(high)[1] > 0.0:
        return math.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if seen(low)[1] * seen(middle)[1] <= 0.0 else (middle, high)
    ahead = seen(low)[0]
    return ahead if ahead >= 0.0 else math.inf


def cut(point, segment, reach):
    """Begin and end of the part of a segment within a distance, from the point, found by halving."""
    near = nearest_point(point, segment)

    def edge(end):
        if math.dist(point, end) <= reach:
            return end
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            place = [a + middle * (b - a) for a, b in zip(near, end, strict=True)]
            low, high = (middle, high) if math.dist(point, place) <= reach else (low, middle)
        return [a + low * (b - a) for a, b in zip(near, end, strict=True)]

    return [[a - p for a, p in zip(edge(end), point, strict=True)] for end in (segment[:2], segment[2:])]
