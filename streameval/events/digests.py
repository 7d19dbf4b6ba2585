"""Digests: the same on every machine and in every release."""


def blake2b(data: bytes, size: int) -> bytes:
    """The BLAKE2b digest of this many bytes.

    Example:
        >>> blake2b(b"tea", 8).hex()
        'ba6587c1bb84c490'
    """
    import hashlib  # noqa: PLC0415  loads OpenSSL, which few programs need

    return hashlib.blake2b(data, digest_size=size).digest()
