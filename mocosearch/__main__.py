"""`python -m mocosearch` is `mocosearch`."""

from mocosearch.cli import main

main()
