"""A parameter search in which some candidates cannot be fitted."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

rng = np.random.default_rng(0)
features = rng.normal(size=(120, 3))
labels = (features[:, 0] + 0.1 * rng.normal(size=120) > 0).astype(int)
grid = {"solver": ["lbfgs"], "penalty": ["l1", "l2"], "C": [0.1, 1.0]}
search = GridSearchCV(LogisticRegression(), grid, cv=3, verbose=3, n_jobs=2, error_score=np.nan).fit(features, labels)
print("best", search.best_params_, round(search.best_score_, 3))
