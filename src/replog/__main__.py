"""`python -m replog` is the `replog` command."""

from replog.cli.main import main

if __name__ == "__main__":
    main()
