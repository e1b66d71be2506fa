"""Test doubles for the store, and failpoints that tests arm. For tests, not for users."""
