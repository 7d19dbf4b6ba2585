"""Reads Avro and Protobuf with the schemas of a registry; needs the extra `schemas`."""
