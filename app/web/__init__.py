"""The pages and the stream: what a browser or a script sees of the engine.

One folder a feature: routes.py answers requests, view.py draws. Small features are one module.
"""
