/**
 * Capacity model: resources needed for a request rate, calculated from the measured cost per request. `tables.ts`
 * formats the results.
 */
import figures from "./figures.json" with { type: "json" }

/** `measured` by a script in this folder, `reckoned` (calculated) from measured figures, or `assumed`: replace with your own. */
export type FigureSource = "assumed" | "measured" | "reckoned"

export interface Figure {
  readonly name: string
  readonly value: number | null
  readonly unit: string
  readonly kind: string
  /** Method of measurement or source. */
  readonly how: string
  readonly when: string
}

export const all: Readonly<Record<keyof typeof figures, Figure>> = figures

/** Value of a figure. Throws if it has not been measured yet. */
const value = (name: keyof typeof figures) => {
  const { value } = all[name]
  if (value === null) throw new Error(`${name} has not been measured yet`)
  return value
}

export const rates = [100, 10_000, 1_000_000] as const
export const hitShares = [0, 0.5, 0.95] as const

/** Busy cores at a request rate, from microseconds of CPU time per request. */
const cores = (rate: number, microseconds: number) => rate * microseconds / 1e6

/** Target utilization. The rest is headroom for bursts and for the loss of a machine. */
const filled = () => value("utilisation")

export interface MachinePlan {
  readonly count: number
  /** Cores per machine. */
  readonly size: number
}

/** Uses `atLeast` small machines if they suffice, otherwise as many standard ones as needed. */
const machines = (busy: number, atLeast: number): MachinePlan => {
  const [wanted, small, usual] = [busy / filled(), value("smallMachineCores"), value("machineCores")]
  return wanted <= small * atLeast
    ? { count: atLeast, size: small }
    : { count: Math.max(atLeast, Math.ceil(wanted / usual)), size: usual }
}

const bought = (kinds: ReadonlyArray<MachinePlan>) => kinds.reduce((sum, { count, size }) => sum + count * size, 0)

export interface CapacityNeed {
  readonly rate: number
  readonly hits: number
  /** Busy cores. */
  readonly service: number
  readonly reading: number
  readonly writing: number
  readonly redis: number
  readonly balancing: number
  readonly processes: number
  readonly connections: number
  /** Gbit/s before and after compression. */
  readonly network: number
  readonly compressed: number
  /** MB/s. */
  readonly wal: number
  /** GB per day. */
  readonly usage: number
  readonly services: MachinePlan
  readonly primaries: MachinePlan
  readonly replicas: MachinePlan
  readonly balancers: MachinePlan
  readonly redises: MachinePlan
  /** USD per million requests. */
  readonly computing: number
  readonly storing: number
  readonly sending: number
}

/** CPU time of PostgreSQL for reading: a miss minus a hit, because both write a usage row. */
const readingOf = () => value("postgresMiss") - value("postgresHit")

/** Usage rows are batched for 250 ms per process. Larger batches cost less per row. */
const writingOf = (rate: number, processes: number) => {
  const rows = rate / processes * 0.25
  return rows < 100 ? value("usageRowSmallBatch") : value("usageRow")
}

export const need = (rate: number, hits: number): CapacityNeed => {
  const service = cores(
    rate,
    hits * value("serviceHit") + (1 - hits) * value("serviceMiss") + value("serviceRedis"),
  )
  const processes = Math.max(2, Math.ceil(service / filled()))
  const looking = processes * value("postgresIdle") / 1e6
  const reading = cores(rate, (1 - hits) * readingOf()) + looking
  const writing = cores(rate, writingOf(rate, processes))
  const redis = cores(rate, value("redisRequest"))
  const balancing = cores(rate, value("balancer"))
  // Any one machine may fail. A replica replaces the primary.
  const services = machines(service, 2)
  const primaries = machines(writing, 1)
  const replicas = machines(reading, rate > rates[0] ? 2 : 1)
  const balancers = machines(balancing, 2)
  const redises = machines(redis, 2)
  const usage = rate * 86_400 * value("usageBytes") / 1e9
  const millionsAnHour = rate * 3600 / 1e6
  const bytes = value("bytesCompressed")
  return {
    rate,
    hits,
    service,
    reading,
    writing,
    redis,
    balancing,
    processes,
    connections: processes * value("connections"),
    network: rate * value("bytes") * 8 / 1e9,
    compressed: rate * bytes * 8 / 1e9,
    wal: rate * value("walRow") / 1e6,
    usage,
    services,
    primaries,
    replicas,
    balancers,
    redises,
    computing: bought([services, primaries, replicas, balancers, redises]) * value("coreHour") / millionsAnHour,
    // Usage rows are stored for the retention period, on the primary and every replica.
    storing: value("usageBytes") * 1e6 / 1e9 * value("retentionMonths") * value("gigabyteMonth") * value("copies"),
    sending: bytes * 1e6 / 1e9 * value("gigabyteSent"),
  }
}

export interface Ceiling {
  readonly what: string
  /** Requests per second at capacity, by share of hits. */
  readonly at: ReadonlyArray<number>
  readonly add: string
}

const each = (compute: (hits: number) => number) => hitShares.map(compute)
const always = (rate: number) => each(() => rate)

/** Capacity of resources that exist only once, smallest first at 50 % hits. */
export const ceilings = (): ReadonlyArray<Ceiling> => {
  const size = value("machineCores")
  const big = value("largestMachineCores")
  const perProcess = (hits: number) =>
    1e6 / (hits * value("serviceHit") + (1 - hits) * value("serviceMiss") + value("serviceRedis"))
  const connectionsAt = (hits: number) => value("maxConnections") / value("connections") * perProcess(hits) * filled()
  return [
    {
      what: "one process: a core of JavaScript",
      at: each((hits) => perProcess(hits) * filled()),
      add: "a process for each core (`REUSE_PORT`), then machines behind a balancer",
    },
    {
      what: `PostgreSQL's ${value("maxConnections")} connections`,
      at: each(connectionsAt),
      add: "PgBouncer in transaction mode before it, and `DATABASE_DIRECT_URL`",
    },
    {
      what: `one PostgreSQL of ${size} cores that reads and writes`,
      at: each((hits) => size * filled() * 1e6 / ((1 - hits) * readingOf() + value("usageRow"))),
      add: "replicas (`DATABASE_READ_URLS`), so that the primary has the writing alone",
    },
    {
      what: "the counters of one Redis: one core",
      at: always(1e6 * filled() / value("redisRequest")),
      add: "no `REDIS_URL`: PostgreSQL counts by blocks of permits, a few statements a second for a busy account",
    },
    {
      what: `one balancer of ${size} cores`,
      at: always(size * filled() * 1e6 / value("balancer")),
      add: "several, by DNS or anycast",
    },
    {
      what: "10 Gbit/s of one network card, compressed",
      at: always(10e9 * filled() / 8 / value("bytesCompressed")),
      add: "several balancers, or an edge network near the clients",
    },
    {
      what: "charging, where an account is in every batch: one batch after the other",
      at: always(1e6 / (value("usageRow") + 1000 * value("commit") / value("usageBatch"))),
      add: "sums that processes add to side by side; not built",
    },
    {
      what: `the primary's writing of usage, ${big} cores`,
      at: always(big * filled() * 1e6 / value("usageRow")),
      add: "usage on a database of its own, then one of several (Citus, by account); not built",
    },
    {
      what: "a standby's replay of WAL: one core",
      at: always(value("replayMegabytes") * 1e6 / value("walRow")),
      add: "usage on a database of its own, so that replicas of the data replay the data alone; not built",
    },
  ].toSorted((one, other) => (one.at[1] ?? 0) - (other.at[1] ?? 0))
}
