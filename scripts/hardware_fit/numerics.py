"""Least-error fits in plain Python, and the form a constant takes in a profile."""
import hashlib
import math
from statistics import median

UNIT_S = 1e-6  # tables give microseconds
MEMBERS = 8  # rows whose median says something of their class


def rounded(x, digits=4):
    return float(f"%.{digits}g" % x) if x else 0.0


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def nelder_mead(cost, start, steps=400, size=0.25):
    """Minimum of cost(point) by the simplex method (Nelder and Mead 1965). Deterministic."""
    n = len(start)
    simplex = [list(start)] + [[x + (size if i == j else 0.0) for j, x in enumerate(start)] for i in range(n)]
    simplex = sorted(((cost(p), p) for p in simplex), key=lambda e: e[0])
    for _ in range(steps):
        centre = [sum(p[j] for _, p in simplex[:-1]) / n for j in range(n)]
        worst_cost, worst = simplex[-1]

        def along(factor):
            point = [c + factor * (w - c) for c, w in zip(centre, worst)]
            return cost(point), point

        best = along(-1.0)
        if best[0] < simplex[0][0]:
            best = min(best, along(-2.0), key=lambda e: e[0])
        elif best[0] >= simplex[-2][0]:
            best = min(along(-0.5 if best[0] < worst_cost else 0.5), best, key=lambda e: e[0])
        if best[0] < worst_cost:
            simplex[-1] = best
        else:
            low = simplex[0][1]
            simplex = [simplex[0]] + [(cost(q), q) for q in
                                      ([(a + b) / 2 for a, b in zip(low, p)] for _, p in simplex[1:])]
        simplex.sort(key=lambda e: e[0])
    return simplex[0][1]


def fit_positive(model, rows, start, restarts=3):
    """Positive parameters p with least mean |log(model(p, row) / row.time)|; rows are (shape..., time)."""
    def positive(logs):
        return [math.exp(max(-80.0, min(80.0, x))) for x in logs]

    def cost(logs):
        p = positive(logs)
        return mean_log_error(lambda row: model(p, row), rows)

    logs = [math.log(x) for x in start]
    for _ in range(restarts):
        logs = nelder_mead(cost, logs, 120 * len(start))
    p = positive(logs)
    return p, errors(lambda row: model(p, row), rows)


def errors(predict, rows):
    relative = [abs(predict(row) / row[-1] - 1) for row in rows]
    return {"median": rounded(median(relative), 2), "p90": rounded(quantile(relative, 0.9), 2)}


def mean_log_error(predict, rows):
    return sum(abs(math.log(predict(row) / row[-1])) for row in rows) / len(rows)


def measured(value, unit, source, rows, fit_error, **more):
    return {"value": rounded(value), "unit": unit, "source": source, "rows": rows, "fit_error": fit_error, **more}


def stated(value, unit, source, **more):
    return {"value": value, "unit": unit, "source": source, **more}


def proxy(value, unit, source, reason, **more):
    return {"value": rounded(value), "unit": unit, "source": source, "status": "proxy", "reason": reason, **more}


def held_back(*key):
    """Whether a row is kept out of its fit: one in five, by a hash of what it measures."""
    digest = hashlib.sha256(",".join(str(part) for part in key).encode()).hexdigest()
    return int(digest[:8], 16) % 5 == 0


def split_errors(predict, rows, held):
    """Errors of a prediction on the fitted and on the held-back rows."""
    out = {"rows": len(rows), "fit_error": errors(predict, rows)}
    if held:
        out["held_back"] = {"rows": len(held), **errors(predict, held)}
    return out


def growing(points):
    """The curve nearest to points (log size, log seconds) that never falls, as knots (pool adjacent violators)."""
    by_size = {}
    for x, y in points:
        by_size.setdefault(x, []).append(y)
    pools = []  # [sum, points, sizes]
    for x in sorted(by_size):
        pools.append([sum(by_size[x]), len(by_size[x]), [x]])
        while len(pools) > 1 and pools[-2][0] / pools[-2][1] > pools[-1][0] / pools[-1][1]:
            total, count, sizes = pools.pop()
            pools[-1] = [pools[-1][0] + total, pools[-1][1] + count, pools[-1][2] + sizes]
    return [(x, total / count) for total, count, sizes in pools for x in sizes]


def errors_of_growing(drawn, judged):
    """Errors on the rows judged, (placement, size, seconds), of a curve of its own for every placement through the rows
    drawn, bound only to grow with size: what no model of placements and bytes can be expected to beat. Rows outside the
    sizes drawn are not judged."""
    curves = {}
    for placement, size, seconds in drawn:
        curves.setdefault(placement, []).append((math.log(size), math.log(seconds)))
    curves = {placement: growing(points) for placement, points in curves.items()}

    def predict(row):
        knots = curves[row[0]]
        return math.exp(on_knots([x for x, _ in knots], [y for _, y in knots], math.log(row[1])))
    return errors(predict, [row for row in judged if row[0] in curves and
                            curves[row[0]][0][0] <= math.log(row[1]) <= curves[row[0]][-1][0]])


