"""Which browser the tests use, and how it is started."""

from __future__ import annotations

import os
import shutil

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first has the same pages for a sixth less of the machine: it has no windows."""
OFF = (
    # Each window of the browser would load pages of its own, and each tab start a process ahead:
    # half of what the tests cost.
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxFullPopup",
    "PreloadTopChromeWebUI",
    "SpareRendererForSitePerProcess",
    # A new frame with surfaces of its own for each page that a tab goes to: a quarter of a page.
    "RenderDocument",
    # Playwright's own list, which this one replaces: no calls home, no surprises.
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
    f"--disable-features={','.join(OFF)}",
]


def chromium() -> str:
    """The browser's program, or "" where there is none."""
    named = os.environ.get("PLAYGROUND_CHROMIUM", "")
    return named or next(filter(None, map(shutil.which, NAMES)), "")
