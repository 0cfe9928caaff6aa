"""Warnings of numerical libraries that look like trouble and are none."""

import warnings

import numpy as np
import pandas as pd
from scipy import integrate, optimize
from sklearn.linear_model import LogisticRegression

values = np.array([0.0, 1.0, np.nan, -1.0])
print(np.log(values), values / 0, np.nanmean(values), np.nanmean([np.nan]))
print("number of nan values in the input: 1, in the result: 0, loss is finite")
print(integrate.quad(lambda x: np.sin(1 / x) if x else 0.0, 0, 1, limit=3))
print(optimize.minimize(lambda x: float((x[0] - 1) ** 4), [9.0], options={"maxiter": 2}))
print(optimize.fsolve(lambda x: x**2 + 1, 1.0, full_output=False))
rng = np.random.default_rng(0)
features = rng.normal(size=(200, 4)) * np.array([1, 1000, 0.001, 1])
labels = (features[:, 0] > 0).astype(int)
model = LogisticRegression(max_iter=2).fit(features, labels)
print("training error", 1 - model.score(features, labels))
frame = pd.DataFrame({"a": range(5), "state": ["FAILED", "TIMEOUT", "OK", "CANCELLED", "OK"]})
frame["b"] = frame["a"].apply(lambda v: v / 2)
print(frame, frame.groupby("state").size(), sep="\n")
warnings.warn("overflow encountered in exp", RuntimeWarning, stacklevel=1)
print("finished without errors")
