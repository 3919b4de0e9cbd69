"""The ground floor of mocosearch: a folder's photos, their vectors and the search structures. Knows no torch."""
