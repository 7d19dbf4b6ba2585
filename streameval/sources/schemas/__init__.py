"""Decodes Avro and Protobuf with schemas of a registry; needs the extra `schemas`."""
