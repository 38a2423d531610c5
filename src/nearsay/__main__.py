"""``python -m nearsay`` is the ``nearsay`` command."""

from nearsay.cli import main

if __name__ == "__main__":
    main()
