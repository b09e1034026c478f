"""Alembic migrations; ``HEAD`` is the revision that the present tables have."""

HEAD = "0003"
