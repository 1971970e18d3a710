"""A mechanism is a frozen object that yields both its noisy release and its price (spec 2)."""

from reticent.kernel.noise import Gaussian, Laplace, Noise, Sensitivity
from reticent.kernel.selection import Exponential
from reticent.kernel.threshold import AboveThreshold, Watch

__all__ = ["AboveThreshold", "Exponential", "Gaussian", "Laplace", "Noise", "Sensitivity", "Watch"]
