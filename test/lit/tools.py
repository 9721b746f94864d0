"""Runs `lowtide-opt` for lit without importing MLIR each time: most of a test's time would go there.

`lit.cfg.py` starts `tools.py serve SOCKET`, which imports the tool once. In a RUN line `lowtide-opt` is
`tools.py run SOCKET`: it hands its arguments, folder, environment and standard streams to the server, where a fork runs
the tool as a process of its own, and exits with its status. The server ends when lit does.
"""

import gc
import json
import os
import signal
import socket
import sys
import threading

_LONGEST = 1 << 20  # bytes of a request
_STREAMS = 3
_CRASHED = 134  # what a shell says of a process that aborts


def run(path: str, arguments: list[str]) -> int:
    """Have the tool run. Returns its exit status."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(path)
        request = json.dumps({"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)})
        socket.send_fds(server, [request.encode()], range(_STREAMS))
        return int(server.recv(16) or _CRASHED)


def serve(path: str) -> None:
    """Fork for each request, until standard input is closed."""
    from lowtide.cli.opt_tool import main  # noqa: PLC0415  # not in `run`, whose time it would be
    from lowtide.entry import guard  # noqa: PLC0415

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen(128)
        gc.freeze()  # a collection in a fork would copy the pages of all that is imported
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
        threading.Thread(target=_end_with_parent, daemon=True).start()
        while True:
            client, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                status = _run_tool(client, lambda: guard("lowtide-opt", main, refused=1))
                client.send(str(status).encode())
                os._exit(status)
            client.close()


def _run_tool(client: socket.socket, tool) -> int:
    """In a fork: take over what the client has, and run the tool. Returns its exit status."""
    request, streams, _, _ = socket.recv_fds(client, _LONGEST, _STREAMS)
    given = json.loads(request)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(given["folder"])
    os.environ.clear()
    os.environ.update(given["environment"])
    sys.argv = ["lowtide-opt", *given["arguments"]]
    try:
        return tool()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _end_with_parent() -> None:
    while os.read(0, 1):  # not by sys.stdin, whose lock a fork would inherit
        pass
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "run":
        sys.exit(run(sys.argv[2], sys.argv[3:]))
    serve(sys.argv[2])
