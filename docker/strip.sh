#!/bin/sh
# Remove from the installed packages under $1 what a running container never reads: test suites, C++
# headers, static libraries. Bytecode stays (the root is read-only, so a process could not write its
# own and would compile everything at each start), and so does *.dist-info (entry points, versions
# and licences are read from it) and torch/bin/torch_shm_manager (`import torch` looks for it).
set -eu
packages="$1/lib/python3.11/site-packages"
[ -d "$packages" ] || exit 0
find "$packages" -type f \( -name '*.a' -o -name '*.pyx' -o -name '*.pxd' \) -delete
rm -rf "$packages/torch/include" "$packages/torch/test" "$packages/torch/share" \
  "$packages/pyarrow/include" "$packages/pyarrow/tests"
if [ -d "$packages/torch/bin" ]; then
  find "$packages/torch/bin" -type f ! -name torch_shm_manager -delete
fi
# Flower brings an installer for run-time dependencies, which is switched off here.
rm -f "$1/bin/uv" "$1/bin/uvx"
for package in numpy scipy pandas sympy networkx matplotlib mpl_toolkits sklearn mpmath; do
  [ -d "$packages/$package" ] || continue
  find "$packages/$package" -type d -name tests -prune -exec rm -rf {} +
done
