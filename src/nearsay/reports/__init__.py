"""Reports as plain dicts, for the command line and the page, and as HTML: evaluation, speed, installation."""
