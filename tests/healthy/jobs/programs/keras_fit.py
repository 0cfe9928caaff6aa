"""Keras progress bars."""

import keras
import numpy as np

rng = np.random.default_rng(0)
model = keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mean_absolute_error"])
stop = keras.callbacks.EarlyStopping(monitor="val_loss", patience=1, verbose=1)
model.fit(
    rng.normal(size=(640, 4)), rng.normal(size=(640, 1)), epochs=6, batch_size=32, validation_split=0.2,
    callbacks=[stop], verbose=1,
)  # fmt: skip
model.summary()
