"""Tests of the learner that ships."""

from pathlib import Path

import pytest
from tierwise import Sac, TierwiseError

STATE = (0.5, 0.9, 0.3)


def learner(seed: int) -> Sac:
    """Returns a trained learner: actions up got rewards, actions down got penalties."""
    sac = Sac(seed=seed)
    for i in range(400):
        action = sac.act(STATE)
        assert sac.store(STATE, action, action, STATE, False) == (i >= 99 and i % 50 == 49)
    return sac


def test_equal_seeds_learn_the_same() -> None:
    sac = learner(1)
    assert sac.steps == 350
    assert sac.act_mean(STATE) > Sac(seed=1).act_mean(STATE) + 0.2
    assert learner(1).act_mean(STATE) == sac.act_mean(STATE)


def test_saved_weights_act_the_same(tmp_path: Path) -> None:
    sac = learner(1)
    sac.save(tmp_path / "model.safetensors")
    again = Sac.load(tmp_path / "model.safetensors", seed=9)
    assert again.act_mean(STATE) == sac.act_mean(STATE)
    assert again.temperature == sac.temperature
    sac.export_onnx(tmp_path / "actor.onnx")
    assert (tmp_path / "actor.onnx").stat().st_size > 4 * (64 * 64)


def test_mistakes_are_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no-model.safetensors"):
        Sac.load(tmp_path / "no-model.safetensors")
    (tmp_path / "bad.safetensors").write_bytes(b"x")
    with pytest.raises(TierwiseError, match="bad.safetensors: not a safetensors file"):
        Sac.load(tmp_path / "bad.safetensors")


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    device = tmp_path / "device"
    device.symlink_to("/dev/null")
    for write in (Sac().save, Sac().export_onnx):
        with pytest.raises(TierwiseError, match="it is no regular file"):
            write(device)
    assert device.is_symlink()
