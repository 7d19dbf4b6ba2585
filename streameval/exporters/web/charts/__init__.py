"""What brings the charts of the page into the package while it is built; not part of the wheel."""
