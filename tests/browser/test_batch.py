"""From a session to a batch, to a run that failed, to a test that fails on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import expect

from tests.browser.serving import Server
from tests.browser.tab import Tab
from tests.servers import run_command

RUN = {"tool": "get_weather", "action": "run"}


@pytest.mark.slow
def test_a_session_becomes_a_batch_and_its_failure_a_test(
    server: Server, tab: Tab, tmp_path: Path
) -> None:
    session_id = server.session("What is the weather in Oslo?", rules=[RUN])
    tab.open(session_id)
    expect(tab.find(".card").first).to_have_attribute("data-status", "done")

    # The session as a case, of which more is expected than the model does.
    tab.find("#more > summary").click()
    tab.page.get_by_role("link", name="Run as a batch").click()
    spec = yaml.safe_load(tab.find("#spec").input_value())
    spec["cases"][0]["expect"].append({"never": "get_weather"})
    tab.find("#spec").fill(json.dumps(spec))
    tab.find("[name=repetitions]").fill("20")
    tab.page.get_by_role("button", name="Estimate").click()
    expect(tab.find(".notes")).to_contain_text("20 runs")
    tab.page.get_by_role("button", name="Start").click()
    tab.page.wait_for_url(re.compile(r"/batches/\w+$"))
    expect(tab.find("#main [role=status]")).to_contain_text("20 of 20 runs")
    expect(tab.find("[aria-labelledby=failures]")).to_contain_text("get_weather")

    # One click from a failure to its session, and what it was to do as a test.
    tab.find(".failures li a[href^='/sessions/']:not(.run)").first.click()
    expect(tab.find(".card").first).to_contain_text("get_weather")
    tab.page.get_by_role("link", name="Share").first.click()
    tab.find("[name=as][value=batch]").check()
    expect(tab.find("#download")).to_have_attribute("download", re.compile("batch.json$"))
    with tab.page.expect_download() as waiting:
        tab.find("#download").click()
    waiting.value.save_as(tmp_path / "test.json")

    ended = run_command("batch", "test.json", cwd=tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert "get_weather should not be called, but was called" in ended.stdout
