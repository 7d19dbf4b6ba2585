"""The metrics of the catalogue, one file each."""
