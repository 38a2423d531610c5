"""The pages, one module each: handlers that read a request and render a template."""
