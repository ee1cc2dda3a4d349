"""Requests of real clients, recorded for fast tests."""
