"""What every package uses: arrays, settings, validation, threads, lazy compiling, cancellation, the terminal."""
