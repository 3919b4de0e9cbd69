"""Side-by-side measurements; each is run from the checkout as `python -m bench.NAME`, see README.md."""
