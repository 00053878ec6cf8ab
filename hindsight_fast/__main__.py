"""``python -m hindsight_fast`` is the command line."""

from hindsight_fast.cli import main

if __name__ == "__main__":
    main()
