"""`python -m orchtrace_otel.cli` is `orchtrace`."""

from orchtrace_otel.cli import main

if __name__ == "__main__":
    main()
