/**
 * The capacity model behind SCALING.md: calculates the resources that a request rate needs from the measured costs of
 * single requests.
 */
import figures from "./figures.json" with { type: "json" }

/**
 * The origin of a figure. `measured` figures come from a script in this folder, and `calculated` figures are derived
 * from them. `assumed` figures should be replaced with your own.
 */
export type FigureKind = "assumed" | "measured" | "calculated"

/** An input parameter of the model. */
export interface Figure {
  readonly name: string
  readonly value: number | null
  readonly unit: string
  readonly kind: string
  /** How the value was measured, or where it comes from. */
  readonly how: string
  /** The date of the measurement, or `–` for an assumption. */
  readonly when: string
}

/** The input parameters of the model, by the names that this module uses. */
export const figuresByName: Readonly<Record<keyof typeof figures, Figure>> = figures

/** Returns the value of an input parameter. Throws if it has not been measured yet. */
const value = (name: keyof typeof figures) => {
  const { value } = figuresByName[name]
  if (value === null) throw new Error(`${name} has not been measured yet`)
  return value
}

/** The request rates, in requests per second, for which the tables in SCALING.md are calculated. */
export const requestRates = [1_000, 10_000, 100_000, 1_000_000] as const
/** The total numbers of cores for which the tables are calculated. */
export const totalCores = [4, 16, 64] as const
/** The cache hit rates for which the tables are calculated. */
export const hitShares = [0, 0.5, 0.95] as const

/** Returns the number of busy cores, given the request rate and the CPU time per request in microseconds. */
const cores = (rate: number, microseconds: number) => rate * microseconds / 1e6

/** Returns the maximum core utilization, between 0 and 1. */
const filled = () => value("utilization")

/** A group of identical machines. */
export interface Machines {
  readonly count: number
  /** The number of cores per machine. */
  readonly size: number
}

/**
 * Returns the machines that can handle the given number of busy cores. Returns `atLeast` small machines if they
 * suffice, and otherwise enough machines of the usual size. If `atLeast` is more than one, the remaining machines still
 * suffice if one fails.
 */
const machines = (busy: number, atLeast: number): Machines => {
  const count = (size: number) =>
    Math.max(atLeast, Math.ceil(busy / filled() / size), atLeast > 1 ? Math.ceil(busy / size) + 1 : 0)
  const [small, usual] = [value("smallMachineCores"), value("machineCores")]
  return count(small) === atLeast ? { count: atLeast, size: small } : { count: count(usual), size: usual }
}

/** Returns the total number of cores of all machines. */
const sumCores = (kinds: ReadonlyArray<Machines>) => kinds.reduce((sum, { count, size }) => sum + count * size, 0)

/** The resources that a request rate needs. The fields from `service` to `balancing` are numbers of busy cores. */
export interface ResourceNeed {
  /** Requests per second. */
  readonly rate: number
  /** The cache hit rate: the share of requests that the response cache serves. */
  readonly hits: number
  readonly service: number
  /** PostgreSQL cores for reading data. */
  readonly reading: number
  /** PostgreSQL cores for recording usage. */
  readonly writing: number
  /** PostgreSQL cores for the token buckets of the rate limits. */
  readonly limiting: number
  /** Load balancer cores. */
  readonly balancing: number
  readonly processes: number
  readonly connections: number
  /** Network traffic in Gbit/s if responses are not compressed. */
  readonly network: number
  /** Network traffic in Gbit/s if responses are compressed. */
  readonly compressed: number
  /** WAL volume in MB per second. */
  readonly wal: number
  /** Usage records in GB per day. */
  readonly usage: number
  readonly services: Machines
  readonly primaries: Machines
  readonly replicas: Machines
  readonly loadBalancers: Machines
  /** The cost of the machines, in USD per million requests. */
  readonly computing: number
  /** The cost of storing the usage records, in USD per million requests. */
  readonly storing: number
  /** The cost of sending the responses, in USD per million requests. */
  readonly sending: number
}

/**
 * Returns the service's CPU time per request, in µs. Only cache misses incur the cost of compression, because the cache
 * stores compressed responses.
 */
const serviceCpu = (hits: number) =>
  hits * value("serviceHit") + (1 - hits) * (value("serviceMiss") + value("serviceCompressing"))

/**
 * Returns PostgreSQL's CPU time for reading data, in µs. It is the difference between a cache miss and a cache hit,
 * because a hit only records usage.
 */
const readingCpu = () => value("postgresMiss") - value("postgresHit")

/**
 * The cost of recording one request in PostgreSQL: CPU time in µs, bytes of WAL, and bytes on disk. Each is given for
 * three batch sizes. In a larger batch, more requests come from the same account and share a row.
 */
