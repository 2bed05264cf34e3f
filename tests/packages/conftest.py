"""One build and one environment for this folder: the two things here that cost seconds."""

from __future__ import annotations

import pytest

from tests.packages.installed import Built, Installed, built, installed


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return built(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="session")
def environment(packages: Built, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return installed(packages, tmp_path_factory.mktemp("installed"))
