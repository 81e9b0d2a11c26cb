/** The capacity model: resources needed at a request rate, calculated from measured costs of single requests. */
import figures from "./figures.json" with { type: "json" }

/** `measured` by a script in this folder, `calculated` from measured figures, or `assumed`, to be replaced by yours. */
export type FigureKind = "assumed" | "measured" | "calculated"

export interface Figure {
  readonly name: string
  readonly value: number | null
  readonly unit: string
  readonly kind: string
  /** How it was measured, or its source. */
  readonly how: string
  readonly when: string
}

export const figuresByName: Readonly<Record<keyof typeof figures, Figure>> = figures

/** Throws for a figure that has not been measured yet. */
const value = (name: keyof typeof figures) => {
  const { value } = figuresByName[name]
  if (value === null) throw new Error(`${name} has not been measured yet`)
  return value
}

export const rates = [1_000, 10_000, 100_000, 1_000_000] as const
export const totalCores = [4, 16, 64] as const
export const hitShares = [0, 0.5, 0.95] as const

/** Returns the number of busy cores at a rate, from the microseconds of CPU per request. */
const cores = (rate: number, microseconds: number) => rate * microseconds / 1e6

/** Returns the maximum utilization of a core, between 0 and 1. */
const filled = () => value("utilization")

export interface Machines {
  readonly count: number
  /** Cores of each. */
  readonly size: number
}

/** Returns `atLeast` small machines if they suffice, otherwise enough ordinary ones. Of several, one may fail. */
const machines = (busy: number, atLeast: number): Machines => {
  const count = (size: number) =>
    Math.max(atLeast, Math.ceil(busy / filled() / size), atLeast > 1 ? Math.ceil(busy / size) + 1 : 0)
  const [small, usual] = [value("smallMachineCores"), value("machineCores")]
  return count(small) === atLeast ? { count: atLeast, size: small } : { count: count(usual), size: usual }
}

const bought = (kinds: ReadonlyArray<Machines>) => kinds.reduce((sum, { count, size }) => sum + count * size, 0)

export interface ResourceNeed {
  readonly rate: number
  readonly hits: number
  /** Busy cores: these five figures. */
  readonly service: number
  readonly reading: number
  readonly writing: number
  readonly limiting: number
  readonly balancing: number
  readonly processes: number
  readonly connections: number
  /** Gbit/s, before and after compression. */
  readonly network: number
  readonly compressed: number
  /** MB/s. */
  readonly wal: number
  /** GB per day. */
  readonly usage: number
  readonly services: Machines
  readonly primaries: Machines
  readonly replicas: Machines
  readonly loadBalancers: Machines
  /** USD per million requests. */
  readonly computing: number
  readonly storing: number
  readonly sending: number
}

/** Returns the service's CPU time per request. The cache has compressed responses, and any other is compressed. */
const serviceOf = (hits: number) =>
  hits * value("serviceHit") + (1 - hits) * (value("serviceMiss") + value("serviceCompressing"))

/** Returns PostgreSQL's CPU time for reading: that of a miss minus that of a hit, which only writes its usage row. */
const readingOf = () => value("postgresMiss") - value("postgresHit")

/**
 * What recording a request costs PostgreSQL, by the size of the batches that a process writes: CPU time in µs, and bytes
 * of WAL and on disk. Larger batches have more requests of the same account, which share a row.
 */
const usageCosts = {
  cpu: [[25, "usageCpuSmall"], [250, "usageCpuMedium"], [2000, "usageCpuLarge"]],
  wal: [[25, "usageWalSmall"], [250, "usageWalMedium"], [2000, "usageWalLarge"]],
  bytes: [[25, "usageBytesSmall"], [250, "usageBytesMedium"], [2000, "usageBytesLarge"]],
} as const

/** Interpolates between the measured sizes on logarithmic scales. */
const costOfUsage = (kind: keyof typeof usageCosts, batch: number) => {
  const [small, medium, large] = usageCosts[kind]
  const [[from, start], [to, end]] = batch < medium[0] ? [small, medium] : [medium, large]
  const position = Math.log(Math.min(Math.max(batch, small[0]), large[0]) / from) / Math.log(to / from)
  return value(start) * (value(end) / value(start)) ** position
}

