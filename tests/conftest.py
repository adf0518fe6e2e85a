"""What every test may use."""

import pytest
from hypothesis import settings

# A run for every change; a long hunt sets --hypothesis-profile=default.
settings.register_profile("quick", max_examples=25, deadline=None)
settings.load_profile("quick")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
