"""The pages, one module each: handlers that read a request and render a template."""

from nearsay.core.classes_by_name import modules_of

PAGES = modules_of(__name__)
