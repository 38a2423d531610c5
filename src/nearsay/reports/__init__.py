"""Plain dictionaries that command line and page show, and the HTML report: the installation, how good answers are."""
