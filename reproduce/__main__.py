"""``python -m reproduce``, in a checkout: the papers' tables and figures."""

from reproduce.cli import main

if __name__ == "__main__":
    main()
