/** Tests `changes` against a running service that has the sample data, and against stubs. */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import type { ServerResponse } from "node:http"
import { chooseFreePort } from "../../../src/postgres/embedded/EmbeddedCluster.ts"
import {
  expiredCursorError,
  formatChangeEvent,
  formatGapEvents,
  formatHeartbeat,
  makeErrorBody,
  makeStubChange,
  makeStubCursor,
  startChangeFeedStub,
} from "../../support/ChangeFeedStub.ts"
import { runCommandInProcess } from "../../support/InProcessCommands.ts"
import {
  endProcess,
  type Environment,
  type RunningProcess,
  startCommandProcess,
  waitForOutput,
} from "../../support/Processes.ts"
import { skipUnlessThorough } from "../../support/Thoroughness.ts"
import * as Service from "../../support/Service.ts"

/** Settings with a nonexistent home directory, so that no test uses a demo key on the developer's machine. */
const environment = { TICKERLINE_HOME: "/nonexistent", TICKERLINE_KEY: "key", LANG: "C.UTF-8" }

/** Runs `changes` in this process. */
const runChanges = (args: ReadonlyArray<string>, more: Environment = {}) =>
  runCommandInProcess(["changes", ...args], { ...environment, ...more })

/** An output line: a change as JSON. */
const Line = Schema.fromJsonString(Schema.Struct({
  cursor: Schema.String,
  dataset: Schema.String,
  row: Schema.NullOr(Schema.Record(Schema.String, Schema.Json)),
}))
const parseLines = (out: string) => out.trimEnd().split("\n").map((line) => Schema.decodeSync(Line)(line))

layer(Service.sampleServiceLayer, { excludeTestServices: true })("changes", (it) => {
  it.effect("prints all changes so far as NDJSON, and how to continue (operations/command-line)", () =>
    Effect.gen(function* () {
      const { basic } = yield* Service.TestKeys
      const service = { PORT: String(yield* Service.servicePort), TICKERLINE_KEY: basic }
      const all = yield* runChanges(["--dataset", "split-status", "--ticker", "GAP7,PMP1"], service)
      assert.strictEqual(all.code, 0, all.err)
      const lines = parseLines(all.out)
      assert.isAbove(lines.length, 1)
      assert.isTrue(lines.every(({ dataset }) => dataset === "split_status"))
      const [, cursor = ""] = /^\d+ changes\. To continue: --after (\S+)\n$/.exec(all.err) ?? []
      const rest = yield* runChanges(["--after", cursor, "--dataset", "split-status"], service)
      assert.deepStrictEqual([rest.code, rest.out], [0, ""])
      assert.match(rest.err, /^0 changes\. To continue: --after /)
      const [first] = lines
      const after = yield* runChanges(
        ["--after", first?.cursor ?? "", "--dataset", "split_status", "--ticker", "GAP7,PMP1"],
        service,
      )
      assert.deepStrictEqual(after.out.trimEnd().split("\n"), all.out.trimEnd().split("\n").slice(1))
    }))

  it.effect("reports the error of the service, with exit status 1 (operations/command-line)", () =>
    Effect.gen(function* () {
      const { basic } = yield* Service.TestKeys
      const service = { PORT: String(yield* Service.servicePort), TICKERLINE_KEY: basic }
      for (const more of [[], ["--follow"]]) {
        const wrong = yield* runChanges(["--kind", "renamed", ...more], service)
        assert.deepStrictEqual([wrong.code, wrong.out], [1, ""])
        assert.match(wrong.err, /^tickerline: 422 validation_error: .*kind/)
        const refused = yield* runChanges(more, { ...service, TICKERLINE_KEY: "tl_live_wrong" })
        assert.strictEqual(refused.code, 1)
        assert.match(refused.err, /^tickerline: 401 invalid_api_key: .*\nThe key is read from --key-file/s)
      }
    }))
})

