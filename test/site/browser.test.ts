/** The documentation as a visitor sees it: in a real browser, over the sample data. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import * as Service from "../support/Service.ts"
import { act, Browser, named, objections, overflow, skipped, unreachable, visit } from "../support/Browser.ts"

/** Its markup is made by another project, in the browser: what can be judged of it is what it does. */
const reference = "/v1/docs/reference"

const sizes = [{ width: 390, height: 844 }, { width: 1280, height: 800 }]
const schemes = ["light", "dark"] as const

/** A folder for pictures that people look at. */
const shots = process.env["SCREENSHOTS"]

const shot = (page: Page, name: string) =>
  shots === undefined ? Effect.void : act(() => page.screenshot({ path: `${shots}/${name}.png`, fullPage: true }))

/** Every page that the navigation leads to. */
const addresses = Effect.gen(function* () {
  const { text } = yield* Service.ask("/v1/docs", { key: null })
  const found = Array.from(text.matchAll(/href="(\/v1\/docs[^"#]*)"/g), ([, path = ""]) => path)
  return Array.from(new Set(found)).filter((path) => !path.includes("/assets/"))
})

const open = (page: Page, path: string) => act(() => page.goto(path, { waitUntil: "networkidle" }))

/** Types the key into the page's field. */
const enter = Effect.fnUntraced(function* (page: Page, key: string) {
  yield* act(() => page.getByLabel("Your API key").fill(key))
  yield* act(() => page.getByLabel("Your API key").press("Enter"))
  yield* act(() => page.getByText("is used, until this tab is closed").waitFor())
})

/** A page on which the demo key is in use. */
const withKey = Effect.fnUntraced(function* (path: string, options?: Parameters<typeof visit>[0]) {
  const { demoKey, origin } = yield* Browser
  const { page, wrong } = yield* visit(options)
  yield* open(page, path)
  yield* enter(page, demoKey)
  return { demoKey, origin, page, wrong }
})

const waitFor = (page: Page, text: string | RegExp) => act(() => page.getByText(text).first().waitFor())

const ask = Effect.fnUntraced(function* (page: Page, symbol: string) {
  yield* act(() => page.getByLabel("Symbol", { exact: true }).fill(symbol))
  yield* act(() => page.keyboard.press("Enter"))
})

const title = (page: Page) => act(() => page.title())

/** One library of the reference asks whether it may make code from text, and goes on without (SECURITY.md). */
const isKnown = (line: string) => line.startsWith("console: policy: script-src eval ") && line.endsWith(reference)

/** What a browser says of a status that the page has an answer to is no mistake of the page. */
const unexpected = (wrong: ReadonlyArray<string>, ...statuses: ReadonlyArray<number>) =>
  wrong.filter((line) =>
    !isKnown(line) &&
    !statuses.some((status) => line.startsWith(`${status}: `) || line.includes(`status of ${status} `))
  )

layer(Browser.layer, { excludeTestServices: true, timeout: "120 seconds" })("The documentation in a browser", (it) => {
  const test = it.effect.skipIf(skipped)

  test(
    named("README, documentation: every page, in light and dark, on a phone and on a desk, does nothing wrong"),
    () =>
      Effect.gen(function* () {
        const paths = yield* addresses
        assert.includeMembers(paths, [
          "/v1/docs",
          reference,
          "/v1/docs/explorer",
          "/v1/docs/account",
          "/v1/docs/datasets",
        ])
        assert.isAbove(paths.length, 8)
        const walk = Effect.fnUntraced(function* (path: string) {
          const { page, wrong } = yield* visit()
          yield* open(page, path)
          for (const viewport of sizes) {
            for (const colorScheme of schemes) {
              const name = `${path.split("/").at(-1)}-${viewport.width}-${colorScheme}`
              yield* act(() => page.setViewportSize(viewport))
              yield* act(() => page.emulateMedia({ colorScheme }))
              yield* shot(page, name)
              // Colours do not depend on the width, nor the rest on colours.
              const isJudged = path !== reference && (viewport.width > 1000) === (colorScheme === "dark")
              if (isJudged) assert.deepStrictEqual(yield* objections(page), [], name)
            }
          }
          assert.deepStrictEqual(unexpected(wrong), [], path)
        }, Effect.scoped)
        // Most of the time a page waits for what it loads.
        yield* Effect.forEach(paths, walk, { concurrency: 3, discard: true })
      }).pipe(Effect.scoped),
  )

  test(
    named("README, documentation: no page is wider than the smallest phone, and all of it is reached by the Tab key"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* visit({ viewport: { width: 320, height: 640 } })
        for (const path of yield* addresses) {
          yield* open(page, path)
          yield* act(() => page.setViewportSize({ width: 320, height: 640 }))
          assert.strictEqual(yield* overflow(page), "", path)
          if (path === reference) continue
          yield* act(() => page.setViewportSize({ width: 1280, height: 800 }))
          assert.deepStrictEqual(yield* unreachable(page), [], path)
        }
      }).pipe(Effect.scoped),
  )

  test(
    named("README, documentation: the first Tab offers to skip to the content, and Enter does"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* visit()
        yield* open(page, "/v1/docs")
        yield* act(() => page.keyboard.press("Tab"))
        const skip = page.getByRole("link", { name: "Skip to the content" })
        const box = yield* act(() => skip.boundingBox())
        assert.isAtLeast(box?.y ?? -1, 0)
        yield* act(() => page.keyboard.press("Enter"))
        assert.strictEqual(yield* act(() => page.evaluate("document.activeElement.id")), "main")
      }).pipe(Effect.scoped),
  )

  test(
    named("§2.2 the explorer draws the chain of OSTK with the demo key, by the keyboard alone"),
    () =>
      Effect.gen(function* () {
        const { page, wrong } = yield* withKey("/v1/docs/explorer")
        yield* ask(page, "ostk")
        yield* waitFor(page, "OSTK became NXH in 3 changes.")
        assert.strictEqual(yield* act(() => page.locator("figure svg:visible .joint").count()), 3)
        assert.match(page.url(), /#ostk$/)
        assert.match(yield* title(page), /^OSTK ·/)
        assert.deepStrictEqual(yield* objections(page), [])
        yield* shot(page, "explorer-OSTK")
        yield* act(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* overflow(page), "")
        assert.strictEqual(yield* act(() => page.locator("figure svg:visible .joint").count()), 3)
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )

  test(
    named(
      "§4.1 D21 the explorer says why META is refused and marks what clashes; back and forward lead there and back",
    ),
    () =>
      Effect.gen(function* () {
        const { page, wrong } = yield* withKey("/v1/docs/explorer")
        // Of the sample data all six are there.
        yield* act(() => page.getByRole("navigation", { name: "Symbols of the sample data" }).waitFor())
        assert.strictEqual(yield* act(() => page.locator("#samples a:visible").count()), 6)
        yield* act(() => page.getByRole("link", { name: "META" }).click())
        yield* waitFor(page, "not one unambiguous chain")
        assert.strictEqual(yield* act(() => page.locator("figure svg:visible .joint.clash").count()), 2)
        for (const scheme of schemes) {
          yield* act(() => page.emulateMedia({ colorScheme: scheme }))
          assert.deepStrictEqual(yield* objections(page), [])
          yield* shot(page, `explorer-META-${scheme}`)
        }
        yield* ask(page, "OSTK")
        yield* waitFor(page, "OSTK became NXH")
        yield* act(() => page.goBack())
        yield* waitFor(page, "The history of META")
        assert.strictEqual(yield* act(() => page.getByLabel("Symbol", { exact: true }).inputValue()), "META")
        yield* act(() => page.goForward())
        yield* waitFor(page, "OSTK became NXH")
        yield* act(() => page.goBack())
        yield* act(() => page.reload({ waitUntil: "networkidle" }))
        yield* waitFor(page, "The history of META")
        assert.deepStrictEqual(unexpected(wrong, 409), [])
      }).pipe(Effect.scoped),
  )

  test(
    named(
      "README, documentation: what is copied as curl is the request without the key, and the link leads to the symbol",
    ),
    () =>
      Effect.gen(function* () {
        const permissions = ["clipboard-read", "clipboard-write"]
        const { origin, page } = yield* withKey("/v1/docs/explorer#BRK.B", { permissions })
        yield* waitFor(page, "No change of BRK.B is on record")
        const copied = (button: string) =>
          act(async () => {
            await page.getByRole("button", { name: button }).click()
            const told = page.getByRole("button", { name: "Copied" })
            await told.waitFor()
            const text = await page.evaluate<string>("navigator.clipboard.readText()")
            // Else the next one would find two that say so.
            await told.waitFor({ state: "hidden" })
            return text
          })
        assert.strictEqual(
          yield* copied("Copy as curl"),
          `curl -H "Authorization: Bearer $TICKERLINE_KEY" '${origin}/v1/ticker-changes?ticker=BRK.B'`,
        )
        assert.strictEqual(yield* copied("Copy link"), `${origin}/v1/docs/explorer#BRK.B`)
        yield* act(() => page.getByText("Raw JSON").click())
        yield* waitFor(page, `"has_changes": false`)
      }).pipe(Effect.scoped),
  )

  test(
    named("§7 the explorer says what to do: without a key, with a wrong one, of a wrong symbol, later, and offline"),
    () =>
      Effect.gen(function* () {
        const { demoKey } = yield* Browser
        const { page } = yield* visit()
        yield* open(page, "/v1/docs/explorer#META")
        yield* waitFor(page, "A key is needed")
        yield* waitFor(page, "tickerline keys create")
        yield* enter(page, "tl_live_wrong")
        yield* waitFor(page, "invalid_api_key")
        yield* enter(page, demoKey)
        yield* waitFor(page, "The history of META")
        yield* ask(page, `"><img src=x>'`)
        yield* waitFor(page, "That cannot be asked")
        yield* waitFor(page, "1 to 6 characters")
        assert.strictEqual(yield* act(() => page.locator("#result img").count()), 0)
        const answers = [
          [429, "rate_limit_exceeded", "Too many requests", "Try again in 7 s."],
          [503, "data_refreshing", "Try again shortly", "Try again in 7 s."],
          [402, "insufficient_credits", "Nothing left to spend", "used up"],
          [404, "not_found", "Nothing found", "not_found"],
          [500, "internal_error", "The service answered 500", "internal_error"],
        ] as const
        for (const [status, code, heading, words] of answers) {
          yield* act(() =>
            page.route("**/v1/ticker-changes**", (route) =>
              route.fulfill({
                status,
                headers: { "Retry-After": "7" },
                json: { error: { code, message: "m" }, request_id: "r" },
              }))
          )
          yield* ask(page, `S${status}`)
          yield* waitFor(page, heading)
          yield* waitFor(page, words)
          yield* act(() => page.unroute("**/v1/ticker-changes**"))
        }
        yield* act(() => page.context().setOffline(true))
        yield* ask(page, "OSTK")
        yield* waitFor(page, "could not be reached")
        yield* act(() => page.context().setOffline(false))
        yield* act(() => page.getByRole("button", { name: "Try again" }).click())
        yield* waitFor(page, "OSTK became NXH")
      }).pipe(Effect.scoped),
  )

  test(
    named("§2.1 D29 the account page shows what was just asked, by day, by endpoint and one by one"),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin } = yield* Browser
        const { page, wrong } = yield* visit()
        const request = `seen-${demoKey.slice(-6)}`
        const headers = { Authorization: `Bearer ${demoKey}`, "X-Request-Id": request }
        yield* act(() => page.request.get(`${origin}/v1/intraday-runners?limit=3`, { headers }))
        yield* open(page, "/v1/docs/account")
        yield* enter(page, demoKey)
        yield* waitFor(page, "As of now.")
        const again = act(async () => {
          await page.getByRole("button", { name: "Ask again" }).click()
          await page.getByText("As of now.").waitFor()
          return await page.locator("#latest").getByText(request).count() > 0
        })
        yield* Effect.repeat(again, { until: (isThere) => isThere, times: 200 })
        for (
          const [part, words] of [["#facts", "demo"], ["#facts", "ultimate"], ["#endpoints", "/v1/intraday-runners"]]
        ) {
          yield* act(() => page.locator(part ?? "").getByText(words ?? "", { exact: true }).first().waitFor())
        }
        assert.strictEqual(yield* act(() => page.locator("#days svg:visible").count()), 2)
        assert.strictEqual(yield* act(() => page.locator("#days svg:visible .amount").count()), 60)
        yield* act(() => page.getByLabel("Show", { exact: true }).selectOption("7"))
        yield* act(() => page.locator("#days svg:visible .amount").nth(13).waitFor())
        yield* act(() => page.locator("#days svg:visible .amount").nth(14).waitFor({ state: "detached" }))
        yield* act(() => page.getByText("As a table").first().click())
        for (const scheme of schemes) {
          yield* act(() => page.emulateMedia({ colorScheme: scheme }))
          assert.deepStrictEqual(yield* objections(page), [])
          yield* shot(page, `account-full-${scheme}`)
        }
        yield* act(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* overflow(page), "")
        yield* shot(page, "account-full-320")
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )

  test(
    named("D17 D30 the page of the datasets says when each changed, and how long ago that is"),
    () =>
      Effect.gen(function* () {
        const { page, wrong } = yield* withKey("/v1/docs/datasets")
        yield* waitFor(page, "As of now.")
        const rows = yield* act(() => page.locator("td[data-dataset]").allInnerTexts())
        assert.lengthOf(rows, 18)
        for (const row of rows) assert.match(row, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n(\d+ \w+ ago|just now)$/)
        assert.strictEqual(yield* act(() => page.locator("#freshness svg:visible circle").count()), 18)
        assert.deepStrictEqual(yield* objections(page), [])
        yield* act(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* overflow(page), "")
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )

  test(
    named("§4.5 the reference tries a request with the demo key, and shows the answer"),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin } = yield* Browser
        const { page, wrong } = yield* visit()
        yield* open(page, reference)
        yield* act(() => page.locator(".scalar-password-input:visible").first().fill(demoKey))
        yield* act(() => page.goto(`${reference}#tag/ticker-changes/GET/v1/ticker-changes`))
        yield* act(() => page.getByRole("button", { name: /Test Request.*ticker-changes/ }).first().click())
        const dialog = page.getByRole("dialog")
        const [answer] = yield* act(() =>
          Promise.all([
            page.waitForResponse((response) => new URL(response.url()).pathname === "/v1/ticker-changes"),
            dialog.getByRole("button", { name: /^Send Request/ }).click(),
          ])
        )
        const headers = yield* act(() => answer.request().allHeaders())
        assert.include([headers["authorization"], `Bearer ${headers["x-api-key"]}`], `Bearer ${demoKey}`)
        assert.include([200, 409], answer.status())
        yield* act(() => dialog.getByText(String(answer.status())).first().waitFor())
        assert.strictEqual(new URL(answer.url()).origin, origin)
        assert.deepStrictEqual(unexpected(wrong, 409), [])
      }).pipe(Effect.scoped),
  )

  test(
    named(
      "SECURITY.md, the pages: the key is in no address, no text and no storage that outlives the tab; it can be forgotten",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin } = yield* Browser
        const { page } = yield* visit()
        const asked: Array<string> = []
        page.on("request", (request) => asked.push(request.url()))
        const holders = act(() =>
          page.evaluate<string>(`JSON.stringify({
          html: document.documentElement.outerHTML,
          fields: [...document.querySelectorAll("input")].map(({ value }) => value),
          local: { ...localStorage },
          cookies: document.cookie,
          address: location.href,
          state: history.state,
          name: window.name,
        })`)
        )
        for (const path of ["/v1/docs/explorer", "/v1/docs/account", "/v1/docs/datasets"]) {
          yield* open(page, path)
          yield* enter(page, demoKey)
          yield* act(() => page.waitForLoadState("networkidle"))
          assert.notInclude(yield* holders, demoKey)
        }
        // The next page of the tab knows it, and another tab does not.
        yield* open(page, "/v1/docs/explorer#OSTK")
        yield* waitFor(page, "OSTK became NXH")
        assert.include(yield* act(() => page.evaluate<string>("JSON.stringify({ ...sessionStorage })")), demoKey)
        const other = yield* act(() => page.context().newPage())
        yield* act(() => other.goto(`${origin}/v1/docs/explorer#OSTK`))
        yield* waitFor(other, "A key is needed")
        yield* act(() => page.getByRole("button", { name: "Forget it" }).click())
        yield* waitFor(page, "A key is needed")
        assert.notInclude(yield* act(() => page.evaluate<string>("JSON.stringify({ ...sessionStorage })")), "tl_live_")
        assert.isAbove(asked.length, 20)
        assert.deepStrictEqual(asked.filter((url) => url.includes("tl_live_")), [])
      }).pipe(Effect.scoped),
  )

  test(
    named("README, documentation: without scripts the pages are read all the same, and say what needs them"),
    () =>
      Effect.gen(function* () {
        const { page, wrong } = yield* visit({ javaScriptEnabled: false })
        for (
          const [path, words] of [
            ["/v1/docs/explorer", "needs JavaScript"],
            ["/v1/docs/account", "needs JavaScript"],
            ["/v1/docs/datasets", "/v1/gap-stats-advanced"],
          ] as const
        ) {
          yield* open(page, path)
          yield* waitFor(page, words)
          assert.strictEqual(yield* act(() => page.locator("form:visible").count()), 0)
        }
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )
})
