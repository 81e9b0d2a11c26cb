/** Defines the addresses to which webhooks are not sent by default (SECURITY.md). */
import { isIP } from "node:net"
import { IpAddressSet } from "../../accounts/IpAddressSet.ts"

/**
 * All addresses that do not belong to a single host on the public Internet, according to IANA's special-purpose address
 * registries. This includes the metadata services of cloud providers (169.254.169.254, fd00:ec2::254).
 */
const internalAddresses = new IpAddressSet([
  "0.0.0.0/8", // This network, unspecified
  "10.0.0.0/8", // Private
  "100.64.0.0/10", // Carrier-grade NAT
  "127.0.0.0/8", // Loopback
  "168.63.129.16", // Platform service of Azure, although the address is public
  "169.254.0.0/16", // Link-local
  "172.16.0.0/12", // Private
  "192.0.0.0/24", // Protocol assignments
  "192.0.2.0/24", // Documentation
  "192.88.99.0/24", // Relays of 6to4
  "192.168.0.0/16", // Private
  "198.18.0.0/15", // Benchmarks
  "198.51.100.0/24", // Documentation
  "203.0.113.0/24", // Documentation
  "224.0.0.0/3", // Multicast, reserved, broadcast
  // Only 2000::/3 is allocated for global IPv6 addresses. The other ranges contain the unspecified, loopback,
  // IPv4-mapped, NAT64, unique-local, link-local and multicast addresses.
  "::/3",
  "4000::/2",
  "8000::/1",
  "2001::/23", // Protocol assignments, Teredo, ORCHID
  "2001:db8::/32", // Documentation
  "2002::/16", // 6to4, which contains an IPv4 address
  "3fff::/20", // Documentation
])

/** Returns whether an address is internal. Text that is not a valid address counts as internal. */
export const isInternalAddress = (address: string) =>
  isIP(address) === 0 || address.includes("%") || internalAddresses.has(address)
