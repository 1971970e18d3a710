"""The documentation site: Markdown pages, drawings and an API reference, built offline by `make docs`."""
