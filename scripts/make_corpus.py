#!/usr/bin/env python3
"""Writes cases/corpus/drill.txt: the small text that train's examples and tests read.

The text is generated, so that it belongs to this project's licence, needs no network and is the same for ever: a fixed linear
congruential generator (Knuth's MMIX constants) fills sentence templates about training clusters. It has structure on three
levels (spelling, grammar, numbers that agree), enough for a loss curve to fall and to flatten.

Usage: make_corpus.py [FILE]
"""

import sys

BYTES = 96 * 1024

SUBJECTS = ["The first rank", "Every rank", "The last stage", "A tensor group", "The optimizer", "The scheduler", "This node",
            "A spare node", "The loader", "The embedding"]
VERBS = ["sends", "receives", "keeps", "recomputes", "reduces", "gathers", "writes", "reads", "frees", "waits for"]
OBJECTS = ["its gradients", "the activations", "a bucket", "the next micro-batch", "its shard", "the norm", "a checkpoint",
           "the parameters", "the tokens of the batch", "an old buffer"]
ENDS = ["before the step ends", "after the backward pass", "while the others compute", "and goes on", "without a copy",
        "in rank order", "at the same offset", "when the ring is free", "as the schedule says", "once a step"]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
           "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"]


class Draws:
    def __init__(self, seed):
        self.state = seed

    def below(self, count):
        self.state = (6364136223846793005 * self.state + 1442695040888963407) % 2**64
        return (self.state >> 33) % count

    def of(self, words):
        return words[self.below(len(words))]


def sentence(draws):
    kind = draws.below(8)
    if kind < 5:
        return f"{draws.of(SUBJECTS)} {draws.of(VERBS)} {draws.of(OBJECTS)} {draws.of(ENDS)}."
    if kind < 7:
        a, b = draws.below(10), draws.below(10)
        return f"{NUMBERS[a].capitalize()} ranks and {NUMBERS[b]} ranks are {NUMBERS[a + b]} ranks."
    a = draws.below(10)
    return f"Step {a} of stage {draws.below(4)} ends before step {a + 1} begins."


def corpus():
    draws = Draws(20261129)
    paragraphs = []
    size = 0
    while size < BYTES:
        paragraph = " ".join(sentence(draws) for _ in range(3 + draws.below(5))) + "\n\n"
        paragraphs.append(paragraph)
        size += len(paragraph)
    return "".join(paragraphs)[:BYTES]


if __name__ == "__main__":
    with open(sys.argv[1] if len(sys.argv) > 1 else "cases/corpus/drill.txt", "w", encoding="ascii", newline="\n") as out:
        out.write(corpus())
