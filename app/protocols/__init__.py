"""The providers' protocols as pure functions, both ends: requests to bytes and bytes to events;
requests read and refused, and answers written as the provider streams them."""
