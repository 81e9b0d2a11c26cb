/** D2 (API keys): the networks from which a key may be used. */
import { LRUCache } from "lru-cache"
import { AddressSet } from "../AddressSet.ts"
import { toCanonicalAddress } from "../../contract/rules/IpNetworks.ts"
import type { AllowedNetworks, CurrentAccount } from "../../contract/Authentication.ts"

/** Maximum number of networks of all compiled lists, which take about 500 bytes each. */
const maxCompiledNetworks = 20_000

const compileNetworks = (networks: ReadonlyArray<string>): AllowedNetworks => {
  const addresses = new AddressSet(networks)
  return { size: networks.length, includes: (address) => addresses.has(address) }
}

/** Makes a function that compiles networks such as `10.0.0.0/8` once, although keys are looked up repeatedly. */
export const makeNetworkCompiler = () => {
  const compiled = new LRUCache<string, AllowedNetworks>({
    maxSize: maxCompiledNetworks,
    sizeCalculation: ({ size }) => size,
  })
  return (networks: ReadonlyArray<string>) => {
    const text = networks.join()
    const found = compiled.get(text) ?? compileNetworks(networks)
    compiled.set(text, found)
    return found
  }
}

/** Whether the key may be used from the address of a client; never from an unknown one if it has networks. */
export const canKeyUseAddress = ({ networks }: typeof CurrentAccount.Service, address: string | undefined) => {
  if (networks === null) return true
  const canonical = address === undefined ? undefined : toCanonicalAddress(address)
  return canonical !== undefined && networks.includes(canonical)
}
