"""The studio: the built files of the page that a server shows. The sources are in `studio/`; `make studio` builds them."""
