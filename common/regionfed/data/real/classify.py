"""A small word classifier, to place queries that come without a category or an intent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np


class WordClassifier:
    """Multinomial naive Bayes over words with add-one smoothing."""

    def __init__(self, texts: Sequence[str], labels: Sequence[str]) -> None:
        self.labels = tuple(sorted(set(labels)))
        place = {label: index for index, label in enumerate(self.labels)}
        words = sorted({word for text in texts for word in text.lower().split()})
        self._column = {word: index for index, word in enumerate(words)}
        counts = np.ones((len(self.labels), len(words)))
        for text, label in zip(texts, labels, strict=True):
            for word in text.lower().split():
                counts[place[label], self._column[word]] += 1
        frequency = Counter(labels)
        self._prior = np.log([frequency[label] / len(labels) for label in self.labels])
        self._weight = np.log(counts / counts.sum(axis=1, keepdims=True))

    def label(self, text: str) -> str:
        """The likeliest label; unknown words do not count."""
        columns = [self._column[w] for w in text.lower().split() if w in self._column]
        score = self._prior + self._weight[:, columns].sum(axis=1)
        return self.labels[int(score.argmax())]