/** The share of each account in the requests: the nth has 1/n of the requests of the first (Zipf). */
const accountShares = () => {
  const weights = Array.from({ length: value("accounts") }, (_, index) => 1 / (index + 1))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.map((weight) => weight / total)
}

/**
 * Returns how many token buckets all processes synchronize per second. A process synchronizes the bucket of an account
 * with the first request that comes at least a quarter of a second after the last time.
 */
const synchronizedBuckets = (rate: number, processes: number) =>
  accountShares().reduce((sum, share) => sum + share * rate / (1 + share * rate / processes / 4), 0)

export const computeNeed = (rate: number, hits: number): ResourceNeed => {
  const answering = cores(rate, serviceOf(hits))
  const idle = value("serviceIdle") / 1e6
  const processes = Math.max(2, Math.ceil(answering / (filled() - idle)))
  const service = answering + processes * idle
  const looking = processes * value("postgresIdle") / 1e6
  const reading = cores(rate, (1 - hits) * readingOf()) + looking
  // Each process writes four batches a second.
  const batch = rate / processes / 4
  const usageBytes = costOfUsage("bytes", batch)
  const writing = cores(rate, costOfUsage("cpu", batch))
  const limiting = cores(synchronizedBuckets(rate, processes), value("bucketCpu"))
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
    computing: bought([services, primaries, replicas, loadBalancers]) * value("coreHour") / millionsAnHour,
    // Usage is stored for its retention, on the primary and each copy.
    storing: usageBytes * 1e6 / 1e9 * value("retentionMonths") * value("gigabyteMonth") * value("copies"),
    sending: bytes * 1e6 / 1e9 * value("gigabyteSent"),
  }
}

export interface Ceiling {
  readonly what: string
  /** Requests per second at which the resource is exhausted, for each of `hitShares`. */
  readonly at: ReadonlyArray<number>
  readonly add: string
}

/** Returns the highest rate whose need fits. */
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

const each = (of: (hits: number) => number) => hitShares.map(of)
const always = (rate: number) => each(() => rate)

/** Lists single resources and the rate at which each is exhausted, in ascending order at 50% hits. */
export const listCeilings = (): ReadonlyArray<Ceiling> => {
  const size = value("machineCores")
  const big = value("largestMachineCores")
  const usageCpu = costOfUsage("cpu", value("usageBatch"))
  const perProcess = (hits: number) => (filled() * 1e6 - value("serviceIdle")) / serviceOf(hits)
  const connectionsAt = (hits: number) => value("maxConnections") / value("connections") * perProcess(hits)
  return [
    {
      what: "one process, on one core",
      at: each(perProcess),
      add: "one process per core (`REUSE_PORT`), then more machines behind a load balancer",
    },
    {
      what: `PostgreSQL's ${value("maxConnections")} connections`,
      at: each(connectionsAt),
      add: "PgBouncer in transaction mode, and `DATABASE_DIRECT_URL`",
    },
    {
      what: `one PostgreSQL of ${size} cores that reads and writes`,
      at: each((hits) =>
        findHighestRate(hits, ({ limiting, reading, writing }) => limiting + reading + writing <= size * filled())
      ),
      add: "replicas (`DATABASE_READ_URLS`), so that the primary only writes",
    },
    {
      what: `one load balancer of ${size} cores`,
      at: always(size * filled() * 1e6 / value("loadBalancer")),
      add: "several load balancers, by DNS or anycast",
    },
    {
      what: "one network card of 10 Gbit/s, compressed",
      at: always(10e9 * filled() / 8 / value("bytesCompressed")),
      add: "several load balancers, or a CDN that terminates TLS near the clients",
    },
    {
      what: "adding usage to sums and balances, which one process does",
      at: always(filled() * 1e6 / value("usageSettling")),
      add: "several processes that settle usage, each for some of the accounts; not built",
    },
    {
      what: `one primary that writes usage, ${big} cores`,
      at: always(big * filled() * 1e6 / usageCpu),
      add: "a separate database for usage, then several (Citus, by account); not built",
    },
    {
      what: "WAL replay of a standby, one core",
      at: always(filled() * value("replayMegabytes") * 1e6 / costOfUsage("wal", value("usageBatch"))),
      add: "a separate database for usage, so that data replicas do not replay its WAL; not built",
    },
  ].toSorted((one, other) => (one.at[1] ?? 0) - (other.at[1] ?? 0))
}
