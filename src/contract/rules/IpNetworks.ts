/**
 * Parses IP addresses and networks. An IPv4-mapped IPv6 address, such as `::ffff:10.0.0.1`, is treated as the IPv4
 * address it contains.
 */
import { Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"

/** The number of bits that precede the IPv4 address in an IPv4-mapped IPv6 address. */
const mappedPrefixBits = 96

/**
 * Converts a network of IPv4-mapped IPv6 addresses to an IPv4 network. Addresses are converted the same way before they
 * are matched against a network.
 */
const toCanonicalNetwork = (network: IpNetwork.IpNetwork) => {
  const address = NetAddress.toCanonical(network.address)
  const isMapped = address !== network.address && network.prefixLength >= mappedPrefixBits
  return isMapped ? IpNetwork.makeUnsafe(address, network.prefixLength - mappedPrefixBits) : network
}

/** Parses a network, such as `10.0.0.0/8`, or a single address. */
export const parseNetwork = (text: string) =>
  Result.map(
    IpNetwork.fromString(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`),
    toCanonicalNetwork,
  )

/** Formats a network, such as `10.0.0.0/8`. A network with a single address is formatted without a prefix length. */
export const formatNetwork = (network: IpNetwork.IpNetwork) =>
  network.prefixLength === NetAddress.width(network.address)
    ? NetAddress.formatIp(network.address)
    : IpNetwork.format(network)

/**
 * Returns a socket address in canonical form, without its zone (such as `%eth0` in `fe80::1%eth0`). Returns undefined
 * if the text is not an address.
 */
export const toCanonicalAddress = (text: string) => {
  const parsed = NetAddress.ipFromString(text.split("%", 1)[0] ?? text)
  return Result.isSuccess(parsed) ? NetAddress.formatIp(NetAddress.toCanonical(parsed.success)) : undefined
}
