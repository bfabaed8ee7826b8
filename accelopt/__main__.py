"""`python -m accelopt`."""

from accelopt.cli.main import main

if __name__ == "__main__":
    main()
