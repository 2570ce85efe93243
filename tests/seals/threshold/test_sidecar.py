"""What a sidecar does without OpenFHE: messages and noise."""

from __future__ import annotations

import io

import numpy as np
import pytest

from hushtune.seals.threshold import sidecar


def test_messages_survive_the_stream_and_what_is_cut_is_an_end() -> None:
    stream = io.BytesIO()
    sidecar.write_message(stream, {"op": "x"}, [b"", b"abc", bytes(1000)])
    sidecar.write_message(stream, {"op": "y"}, [])
    content = stream.getvalue()
    stream.seek(0)
    assert sidecar.read_message(stream) == ({"op": "x"}, [b"", b"abc", bytes(1000)])
    assert sidecar.read_message(stream) == ({"op": "y"}, [])
    for cut in (0, 3, 20, 900):
        with pytest.raises(EOFError):
            sidecar.read_message(io.BytesIO(content[:cut]))
    with pytest.raises(EOFError):
        sidecar.read_message(io.BytesIO(b"\xff" * 100))


@pytest.mark.statistical
def test_smudging_is_gaussian_in_both_parts() -> None:
    """2^16 numbers; bounds of 7 standard errors, a false-alarm rate below 1e-10. Half the deviation fails."""
    count, deviation = 2**16, 0.25
    drawn = np.array(sidecar.gaussians(count, deviation))
    for part in (drawn.real, drawn.imag):
        assert abs(part.mean()) < 7 * deviation / count**0.5
        assert abs(part.std() / deviation - 1) < 7 / (2 * count) ** 0.5
        assert abs(((part / deviation) ** 4).mean() - 3) < 7 * (96 / count) ** 0.5
        assert abs(np.mean(np.abs(part) > 2 * deviation) - 0.0455) < 7 * (0.0455 / count) ** 0.5
    assert abs(np.mean(drawn.real * drawn.imag)) < 7 * deviation**2 / count**0.5
    assert not np.array_equal(drawn, np.array(sidecar.gaussians(count, deviation)))
