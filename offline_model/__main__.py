"""Run the server alone, for any client in any language: `python -m offline_model [--port N] [--scenario NAME]`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from . import MODEL
from . import start

PORT = 8642  # fixed, so that a client can be configured once
A_WHILE = 3600.0  # seconds; only Ctrl-C ends the waiting
PACE = 0.03  # seconds between two words: readable, like a fast model


def main(arguments: list[str] | None = None) -> int:
    """Serve until Ctrl-C. Returns the exit status."""
    names = scenario_names()
    parser = argparse.ArgumentParser(prog="python -m offline_model", description=__doc__.partition(":")[0] + ".")
    parser.add_argument("--port", type=int, default=PORT, help=f"port on 127.0.0.1, 0 for any free one ({PORT})")
    parser.add_argument("--scenario", choices=names, help="the script to play; without one every prompt is unknown")
    parser.add_argument("--pace", type=float, default=PACE, help=f"seconds between two streamed words ({PACE})")
    options = parser.parse_args(arguments)
    try:
        with start(options.scenario, port=options.port, pace=options.pace) as server:
            print(instructions(server.url, server.lines), flush=True)
            while True:
                time.sleep(A_WHILE)
    except KeyboardInterrupt:
        print()
    except (OSError, OverflowError) as error:
        print(f"Cannot listen on port {options.port}: {error}. Choose another with --port.", file=sys.stderr)
        return 1
    return 0


def scenario_names() -> list[str]:
    """The scenarios that there are, in order."""
    files = (Path(__file__).parent / "scenarios").glob("*.py")
    return sorted(file.stem for file in files if file.stem != "__init__")


def instructions(url: str, lines: list[str]) -> str:
    """How to point a client here, and which prompts it knows."""
    prompts = "".join(f"\n    {line}" for line in lines) or " none (choose a script with --scenario)"
    return f"""\
The offline model listens on {url} (a script, not a language model). Ctrl-C ends it.

Any client of the Messages API:
    export ANTHROPIC_BASE_URL={url}
    export ANTHROPIC_API_KEY=offline     (any word will do)
    model: {MODEL}

Try it:
    curl {url}/v1/messages -H 'x-api-key: offline' -H 'anthropic-version: 2023-06-01' \\
      -H 'content-type: application/json' \\
      -d '{{"model": "{MODEL}", "max_tokens": 500, "messages": [{{"role": "user", "content": "Hello"}}]}}'

Prompts it knows:{prompts}"""


if __name__ == "__main__":
    sys.exit(main())
