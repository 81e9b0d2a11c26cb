/**
 * The capacity model of SCALING.md: which resources a request rate needs, calculated from the measured costs of single
 * requests.
 */
import figures from "./figures.json" with { type: "json" }

/** `measured` by a script in this folder, `calculated` from measured figures, or `assumed`, to be replaced by yours. */
export type FigureKind = "assumed" | "measured" | "calculated"

/** An input of the model. */
export interface Figure {
  readonly name: string
  readonly value: number | null
  readonly unit: string
  readonly kind: string
  /** How it was measured, or its source. */
  readonly how: string
  /** The day of the measurement; `–` for an assumption. */
  readonly when: string
}

/** The inputs of the model, by the names that this file uses. */
export const figuresByName: Readonly<Record<keyof typeof figures, Figure>> = figures

/** Throws for a figure that has not been measured yet. */
const value = (name: keyof typeof figures) => {
  const { value } = figuresByName[name]
  if (value === null) throw new Error(`${name} has not been measured yet`)
  return value
}

/** Requests per second for which the tables of SCALING.md are calculated. */
export const rates = [1_000, 10_000, 100_000, 1_000_000] as const
/** Total numbers of cores for which they are calculated. */
export const totalCores = [4, 16, 64] as const
/** Shares of the requests that the response cache serves. */
export const hitShares = [0, 0.5, 0.95] as const

/** Returns the number of busy cores at a rate, from the microseconds of CPU per request. */
const cores = (rate: number, microseconds: number) => rate * microseconds / 1e6

/** Returns the maximum utilization of a core, between 0 and 1. */
const filled = () => value("utilization")

/** A number of equal machines. */
export interface Machines {
  readonly count: number
  /** The cores of each machine. */
  readonly size: number
}

/**
 * Returns the machines for a number of busy cores: `atLeast` small ones if they suffice, otherwise enough ordinary
 * ones. If there are several, the others still suffice when one fails.
 */
const machines = (busy: number, atLeast: number): Machines => {
  const count = (size: number) =>
    Math.max(atLeast, Math.ceil(busy / filled() / size), atLeast > 1 ? Math.ceil(busy / size) + 1 : 0)
  const [small, usual] = [value("smallMachineCores"), value("machineCores")]
  return count(small) === atLeast ? { count: atLeast, size: small } : { count: count(usual), size: usual }
}

/** Returns the total number of cores. */
const sumCores = (kinds: ReadonlyArray<Machines>) => kinds.reduce((sum, { count, size }) => sum + count * size, 0)

/** What a request rate needs. `service` to `balancing` are numbers of busy cores. */
export interface ResourceNeed {
  /** Requests per second. */
  readonly rate: number
  /** The share of the requests that the response cache serves. */
  readonly hits: number
  readonly service: number
  /** PostgreSQL, for reading data. */
  readonly reading: number
  /** PostgreSQL, for recording usage. */
  readonly writing: number
  /** PostgreSQL, for the token buckets of the rate limits. */
  readonly limiting: number
  /** The load balancers. */
  readonly balancing: number
  readonly processes: number
  readonly connections: number
  /** Gbit/s of responses without compression. */
  readonly network: number
  /** Gbit/s of compressed responses. */
  readonly compressed: number
  /** MB of WAL per second. */
  readonly wal: number
  /** GB of usage per day. */
  readonly usage: number
  readonly services: Machines
  readonly primaries: Machines
  readonly replicas: Machines
  readonly loadBalancers: Machines
  /** USD per million requests, for the machines. */
  readonly computing: number
  /** USD per million requests, for storing their usage. */
  readonly storing: number
  /** USD per million requests, for sending the responses. */
  readonly sending: number
}

/**
 * Returns the service's CPU time per request, in µs. Only a miss must be compressed: the cache keeps compressed
 * responses.
 */
const serviceCpu = (hits: number) =>
  hits * value("serviceHit") + (1 - hits) * (value("serviceMiss") + value("serviceCompressing"))

/** Returns PostgreSQL's CPU time for reading, in µs: a cache miss minus a cache hit, which only records usage. */
const readingCpu = () => value("postgresMiss") - value("postgresHit")

/**
 * What recording a request costs PostgreSQL: CPU time in µs, and bytes of WAL and on disk, for three sizes of the
 * batches that a process writes. In a larger batch, more requests come from the same account and share a row.
 */
const usageCosts = {
  cpu: [[25, "usageCpuSmall"], [250, "usageCpuMedium"], [2000, "usageCpuLarge"]],
  wal: [[25, "usageWalSmall"], [250, "usageWalMedium"], [2000, "usageWalLarge"]],
  bytes: [[25, "usageBytesSmall"], [250, "usageBytesMedium"], [2000, "usageBytesLarge"]],
} as const

/** Returns what recording one request costs in a batch of this size, interpolated on logarithmic scales. */
const costOfUsage = (kind: keyof typeof usageCosts, batch: number) => {
  const [small, medium, large] = usageCosts[kind]
  const [[from, start], [to, end]] = batch < medium[0] ? [small, medium] : [medium, large]
  const position = Math.log(Math.min(Math.max(batch, small[0]), large[0]) / from) / Math.log(to / from)
  return value(start) * (value(end) / value(start)) ** position
}

/** Returns the share of the requests that each account sends: the nth sends 1/n as many as the first (Zipf). */
const computeAccountShares = () => {
  const weights = Array.from({ length: value("accounts") }, (_, index) => 1 / (index + 1))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
}

/**
 * Returns how many token buckets all processes synchronize per second. After synchronizing an account's bucket, a
 * process does so again at the account's first request that comes at least a quarter of a second later.
 */
const countSynchronizedBuckets = (rate: number, processes: number) =>
  computeAccountShares().reduce((sum, share) => sum + share * rate / (1 + share * rate / processes / 4), 0)

