# pip builds and installs a package, complains about running as root and about conflicting requirements.
# needs: python
mkdir -p pkg/solver && cd pkg
printf '[project]\nname = "solver-errors"\nversion = "0.1"\ndependencies = ["packaging<1"]\n[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n' > pyproject.toml
echo 'VERSION = 1' > solver/__init__.py
"$PY" -m pip install --no-deps --no-build-isolation --target ../lib . -v
"$PY" -m pip check || echo "dependencies do not fit; going on"
"$PY" -m pip uninstall -y solver-errors
"$PY" -m pip uninstall -y solver-errors
