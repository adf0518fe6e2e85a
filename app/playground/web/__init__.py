"""The pages and the stream: the HTTP interface of the engine for browsers and scripts.

One folder per feature: routes.py answers requests, view.py draws. Small features are one module.
"""
