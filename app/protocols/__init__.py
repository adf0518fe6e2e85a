"""The providers' protocols as pure functions, both ends.

Client end: requests to bytes, response bytes to events. Server end (the simulator): requests
parsed and refused, replies encoded as the provider streams them.
"""
