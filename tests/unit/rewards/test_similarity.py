"""Similarities: from 0 to 1, symmetric, the same in every process, and a plug for embeddings."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchtrace_otel.rewards.similarity import (
    by_ngrams,
    by_simhash,
    by_words,
    content_hash,
    cosine,
    distance,
    embedded,
    is_near,
    jaccard,
    ngrams,
    novelty,
    pairwise,
    simhash,
    words,
)

SIMILARITIES = [by_words, by_ngrams, by_simhash, embedded(lambda text: (len(text), 1.0))]
vectors = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=3, max_size=3)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@given(st.text(), st.text())
@example("\ud800", "")
def test_a_similarity_is_symmetric_within_bounds_and_1_for_the_same(similarity, one, other):
    """Every built-in comparison keeps the contract of the plug, whatever the texts hold."""
    value = similarity(one, other)
    assert 0 <= value <= 1
    assert value == similarity(other, one)
    assert similarity(one, one) == 1


def test_hashes_are_the_same_in_every_process():
    """Hashes do not depend on the process, so that traces of several can be compared."""
    assert content_hash("price") == "c2af199c3cb05db1"
    assert simhash("the price") == 4794654700711450656
    assert content_hash("price") != content_hash("Price")
    assert simhash("") == 0
    assert simhash("price price price") == simhash("price")


def test_near_texts_have_near_simhashes_and_others_do_not():
    """One word in sixty moves a few bits, another text moves about half of the sixty-four."""
    text = " ".join(f"word{number}" for number in range(60))
    changed = text.replace("word7 ", "other ")
    assert distance(simhash(text), simhash(changed)) <= 12
    assert not is_near(simhash(text), simhash("nothing of that is in here"))
    assert is_near(simhash(text), simhash(text.upper()))


def test_sets_of_words_and_ngrams_are_what_they_say():
    """Words fold case and drop punctuation; n-grams fold blanks; empty sets are the same."""
    assert words("A-b a, B!") == {"a", "b"}
    assert ngrams("a  B") == {"a b"}
    assert ngrams("") == frozenset()
    assert jaccard((), ()) == 1
    assert jaccard((), (1,)) == 0


@given(vectors, vectors)
@example([1e308, 1e308, 1e308], [1e308, -1e308, 1e308])
@example([5e-324, 0.0, 0.0], [5e-324, 0.0, 0.0])
def test_a_cosine_never_leaves_its_bounds(one, other):
    """Vectors of any size have a finite cosine from -1 to 1."""
    value = cosine(one, other)
    assert math.isfinite(value)
    assert -1 <= value <= 1
    assert value == cosine(other, one)


def test_vectors_of_two_lengths_are_refused():
    """An embedding that changes its length is told, not compared."""
    with pytest.raises(ValueError, match="one length, got 1 and 2"):
        cosine((1,), (1, 2))


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_vector_of_what_is_no_number_is_like_none(broken):
    """It is told, and not taken for the same text."""
    for pair in (((broken, 1.0), (1.0, 2.0)), ((1.0, 2.0), (1.0, broken))):
        with pytest.raises(ValueError, match="a vector must hold finite numbers"):
            cosine(*pair)


def test_an_embedding_is_asked_once_a_text():
    """The user's embedding may be dear; a text is embedded once."""
    asked = []

    def embed(text):
        asked.append(text)
        return (1.0, float(len(text)))

    similarity = embedded(embed)
    assert pairwise(["one", "three", "sixteen"], similarity) == [
        similarity("one", "three"),
        similarity("one", "sixteen"),
        similarity("three", "sixteen"),
    ]
    assert sorted(asked) == ["one", "sixteen", "three"]


def test_novelty_is_what_the_nearest_text_leaves():
    """Novelty is 1 with nothing held, 0 for what is held, and takes any similarity."""
    assert novelty("a b", []) == 1
    assert novelty("a b", ["c", "b a"]) == 0
    assert novelty("a b", ["a c"]) == pytest.approx(2 / 3)
    assert novelty("a b", ["c"], lambda one, other: 0.25) == 0.75
