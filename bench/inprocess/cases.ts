/** The requests that `npm run inprocess` sends to the service in the same process. */
import { type BenchmarkCase, cases, fillCounter, type QueryParameters, sorts } from "../cases.ts"
import { formatRestRequest } from "../requestFiles.ts"
import { makeTickerSymbol } from "../symbols.ts"
import { recordedSymbolPrefix } from "./memoryPostgres.ts"

/** A set of similar requests. */
export interface InProcessCase {
  readonly name: string
  readonly title: string
  readonly status: number
  readonly requestsPerBatch: number
  /**
   * A substring of the SQL statement that the service must send exactly once per request. Undefined if the service must
   * not send a statement.
   */
  readonly statement?: string
  /** A substring of the SQL statement that the service must not send, because the response comes from memory. */
  readonly absent?: string
  /** Creates the nth request. `tags` contains the ETags of the popular responses, for the `304` case. */
  readonly makeRequest: (number: number, tags: ReadonlyArray<string>) => Buffer
  /** The request that is sent to record the replies to its statements. */
  readonly recorded: Buffer
  /** The expected number of results in the response to `recorded`. */
  readonly results?: number
  /** Whether the case is measured with `CACHE_MEGABYTES=0`, so that lineages are read from the table. */
  readonly isUncached?: true
}

/** The number of popular requests in the cases whose responses come from the response cache. */
export const popularRequests = 100

const findCase = (name: string) => {
  const found = cases.find((one) => one.name === name)
  if (found === undefined) throw new Error(`There is no case ${name}`)
  return found
}

/** Numbers start here so that they all have ten digits, and all requests of a case have the same length. */
const firstNumber = 1_000_000_000

const letters = (number: number, length: number): string =>
  length === 0 ? "" : letters(Math.floor(number / 26), length - 1) +
    String.fromCharCode(65 + number % 26)

interface Chains {
  /** The number of symbols per chain. The symbols of a chain differ only in the last letter. */
  readonly symbols: number
  /** The number of the first chain. */
  readonly first: number
}

const symbolsOfChains = 20_000

/** The chains of ticker changes with three and with twelve events. Each kind has at least `symbolsOfChains` symbols. */
const chainsOf3: Chains = { symbols: 4, first: 1 }
const chainsOf12: Chains = { symbols: 13, first: 10_000 }

const makeChainSymbol = ({ first, symbols }: Chains, number: number) =>
  letters(Math.floor(number / symbols) + first, recordedSymbolPrefix.length) + letters(number % symbols, 1)

/**
 * The symbols, in order, of the chain that was recorded: the recorded reply to the lineage statement contains this
 * chain of three events.
 */
const recordedChain = [0, 1, 2, 3].map((number) => recordedSymbolPrefix + letters(number, 1))

const makeChains = (chains: Chains) =>
  Array.from(
    { length: Math.ceil(symbolsOfChains / chains.symbols) },
    (_, chain) =>
      Array.from({ length: chains.symbols }, (_, symbol) => makeChainSymbol(chains, chain * chains.symbols + symbol)),
  )

/** The symbols of every chain in `ticker_changes`, in order. */
export const allChains = [recordedChain, ...makeChains(chainsOf3), ...makeChains(chainsOf12)]