layer(Layer.empty, { excludeTestServices: true })("changes with a stub service", (it) => {
  it.effect("prints every digit of a change, from pages and from the stream (D16)", () =>
    Effect.gen(function* () {
      /** Formats a change with a price that a double cannot represent exactly. */
      const formatExactChange = (number: number) =>
        JSON.stringify(makeStubChange(number)).replace("0.5", "12345678901234567890.250")
      const { requests, url } = yield* startChangeFeedStub(({ path, query }) => {
        const number = Number.parseInt(query.get("after") ?? "0", 10) + 1
        if (path !== "/v1/changes") {
          return number > 2
            ? { events: formatGapEvents(), ending: "end" }
            : { events: formatChangeEvent(number).replace("0.5", "12345678901234567890.250"), ending: "end" }
        }
        const body = `{"results":[${formatExactChange(number)}],"cursor":"${makeStubCursor(number)}","has_more":${
          number < 2
        }}`
        return { status: 200, body }
      })
      const listed = yield* runChanges(["--url", url])
      assert.deepStrictEqual([listed.code, listed.out], [0, `${formatExactChange(1)}\n${formatExactChange(2)}\n`])
      const followed = yield* runChanges(["--url", url, "--follow", "--kind", "added"])
      assert.deepStrictEqual([followed.code, followed.out], [1, `${formatExactChange(1)}\n${formatExactChange(2)}\n`])
      assert.match(followed.err, /^tickerline: 410 cursor_expired: Later changes are no longer known\.\n$/)
      assert.deepStrictEqual(requests.map(({ path, query }) => [path, query.get("after"), query.get("kind")]), [
        ["/v1/changes", null, null],
        ["/v1/changes", makeStubCursor(1), null],
        ["/v1/changes/stream", null, "added"],
        ["/v1/changes/stream", makeStubCursor(1), "added"],
        ["/v1/changes/stream", makeStubCursor(2), "added"],
      ])
    }))

  it.effect("explains why it gets no changes: no service, another program, or an error (operations/command-line)", () =>
    Effect.gen(function* () {
      const nothing = `http://127.0.0.1:${yield* chooseFreePort}`
      const other = yield* startChangeFeedStub(() => ({ status: 200, body: "<html>" }))
      const busy = yield* startChangeFeedStub(() => ({ status: 410, body: expiredCursorError }))
      for (const more of [[], ["--follow"]]) {
        const unreachable = yield* runChanges(["--url", nothing, ...more])
        assert.strictEqual(unreachable.code, 1)
        assert.include(unreachable.err, `Nothing answers at ${nothing}. Start the service`)
        const foreign = yield* runChanges(["--url", other.url, ...more])
        assert.strictEqual(foreign.code, 1)
        assert.include(foreign.err, "The response has status 200 and does not come from Tickerline: <html>")
        const expired = yield* runChanges(["--url", busy.url, "--after", makeStubCursor(1), ...more])
        assert.include(expired.err, "410 cursor_expired")
      }
    }))

  it.effect("refuses an invalid command line with exit status 2 (operations/command-line)", () =>
    Effect.gen(function* () {
      const wrong: ReadonlyArray<readonly [ReadonlyArray<string>, string]> = [
        [["--url", "api.example.com"], "api.example.com is not a URL"],
        [["--ticker", "tl_live_abc"], "Do not put an API key into an argument"],
        [["--kind", " "], "--kind has no value"],
        [["--dataset", "nws"], "There are no changes of nws. Did you mean news? The datasets are: ticker_changes, "],
        [["--dataset", "NEWS,split-statu"], "There are no changes of split_statu. Did you mean split_status?"],
        [["--folow"], "--follow"],
      ]
      for (const [args, message] of wrong) {
        const { code, err, out } = yield* runChanges(args)
        assert.deepStrictEqual([code, out], [2, ""])
        assert.include(err, message)
      }
      const help = yield* runChanges(["--help"])
      for (const flag of ["--dataset", "--ticker", "--kind", "--after", "--follow"]) assert.include(help.out, flag)
    }))

  /** Starts `changes --follow` against a stub that sends one change. `send` makes the stub send more text. */
  const startFollowing = Effect.gen(function* () {
    const streams: Array<ServerResponse> = []
    const { url } = yield* startChangeFeedStub(() => ({
      events: (response) => {
        streams.push(response)
        response.write(formatChangeEvent(1) + formatHeartbeat())
      },
      ending: "open",
    }))
    const running = yield* startCommandProcess(["changes", "--follow", "--url", url], environment)
    yield* waitForOutput(running, /"cursor"/)
    return { running, send: (text: string) => Effect.sync(() => streams.forEach((stream) => stream.write(text))) }
  })

  /** Asserts that the command has printed the first change and nothing else. */
  const assertPrinted = ({ output }: RunningProcess) =>
    assert.deepStrictEqual([output.out, output.err], [`${JSON.stringify(makeStubChange(1))}\n`, ""])

  it.effect.each([["SIGINT", 130], ["SIGTERM", 143]] as const)(
    "prints each change at once, and ends after %s with exit status %s (operations/command-line)",
    ([signal, expected]) =>
      Effect.gen(function* () {
        yield* skipUnlessThorough
        const { running } = yield* startFollowing
        const { code } = yield* endProcess(running, signal)
        assert.strictEqual(code, expected)
        assertPrinted(running)
      }),
  )

  it.effect("ends without a message and with exit status 141 if the reader closes the pipe (operations/command-line)", () =>
    Effect.gen(function* () {
      yield* skipUnlessThorough
      const { running, send } = yield* startFollowing
      running.child.stdout?.destroy()
      yield* send(formatChangeEvent(2) + formatChangeEvent(3))
      const { code } = yield* Effect.promise(() => running.ended)
      assert.strictEqual(code, 141)
      assertPrinted(running)
    }))

  it.effect("escapes control sequences in changes on a terminal (operations/command-line)", () =>
    Effect.gen(function* () {
      const hostile = JSON.stringify({ ...makeStubChange(1), row: { ticker: "A\u009b31m" } })
      const { url } = yield* startChangeFeedStub(() => ({
        status: 200,
        body: `{"results":[${hostile}],"cursor":"${makeStubCursor(1)}","has_more":false}`,
      }))
      const terminal = { stdoutIsTerminal: Effect.succeed(true) }
      const { out } = yield* runCommandInProcess(["changes", "--url", url], environment, terminal)
      assert.include(out, "A\\u009b31m")
      assert.notInclude(out, "\u009b")
      assert.include((yield* runChanges(["--url", url], { TICKERLINE_KEY: "key" })).out, "A\u009b31m")
    }))

  it.effect("reports the error if reconnecting fails (operations/command-line)", () =>
    Effect.gen(function* () {
      const { url } = yield* startChangeFeedStub((_, index) =>
        index === 0 ? { events: formatChangeEvent(1), ending: "reset" } : {
          status: 402,
          body: makeErrorBody("insufficient_credits", { reason: "balance_exhausted", balance_microdollars: 0 }),
        }
      )
      const { code, err, out } = yield* runChanges(["--url", url, "--follow"])
      assert.deepStrictEqual([code, out], [1, `${JSON.stringify(makeStubChange(1))}\n`])
      assert.match(err, /^tickerline: 402 insufficient_credits: It is insufficient_credits\.\n$/)
    }))
})
