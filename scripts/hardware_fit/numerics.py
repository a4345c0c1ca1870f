"""Least-error fits in plain Python, and the form a constant takes in a profile."""
import math
from statistics import median

UNIT_S = 1e-6  # tables give microseconds


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
    def cost(logs):
        p = [math.exp(max(-80.0, min(80.0, x))) for x in logs]
        return sum(abs(math.log(model(p, row) / row[-1])) for row in rows) / len(rows)

    logs = [math.log(x) for x in start]
    for _ in range(restarts):
        logs = nelder_mead(cost, logs, 120 * len(start))
    p = [math.exp(x) for x in logs]
    return p, errors(lambda row: model(p, row), rows)


def errors(predict, rows):
    relative = [abs(predict(row) / row[-1] - 1) for row in rows]
    return {"median": rounded(median(relative), 2), "p90": rounded(quantile(relative, 0.9), 2)}


def measured(value, unit, source, rows, fit_error, **more):
    return {"value": rounded(value), "unit": unit, "source": source, "rows": rows, "fit_error": fit_error, **more}


def stated(value, unit, source, **more):
    return {"value": value, "unit": unit, "source": source, **more}


def proxy(value, unit, source, reason, **more):
    return {"value": rounded(value), "unit": unit, "source": source, "status": "proxy", "reason": reason, **more}
