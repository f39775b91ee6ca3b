"""Maps of named heads by class: against a loop, and what is refused."""

import numpy as np
import pytest
import torch

from conoscope.capture.loading import LoadedModel
from conoscope.capture.recorder import traces_of
from conoscope.capture.token_kinds import SEP
from conoscope.common.errors import CaptureError, MeasureError
from conoscope.corpora import Corpus, Example, load_corpus
from conoscope.measures import request
from conoscope.measuring.pipeline import Options, measure

NAME = "class_maps:heads=1.2+3.1"


@pytest.fixture(scope="module")
def texts() -> Corpus:
    return load_corpus("bistro:test").first(40)


def naive(model: LoadedModel, texts: Corpus) -> dict[tuple[int, int, str], np.ndarray]:
    """The mean of each map, one text at a time."""
    found: dict[tuple[int, int, str], list[np.ndarray]] = {}
    for example in texts:
        batch = model.batcher(texts).batch([example])
        with torch.no_grad():
            predicted = int(model.module(**batch.inputs).logits.argmax())
        if model.labels[predicted] != example.label:
            continue
        ends = (batch.kind[0] == SEP).nonzero()
        length = int(ends[0]) if len(ends) else batch.real.shape[1]
        for trace in traces_of(model.module, batch):
            for layer, head in ((1, 2), (3, 1)):
                if trace.layer == layer:
                    whole = np.zeros((128, 128))
                    whole[:length, :length] = trace.weights[0, head - 1, :length, :length].numpy()
                    found.setdefault((layer, head, example.label), []).append(whole)
    return {key: np.mean(maps, axis=0) for key, maps in found.items()}


def test_the_mean_map_of_a_class_is_that_of_its_examples_that_the_model_gets_right(pure: LoadedModel, texts: Corpus) -> None:
    frame = measure(pure, texts, [NAME])[NAME]
    expected = naive(pure, texts)
    assert set(zip(frame["layer"], frame["head"], frame["class"], strict=True)) == set(expected)
    for (layer, head, label), mean in expected.items():
        rows = frame[(frame["layer"] == layer) & (frame["head"] == head) & (frame["class"] == label)]
        found = np.zeros((128, 128))
        found[rows["query"].to_numpy(int), rows["key"].to_numpy(int)] = rows["value"].to_numpy(float)
        np.testing.assert_allclose(found, np.where(mean >= 0.01, mean, 0), atol=1e-12)


def test_batches_and_shards_change_nothing(pure: LoadedModel, texts: Corpus) -> None:
    whole = measure(pure, texts, [NAME])[NAME]
    small = measure(pure, texts, [NAME], Options(batch_size=3))[NAME]
    parts = [measure(pure, texts, [NAME], Options(shard=(number, 2))) for number in (2, 1)]
    for other in (small, (parts[0] + parts[1])[NAME]):
        assert list(other["query"]) == list(whole["query"])
        np.testing.assert_allclose(other["value"], whole["value"], atol=1e-12)


def test_it_is_measured_only_when_it_is_asked_for(pure: LoadedModel, texts: Corpus) -> None:
    assert "class_maps" not in measure(pure, texts.first(2)).provenance["measures"]


def test_a_head_that_is_not_there_is_named(pure: LoadedModel, texts: Corpus) -> None:
    with pytest.raises(CaptureError, match=r"has no head 2\.3; it has 3 layers of 2 heads, so name one from 1\.1 to 3\.2"):
        measure(pure, texts, ["class_maps:heads=2.3"])


@pytest.mark.parametrize("heads", ["", "0.1", "1", "1.1+", "a.b", "1.1 2.2"])
def test_heads_that_cannot_be_read_are_refused(heads: str) -> None:
    with pytest.raises(MeasureError, match=r"class_maps has no option 'heads=.*'; known: heads=1.1\|LAYER.HEAD\+"):
        request(f"class_maps:heads={heads}")


def test_texts_that_the_model_gets_all_wrong_have_no_map(pure: LoadedModel) -> None:
    batch = pure.batcher(Corpus.of([])).batch([Example("the soup was cold")])
    with torch.no_grad():
        wrong = pure.labels[1 - int(pure.module(**batch.inputs).logits.argmax())]
    with pytest.raises(MeasureError, match="nothing to measure"):
        _ = measure(pure, [Example("the soup was cold", wrong)], ["class_maps"]).tables
