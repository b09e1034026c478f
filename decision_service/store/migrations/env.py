"""Runs the migrations on the connection that ``migrate`` hands over, inside its transaction."""

from alembic import context

from decision_service.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
context.run_migrations()
