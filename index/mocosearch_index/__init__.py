"""The ground floor of mocosearch: a folder's photos, their vectors, the search structures. Knows no torch."""