def percents(error):
    return f"{round(100 * error['median'], 1):g} % (median) and {round(100 * error['p90'], 1):g} % (p90)"


def scatter_note(fitted, held):
    """What the held-back rows allow at best."""
    return ("a curve of its own for every operation and placement, bound only to grow with bytes, misses the held-back rows by "
            f"{percents(errors_of_growing(fitted, held))} when drawn through the fitted rows, by "
            f"{percents(errors_of_growing(fitted + held, held))} when it knows them")


def beside(source, predict, rows):
    """How the rows of another source lie: error and median of predicted over measured."""
    return {"source": source, "rows": len(rows), **errors(predict, rows),
            "bias": rounded(median(predict(row) / row[-1] - 1 for row in rows), 2)}


def quantiles(relative):
    return {"median": rounded(median(relative), 2), "p90": rounded(quantile(relative, 0.9), 2)}


def other_machines(tables, size=None):
    """Errors of single shapes on machines that were not fitted, [(predict, rows)], with each table's own median taken out: what a
    factor common to all of its rows can't account for. With `size`, a row's class, that is told in two: what a table's rows of one class share
    (their median; classes of fewer than MEMBERS rows keep the table's), and what is left of each."""
    relative, of_size = [], []
    for predict, rows in tables:
        ratios = [predict(row) / row[-1] for row in rows]
        common = median(ratios)
        classes = {}
        for row, ratio in zip(rows, ratios):
            classes.setdefault(size(row) if size else 0, []).append(ratio / common)
        for members in classes.values():
            shared = median(members) if size and len(members) >= MEMBERS else 1.0
            of_size += [abs(shared - 1)] * len(members)
            relative += [abs(ratio / shared - 1) for ratio in members]
    return {"rows": len(relative), **quantiles(relative), **({"of_size": quantiles(of_size)} if size else {})}


def time_factor(spread, source, note):
    """A factor on a model's time that other tables allow: 1, and the range of measured over predicted by their medians."""
    factors = [1.0] + [1.0 / (1.0 + other["bias"]) for other in spread]
    return stated(1.0, "ratio of time", source, rows=len(spread), range=[rounded(min(factors), 3), rounded(max(factors), 3)],
                  note=note)


def hat(knots, x):
    """The broken line over knots that is 1 at one of them, for each with a part in x: [(index, weight)]."""
    if x <= knots[0]:
        return [(0, 1.0)]
    if x >= knots[-1]:
        return [(len(knots) - 1, 1.0)]
    i = next(j for j in range(1, len(knots)) if knots[j] >= x)
    part = (x - knots[i - 1]) / (knots[i] - knots[i - 1])
    return [(i - 1, 1.0 - part), (i, part)]


def on_knots(knots, values, x):
    return sum(weight * values[i] for i, weight in hat(knots, x))


def solve(matrix, right):
    """Gaussian elimination with pivoting; the arguments are overwritten."""
    n = len(right)
    for i in range(n):
        best = max(range(i, n), key=lambda r: abs(matrix[r][i]))
        matrix[i], matrix[best], right[i], right[best] = matrix[best], matrix[i], right[best], right[i]
        for r in range(i + 1, n):
            factor = matrix[r][i] / matrix[i][i]
            if factor:
                right[r] -= factor * right[i]
                row, pivot = matrix[r], matrix[i]
                for c in range(i, n):
                    row[c] -= factor * pivot[c]
    out = [0.0] * n
    for i in reversed(range(n)):
        out[i] = (right[i] - sum(matrix[i][c] * out[c] for c in range(i + 1, n))) / matrix[i][i]
    return out


def least_absolute(rows, count, ties, steps=25):
    """Coefficients with least sum |sum of weight coefficient - y| over rows ([(index, weight)], y), by reweighted least
    squares; ties [(index, other or None, weight)] pull neighbours together (or one to 0), so that all are determined."""
    coefficients = [0.0] * count
    weights = [1.0] * len(rows)
    for _ in range(steps):
        matrix = [[0.0] * count for _ in range(count)]
        right = [0.0] * count
        for (terms, y), weight in zip(rows, weights):
            for i, a in terms:
                right[i] += weight * a * y
                line = matrix[i]
                for j, b in terms:
                    line[j] += weight * a * b
        for i, j, weight in ties:
            matrix[i][i] += weight
            if j is not None:
                matrix[j][j] += weight
                matrix[i][j] -= weight
                matrix[j][i] -= weight
        coefficients = solve(matrix, right)
        weights = [1.0 / max(abs(sum(a * coefficients[i] for i, a in terms) - y), 3e-3) for terms, y in rows]
    return coefficients