/** Returns what a rate needs. `hits` is the share of the requests that the response cache serves. */
export const computeNeed = (rate: number, hits: number): ResourceNeed => {
  const serving = cores(rate, serviceCpu(hits))
  const idle = value("serviceIdle") / 1e6
  const processes = Math.max(2, Math.ceil(serving / (filled() - idle)))
  const service = serving + processes * idle
  const polling = processes * value("postgresIdle") / 1e6
  const reading = cores(rate, (1 - hits) * readingCpu()) + polling
  // Each process writes four batches a second.
  const batch = rate / processes / 4
  const usageBytes = costOfUsage("bytes", batch)
  const writing = cores(rate, costOfUsage("cpu", batch))
  const limiting = cores(countSynchronizedBuckets(rate, processes), value("bucketCpu"))
  const balancing = cores(rate, value("loadBalancer"))
  // Enough machines remain if one fails; the first replica can replace the primary.
  const services = machines(service, 2)
  const primaries = machines(writing + limiting, 1)
  const replicas = machines(reading, rate > rates[0] ? 2 : 1)
  const loadBalancers = machines(balancing, 2)
  const usage = rate * 86_400 * usageBytes / 1e9
  const millionsAnHour = rate * 3600 / 1e6
  const bytes = value("bytesCompressed")
  return {
    rate,
    hits,
    service,
    reading,
    writing,
    limiting,
    balancing,
    processes,
    connections: processes * value("connections"),
    network: rate * value("bytes") * 8 / 1e9,
    compressed: rate * bytes * 8 / 1e9,
    wal: rate * costOfUsage("wal", batch) / 1e6,
    usage,
    services,
    primaries,
    replicas,
    loadBalancers,
    computing: sumCores([services, primaries, replicas, loadBalancers]) * value("coreHour") / millionsAnHour,
    // Usage is stored for its retention, on the primary and each copy.
    storing: usageBytes * 1e6 / 1e9 * value("retentionMonths") * value("gigabyteMonth") * value("copies"),
    sending: bytes * 1e6 / 1e9 * value("gigabyteSent"),
  }
}

/** A single resource that limits the request rate. */
export interface Ceiling {
  readonly what: string
  /** Requests per second at which the resource is exhausted, for each of `hitShares`. */
  readonly at: ReadonlyArray<number>
  /** What to add when it is exhausted. */
  readonly add: string
}

/** Returns the highest rate whose need fits, found by bisection with an error of 0.01%. */
const findHighestRate = (hits: number, fits: (need: ResourceNeed) => boolean) => {
  let [low, high] = [1, 1e8]
  while (high / low > 1.0001) {
    const middle = Math.sqrt(low * high)
    if (fits(computeNeed(middle, hits))) low = middle
    else high = middle
  }
  return low
}

/** Returns the need at the highest rate that machines with this many cores in total can handle. */
export const computeNeedOfCores = (count: number, hits: number) =>
  computeNeed(
    findHighestRate(hits, ({ balancing, limiting, reading, service, writing }) =>
      balancing + limiting + reading + service + writing <= count * filled()),
    hits,
  )

const forEachShare = (compute: (hits: number) => number) => hitShares.map(compute)
const forEveryShare = (rate: number) => forEachShare(() => rate)

/** Lists single resources and the rate at which each is exhausted, in ascending order at 50% hits. */
export const listCeilings = (): ReadonlyArray<Ceiling> => {
  const size = value("machineCores")
  const big = value("largestMachineCores")
  const usageCpu = costOfUsage("cpu", value("usageBatch"))
  const perProcess = (hits: number) => (filled() * 1e6 - value("serviceIdle")) / serviceCpu(hits)
  const connectionsAt = (hits: number) => value("maxConnections") / value("connections") * perProcess(hits)
  return [
    {
      what: "one process, on one core",
      at: forEachShare(perProcess),
      add: "one process per core (`REUSE_PORT`), then more machines behind a load balancer",
    },
    {
      what: `PostgreSQL's ${value("maxConnections")} connections`,
      at: forEachShare(connectionsAt),
      add: "PgBouncer in transaction mode, and `DATABASE_DIRECT_URL`",
    },
    {
      what: `one PostgreSQL of ${size} cores that reads and writes`,
      at: forEachShare((hits) =>
        findHighestRate(hits, ({ limiting, reading, writing }) => limiting + reading + writing <= size * filled())
      ),
      add: "replicas (`DATABASE_READ_URLS`), so that the primary only writes",
    },
    {
      what: `one load balancer of ${size} cores`,
      at: forEveryShare(size * filled() * 1e6 / value("loadBalancer")),
      add: "several load balancers, by DNS or anycast",
    },
    {
      what: "one network card of 10 Gbit/s, compressed",
      at: forEveryShare(10e9 * filled() / 8 / value("bytesCompressed")),
      add: "several load balancers, or a CDN that terminates TLS near the clients",
    },
    {
      what: "adding usage to sums and balances, which one process does",
      at: forEveryShare(filled() * 1e6 / value("usageSettling")),
      add: "several processes that settle usage, each for some of the accounts; not built",
    },
    {
      what: `one primary that writes usage, ${big} cores`,
      at: forEveryShare(big * filled() * 1e6 / usageCpu),
      add: "a separate database for usage, then several (Citus, by account); not built",
    },
    {
      what: "WAL replay of a standby, one core",
      at: forEveryShare(filled() * value("replayMegabytes") * 1e6 / costOfUsage("wal", value("usageBatch"))),
      add: "a separate database for usage, so that data replicas do not replay its WAL; not built",
    },
  ].toSorted((one, other) => (one.at[1] ?? 0) - (other.at[1] ?? 0))
}
