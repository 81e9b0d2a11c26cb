/** Parses IP addresses and networks. An IPv4-mapped IPv6 address equals its IPv4 address. */
import { Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"

/** Number of bits in front of the IPv4 address in an IPv4-mapped IPv6 address. */
const mappedPrefixBits = 96

/** Converts a network of IPv4-mapped IPv6 addresses to IPv4, as addresses are before they are compared with it. */
const toCanonicalNetwork = (network: IpNetwork.IpNetwork) => {
  const address = NetAddress.toCanonical(network.address)
  const isMapped = address !== network.address && network.prefixLength >= mappedPrefixBits
  return isMapped ? IpNetwork.makeUnsafe(address, network.prefixLength - mappedPrefixBits) : network
}

/** Parses a network such as `10.0.0.0/8`, or a single address. */
export const parseNetwork = (text: string) =>
  Result.map(
    IpNetwork.fromString(text.includes("/") ? text : `${text}/${text.includes(":") ? 128 : 32}`),
    toCanonicalNetwork,
  )

/** Formats a network such as `10.0.0.0/8`. A single address has no prefix length. */
export const formatNetwork = (network: IpNetwork.IpNetwork) =>
  network.prefixLength === NetAddress.width(network.address)
    ? NetAddress.formatIp(network.address)
    : IpNetwork.format(network)

/** Returns the address of a socket in its canonical form, without a zone; undefined if the text is no address. */
export const toCanonicalAddress = (text: string) => {
  const parsed = NetAddress.ipFromString(text.split("%", 1)[0] ?? text)
  return Result.isSuccess(parsed) ? NetAddress.formatIp(NetAddress.toCanonical(parsed.success)) : undefined
}
