"""What is kept on disk: tables, migrations, and the few statements over them."""
