/** The documentation as a visitor sees it: in a real browser, over the sample data. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import * as Service from "../support/Service.ts"
import {
  Browser,
  browserTestName,
  findAccessibilityViolations,
  findHorizontalOverflow,
  findUnreachableElements,
  isBrowserMissing,
  openPage,
  runInBrowser,
  type VisitedPage,
} from "../support/Browser.ts"

// @module-tag slow

/** Of the endpoints' pages, which are made alike: the shortest, the longest, and one with a deprecation. */
const endpointPages = ["ticker-changes", "screener", "historical-tickers"].map((name) => `/v1/docs/reference/${name}`)

const sizes = [{ width: 390, height: 844 }, { width: 1280, height: 800 }]
const schemes = ["light", "dark"] as const

/** A folder for pictures that people look at. */
const shots = process.env["SCREENSHOTS"]

const shot = (page: Page, name: string) =>
  shots === undefined
    ? Effect.void
    : runInBrowser(() => page.screenshot({ path: `${shots}/${name}.png`, fullPage: true }))

/** Every page that the navigation leads to, and some of the endpoints' pages. */
const addresses = Effect.gen(function* () {
  const { text } = yield* Service.requestJson("/v1/docs", { key: null })
  const found = Array.from(text.matchAll(/href="(\/v1\/docs[^"#]*)"/g), ([, path = ""]) => path)
  return Array.from(new Set(found)).filter((path) =>
    !path.includes("/assets/") && (!path.startsWith("/v1/docs/reference/") || endpointPages.includes(path))
  )
})

const open = (page: Page, path: string) => runInBrowser(() => page.goto(path, { waitUntil: "networkidle" }))

/** Types the key into the page's field. */
const enter = Effect.fnUntraced(function* (page: Page, key: string) {
  yield* runInBrowser(() => page.getByLabel("Your API key").fill(key))
  yield* runInBrowser(() => page.getByLabel("Your API key").press("Enter"))
  yield* runInBrowser(() => page.getByText("is used, until this tab is closed").waitFor())
})

/** A page on which the demo key is in use. */
const withKey = Effect.fnUntraced(function* (path: string, options?: Parameters<typeof openPage>[0]) {
  const { demoKey, origin } = yield* Browser
  const { page, problems: wrong } = yield* openPage(options)
  yield* open(page, path)
  yield* enter(page, demoKey)
  return { demoKey, origin, page, wrong }
})

/** Before a page is drawn for the first time, Chromium drops what is typed. */
const drawn = (page: Page) =>
  runInBrowser(() => page.evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`))

const waitFor = (page: Page, text: string | RegExp) => runInBrowser(() => page.getByText(text).first().waitFor())

const ask = Effect.fnUntraced(function* (page: Page, symbol: string) {
  yield* runInBrowser(() => page.getByLabel("Symbol", { exact: true }).fill(symbol))
  yield* runInBrowser(() => page.keyboard.press("Enter"))
})

const title = (page: Page) => runInBrowser(() => page.title())

/** What a browser says of a status that the page has an answer to is no mistake of the page. */
const unexpected = (wrong: ReadonlyArray<string>, ...statuses: ReadonlyArray<number>) =>
  wrong.filter((line) =>
    !statuses.some((status) => line.startsWith(`${status}: `) || line.includes(`status of ${status} `))
  )

layer(Browser.layer, { excludeTestServices: true, timeout: "120 seconds" })("The documentation in a browser", (it) => {
  const test = it.effect.skipIf(isBrowserMissing)

  test(
    browserTestName(
      "README, documentation: every page, in light and dark, on a phone and on a desk, does nothing wrong",
    ),
    () =>
      Effect.gen(function* () {
        const paths = yield* addresses
        assert.includeMembers(paths, [
          "/v1/docs",
          "/v1/docs/reference",
          ...endpointPages,
          "/v1/docs/explorer",
          "/v1/docs/account",
          "/v1/docs/datasets",
        ])
        assert.isAbove(paths.length, 8)
        const walk = Effect.fnUntraced(function* ({ page, problems: wrong }: VisitedPage, path: string) {
          yield* open(page, path)
          for (const viewport of sizes) {
            for (const colorScheme of schemes) {
              const name = `${path.split("/").at(-1)}-${viewport.width}-${colorScheme}`
              yield* runInBrowser(() => page.setViewportSize(viewport))
              yield* runInBrowser(() => page.emulateMedia({ colorScheme }))
              yield* shot(page, name)
              // Colours do not depend on the width, nor the rest on colours.
              const isJudged = (viewport.width > 1000) === (colorScheme === "dark")
              if (isJudged) assert.deepStrictEqual(yield* findAccessibilityViolations(page), [], name)
            }
          }
          assert.deepStrictEqual(unexpected(wrong), [], path)
        })
        // Each visitor shows a third of the pages, because a new visitor costs a process and loads all assets again.
        const visitors = yield* Effect.all([openPage(), openPage(), openPage()])
        yield* Effect.forEach(
          visitors,
          (visitor, at) =>
            Effect.forEach(paths.filter((_, index) => index % visitors.length === at), (path) => walk(visitor, path)),
          { concurrency: "unbounded", discard: true },
        )
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "README, documentation: no page is wider than the smallest phone, and all of it is reached by the Tab key",
    ),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openPage({ viewport: { width: 320, height: 640 } })
        for (const path of yield* addresses) {
          yield* open(page, path)
          yield* runInBrowser(() => page.setViewportSize({ width: 320, height: 640 }))
          assert.strictEqual(yield* findHorizontalOverflow(page), "", path)
          yield* runInBrowser(() => page.setViewportSize({ width: 1280, height: 800 }))
          assert.deepStrictEqual(yield* findUnreachableElements(page), [], path)
        }
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("README, documentation: the first Tab offers to skip to the content, and Enter does"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openPage()
        yield* open(page, "/v1/docs")
        yield* runInBrowser(() => page.keyboard.press("Tab"))
        const skip = page.getByRole("link", { name: "Skip to the content" })
        const box = yield* runInBrowser(() => skip.boundingBox())
        assert.isAtLeast(box?.y ?? -1, 0)
        yield* runInBrowser(() => page.keyboard.press("Enter"))
        assert.strictEqual(yield* runInBrowser(() => page.evaluate("document.activeElement.id")), "main")
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("§2.2 the explorer draws the chain of OSTK with the demo key, by the keyboard alone"),
    () =>
      Effect.gen(function* () {
        const { page, wrong } = yield* withKey("/v1/docs/explorer")
        yield* ask(page, "ostk")
        yield* waitFor(page, "OSTK became NXH in 3 changes.")
        assert.strictEqual(yield* runInBrowser(() => page.locator("figure svg:visible .joint").count()), 3)
        assert.match(page.url(), /#ostk$/)
        assert.match(yield* title(page), /^OSTK ·/)
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* shot(page, "explorer-OSTK")
        yield* runInBrowser(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        assert.strictEqual(yield* runInBrowser(() => page.locator("figure svg:visible .joint").count()), 3)
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "§4.1 D21 the explorer says why META is refused and marks what clashes; back and forward lead there and back",
    ),
    () =>
      Effect.gen(function* () {
        const { page, wrong } = yield* withKey("/v1/docs/explorer")
        // Of the sample data all six are there.
        yield* runInBrowser(() => page.getByRole("navigation", { name: "Symbols of the sample data" }).waitFor())
        assert.strictEqual(yield* runInBrowser(() => page.locator("#samples a:visible").count()), 6)
        yield* runInBrowser(() => page.getByRole("link", { name: "META" }).click())
        yield* waitFor(page, "not one unambiguous chain")
        assert.strictEqual(yield* runInBrowser(() => page.locator("figure svg:visible .joint.clash").count()), 2)
        for (const scheme of schemes) {
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: scheme }))
          assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
          yield* shot(page, `explorer-META-${scheme}`)
        }
        yield* ask(page, "OSTK")
        yield* waitFor(page, "OSTK became NXH")
        yield* runInBrowser(() => page.goBack())
        yield* waitFor(page, "The history of META")
        assert.strictEqual(yield* runInBrowser(() => page.getByLabel("Symbol", { exact: true }).inputValue()), "META")
        yield* runInBrowser(() => page.goForward())
        yield* waitFor(page, "OSTK became NXH")
        yield* runInBrowser(() => page.goBack())
        yield* runInBrowser(() => page.reload({ waitUntil: "networkidle" }))
        yield* waitFor(page, "The history of META")
        assert.deepStrictEqual(unexpected(wrong, 409), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "README, documentation: what is copied as curl is the request without the key, and the link leads to the symbol",
    ),
    () =>
      Effect.gen(function* () {
        const permissions = ["clipboard-read", "clipboard-write"]
        const { origin, page } = yield* withKey("/v1/docs/explorer#BRK.B", { permissions })
        yield* runInBrowser(() => page.getByRole("button", { name: "Show the lineage of BRK.B" }).click())
        yield* waitFor(page, "No change of BRK.B is on record")
        const copied = (button: string) =>
          runInBrowser(async () => {
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
        yield* runInBrowser(() => page.getByText("Raw JSON").click())
        yield* waitFor(page, `"has_changes": false`)
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "§7 the explorer says what to do: without a key, with a wrong one, of a wrong symbol, later, and offline",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey } = yield* Browser
        const { page } = yield* openPage()
        yield* open(page, "/v1/docs/explorer#META")
        yield* waitFor(page, "A key is needed")
        yield* waitFor(page, "tickerline keys create")
        assert.strictEqual(
          yield* runInBrowser(() => page.locator("#result code").first().innerText()),
          "tickerline keys create",
        )
        yield* enter(page, "tl_live_wrong")
        yield* runInBrowser(() => page.getByRole("button", { name: "Show the lineage of META" }).click())
        yield* waitFor(page, "This key is wrong")
        yield* waitFor(page, "invalid_api_key")
        yield* waitFor(page, "tl_live_wron… is wrong")
        assert.strictEqual(yield* runInBrowser(() => page.getByText("A key is needed").count()), 0)
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* enter(page, demoKey)
        yield* runInBrowser(() => page.getByRole("button", { name: "Show the lineage of META" }).click())
        yield* waitFor(page, "The history of META")
        yield* ask(page, `"><img src=x>'`)
        yield* waitFor(page, "That cannot be asked")
        yield* waitFor(page, "1 to 6 characters")
        assert.strictEqual(yield* runInBrowser(() => page.locator("#result img").count()), 0)
        const answers = [
          [429, "rate_limit_exceeded", "Too many requests", "Try again in 7 s."],
          [503, "data_refreshing", "Try again shortly", "Try again in 7 s."],
          [402, "insufficient_credits", "Nothing left to spend", "used up"],
          [404, "not_found", "Nothing found", "not_found"],
          [500, "internal_error", "The service answered 500", "internal_error"],
        ] as const
        for (const [status, code, heading, words] of answers) {
          yield* runInBrowser(() =>
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
          yield* runInBrowser(() => page.unroute("**/v1/ticker-changes**"))
        }
        yield* runInBrowser(() => page.context().setOffline(true))
        yield* ask(page, "OSTK")
        yield* waitFor(page, "could not be reached")
        yield* runInBrowser(() => page.context().setOffline(false))
        yield* runInBrowser(() => page.getByRole("button", { name: "Try again" }).click())
        yield* waitFor(page, "OSTK became NXH")
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("§2.1 D29 the account page shows what was just asked, by day, by endpoint and one by one"),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin } = yield* Browser
        const { page, problems: wrong } = yield* openPage()
        const request = `seen-${demoKey.slice(-6)}`
        const headers = { Authorization: `Bearer ${demoKey}`, "X-Request-Id": request }
        yield* runInBrowser(() => page.request.get(`${origin}/v1/intraday-runners?limit=3`, { headers }))
        yield* open(page, "/v1/docs/account")
        yield* enter(page, demoKey)
        yield* waitFor(page, "As of now.")
        const again = runInBrowser(async () => {
          await page.getByRole("button", { name: "Ask again" }).click()
          await page.getByText("As of now.").waitFor()
          return await page.locator("#latest").getByText(request).count() > 0
        })
        yield* Effect.repeat(again, { until: (isThere) => isThere, times: 200 })
        for (
          const [part, words] of [["#facts", "demo"], ["#facts", "ultimate"], ["#endpoints", "/v1/intraday-runners"]]
        ) {
          yield* runInBrowser(() => page.locator(part ?? "").getByText(words ?? "", { exact: true }).first().waitFor())
        }
        assert.strictEqual(yield* runInBrowser(() => page.locator("#days svg:visible").count()), 2)
        assert.strictEqual(yield* runInBrowser(() => page.locator("#days svg:visible .amount").count()), 60)
        yield* runInBrowser(() => page.getByLabel("Show", { exact: true }).selectOption("7"))
        yield* runInBrowser(() => page.locator("#days svg:visible .amount").nth(13).waitFor())
        yield* runInBrowser(() => page.locator("#days svg:visible .amount").nth(14).waitFor({ state: "detached" }))
        yield* runInBrowser(() => page.getByText("As a table").first().click())
        for (const scheme of schemes) {
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: scheme }))
          assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
          yield* shot(page, `account-full-${scheme}`)
        }
        yield* runInBrowser(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        yield* shot(page, "account-full-320")
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("D17 D30 the page of the datasets says when each changed, and how long ago that is"),
    () =>
      Effect.gen(function* () {
        const { page, wrong } = yield* withKey("/v1/docs/datasets")
        yield* waitFor(page, "As of now.")
        const rows = yield* runInBrowser(() => page.locator("td[data-dataset]").allInnerTexts())
        assert.lengthOf(rows, 18)
        for (const row of rows) assert.match(row, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n(\d+ \w+ ago|just now)$/)
        assert.strictEqual(yield* runInBrowser(() => page.locator("#freshness svg:visible circle").count()), 18)
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* runInBrowser(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "§4.5 the reference sends a request with the key that was entered in the tools, and shows a 200 first",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin, page, wrong } = yield* withKey("/v1/docs/explorer")
        yield* open(page, "/v1/docs/reference/ticker-changes")
        assert.strictEqual(
          yield* runInBrowser(() => page.locator("main .badge", { hasText: /^\d+$/ }).first().innerText()),
          "200",
        )
        assert.strictEqual(yield* runInBrowser(() => page.getByLabel("ticker", { exact: true }).inputValue()), "OSTK")
        const send = runInBrowser(async () => {
          const [answer] = await Promise.all([
            page.waitForResponse((response) => new URL(response.url()).pathname === "/v1/ticker-changes"),
            page.getByRole("button", { name: "Send" }).click(),
          ])
          return answer
        })
        const answer = yield* send
        assert.strictEqual(
          (yield* runInBrowser(() => answer.request().allHeaders()))["authorization"],
          `Bearer ${demoKey}`,
        )
        assert.strictEqual(answer.status(), 200)
        assert.strictEqual(new URL(answer.url()).origin, origin)
        yield* runInBrowser(() => page.locator("#answer").getByText(`"current_ticker": "NXH"`).waitFor())
        yield* runInBrowser(() => page.getByLabel("ticker", { exact: true }).fill("META"))
        yield* runInBrowser(() => page.locator("#request").getByText("ticker=META").waitFor())
        assert.strictEqual((yield* send).status(), 409)
        yield* runInBrowser(() => page.locator("#answer").getByText("409", { exact: true }).waitFor())
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* shot(page, "reference-answer")
        assert.deepStrictEqual(unexpected(wrong, 409), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "README, documentation: setting or forgetting a key in the explorer sends nothing, with a symbol and without",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey } = yield* Browser
        for (const path of ["/v1/docs/explorer", "/v1/docs/explorer#META"]) {
          const { page } = yield* openPage()
          yield* open(page, path)
          const sent: Array<string> = []
          page.on("request", (request) => sent.push(request.url()))
          yield* enter(page, demoKey)
          yield* runInBrowser(() => page.getByRole("button", { name: "Forget it" }).click())
          yield* waitFor(page, "No key is set.")
          yield* enter(page, demoKey)
          yield* runInBrowser(() => page.waitForLoadState("networkidle"))
          assert.deepStrictEqual(sent, [], path)
          // The visitor's own wish is what sends one.
          yield* ask(page, "OSTK")
          yield* waitFor(page, "OSTK became NXH")
          assert.lengthOf(sent, 1)
        }
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "README, documentation: no table is cut off: it fits, or says that it scrolls and does so by the keyboard",
    ),
    () =>
      Effect.gen(function* () {
        const { page } = yield* withKey("/v1/docs/account")
        const pages = [
          ...yield* addresses,
          "/v1/docs/account",
          "/v1/docs/datasets",
        ]
        let measured = 0
        for (const path of new Set(pages)) {
          yield* open(page, path)
          if (/account|datasets/.test(path)) yield* waitFor(page, "As of now.")
          for (const width of [320, 390, 768, 1024, 1280, 1920]) {
            yield* runInBrowser(() => page.setViewportSize({ width, height: 800 }))
            // Observers of sizes report before the next picture is drawn.
            const found = yield* runInBrowser(() =>
              page.evaluate<{ readonly count: number; readonly cut: ReadonlyArray<string> }>(`
                new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
                  const boxes = [...document.querySelectorAll("main .scroll, main pre")]
                    .filter((box) => box.checkVisibility() && box.clientWidth > 0)
                  const cut = boxes.filter((box) => box.scrollWidth > box.clientWidth + 1).filter((box) => {
                    const says = box.matches("pre") || getComputedStyle(box, "::before").content.includes("Scroll")
                    return box.tabIndex !== 0 || !box.dataset.more || !says
                  })
                  const outside = [...document.querySelectorAll("main table, main td, main th")]
                    .filter((cell) => cell.checkVisibility() && cell.closest(".scroll") === null)
                  resolve({ count: boxes.length, cut: [...cut, ...outside].map((one) => one.outerHTML.slice(0, 99)) })
                })))`)
            )
            assert.deepStrictEqual(found.cut, [], `${path} at ${width}`)
            measured += found.count
            const isWide = /errors|deprecations|account|datasets/.test(path) && width >= 1280
            const scrolling = yield* runInBrowser(() => page.locator("main .scroll[data-more]").count())
            if (isWide) assert.strictEqual(scrolling, 0, `${path} at ${width}`)
          }
        }
        assert.isAbove(measured, 200)
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("README, documentation: search finds guides, operations pages and endpoints by the keyboard alone"),
    () =>
      Effect.gen(function* () {
        const { page, problems: wrong } = yield* openPage()
        yield* open(page, "/v1/docs")
        yield* drawn(page)
        yield* runInBrowser(() => page.keyboard.press("/"))
        const dialog = page.getByRole("dialog", { name: "Search" })
        yield* runInBrowser(() => dialog.waitFor())
        yield* runInBrowser(() => page.keyboard.type("retry or not"))
        yield* runInBrowser(() => dialog.getByRole("link", { name: /^Retry, or not/ }).waitFor())
        for (const scheme of schemes) {
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: scheme }))
          assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
          yield* shot(page, `search-${scheme}`)
        }
        yield* runInBrowser(() => page.keyboard.press("Enter"))
        yield* runInBrowser(() => page.waitForURL("**/v1/docs/errors#retry-or-not"))
        for (const [query, path] of [["operators", "/v1/docs/operators"], ["/v1/news", "/v1/docs/reference/news"]]) {
          yield* drawn(page)
          yield* runInBrowser(() => page.keyboard.press("Control+k"))
          yield* runInBrowser(() => page.getByRole("searchbox").fill(query ?? ""))
          yield* runInBrowser(() => dialog.locator(`a[href="${path}"]`).waitFor())
          yield* runInBrowser(() => page.keyboard.press("ArrowDown"))
          assert.strictEqual(
            yield* runInBrowser(() => page.evaluate("document.activeElement.getAttribute('href')")),
            path,
          )
          yield* runInBrowser(() => page.keyboard.press("Enter"))
          yield* runInBrowser(() => page.waitForURL(`**${path}`))
        }
        yield* runInBrowser(() => page.getByRole("button", { name: "Search" }).click())
        yield* runInBrowser(() => page.getByRole("searchbox").fill("nosuchword"))
        yield* waitFor(page, "Nothing has this word.")
        yield* runInBrowser(() => page.keyboard.press("Escape"))
        yield* runInBrowser(() => dialog.waitFor({ state: "hidden" }))
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "README, documentation: the theme is chosen on the page, remembered, and applied before anything is drawn",
    ),
    () =>
      Effect.gen(function* () {
        const { page, problems: wrong } = yield* openPage({
          colorScheme: "light",
          viewport: { width: 1280, height: 800 },
        })
        const ground = runInBrowser(() => page.evaluate<string>("getComputedStyle(document.body).backgroundColor"))
        yield* open(page, "/v1/docs")
        const light = yield* ground
        const choice = page.getByRole("combobox", { name: "Theme" })
        yield* runInBrowser(() => choice.selectOption("dark"))
        const dark = yield* ground
        assert.notStrictEqual(dark, light)
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        // Only the script in the head runs: the theme does not wait for the modules.
        yield* runInBrowser(() =>
          page.route("**/page.js", (route) => route.fulfill({ contentType: "text/javascript", body: "" }))
        )
        yield* open(page, "/v1/docs/errors")
        assert.strictEqual(yield* ground, dark)
        yield* runInBrowser(() => page.unroute("**/page.js"))
        yield* runInBrowser(() => page.reload({ waitUntil: "networkidle" }))
        assert.strictEqual(yield* runInBrowser(() => choice.inputValue()), "dark")
        yield* runInBrowser(() => choice.selectOption("system"))
        assert.strictEqual(yield* ground, light)
        yield* runInBrowser(() => page.emulateMedia({ colorScheme: "dark" }))
        assert.strictEqual(yield* ground, dark)
        yield* runInBrowser(() => choice.selectOption("light"))
        assert.strictEqual(yield* ground, light)
        // On a phone it is in the menu.
        yield* runInBrowser(() => page.setViewportSize({ width: 390, height: 844 }))
        yield* runInBrowser(() => page.getByText("Menu").click())
        assert.strictEqual(yield* runInBrowser(() => choice.inputValue()), "light")
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("README, documentation: the first page takes at most two screens and shows the explorer's picture"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openPage({ viewport: { width: 1280, height: 800 } })
        yield* open(page, "/v1/docs")
        assert.isAtMost(yield* runInBrowser(() => page.evaluate<number>("document.documentElement.scrollHeight")), 1600)
        assert.strictEqual(yield* runInBrowser(() => page.locator("figure.lineage svg.wide:visible").count()), 1)
        const next = page.getByRole("navigation", { name: "Previous and next page" }).getByRole("link")
        yield* runInBrowser(() => next.click())
        yield* runInBrowser(() => page.waitForURL("**/v1/docs/first-steps"))
        assert.match(yield* runInBrowser(() => next.first().innerText()), /^Previous/)
        // A heading is a link to itself.
        yield* runInBrowser(() => page.getByRole("heading", { name: "Get a key" }).getByRole("link").click())
        assert.match(page.url(), /#get-a-key$/)
        const top = page.getByRole("navigation", { name: "Main" })
        yield* runInBrowser(() => top.getByRole("link", { name: "API reference" }).click())
        yield* runInBrowser(() => page.waitForURL("**/v1/docs/reference"))
        assert.strictEqual(yield* runInBrowser(() => top.locator("[aria-current=page]").innerText()), "API reference")
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("README, documentation: without a key the account and the datasets show no empty sections"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openPage({ viewport: { width: 1280, height: 800 } })
        yield* open(page, "/v1/docs/account")
        assert.strictEqual(yield* runInBrowser(() => page.locator("main h2:visible").count()), 0)
        assert.strictEqual(yield* runInBrowser(() => page.locator(".contents:visible").count()), 0)
        yield* open(page, "/v1/docs/datasets")
        assert.deepStrictEqual(
          yield* runInBrowser(() => page.locator("thead th:visible").allInnerTexts()),
          ["Dataset", "Endpoints"],
        )
        const cells = yield* runInBrowser(() => page.locator("td:visible").allInnerTexts())
        assert.isAbove(cells.length, 30)
        assert.deepStrictEqual(cells.filter((text) => !/\w/.test(text)), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("D29 the account's numbers have thousands separators, and a bar tells its day in a tooltip"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openPage({ viewport: { width: 1280, height: 800 } })
        const { demoKey } = yield* Browser
        yield* runInBrowser(() =>
          page.route("**/v1/usage/daily**", async (route) => {
            const day = new URL(route.request().url()).searchParams.get("usage_date_from")
            const results = [{
              usage_date: day,
              endpoint: "/v1/news",
              requests: 1_234_567,
              errors: 1234,
              bytes: 9_876_543_210,
              cost_microdollars: 98_765_432_100,
            }]
            await route.fulfill({ json: { count: 1, results, page: 1, limit: 100, has_more: false } })
          })
        )
        yield* open(page, "/v1/docs/account")
        yield* enter(page, demoKey)
        yield* waitFor(page, "As of now.")
        yield* runInBrowser(() => page.locator("#days svg:visible .amount").first().hover())
        const tip = page.locator(".tip:visible")
        assert.match(
          yield* runInBrowser(() => tip.innerText()),
          /^\w+day, \d+ \w+ \d{4}\n1,234,567 requests\n1,234 errors$/,
        )
        const size = yield* runInBrowser(() =>
          page.evaluate<number>(`parseFloat(getComputedStyle(document.querySelector(".tip:not([hidden])")).fontSize)`)
        )
        assert.isAtLeast(size, 14)
        const told = yield* runInBrowser(() => page.locator("#endpoints").innerText())
        for (const number of ["1,234,567", "9,876,543,210", "$98,765.4321"]) assert.include(told, number)
        assert.match(yield* runInBrowser(() => page.locator("#facts").innerText()), /\d,\d{3} of \d,\d{3}/)
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("D21 no label of a lineage covers another, a bar or a joint, and a legend names the issuers"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* withKey("/v1/docs/explorer")
        for (const symbol of ["OSTK", "META", "GOOG", "MEGX", "FNGU", "BMR1", "KNT0", "DZ5", "BD0", "FI"]) {
          yield* ask(page, symbol)
          yield* runInBrowser(() =>
            page.locator(`figure [id^=lineage-][id$=-title]`).first().waitFor({ state: "attached" })
          )
          yield* runInBrowser(() =>
            page.locator(`figure .symbol.asked`, { hasText: symbol }).first().waitFor({ state: "attached" })
          )
          for (const width of [1280, 390]) {
            yield* runInBrowser(() => page.setViewportSize({ width, height: 800 }))
            const covered = yield* runInBrowser(() =>
              page.evaluate<ReadonlyArray<string>>(`(() => {
                const drawn = [...document.querySelectorAll("figure svg.chain[role=img]")]
                const svg = drawn.find((one) => one.checkVisibility())
                const box = (element) => ({ element, ...element.getBoundingClientRect().toJSON() })
                const texts = [...svg.querySelectorAll(":scope > text")].map(box)
                const shapes = [...svg.querySelectorAll(".bar, .joint")].map(box)
                const meets = (a, b) => a.left + 1 < b.right && b.left + 1 < a.right &&
                  a.top + 1 < b.bottom && b.top + 1 < a.bottom
                const told = ({ element }) => element.getAttribute("class") + " " + element.textContent
                return [
                  ...texts.flatMap((a, at) => [...texts.slice(at + 1), ...shapes].filter((b) => meets(a, b))
                    .map((b) => told(a) + " | " + told(b))),
                ]
              })()`)
            )
            assert.deepStrictEqual(covered, [], `${symbol} at ${width}`)
          }
          if (symbol === "META") {
            const legend = yield* runInBrowser(() => page.locator(".legend li").allInnerTexts())
            assert.deepStrictEqual(legend.map((line) => /CIK \d+/.test(line)), [true, true, false])
            const colours = yield* runInBrowser(() =>
              page.evaluate<ReadonlyArray<string>>(
                `[...document.querySelectorAll(".legend .bar")].map((bar) => getComputedStyle(bar).fill)`,
              )
            )
            assert.lengthOf(new Set(colours), 2)
          }
        }
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("README, documentation: an unknown page looks like the site and offers the nearest ones"),
    () =>
      Effect.gen(function* () {
        const { page, problems: wrong } = yield* openPage()
        yield* open(page, "/v1/docs/linage")
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* runInBrowser(() => page.locator("main").getByRole("link", { name: "Ticker lineage" }).click())
        yield* runInBrowser(() => page.waitForURL("**/v1/docs/lineage"))
        yield* open(page, "/docs")
        assert.match(page.url(), /\/v1\/docs$/)
        assert.deepStrictEqual(unexpected(wrong, 404), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "SECURITY.md, the pages: the key is in no address, no text and no storage that outlives the tab; it can be forgotten",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin } = yield* Browser
        const { page } = yield* openPage()
        const asked: Array<string> = []
        page.on("request", (request) => asked.push(request.url()))
        const holders = runInBrowser(() =>
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
          yield* runInBrowser(() => page.waitForLoadState("networkidle"))
          assert.notInclude(yield* holders, demoKey)
        }
        // The next page of the tab knows it, and another tab does not.
        yield* open(page, "/v1/docs/explorer#OSTK")
        yield* waitFor(page, "OSTK became NXH")
        assert.include(
          yield* runInBrowser(() => page.evaluate<string>("JSON.stringify({ ...sessionStorage })")),
          demoKey,
        )
        const other = yield* runInBrowser(() => page.context().newPage())
        yield* runInBrowser(() => other.goto(`${origin}/v1/docs/explorer#OSTK`))
        yield* waitFor(other, "A key is needed")
        yield* runInBrowser(() => page.getByRole("button", { name: "Forget it" }).click())
        yield* waitFor(page, "A key is needed")
        assert.notInclude(
          yield* runInBrowser(() => page.evaluate<string>("JSON.stringify({ ...sessionStorage })")),
          "tl_live_",
        )
        assert.isAbove(asked.length, 20)
        assert.deepStrictEqual(asked.filter((url) => url.includes("tl_live_")), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("README, documentation: without scripts the pages are read all the same, and say what needs them"),
    () =>
      Effect.gen(function* () {
        const { page, problems: wrong } = yield* openPage({ javaScriptEnabled: false })
        for (
          const [path, words] of [
            ["/v1/docs/explorer", "needs JavaScript"],
            ["/v1/docs/account", "needs JavaScript"],
            ["/v1/docs/datasets", "/v1/gap-stats-advanced"],
          ] as const
        ) {
          yield* open(page, path)
          yield* waitFor(page, words)
          assert.strictEqual(yield* runInBrowser(() => page.locator("form:visible").count()), 0)
        }
        assert.deepStrictEqual(wrong, [])
      }).pipe(Effect.scoped),
  )
})
