"""How Alembic runs the migrations: on the connection that it is given, in its transaction."""

from alembic import context

from ramet.store.tables import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
context.run_migrations()
