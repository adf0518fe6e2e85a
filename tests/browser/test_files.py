"""Workspace tools in the page: a command and its sandbox, a task and its Stop, files and undo."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.serving import Server
from tests.browser.tab import Tab


def run_edited(tab: Tab, arguments: dict[str, object]) -> None:
    """Run the waiting call with these arguments."""
    card = tab.find(".card.asks").last
    card.locator("summary", has_text="Edit & run").click()
    card.locator("textarea[name=arguments]").fill(json.dumps(arguments))
    card.locator("button", has_text="Run edited").click()


@pytest.mark.slow
def test_a_command_a_task_and_files(server: Server, tab: Tab) -> None:
    session_id = server.session("Go.", ["run_shell"], tool_choice="run_shell")
    tab.open(session_id)
    tab.waits_for(1)
    card = tab.find(".card.asks")
    expect(card).to_contain_text(re.compile("runs in a sandbox|has no sandbox"))
    expect(card.locator(".source")).to_contain_text("workspace · run_shell")
    run_edited(tab, {"command": "sleep 61", "background": True})
    tasks = tab.find("#tasks")
    expect(tasks).to_contain_text("sleep 61")
    tab.page.set_viewport_size({"width": 390, "height": 800})
    assert not tab.scrolls_sideways()
    tasks.locator("button", has_text="Stop").click()
    expect(tasks).to_have_text("")
    expect(tasks).not_to_be_visible()

    server.post(
        f"/sessions/{session_id}/settings", {"tools": ["write_file"], "tool_choice": "write_file"}
    )
    tab.state("idle")
    tab.send("Write.")
    run_edited(tab, {"path": "notes.md", "content": "# Notes\nfirst\n"})
    tab.state("idle")
    tab.goto(f"/sessions/{session_id}")
    tab.find(".card a", has_text="undo the change").click()
    expect(tab.find("h1")).to_have_text("Files")
    assert not tab.scrolls_sideways()
    tab.find(".rows a", has_text="1 · notes.md").click()
    expect(tab.find(".diff .added").first).to_contain_text("+# Notes")
    assert not tab.scrolls_sideways()
    tab.page.set_viewport_size({"width": 1280, "height": 800})
    tab.find("button", has_text="Undo").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.find(".rows").first).to_contain_text("undo 1")
    expect(tab.find("#main")).to_contain_text("No files yet.")


@pytest.mark.slow
def test_the_sandbox_is_lifted_by_a_second_click(server: Server, tab: Tab) -> None:
    tab.open(server.session("Go.", ["run_shell"], tool_choice="run_shell"))
    tab.waits_for(1)
    card = tab.find(".card.asks")
    lift = card.locator("summary", has_text="Run without the sandbox…")
    if not lift.count():
        expect(card).to_contain_text("has no sandbox")
        return
    lift.click()
    expect(card).to_contain_text("with all your rights")
    card.locator("button", has_text="Run without the sandbox").click()
    expect(tab.find(".card").first).to_contain_text("run without the sandbox by you")