/** Creates all cases. `key` is the API key that the requests contain. */
export const makeInProcessCases = (
  key: string,
): ReadonlyArray<InProcessCase> => {
  const write = formatRestRequest(key)
  const format = (
    benchmarkCase: BenchmarkCase,
    parameters: QueryParameters,
    number = 0,
    tag?: string,
  ) => Buffer.from(fillCounter(write(benchmarkCase, parameters, tag), firstNumber + number))

  const miss = (
    name: string,
    { recorded = {}, ...rest }:
      & Pick<
        InProcessCase,
        "title" | "requestsPerBatch" | "statement" | "results"
      >
      & { readonly recorded?: QueryParameters },
    misses = findCase(name).misses,
  ): InProcessCase => {
    const benchmarkCase = findCase(name)
    return {
      ...rest,
      name,
      status: 200,
      makeRequest: (number) => format(benchmarkCase, misses[number % misses.length] ?? {}, number),
      recorded: format(benchmarkCase, { ...misses[0], ...recorded }),
    }
  }

  const known = { ticker: makeTickerSymbol(1) }
  const [runners, lineage] = [findCase("runners-10"), findCase("lineage-3")]
  const lineageStatement = "with recursive symbols"

  const lineageInMemory = (name: string, chains: Chains): InProcessCase => ({
    name,
    title: `Lineage of ${chains.symbols - 1} events, miss`,
    status: 200,
    requestsPerBatch: 1000,
    absent: lineageStatement,
    makeRequest: (number) => {
      // If the same lineage were requested again, it would come from the cache.
      if (number >= symbolsOfChains) throw new Error(`There are only ${symbolsOfChains} lineages; use fewer batches`)
      return format(lineage, { ticker: makeChainSymbol(chains, number) })
    },
    // Uses the last symbol, because the first ones are needed for the measurement.
    recorded: format(lineage, { ticker: makeChains(chains).at(-1)?.at(-1) ?? "" }),
    results: chains.symbols - 1,
  })

  const popular = (number: number) => runners.popular[number % popularRequests] ?? {}
  const withoutKey = Buffer.from(
    `GET ${runners.path}?ticker=AAPL HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n`,
  )
  const invalid = format(runners, { ...known, limit: "many" })
  const account = format({ ...runners, path: "/v1/account" }, {})
  const statement = "intraday_runners"
  return [
    miss("runners-0", {
      title: "0 rows, miss",
      requestsPerBatch: 1000,
      statement,
      results: 0,
    }),
    miss("runners-10", {
      title: "10 rows of 36 columns, miss",
      requestsPerBatch: 1000,
      statement,
      recorded: known,
      results: 10,
    }),
    miss("runners-100", {
      title: "100 rows of 36 columns, miss",
      requestsPerBatch: 200,
      statement,
      recorded: known,
      results: 100,
    }),
    lineageInMemory("lineage-3", chainsOf3),
    lineageInMemory("lineage-12", chainsOf12),
    {
      name: "lineage-3-table",
      title: "Lineage of 3 events, miss, read from the table",
      status: 200,
      requestsPerBatch: 1000,
      statement: lineageStatement,
      makeRequest: (number) => format(lineage, { ticker: makeChainSymbol(chainsOf3, number) }),
      recorded: format(lineage, { ticker: recordedChain[0] ?? "" }),
      results: 3,
      isUncached: true,
    },
    miss("float", {
      title: "10 floats with market caps, miss",
      requestsPerBatch: 1000,
      statement: "historical_float_pro",
      recorded: known,
      results: 10,
    }),
    miss(
      "screener",
      {
        title: "Screener with 5 filters and a sort, miss",
        requestsPerBatch: 600,
        statement: "screener",
        results: 10,
      },
      // The sort order is part of the SQL statement, and only one statement is recorded.
      findCase("screener").misses.filter(({ sort }) => sort === sorts[0]),
    ),
    {
      name: "hit",
      title: "10 rows, response cache",
      status: 200,
      requestsPerBatch: 4000,
      absent: statement,
      makeRequest: (number) => format(runners, popular(number)),
      recorded: format(runners, known),
      results: 10,
    },
    {
      name: "304",
      title: "304 from the response cache",
      status: 304,
      requestsPerBatch: 4000,
      absent: statement,
      makeRequest: (number, tags) => format(runners, popular(number), 0, tags[number % popularRequests]),
      recorded: format(runners, known),
      results: 10,
    },
    {
      name: "401",
      title: "401: parse, route, respond; no key",
      status: 401,
      requestsPerBatch: 2000,
      absent: statement,
      makeRequest: () => withoutKey,
      recorded: withoutKey,
    },
    {
      name: "422",
      title: "422: the same with a key, and an invalid parameter",
      status: 422,
      requestsPerBatch: 1000,
      absent: statement,
      makeRequest: () => invalid,
      recorded: invalid,
    },
    {
      name: "account",
      title: "`/v1/account`: one row, free, no cache",
      status: 200,
      requestsPerBatch: 1000,
      statement: "from accounts where account_id",
      makeRequest: () => account,
      recorded: account,
      results: 1,
    },
  ]
}
