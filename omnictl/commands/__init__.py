"""One module, one command (or one group of them): each has ``app``, a Typer that is merged into the command line."""
