"""Pieces of scripts/fit_hardware.py: numerics, compute kernels, collectives, sources."""
