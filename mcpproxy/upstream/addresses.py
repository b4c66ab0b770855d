"""Which addresses a tool may reach: public ones, and others when the tool file names them."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

PUBLIC_V6 = ipaddress.ip_network("2000::/3")
"""All that is given out for the public (IANA, IPv6 Address Space): Python's tables lack some of the rest."""
NOT_PUBLIC = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "168.63.129.16/32", "3fff::/20", "2001::/23"))
)
"""Protocols' own (RFC 6890), a cloud's own (Azure's 168.63.129.16), and what is for examples (RFC 9637)."""
EMBEDDED = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::/96"))
"""Where an IPv6 address carries an IPv4 address in its last 32 bits (RFC 6052; RFC 4291, 2.5.5.1)."""


def permitted(host: str, address: Address, allow_hosts: frozenset[str]) -> bool:
    """Whether a host may be reached at an address.

    A name that is allowed may be private, but not link-local, where clouds keep their credentials:
    that has to be allowed by the address itself.
    """
    bare = plain(address)
    if {str(bare), str(address)} & allow_hosts:
        return True
    if bare.is_link_local or bare.is_multicast or bare.is_unspecified:
        return False
    return public(bare) or host.lower().strip("[]") in allow_hosts


def public(address: Address) -> bool:
    if any(address in network for network in NOT_PUBLIC if network.version == address.version):
        return False
    return address.is_global and (address.version == 4 or address in PUBLIC_V6)


def plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, ipaddress.IPv6Address):
        found = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if found is not None:
            return found
        if any(address in network for network in EMBEDDED) and int(address) > 1:
            return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def never(host: str, allow_hosts: frozenset[str]) -> bool:
    """Whether a host can't be reached, as its spelling alone tells."""
    bare = host.lower().strip("[]")
    try:
        return not permitted(host, ipaddress.ip_address(bare), allow_hosts)
    except ValueError:
        return bare == "localhost" and bare not in allow_hosts
