"""Build hook that brings the charts of the page into the package; not part of the wheel."""
