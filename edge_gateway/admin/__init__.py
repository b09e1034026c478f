"""The administration API over HTTP: one table of operations, translated to the registry's services."""