const usageCosts = {
  cpu: [[25, "usageCpuSmall"], [250, "usageCpuMedium"], [2000, "usageCpuLarge"]],
  wal: [[25, "usageWalSmall"], [250, "usageWalMedium"], [2000, "usageWalLarge"]],
  bytes: [[25, "usageBytesSmall"], [250, "usageBytesMedium"], [2000, "usageBytesLarge"]],
} as const

/** Returns the cost of recording one request in a batch of the given size, interpolated on logarithmic scales. */
const costOfUsage = (kind: keyof typeof usageCosts, batch: number) => {
  const [small, medium, large] = usageCosts[kind]
  const [[from, start], [to, end]] = batch < medium[0] ? [small, medium] : [medium, large]
  const position = Math.log(Math.min(Math.max(batch, small[0]), large[0]) / from) / Math.log(to / from)
  return value(start) * (value(end) / value(start)) ** position
}

/**
 * Returns each account's share of the requests. The shares follow a Zipf distribution: the nth account sends 1/n as
 * many requests as the first.
 */
const computeAccountShares = () => {
  const weights = Array.from({ length: value("accounts") }, (_, index) => 1 / (index + 1))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
}

/**
 * Returns the number of token buckets that all processes together synchronize per second. After a process has
 * synchronized an account's bucket, it synchronizes the bucket again at the account's first request that arrives at
 * least a quarter of a second later.
 */
const countSynchronizedBuckets = (rate: number, processes: number) =>
  computeAccountShares().reduce((sum, share) => sum + share * rate / (1 + share * rate / processes / 4), 0)

/**
 * Returns the resources that a request rate needs. `hits` is the share of requests that the response cache serves. At
 * least two processes are assumed, and more if their cores would be busy for longer than the utilization that the model
 * allows. Each process needs some CPU time even if it serves nothing.
 */
export const computeNeed = (rate: number, hits: number): ResourceNeed => {
  const serving = cores(rate, serviceCpu(hits))
  const idle = value("serviceIdle") / 1e6
  const processes = Math.max(2, Math.ceil(serving / (filled() - idle)))
  const service = serving + processes * idle
  const polling = processes * value("postgresIdle") / 1e6
  const reading = cores(rate, (1 - hits) * readingCpu()) + polling
  // Each process writes four batches per second.
  const batch = rate / processes / 4
  const usageBytes = costOfUsage("bytes", batch)
  const writing = cores(rate, costOfUsage("cpu", batch))
  const limiting = cores(countSynchronizedBuckets(rate, processes), value("bucketCpu"))
  const balancing = cores(rate, value("loadBalancer"))
  // Enough machines remain if one fails. If the primary fails, the first replica replaces it.
  const services = machines(service, 2)
  const primaries = machines(writing + limiting, 1)
  const replicas = machines(reading, rate > requestRates[0] ? 2 : 1)
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
    // Usage records are stored for the retention period, on the primary and on each copy.
    storing: usageBytes * 1e6 / 1e9 * value("retentionMonths") * value("gigabyteMonth") * value("copies"),
    sending: bytes * 1e6 / 1e9 * value("gigabyteSent"),
  }
}

/** A resource that limits the request rate. */
export interface Ceiling {
  readonly what: string
  /** The request rates per second at which the resource is exhausted, one for each of `hitShares`. */
  readonly at: ReadonlyArray<number>
  /** What to add when the resource is exhausted. */
  readonly add: string
}

/**
 * Returns the highest request rate whose resource needs satisfy `fits`. The rate is found by bisection with an error of
 * at most 0.01%.
 */
const findHighestRate = (hits: number, fits: (need: ResourceNeed) => boolean) => {
  let [low, high] = [1, 1e8]
  while (high / low > 1.0001) {
    const middle = Math.sqrt(low * high)
    if (fits(computeNeed(middle, hits))) low = middle
    else high = middle
  }
  return low
}

/** Returns the resource needs at the highest request rate that machines with `count` cores in total can handle. */
export const computeNeedOfCores = (count: number, hits: number) =>
  computeNeed(
    findHighestRate(hits, ({ balancing, limiting, reading, service, writing }) =>
      balancing + limiting + reading + service + writing <= count * filled()),
    hits,
  )

const forEachShare = (compute: (hits: number) => number) => hitShares.map(compute)
const forEveryShare = (rate: number) => forEachShare(() => rate)

/**
 * Lists the resources that limit the request rate, sorted by the rate at which they are exhausted if 50% of requests
 * are cache hits. A resource that cache hits spare has a different rate for each of `hitShares` (`forEachShare`); for
 * the others, the rate is always the same (`forEveryShare`).
 */
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
    // The second of `hitShares` is 50%.
  ].toSorted((one, other) => (one.at[1] ?? 0) - (other.at[1] ?? 0))
}
