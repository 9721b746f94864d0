"""Fixtures of the runtime's tests: none needs a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_arrays import torch
from fake_driver import GEMM_TYPES, FakeDriver, Install
from map_driver import map_driver

from lowtide.runtime import driver

__all__ = ["install_driver", "map_driver", "torch"]


@pytest.fixture
def install_driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a FakeDriver in cuda-python's place for one test."""

    def install(fake: FakeDriver) -> FakeDriver:
        monkeypatch.setattr(driver, "api", lambda: fake)
        return fake

    driver.device.cache_clear()
    driver.primary_context.cache_clear()
    yield install
    driver.device.cache_clear()
    driver.primary_context.cache_clear()


@pytest.fixture
def fake(install_driver: Install) -> FakeDriver:
    """A FakeDriver that launches plain GEMMs."""
    return install_driver(FakeDriver(types=GEMM_TYPES))
