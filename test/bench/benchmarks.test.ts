/** Tests the computations of the benchmarks: options, statistics, pairs of servers, and machine load. */
import { NodeServices } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Console, Effect } from "effect"
import { format } from "node:util"
import packageJson from "../../bench/package.json" with { type: "json" }
import { describeLoad, isBusy, parseBusyTicks } from "../../bench/machineLoad.ts"
import { chooseCommand } from "../../bench/main.ts"
import { options } from "../../bench/options.ts"
import { pairRatios, type Round, spreadOf } from "../../bench/outcome.ts"
import { median, quantile, quartiles } from "../../bench/statistics.ts"

/**
 * Parses command-line arguments without starting the command. Returns the parsed command and everything that was
 * printed.
 */
const choose = (...args: ReadonlyArray<string>) =>
  Effect.suspend(() => {
    const printed: Array<string> = []
    const print = (...words: ReadonlyArray<unknown>) => void printed.push(format(...words))
    return Effect.map(
      chooseCommand(args).pipe(
        Effect.provideService(Console.Console, { ...console, log: print, error: print }),
        Effect.provide(NodeServices.layer),
      ),
      (chosen) => ({ ...chosen, printed: printed.join("\n") }),
    )
  })

/** The commands in `package.json` that accept options, which are all except the type check. */
const commands = Object.entries(packageJson.scripts).flatMap(([name, script]) =>
  name === "types" ? [] : [{ name, script }]
)

describe("The commands of the benchmarks", () => {
  it.effect.each(commands)("`npm run $name` prints its options with --help and does nothing else (bench/README.md)", ({
    name,
    script,
  }) =>
    Effect.gen(function* () {
      assert.strictEqual(script, `node main.ts ${name}`)
      const { exitCode, load, printed } = yield* choose(name, "--help")
      assert.strictEqual(exitCode, 0)
      assert.isUndefined(load)
      assert.include(printed, `npm run ${name} --`)
    }))

  it.effect.each(commands)(
    "`npm run $name` refuses an unknown option and names those it has (bench/README.md)",
    ({ name }) =>
      Effect.gen(function* () {
        const { exitCode, load, printed } = yield* choose(name, "--roundz", "3")
        assert.strictEqual(exitCode, 2)
        assert.isUndefined(load)
        const help = yield* choose(name, "--help")
        const known = Array.from(help.printed.matchAll(/^ {2}(--[\w-]+)/gm), ([, option]) => option)
        assert.include(
          printed,
          `--roundz is not an option of npm run ${name}. It has ${known.length === 0 ? "none" : known.join(", ")}.`,
        )
      }),
  )

  it.effect("sets the options of the chosen command, and measures less with --quick (bench/README.md)", () =>
    Effect.gen(function* () {
      const { load } = yield* choose("bench", "--quick", "--only", "lineage-3:hit, float", "--connections", "1,32")
      assert.isDefined(load)
      assert.deepStrictEqual(options.only, ["lineage-3:hit", "float"])
      assert.deepStrictEqual(options.connections, [1, 32])
      assert.strictEqual(options.rounds, 1)
      yield* choose("bench")
      assert.isAbove(options.rounds, 1)
      assert.isUndefined(options.only)
    }))

  it.effect.each([["--rounds", "0"], ["--rounds", "some"], ["--connections", "1,many"]])(
    "refuses %s %s (bench/README.md)",
    ([option = "", value = ""]) =>
      Effect.gen(function* () {
        const { exitCode, printed } = yield* choose("bench", option, value)
        assert.strictEqual(exitCode, 2)
        assert.include(printed, option)
      }),
  )
})

describe("The statistics of the benchmarks", () => {
  it("interpolates quantiles between neighboring values, in any order (bench/README.md)", () => {
    assert.strictEqual(median([5, 1, 3]), 3)
    assert.strictEqual(median([4, 1, 3, 2]), 2.5)
    assert.strictEqual(quantile([10, 20], 0.1), 11)
    assert.strictEqual(quantile([10, 20], 1), 20)
    assert.deepStrictEqual(quartiles([1, 2, 3, 4, 5]), [2, 4])
    assert.isNaN(median([]))
  })

  it("measures the spread without the rounds of a busy moment (bench/README.md)", () => {
    assert.strictEqual(spreadOf([100, 100, 100, 100, 1]), 0)
    assert.strictEqual(spreadOf([90, 90, 100, 110, 110]), 0.2)
  })
})

const figures = (perSecond: number, p99: number | undefined): Round => ({
  perSecond,
  p50: 1,
  p99,
  p999: undefined,
  max: undefined,
  service: undefined,
  database: 1,
  generator: undefined,
  delayP999: undefined,
  delayMax: undefined,
  beside: {},
})

describe("The pairs of servers in the benchmarks", () => {
  it("divides the rates that were measured side by side, not those of different rounds (bench/README.md)", () => {
    // In the second round, the machine is only a third as fast.
    const rounds = [
      { ...figures(300, 2), beside: { tickerline: figures(600, 3) } },
      { ...figures(100, 6), beside: { tickerline: figures(200, 12) } },
    ]
    assert.deepStrictEqual(pairRatios("tickerline", { rounds }), [2, 2])
    assert.deepStrictEqual(pairRatios("tickerline", { rounds }, "p99"), [1.5, 2])
  })

  it("omits a round in which one of the two failed or has no such figure (bench/README.md)", () => {
    const rounds = [
      figures(300, 2),
      { ...figures(100, undefined), beside: { tickerline: figures(200, 12) } },
    ]
    assert.deepStrictEqual(pairRatios("tickerline", { rounds }), [2])
    assert.deepStrictEqual(pairRatios("tickerline", { rounds }, "p99"), [])
  })
})

describe("The load of the machine during a benchmark", () => {
  it("counts the time of programs and other virtual machines, not idle time and interrupts (bench/README.md)", () => {
    const stat = "cpu  1000 200 30 999999 777777 55555 44444 4 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\nctxt 9\n"
    assert.strictEqual(parseBusyTicks(stat), 1234)
  })

  it("is said to be too high if others use the machine, at the start or later (bench/README.md)", () => {
    const quiet = { loadAverage: 0.1, cores: 2, others: 0.01 }
    assert.isFalse(isBusy(quiet))
    assert.isTrue(isBusy({ ...quiet, loadAverage: 1 }))
    assert.isTrue(isBusy({ ...quiet, others: 0.2 }))
    assert.notInclude(describeLoad(quiet), "busy")
    assert.match(describeLoad({ ...quiet, others: 0.2 }), /^\*\*The machine was busy.* 0\.10 on 2 cores.* 20\.0%/)
  })
})
