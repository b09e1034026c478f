"""Bodies by dialect: which of their fields are checked, and what routing reads in them."""
