"""Tests that build programs from Go modules first."""
