/** Tests the documentation in a real browser against the sample data. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { pricedEndpointPaths } from "../../src/api/catalogue/Endpoints.ts"
import { assertFoundMoreThan } from "../support/ScanAssertions.ts"
import * as Service from "../support/Service.ts"
import {
  Browser,
  browserTestName,
  findAccessibilityViolations,
  findContrastViolations,
  findHorizontalOverflow,
  findUnreachableElements,
  isBrowserMissing,
  openPage,
  runInBrowser,
} from "../support/Browser.ts"
import { createCustomer } from "../support/CustomerUsage.ts"
import { recordInvoicedUsage } from "../support/InvoicedUsage.ts"

// @module-tag slow

/** Three of the generated endpoint pages: the shortest, the longest, and the page of a deprecated endpoint. */
const endpointPages = ["ticker-changes", "screener", "historical-tickers"].map((name) => `/v1/docs/reference/${name}`)

/** The themes, each with its check. The dark theme differs only in its colors, so only contrast is checked there. */
const themes = [["light", findAccessibilityViolations], ["dark", findContrastViolations]] as const

/** The folder for screenshots. If it is not set, no screenshots are taken. */
const screenshotFolder = process.env["SCREENSHOTS"]

const takeScreenshot = (page: Page, name: string) =>
  screenshotFolder === undefined
    ? Effect.void
    : runInBrowser(() => page.screenshot({ path: `${screenshotFolder}/${name}.png`, fullPage: true }))

/** Returns the addresses of all pages in the navigation, except endpoint pages that are not in `endpointPages`. */
const addresses = Effect.gen(function* () {
  const { text } = yield* Service.requestJson("/v1/docs", { key: null })
  const found = Array.from(text.matchAll(/href="(\/v1\/docs[^"#]*)"/g), ([, path = ""]) => path)
  return Array.from(new Set(found)).filter((path) =>
    !path.includes("/assets/") && (!path.startsWith("/v1/docs/reference/") || endpointPages.includes(path))
  )
})

const open = (page: Page, path: string) => runInBrowser(() => page.goto(path))

const changeKeyButton = (page: Page) => page.getByRole("button", { name: "Change key" })

/** Enters the key in the form on the current page. */
const enterKey = Effect.fnUntraced(function* (page: Page, key: string) {
  if (yield* runInBrowser(() => changeKeyButton(page).isVisible())) {
    yield* runInBrowser(() => changeKeyButton(page).click())
  }
  yield* runInBrowser(() => page.getByLabel("Your API key").fill(key))
  yield* runInBrowser(() => page.getByLabel("Your API key").press("Enter"))
  yield* runInBrowser(() => page.getByText("until you close this tab").waitFor())
})

/** Opens a page and enters the demo key. */
const openWithKey = Effect.fnUntraced(function* (path: string, options?: Parameters<typeof openPage>[0]) {
  const { demoKey, origin } = yield* Browser
  const { page, problems } = yield* openPage(options)
  yield* open(page, path)
  yield* enterKey(page, demoKey)
  return { demoKey, origin, page, problems }
})

/** Waits for the first paint, because Chromium drops keystrokes that arrive earlier. */
const waitForPaint = (page: Page) =>
  runInBrowser(() => page.evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`))

const waitFor = (page: Page, text: string | RegExp) => runInBrowser(() => page.getByText(text).first().waitFor())

const enterSymbol = Effect.fnUntraced(function* (page: Page, symbol: string) {
  yield* runInBrowser(() => page.getByLabel("Symbol", { exact: true }).fill(symbol))
  yield* runInBrowser(() => page.keyboard.press("Enter"))
})

const readTitle = (page: Page) => runInBrowser(() => page.title())

/**
 * Finds tables and code blocks that are cut off without a visual hint or a tab stop. Also counts the visible tables and
 * code blocks, and the boxes that scroll horizontally.
 */
const findCutTables = (page: Page) =>
  runInBrowser(() =>
    // Waits for the next paint, because resize observers run before it.
    page.evaluate<{ readonly count: number; readonly cut: ReadonlyArray<string>; readonly scrolling: number }>(`
      new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
        const boxes = [...document.querySelectorAll("main .scroll, main pre")]
          .filter((box) => box.checkVisibility() && box.clientWidth > 0)
        const cut = boxes.filter((box) => box.scrollWidth > box.clientWidth + 1).filter((box) => {
          const hasHint = box.matches("pre") || getComputedStyle(box, "::before").content.includes("Scroll")
          return box.tabIndex !== 0 || !box.dataset.more || !hasHint
        })
        const outside = [...document.querySelectorAll("main table, main td, main th")]
          .filter((cell) => cell.checkVisibility() && cell.closest(".scroll") === null)
        resolve({
          count: boxes.length,
          cut: [...cut, ...outside].map((one) => one.outerHTML.slice(0, 99)),
          scrolling: document.querySelectorAll("main .scroll[data-more]").length,
        })
      })))`)
  )

/** The number of datasets in the sample data. */
const datasetCount = 18

/** Removes the problems caused by responses with the given statuses. */
const unexpectedProblems = (problems: ReadonlyArray<string>, ...statuses: ReadonlyArray<number>) =>
  problems.filter((line) =>
    !statuses.some((status) => line.startsWith(`${status}: `) || line.includes(`status of ${status} `))
  )

layer(Browser.layer, { excludeTestServices: true, timeout: "120 seconds" })("The documentation in a browser", (it) => {
  const test = it.effect.skipIf(isBrowserMissing)

  test(
    browserTestName(
      "shows every page without problems, in both themes, at six widths and with the keyboard (README.md)",
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
          "/v1/docs/your-invoices",
          "/v1/docs/datasets",
        ])
        assertFoundMoreThan(8, "pages", paths)
        const { demoKey } = yield* Browser
        const { page, problems } = yield* openPage()
        let measured = 0
        const check = Effect.fnUntraced(function* (path: string) {
          const name = path.split("/").at(-1)
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: "light" }))
          for (const width of [320, 390, 768, 1024, 1920, 1280]) {
            const at = `${path} at ${width}`
            yield* runInBrowser(() => page.setViewportSize({ width, height: 800 }))
            const { count, cut, scrolling } = yield* findCutTables(page)
            assert.deepStrictEqual(cut, [], at)
            if (/errors|deprecations|account|datasets/.test(path) && width >= 1280) assert.strictEqual(scrolling, 0, at)
            measured += count
            assert.strictEqual(yield* findHorizontalOverflow(page), "", at)
            // Phones are checked in the light theme and desktops in the dark theme, because colors do not depend on the
            // width.
            if (width === 390) {
              yield* takeScreenshot(page, `${name}-${width}-light`)
              assert.deepStrictEqual(yield* findAccessibilityViolations(page), [], at)
            }
          }
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: "dark" }))
          yield* takeScreenshot(page, `${name}-1280-dark`)
          assert.deepStrictEqual(yield* findContrastViolations(page), [], path)
          assert.deepStrictEqual(yield* findUnreachableElements(page), [], path)
          assert.deepStrictEqual(problems, [], path)
        })
        for (const path of paths) {
          yield* open(page, path)
          yield* check(path)
        }
        // These pages show more tables when a key is entered.
        for (const path of ["/v1/docs/account", "/v1/docs/datasets"]) {
          yield* open(page, path)
          if (path === "/v1/docs/account") yield* enterKey(page, demoKey)
          yield* waitFor(page, "Up to date.")
          yield* check(path)
        }
        assert.isAbove(measured, 200)
      }).pipe(Effect.scoped),
    // The test opens every page at every width, which takes minutes on a slow machine.
    { timeout: 600_000 },
  )

  test(
    browserTestName("offers a link to skip to the content as the first Tab stop (README.md)"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openPage()
        yield* open(page, "/v1/docs")
        yield* runInBrowser(() => page.keyboard.press("Tab"))
        const skip = page.getByRole("link", { name: "Skip to the content" })
        const box = yield* runInBrowser(() => skip.boundingBox())
        assert.isAtLeast(box?.y ?? -1, 0)
        yield* runInBrowser(() => page.keyboard.press("Enter"))
        assert.strictEqual(yield* runInBrowser(() => page.evaluate("document.activeElement.tagName")), "MAIN")
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("skips to the content of the tools without a request or another address (README.md)"),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openWithKey("/v1/docs/datasets")
        for (const path of ["explorer", "explorer#OSTK", "account", "datasets", "reference/news"]) {
          const address = `/v1/docs/${path}`
          // Opens another page in between, because changing only the fragment does not reload the page.
          yield* open(page, "/v1/docs")
          yield* open(page, address)
          yield* runInBrowser(() => page.waitForLoadState("networkidle"))
          const [result, title] = [page.locator("#result"), yield* runInBrowser(() => page.title())]
          const shown = path.startsWith("explorer") ? yield* runInBrowser(() => result.innerText()) : ""
          const sent: Array<string> = []
          page.on("request", (request) => sent.push(request.url()))
          yield* runInBrowser(() => page.locator(".skip").focus())
          yield* runInBrowser(() => page.keyboard.press("Enter"))
          assert.strictEqual(yield* runInBrowser(() => page.evaluate("document.activeElement.tagName")), "MAIN", path)
          yield* runInBrowser(() => page.waitForLoadState("networkidle"))
          assert.deepStrictEqual(sent, [], path)
          assert.isTrue(page.url().endsWith(address), page.url())
          assert.strictEqual(yield* runInBrowser(() => page.title()), title)
          if (shown !== "") assert.strictEqual(yield* runInBrowser(() => result.innerText()), shown)
        }
        // Opened in a new tab, the skip link's address has a fragment, which the explorer must not mistake for a
        // symbol.
        const sent: Array<string> = []
        page.on("request", (request) => sent.push(new URL(request.url()).pathname))
        yield* open(page, "/v1/docs")
        yield* open(page, "/v1/docs/explorer#page-content")
        yield* runInBrowser(() => page.waitForLoadState("networkidle"))
        assert.notInclude(sent, "/v1/ticker-changes")
        assert.strictEqual(yield* runInBrowser(() => page.locator("#symbol").inputValue()), "")
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("draws the chain of OSTK using only the keyboard (§2.2)"),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openWithKey("/v1/docs/explorer")
        yield* enterSymbol(page, "ostk")
        yield* waitFor(page, "OSTK became NXH in 3 changes.")
        assert.strictEqual(yield* runInBrowser(() => page.locator("figure svg:visible .joint").count()), 3)
        assert.match(page.url(), /#ostk$/)
        assert.match(yield* readTitle(page), /^OSTK ·/)
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* takeScreenshot(page, "explorer-OSTK")
        yield* runInBrowser(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        assert.strictEqual(yield* runInBrowser(() => page.locator("figure svg:visible .joint").count()), 3)
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "explains the refusal of META, and supports the back and forward buttons (§4.1, D21)",
    ),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openWithKey("/v1/docs/explorer")
        yield* runInBrowser(() => page.getByRole("navigation", { name: "Symbols in the sample data" }).waitFor())
        assert.strictEqual(yield* runInBrowser(() => page.locator("#samples a:visible").count()), 6)
        yield* runInBrowser(() => page.getByRole("link", { name: "META" }).click())
        yield* waitFor(page, "is ambiguous")
        assert.strictEqual(yield* runInBrowser(() => page.locator("figure svg:visible .joint.clash").count()), 2)
        for (const [scheme, findViolations] of themes) {
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: scheme }))
          assert.deepStrictEqual(yield* findViolations(page), [])
          yield* takeScreenshot(page, `explorer-META-${scheme}`)
        }
        yield* enterSymbol(page, "OSTK")
        yield* waitFor(page, "OSTK became NXH")
        yield* runInBrowser(() => page.goBack())
        yield* waitFor(page, "The history of META")
        assert.strictEqual(yield* runInBrowser(() => page.getByLabel("Symbol", { exact: true }).inputValue()), "META")
        yield* runInBrowser(() => page.goForward())
        yield* waitFor(page, "OSTK became NXH")
        yield* runInBrowser(() => page.goBack())
        yield* runInBrowser(() => page.reload({ waitUntil: "networkidle" }))
        yield* waitFor(page, "The history of META")
        assert.deepStrictEqual(unexpectedProblems(problems, 409), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("shows the events of a company in lanes below its chain, linked to the rows (§2.2, D35)"),
    () =>
      Effect.gen(function* () {
        const { origin, page, problems } = yield* openWithKey("/v1/docs/explorer")
        const timeline = page.waitForResponse((response) => new URL(response.url()).pathname === "/v1/timeline")
        yield* enterSymbol(page, "GPW8")
        const response = yield* runInBrowser(() => timeline)
        assert.strictEqual(response.url(), `${origin}/v1/timeline?ticker=GPW8&follow_lineage=true&limit=100`)
        const rows: ReadonlyArray<unknown> = (yield* runInBrowser(() => response.json())).results
        const textOf = (row: unknown, name: string) => String(Service.valueAt(row, name))
        const types = Array.from(new Set(rows.map((row) => textOf(row, "type").replaceAll("_", " "))))
        assert.isAbove(types.length, 8)
        assert.lengthOf(new Set(rows.map((row) => textOf(row, "ticker"))), 2)
        yield* runInBrowser(() => page.getByRole("heading", { name: /^Filing/ }).waitFor())
        yield* waitFor(page, `There are ${rows.length} events.`)
        // A long lane starts with its newest events. No list scrolls within the page, which would hide some of its
        // lines.
        const lanes = page.locator("#events").getByRole("list")
        assert.strictEqual(yield* runInBrowser(() => lanes.count()), types.length)
        const filingLink = page.getByRole("list", { name: /^Filing/ }).getByRole("link")
        assert.strictEqual(yield* runInBrowser(() => filingLink.count()), 8)
        const more = page.getByText(/^Show \d+ older events: /)
        for (const summary of yield* runInBrowser(() => more.all())) yield* runInBrowser(() => summary.click())
        const cutLists = yield* runInBrowser(() =>
          page.evaluate<number>(
            `[...document.querySelectorAll("#events ul")]
              .filter((list) => list.scrollHeight > list.clientHeight).length`,
          )
        )
        assert.strictEqual(cutLists, 0)
        // Each lane is a list of links that show the event texts, newest first.
        for (const type of types) {
          const expected = rows.filter((row) => textOf(row, "type").replaceAll("_", " ") === type)
          const name = `${type.slice(0, 1).toUpperCase()}${type.slice(1)} (${expected.length})`
          const lane = page.getByRole("list", { name, exact: true })
          assert.deepStrictEqual(
            yield* runInBrowser(() => lane.getByRole("link").allTextContents()),
            expected.map((row) =>
              `${textOf(row, "at").slice(0, 10)} ${type}: ${textOf(row, "title")} (${textOf(row, "ticker")})`
            ),
          )
        }
        // The lanes and the chain share a time axis.
        for (const [layout, width] of [["wide", 1280], ["narrow", 320]] as const) {
          yield* runInBrowser(() => page.setViewportSize({ width, height: 800 }))
          assert.strictEqual(
            yield* runInBrowser(() => page.locator(`.lanes svg.${layout}:visible .event`).count()),
            rows.length,
          )
          const years = (figure: string) =>
            runInBrowser(() =>
              page.evaluate<ReadonlyArray<string>>(
                `[...document.querySelectorAll("${figure} svg.${layout} .year")]
                  .map((year) => year.textContent + " " + year.getAttribute("x"))`,
              )
            )
          const drawn = yield* years(".lanes")
          assert.isAbove(drawn.length, 2)
          assert.deepStrictEqual(yield* years(".lineage"), drawn)
          assert.strictEqual(yield* findHorizontalOverflow(page), "")
          for (const [scheme, findViolations] of themes) {
            yield* runInBrowser(() => page.emulateMedia({ colorScheme: scheme }))
            assert.deepStrictEqual(yield* findViolations(page), [])
            yield* takeScreenshot(page, `explorer-GPW8-${width}-${scheme}`)
          }
        }
        // Keyboard navigation moves through the events one by one and opens the prepared request.
        const filings = page.getByRole("list", { name: /^Filing/ }).getByRole("link")
        yield* runInBrowser(() => filings.first().focus())
        yield* runInBrowser(() => page.keyboard.press("Tab"))
        assert.isTrue(yield* runInBrowser(() => filings.nth(1).evaluate((link) => link.matches(":focus-visible"))))
        const row = rows.filter((row) => textOf(row, "type") === "filing")[1]
        yield* runInBrowser(() => page.keyboard.press("Enter"))
        yield* runInBrowser(() => page.waitForURL("**/v1/docs/reference/news?**"))
        const request = `${origin}/v1/news?${textOf(row, "key")}"`
        yield* runInBrowser(() => page.locator("#request").getByText(request).waitFor())
        // No example is visible until the response arrives, because it would show a different row.
        yield* waitFor(page, "The link filled in this request. Select Send to see its response.")
        assert.strictEqual(yield* runInBrowser(() => page.locator("#response pre").count()), 0)
        yield* runInBrowser(() => page.getByRole("button", { name: "Send" }).first().click())
        yield* runInBrowser(() => page.locator("#response").getByText(`"form_type"`).first().waitFor())
        yield* runInBrowser(() => page.goBack())
        yield* runInBrowser(() => page.getByRole("heading", { name: /^Filing/ }).waitFor())
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "takes the demo key from the link that the service prints, and removes it from the address (README.md, SECURITY.md)",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin } = yield* Browser
        const { page, problems } = yield* openPage()
        const sent: Array<string> = []
        page.on("request", (request) => sent.push(request.url()))
        const link = `/v1/docs/explorer#key=${demoKey}&symbol=OSTK`
        const expectLineage = Effect.gen(function* () {
          yield* waitFor(page, "OSTK became NXH")
          assert.strictEqual(page.url(), `${origin}/v1/docs/explorer#OSTK`)
        })
        yield* open(page, link)
        yield* expectLineage
        const first = yield* runInBrowser(() => page.locator("script").first().getAttribute("src"))
        assert.match(first ?? "", /\/key-link\.js\b/)
        // The only earlier history entry is the blank page with which the tab started.
        assert.strictEqual(yield* runInBrowser(() => page.evaluate("history.length")), 2)
        // Opens the link in the tab that already shows the page, after forgetting the key.
        yield* runInBrowser(() => page.getByRole("button", { name: "Forget key" }).click())
        yield* waitFor(page, "API key required")
        yield* runInBrowser(() => page.evaluate(`location.href = ${JSON.stringify(link)}`))
        yield* expectLineage
        assert.deepStrictEqual(sent.filter((url) => url.includes(demoKey.slice(8))), [])
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "keeps the visitor's own key, ignores what is not a key, and removes either from the address (README.md, SECURITY.md)",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin } = yield* Browser
        const storedKey = (page: Page) => runInBrowser(() => page.evaluate(`sessionStorage.getItem("tickerline-key")`))
        const { page } = yield* openPage()
        for (const wrong of ["", "tl_live_short", `${demoKey}x`, "<img src=x>", "%", `${demoKey}&symbol=A&symbol=B`]) {
          yield* open(page, "/v1/docs")
          yield* open(page, `/v1/docs/explorer#key=${wrong}`)
          yield* waitFor(page, "No API key is set.")
          assert.strictEqual(page.url(), `${origin}/v1/docs/explorer`)
          assert.isNull(yield* storedKey(page))
        }
        // Opens a page that has no form for the key.
        yield* open(page, `/v1/docs/errors#key=${demoKey}`)
        assert.strictEqual(page.url(), `${origin}/v1/docs/errors`)
        assert.strictEqual(yield* storedKey(page), demoKey)
        yield* open(page, `/v1/docs/explorer#key=${demoKey.replace(/.{6}$/, "000000")}&symbol=OSTK`)
        yield* waitFor(page, "OSTK became NXH")
        assert.strictEqual(page.url(), `${origin}/v1/docs/explorer#OSTK`)
        assert.strictEqual(yield* storedKey(page), demoKey)
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("reaches every event of NXH with the Tab key (§2.2, D35)"),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openWithKey("/v1/docs/datasets")
        yield* open(page, "/v1/docs/explorer#BYON")
        const lane = page.getByRole("list", { name: "Ticker change (3)" })
        yield* runInBrowser(() => lane.waitFor())
        assert.match(
          yield* runInBrowser(() => lane.getByRole("link").last().innerText()),
          /^2023-11-06 ticker change: /,
        )
        assert.deepStrictEqual(yield* findUnreachableElements(page), [])
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("shows the events of a chosen candidate, and links to its rows in every list (D21, D35)"),
    () =>
      Effect.gen(function* () {
        const { origin, page, problems } = yield* openWithKey("/v1/docs/explorer")
        const sent: Array<string> = []
        page.on("request", (request) => sent.push(request.url().slice(origin.length)))
        yield* enterSymbol(page, "META")
        yield* waitFor(page, "The history of META")
        assert.isFalse(yield* runInBrowser(() => page.locator("#company").isVisible()))
        const event = page.getByRole("link", { name: "2022-06-09 ticker change: FB became META (META)" })
        const candidate = page.locator("#result").getByRole("link", { name: "CIK 0001326801" })
        yield* runInBrowser(() => candidate.focus())
        yield* runInBrowser(() => page.keyboard.press("Enter"))
        yield* runInBrowser(() => event.waitFor())
        assert.match(page.url(), /#META:0001326801$/)
        assert.strictEqual(yield* runInBrowser(() => candidate.getAttribute("aria-current")), "true")
        assert.isTrue(yield* runInBrowser(() => candidate.evaluate((link) => link === document.activeElement)))
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        const query = "ticker=META&follow_lineage=true&cik=0001326801"
        assert.deepStrictEqual(sent, ["/v1/ticker-changes?ticker=META", `/v1/timeline?${query}&limit=100`])
        // The links lead to every list that supports `follow_lineage`, with the request filled in.
        const { body } = yield* Service.requestJson("/v1/openapi.json", { key: null })
        const expected = Object.entries(Object(Service.valueAt(body, "paths"))).flatMap(([path, item]) =>
          JSON.stringify(Service.valueAt(item, "get", "parameters") ?? []).includes(`"follow_lineage"`) ? [path] : []
        )
        const links = page.locator("#company .links").getByRole("link")
        assert.sameMembers(yield* runInBrowser(() => links.allInnerTexts()), expected)
        assert.include(expected, "/v1/timeline")
        yield* runInBrowser(() => links.getByText("/v1/timeline").click())
        yield* runInBrowser(() => page.locator("#request").getByText(`/v1/timeline?${query}"`).waitFor())
        yield* runInBrowser(() => page.goBack())
        yield* runInBrowser(() => event.waitFor())
        // If no candidate is selected, the events disappear.
        yield* runInBrowser(() => page.getByRole("link", { name: "META", exact: true }).click())
        yield* runInBrowser(() => page.locator("#company").waitFor({ state: "hidden" }))
        assert.strictEqual(yield* runInBrowser(() => candidate.getAttribute("aria-current")), "false")
        assert.deepStrictEqual(unexpectedProblems(problems, 409), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("explains why events are missing: none, no access, more than a page, and errors (§7, D35)"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openWithKey("/v1/docs/explorer")
        yield* enterSymbol(page, "AAPL")
        yield* waitFor(page, "There are no events.")
        assert.strictEqual(yield* runInBrowser(() => page.locator("#events *").count()), 0)
        assert.isAbove(yield* runInBrowser(() => page.locator("#company .links a:visible").count()), 0)
        yield* enterSymbol(page, "META:0000000001")
        yield* waitFor(page, "The events cannot be shown.")
        assert.strictEqual(yield* runInBrowser(() => page.getByText("cannot be reached").count()), 0)
        yield* runInBrowser(() => page.locator("#events .notice").getByText("Invalid request").waitFor())
        const endpoints = pricedEndpointPaths.filter((path) =>
          path !== "/v1/gap-stats" && path !== "/v1/nasdaq-compliance"
        )
        yield* enterKey(page, yield* Service.ensureAccountWithKey("test explorer", "ultimate", { endpoints }))
        yield* enterSymbol(page, "GAP7")
        yield* waitFor(page, "This key does not give access to events of these types: compliance notice, gap.")
        yield* runInBrowser(() => page.getByRole("heading", { name: "Ticker change (1)" }).waitFor())
        assert.strictEqual(yield* runInBrowser(() => page.getByRole("heading", { name: /^Gap/ }).count()), 0)
        const responses = [
          [401, "invalid_api_key", "Invalid API key"],
          [409, "ambiguous_ticker_lineage", "The service returned status 409"],
          [503, "data_refreshing", "Temporarily unavailable"],
        ] as const
        for (const [status, code, heading] of responses) {
          const json = { error: { code, message: "m" }, request_id: "r" }
          yield* runInBrowser(() => page.route("**/v1/timeline**", (route) => route.fulfill({ status, json })))
          yield* enterSymbol(page, "GAP7")
          const notice = page.locator("#events .notice", { hasText: `${status} ${code}` })
          yield* runInBrowser(() => notice.getByText(heading, { exact: true }).waitFor())
          yield* runInBrowser(() => page.unroute("**/v1/timeline**"))
        }
        const row = {
          at: "2026-03-02",
          ticker: "GAP7",
          type: "news",
          title: "x",
          endpoint: "/v1/news",
          key: "ticker=GAP7",
        }
        yield* runInBrowser(() =>
          page.route("**/v1/timeline**", (route) => route.fulfill({ json: { results: [row, row], has_more: true } }))
        )
        yield* runInBrowser(() => page.getByRole("button", { name: "Try again" }).click())
        yield* waitFor(page, "These are the newest 2 events; there are more.")
        yield* runInBrowser(() => page.getByRole("link", { name: "2026-03-02 news: x (GAP7)" }).last().waitFor())
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "copies the request as curl without the key, and a link to the symbol (README.md)",
    ),
    () =>
      Effect.gen(function* () {
        const permissions = ["clipboard-read", "clipboard-write"]
        const { origin, page } = yield* openWithKey("/v1/docs/explorer#BRK.B", { permissions })
        yield* runInBrowser(() => page.getByRole("button", { name: "Show the lineage of BRK.B" }).click())
        yield* waitFor(page, "There are no recorded changes for BRK.B")
        const copied = (button: string) =>
          runInBrowser(async () => {
            await page.getByRole("button", { name: button }).click()
            const copiedButton = page.getByRole("button", { name: "Copied" })
            await copiedButton.waitFor()
            const text = await page.evaluate<string>("navigator.clipboard.readText()")
            // Waits until the button shows its usual label again, so the next call finds only one "Copied" button.
            await copiedButton.waitFor({ state: "hidden" })
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
      "explains what to do about missing and invalid keys, invalid symbols, other errors and lost connections (§7)",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey } = yield* Browser
        const { page } = yield* openPage()
        yield* open(page, "/v1/docs/explorer#META")
        yield* waitFor(page, "API key required")
        yield* waitFor(page, "tickerline keys create")
        assert.strictEqual(
          yield* runInBrowser(() => page.locator("#result code").first().innerText()),
          "tickerline keys create",
        )
        yield* enterKey(page, "tl_live_wrong")
        yield* runInBrowser(() => page.getByRole("button", { name: "Show the lineage of META" }).click())
        yield* waitFor(page, "Invalid API key")
        yield* waitFor(page, "invalid_api_key")
        yield* waitFor(page, "tl_live_wron… is not a valid key")
        assert.strictEqual(yield* runInBrowser(() => page.getByText("API key required").count()), 0)
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* enterKey(page, demoKey)
        yield* runInBrowser(() => page.getByRole("button", { name: "Show the lineage of META" }).click())
        yield* waitFor(page, "The history of META")
        yield* enterSymbol(page, `"><img src=x>'`)
        yield* waitFor(page, "Invalid request")
        yield* waitFor(page, "1 to 6 characters")
        assert.strictEqual(yield* runInBrowser(() => page.locator("#result img").count()), 0)
        const responses = [
          [429, "rate_limit_exceeded", "Too many requests", "Try again in 7 s."],
          [503, "data_refreshing", "Temporarily unavailable", "Try again in 7 s."],
          [402, "insufficient_credits", "Insufficient credits", "used up"],
          [404, "not_found", "Not found", "not_found"],
          [500, "internal_error", "The service returned status 500", "internal_error"],
        ] as const
        for (const [status, code, heading, words] of responses) {
          yield* runInBrowser(() =>
            page.route("**/v1/ticker-changes**", (route) =>
              route.fulfill({
                status,
                headers: { "Retry-After": "7" },
                json: { error: { code, message: "m" }, request_id: "r" },
              }))
          )
          yield* enterSymbol(page, `S${status}`)
          yield* waitFor(page, heading)
          yield* waitFor(page, words)
          yield* runInBrowser(() => page.unroute("**/v1/ticker-changes**"))
        }
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("tells an unreachable service from an empty response on every page, and can try again (§7)"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openWithKey("/v1/docs/explorer")
        const goOffline = (isOffline: boolean) => runInBrowser(() => page.context().setOffline(isOffline))
        const tryAgain = runInBrowser(() => page.getByRole("button", { name: "Try again" }).first().click())
        const expectUnreachable = Effect.gen(function* () {
          yield* runInBrowser(() => page.getByText("cannot be reached").first().waitFor())
          assert.strictEqual(yield* runInBrowser(() => page.getByText(/There (is|are) no|No requests/).count()), 0)
          assert.strictEqual(yield* runInBrowser(() => page.locator("#datasets time, #events li").count()), 0)
        })
        yield* goOffline(true)
        yield* enterSymbol(page, "OSTK")
        yield* waitFor(page, "The lineage of OSTK cannot be loaded, because the service cannot be reached.")
        yield* expectUnreachable
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* goOffline(false)
        yield* runInBrowser(() => page.route("**/v1/timeline**", (route) => route.abort()))
        yield* tryAgain
        yield* waitFor(page, "OSTK became NXH")
        yield* waitFor(page, "The events cannot be loaded, because the service cannot be reached.")
        yield* expectUnreachable
        yield* runInBrowser(() => page.unroute("**/v1/timeline**"))
        yield* tryAgain
        yield* waitFor(page, "There are 3 events.")

        // On a network that responds to every request with its login page, the service counts as unreachable.
        const login = { contentType: "text/html", body: "<h1>Welcome to the airport</h1>" }
        const pages = [
          ["account", "**/v1/{account,overview,usage}**", "Up to date."],
          ["datasets", "**/v1/datasets?**", "Up to date."],
          ["explorer#OSTK", "**/v1/ticker-changes?**", "OSTK became NXH"],
        ] as const
        for (const [path, pattern, outcome] of pages) {
          for (const failure of ["abort", "login"] as const) {
            yield* runInBrowser(() =>
              page.route(pattern, (route) => failure === "abort" ? route.abort() : route.fulfill(login))
            )
            yield* open(page, "/v1/docs")
            yield* open(page, `/v1/docs/${path}`)
            yield* expectUnreachable
            yield* runInBrowser(() => page.unroute(pattern))
            yield* tryAgain
            yield* waitFor(page, outcome)
          }
        }
        // A section that fails to load does not look empty.
        yield* runInBrowser(() => page.route("**/v1/usage/daily**", (route) => route.abort()))
        yield* open(page, "/v1/docs/account")
        yield* runInBrowser(() => page.locator("#days .notice").getByText("cannot be reached").waitFor())
        assert.strictEqual(yield* runInBrowser(() => page.getByText("No requests in this period.").count()), 0)
        yield* runInBrowser(() => page.unroute("**/v1/usage/daily**"))
        yield* tryAgain
        yield* runInBrowser(() => page.locator("#days svg:visible").first().waitFor())

        yield* open(page, "/v1/docs/reference/ticker-changes")
        yield* goOffline(true)
        yield* runInBrowser(() => page.getByRole("button", { name: "Send" }).first().click())
        yield* expectUnreachable
        yield* goOffline(false)
        yield* tryAgain
        yield* runInBrowser(() => page.locator("#response").getByText(`"current_ticker": "NXH"`).waitFor())

        // The search cannot show results while its index is missing.
        for (const failure of [{ status: 503, json: { error: {} } }, "abort"] as const) {
          yield* open(page, "/v1/docs/errors")
          yield* runInBrowser(() =>
            page.route("**/search.json", (route) => failure === "abort" ? route.abort() : route.fulfill(failure))
          )
          yield* runInBrowser(() => page.getByRole("button", { name: "Search" }).click())
          yield* runInBrowser(() => page.getByRole("searchbox").fill("paging"))
          yield* waitFor(page, "The search cannot be loaded.")
          assert.strictEqual(yield* runInBrowser(() => page.getByText("No results").count()), 0)
          assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
          yield* runInBrowser(() => page.unroute("**/search.json"))
          yield* tryAgain
          yield* runInBrowser(() => page.getByRole("dialog").getByRole("link", { name: /^Paging/ }).first().waitFor())
        }
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("shows a recent request on the account page: by day, by endpoint and individually (§2.1, D29)"),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin } = yield* Browser
        const { page, problems } = yield* openPage()
        const request = `seen-${demoKey.slice(-6)}`
        const headers = { Authorization: `Bearer ${demoKey}`, "X-Request-Id": request }
        yield* runInBrowser(() => page.request.get(`${origin}/v1/intraday-runners?limit=3`, { headers }))
        yield* open(page, "/v1/docs/account")
        yield* enterKey(page, demoKey)
        yield* waitFor(page, "Up to date.")
        const refresh = runInBrowser(async () => {
          await page.getByRole("button", { name: "Refresh" }).click()
          await page.getByText("Up to date.").waitFor()
          return await page.locator("#latest").getByText(request).count() > 0
        })
        yield* Effect.repeat(refresh, { until: (isListed) => isListed, times: 200 })
        for (
          const [part, words] of [["#facts", "demo"], ["#facts", "ultimate"], ["#endpoints", "/v1/intraday-runners"]]
        ) {
          yield* runInBrowser(() => page.locator(part ?? "").getByText(words ?? "", { exact: true }).first().waitFor())
        }
        assert.strictEqual(yield* runInBrowser(() => page.locator("#days svg:visible").count()), 2)
        // Two charts, each with one bar per day for the last 30 days.
        assert.strictEqual(yield* runInBrowser(() => page.locator("#days svg:visible .amount").count()), 2 * 30)
        yield* runInBrowser(() => page.getByLabel("Period", { exact: true }).selectOption("7"))
        yield* runInBrowser(() => page.locator("#days svg:visible .amount").nth(13).waitFor())
        yield* runInBrowser(() => page.locator("#days svg:visible .amount").nth(14).waitFor({ state: "detached" }))
        yield* runInBrowser(() => page.getByText("Show as a table").first().click())
        for (const [scheme, findViolations] of themes) {
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: scheme }))
          assert.deepStrictEqual(yield* findViolations(page), [])
          yield* takeScreenshot(page, `account-full-${scheme}`)
        }
        yield* runInBrowser(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        yield* takeScreenshot(page, "account-full-320")
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("shows invoices, and prints only the invoice on pages of paper (D27)"),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openPage()
        const { key } = yield* createCustomer("invoiced & co")
        yield* open(page, "/v1/docs/your-invoices")
        yield* enterKey(page, key)
        yield* waitFor(page, "No month is closed yet.")
        yield* recordInvoicedUsage(key)
        yield* open(page, "/v1/docs/your-invoices#2026-09")
        yield* waitFor(page, "There is no invoice for 2026-09.")
        yield* runInBrowser(() => page.getByRole("link", { name: "2026-10" }).click())
        yield* waitFor(page, "Invoice for 2026-10")
        const { body } = yield* Service.requestJson("/v1/account/invoices", { key })
        const invoice = Service.valueAt(body, "results", 0)
        const rows = page.locator("#invoice tbody tr")
        assert.strictEqual(yield* runInBrowser(() => rows.count()), Service.valueAt(invoice, "lines"))
        for (const text of ["invoiced & co", String(Service.valueAt(invoice, "digest"))]) {
          yield* runInBrowser(() => page.locator("#invoice dd").getByText(text).waitFor())
        }
        for (const [scheme, findViolations] of themes) {
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: scheme }))
          assert.deepStrictEqual(yield* findViolations(page), [])
          yield* takeScreenshot(page, `invoices-${scheme}`)
        }
        yield* runInBrowser(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        yield* takeScreenshot(page, "invoices-320")

        // The width of an A4 page without margins: 210 mm at 96 pixels per inch.
        yield* runInBrowser(() => page.setViewportSize({ width: 794, height: 1_000 }))
        yield* runInBrowser(() => page.emulateMedia({ media: "print" }))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        assert.strictEqual((yield* findCutTables(page)).scrolling, 0)
        // The width of an A4 page with the usual 10 mm margins.
        yield* runInBrowser(() => page.setViewportSize({ width: 718, height: 1_000 }))
        const lines = runInBrowser(() => page.locator("td time").first().evaluate((day) => day.getClientRects().length))
        assert.strictEqual(yield* lines, 1, "days are in one line")
        const printed = yield* runInBrowser(() => page.locator("body").innerText())
        assert.match(printed, /^\s*Invoice for 2026-10/)
        assert.notInclude(printed, "API key")
        assert.notInclude(printed, "Print")
        yield* takeScreenshot(page, "invoices-print")
        const pdf = yield* runInBrowser(() => page.pdf({ format: "A4" }))
        assert.isAbove(pdf.toString("latin1").match(/\/Type \/Page\b/g)?.length ?? 0, 1)
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "stops marking the account page as busy if the key is rejected or forgotten (README.md)",
    ),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openPage()
        const isBusy = runInBrowser(() => page.locator("#result").getAttribute("aria-busy"))
        const enterWrongKey = runInBrowser(async () => {
          await page.getByLabel("Your API key").fill(`tl_live_${"0".repeat(32)}`)
          await page.getByLabel("Your API key").press("Enter")
        })
        yield* open(page, "/v1/docs/account")
        yield* enterWrongKey
        yield* runInBrowser(() => page.locator("#state").getByText("401").waitFor())
        assert.isNull(yield* isBusy)
        // No response arrives, so the page is still loading when the key is removed.
        yield* runInBrowser(() => page.route("**/v1/account", () => {}))
        yield* enterWrongKey
        yield* waitFor(page, "Loading…")
        assert.strictEqual(yield* isBusy, "true")
        yield* runInBrowser(() => page.getByRole("button", { name: "Forget" }).click())
        yield* runInBrowser(() => page.getByText("Loading…").waitFor({ state: "hidden" }))
        assert.isNull(yield* isBusy)
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("shows when each dataset last changed and how long ago (D17, D30)"),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openWithKey("/v1/docs/datasets")
        yield* waitFor(page, "Up to date.")
        const rows = yield* runInBrowser(() => page.locator("td[data-dataset]").allInnerTexts())
        assert.lengthOf(rows, datasetCount)
        for (const row of rows) assert.match(row, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n(\d+ \w+ ago|just now)$/)
        assert.strictEqual(
          yield* runInBrowser(() => page.locator("#freshness svg:visible circle").count()),
          datasetCount,
        )
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* runInBrowser(() => page.setViewportSize({ width: 320, height: 640 }))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "sends requests from the reference with the key entered on another page (§4.5)",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin, page, problems } = yield* openWithKey("/v1/docs/explorer")
        yield* open(page, "/v1/docs/reference/ticker-changes")
        assert.strictEqual(
          yield* runInBrowser(() => page.locator("main .badge", { hasText: /^\d+$/ }).first().innerText()),
          "200",
        )
        assert.strictEqual(yield* runInBrowser(() => page.getByLabel("ticker", { exact: true }).inputValue()), "OSTK")
        const send = runInBrowser(async () => {
          const [response] = await Promise.all([
            page.waitForResponse((response) => new URL(response.url()).pathname === "/v1/ticker-changes"),
            page.getByRole("button", { name: "Send" }).first().click(),
          ])
          return response
        })
        const response = yield* send
        assert.strictEqual(
          (yield* runInBrowser(() => response.request().allHeaders()))["authorization"],
          `Bearer ${demoKey}`,
        )
        assert.strictEqual(response.status(), 200)
        assert.strictEqual(new URL(response.url()).origin, origin)
        yield* runInBrowser(() => page.locator("#response").getByText(`"current_ticker": "NXH"`).waitFor())
        yield* runInBrowser(() => page.getByLabel("ticker", { exact: true }).fill("META"))
        yield* runInBrowser(() => page.locator("#request").getByText("ticker=META").waitFor())
        assert.strictEqual((yield* send).status(), 409)
        yield* runInBrowser(() => page.locator("#response").getByText("409", { exact: true }).waitFor())
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* takeScreenshot(page, "reference-response")
        // A link can contain a request. /estimate has a single field for all parameters of the endpoint whose cost it
        // estimates.
        yield* open(page, "/v1/docs/reference/estimate?endpoint=/v1/news&ticker=META,GAP7#try-it")
        yield* runInBrowser(() =>
          page.locator("#request").getByText('/estimate?endpoint=/v1/news&ticker=META,GAP7"').waitFor()
        )
        assert.deepStrictEqual(unexpectedProblems(problems, 409), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("sends a request from below its parameters, and moves to the response (§4.5)"),
    () =>
      Effect.gen(function* () {
        for (const width of [375, 1280]) {
          const { page, problems } = yield* openWithKey("/v1/docs/datasets", {
            reducedMotion: "reduce",
            viewport: { width, height: 800 },
          })
          yield* open(page, "/v1/docs/reference/ticker-changes")
          const example = page.locator("#response p").first()
          assert.include(yield* runInBrowser(() => example.innerText()), "/v1/ticker-changes?ticker=OSTK")
          const send = page.getByRole("button", { name: "Send" })
          assert.strictEqual(yield* runInBrowser(() => send.count()), 2)
          const isBelow = `document.querySelector(".parameters").getBoundingClientRect().bottom <=
            document.querySelector("#send-below button").getBoundingClientRect().top`
          assert.isTrue(yield* runInBrowser(() => page.evaluate<boolean>(isBelow)))
          const expectResponse = (word: string) =>
            Effect.gen(function* () {
              // Waits for the status, because the example on the page contains the same text as the response.
              yield* runInBrowser(() =>
                page.getByRole("status").filter({ hasText: "status 200" }).waitFor({ state: "attached" })
              )
              yield* runInBrowser(() => page.locator("#response").getByText(word).first().waitFor())
              assert.strictEqual(
                yield* runInBrowser(() => page.evaluate("document.activeElement.id")),
                "response-section",
              )
              const box = yield* runInBrowser(() => page.locator("#response .badge").first().boundingBox())
              assert.isAtLeast(box?.y ?? -1, 0)
              assert.isBelow(box?.y ?? Infinity, 400)
            })
          yield* runInBrowser(() => send.last().click())
          yield* expectResponse(`"current_ticker": "NXH"`)
          assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
          yield* takeScreenshot(page, `reference-response-${width}`)
          // Pressing Enter in a field also sends the request.
          yield* runInBrowser(() => page.getByLabel("ticker", { exact: true }).fill("BRK.B"))
          yield* runInBrowser(() => page.keyboard.press("Enter"))
          yield* expectResponse(`"has_changes": false`)
          assert.strictEqual(yield* findHorizontalOverflow(page), "")
          assert.deepStrictEqual(problems, [])
        }
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("shows only a line about a valid key, which can be changed or forgotten (README.md)"),
    () =>
      Effect.gen(function* () {
        const { demoKey } = yield* Browser
        const { page } = yield* openPage({ viewport: { width: 375, height: 800 } })
        const field = page.getByLabel("Your API key")
        const focusedId = runInBrowser(() => page.evaluate<string>("document.activeElement.id"))
        for (const path of ["/v1/docs/reference/news", "/v1/docs/account", "/v1/docs/datasets", "/v1/docs/explorer"]) {
          yield* open(page, path)
          if (path === "/v1/docs/reference/news") {
            assert.isFalse(yield* runInBrowser(() => changeKeyButton(page).isVisible()))
            yield* enterKey(page, demoKey)
            // The focus stays within the box although the field has disappeared.
            assert.strictEqual(yield* focusedId, "key-change")
          }
          yield* waitFor(page, `Key ${demoKey.slice(0, 12)}… is used until you close this tab.`)
          assert.isFalse(yield* runInBrowser(() => field.isVisible()), path)
          assert.strictEqual(yield* runInBrowser(() => changeKeyButton(page).getAttribute("aria-expanded")), "false")
          const { height } = (yield* runInBrowser(() => page.locator("#key-box").boundingBox())) ?? { height: 999 }
          assert.isBelow(height, 150)
          yield* runInBrowser(() => changeKeyButton(page).click())
          assert.strictEqual(yield* focusedId, "key")
          assert.strictEqual(yield* runInBrowser(() => changeKeyButton(page).getAttribute("aria-expanded")), "true")
          assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
          yield* runInBrowser(() => changeKeyButton(page).click())
          assert.isFalse(yield* runInBrowser(() => field.isVisible()))
        }
        // A key that the service rejects must be replaced, so the field appears again.
        yield* open(page, "/v1/docs/datasets")
        yield* runInBrowser(() => changeKeyButton(page).click())
        yield* runInBrowser(() => field.fill("tl_live_wrong"))
        yield* runInBrowser(() => field.press("Enter"))
        yield* waitFor(page, "tl_live_wron… is not a valid key.")
        assert.isTrue(yield* runInBrowser(() => field.isVisible()))
        yield* runInBrowser(() => page.getByRole("button", { name: "Forget key" }).click())
        assert.strictEqual(yield* focusedId, "key")
        assert.isTrue(yield* runInBrowser(() => field.isVisible()))
        assert.isFalse(yield* runInBrowser(() => changeKeyButton(page).isVisible()))
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("fits long names and symbols on phones and desktops (README.md)"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openWithKey("/v1/docs/datasets")
        const name = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft".repeat(2)
        const symbol = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789".repeat(2)
        const change = { old_ticker: "FB", new_ticker: symbol, effective_date: "2022-06-09" }
        const event = { ...change, cik: "0001326801", company_name: name, reasons: ["broken_chain"] }
        const candidate = { cik: "0001326801", company_name: name, history: [change] }
        const details = { query_ticker: symbol, reasons: ["broken_chain"], events: [event], candidates: [candidate] }
        const responses = [
          ["**/v1/ticker-changes**", 409, { error: { code: "ambiguous_ticker_lineage", message: name, details } }],
          ["**/v1/timeline**", 200, {
            results: [
              { at: "2026-01-01", ticker: symbol, type: "news", title: name, endpoint: "/v1/news", key: "ticker=A" },
            ],
          }],
          ["**/v1/account", 200, { results: [{ name, tier: "ultimate", contact_email: `${name}@example.com` }] }],
          ["**/v1/account/api-keys**", 200, { results: [{ key_hint: "tl_live_abcd", name, status: "active" }] }],
          ["**/v1/usage?**", 200, { results: [{ endpoint: "/v1/pump-and-dump-tracker", request_id: name }] }],
        ] as const
        for (const [pattern, status, json] of responses) {
          yield* runInBrowser(() => page.route(pattern, (route) => route.fulfill({ status, json })))
        }
        const visits = [
          [`explorer#${symbol}:0001326801`, "There is one event."],
          ["account", "Up to date."],
          [`reference/news?ticker=${symbol}&query=${name}#try-it`, "The link filled in this request."],
        ] as const
        for (const [path, text] of visits) {
          yield* open(page, "/v1/docs")
          yield* open(page, `/v1/docs/${path}`)
          yield* waitFor(page, text)
          for (const width of [320, 375, 1280]) {
            yield* runInBrowser(() => page.setViewportSize({ width, height: 800 }))
            assert.strictEqual(yield* findHorizontalOverflow(page), "", `${path} at ${width}`)
            const { cut, scrolling } = yield* findCutTables(page)
            assert.deepStrictEqual(cut, [], path)
            if (!path.startsWith("reference")) assert.strictEqual(scrolling, 0, `${path} at ${width}`)
            yield* takeScreenshot(page, `long-${path.slice(0, 8)}-${width}`)
          }
        }
        // The button for the symbol in the address is as long as the symbol itself.
        yield* open(page, "/v1/docs")
        yield* open(page, `/v1/docs/explorer#${name}`)
        yield* enterKey(page, "tl_live_other")
        yield* runInBrowser(() => page.getByRole("button", { name: "Show the lineage of Donau" }).waitFor())
        for (const width of [320, 375, 1280]) {
          yield* runInBrowser(() => page.setViewportSize({ width, height: 800 }))
          assert.strictEqual(yield* findHorizontalOverflow(page), "", String(width))
        }
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("draws the line below the title of a code block to its end (README.md)"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openPage({ viewport: { width: 1920, height: 900 } })
        let measured = 0
        for (const path of ["/v1/docs/first-steps", "/v1/docs/explorer", "/v1/docs/mcp", "/v1/docs/reference/news"]) {
          yield* open(page, path)
          const widths = yield* runInBrowser(() =>
            page.evaluate<ReadonlyArray<readonly [number, number]>>(`
              [...document.querySelectorAll(".code")].filter((block) => block.checkVisibility())
                .map((block) => [block.querySelector(".language").offsetWidth, block.clientWidth])`)
          )
          for (const [line, block] of widths) assert.strictEqual(line, block, path)
          measured += widths.length
        }
        assert.isAbove(measured, 10)
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "sends no request when a key is set or forgotten (README.md)",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey } = yield* Browser
        for (const path of ["/v1/docs/explorer", "/v1/docs/explorer#META"]) {
          const { page } = yield* openPage()
          yield* open(page, path)
          const sent: Array<string> = []
          page.on("request", (request) => sent.push(request.url()))
          yield* enterKey(page, demoKey)
          yield* runInBrowser(() => page.getByRole("button", { name: "Forget key" }).click())
          yield* waitFor(page, "No API key is set.")
          yield* enterKey(page, demoKey)
          yield* runInBrowser(() => page.waitForLoadState("networkidle"))
          assert.deepStrictEqual(sent, [], path)
          // A request is sent only when a symbol is submitted.
          yield* enterSymbol(page, "OSTK")
          yield* runInBrowser(() => page.getByRole("heading", { name: "Ticker change (3)" }).waitFor())
          assert.deepStrictEqual(sent.map((url) => new URL(url).pathname), ["/v1/ticker-changes", "/v1/timeline"])
        }
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("searches guides, operations pages and endpoints using only the keyboard (README.md)"),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openPage()
        yield* open(page, "/v1/docs")
        yield* waitForPaint(page)
        yield* runInBrowser(() => page.keyboard.press("/"))
        const dialog = page.getByRole("dialog", { name: "Search" })
        yield* runInBrowser(() => dialog.waitFor())
        yield* runInBrowser(() => page.keyboard.type("retry or not"))
        yield* runInBrowser(() => dialog.getByRole("link", { name: /^Retry, or not/ }).waitFor())
        for (const [scheme, findViolations] of themes) {
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: scheme }))
          assert.deepStrictEqual(yield* findViolations(page), [])
          yield* takeScreenshot(page, `search-${scheme}`)
        }
        yield* runInBrowser(() => page.keyboard.press("Enter"))
        yield* runInBrowser(() => page.waitForURL("**/v1/docs/errors#retry-or-not"))
        for (const [query, path] of [["operators", "/v1/docs/operators"], ["/v1/news", "/v1/docs/reference/news"]]) {
          yield* waitForPaint(page)
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
        // A misspelled query finds the same page, and the correctly spelled word is highlighted.
        for (const query of ["closing price", "cloising price"]) {
          yield* waitForPaint(page)
          yield* runInBrowser(() => page.keyboard.press("/"))
          yield* runInBrowser(() => page.getByRole("searchbox").fill(query))
          const result = dialog.getByRole("link", { name: /^Gap stats, / })
          yield* runInBrowser(() => result.locator("mark", { hasText: "Closing" }).first().waitFor())
          yield* runInBrowser(() => page.keyboard.press("Escape"))
          yield* runInBrowser(() => dialog.waitFor({ state: "hidden" }))
        }
        yield* runInBrowser(() => page.getByRole("button", { name: "Search" }).click())
        yield* runInBrowser(() => page.getByRole("searchbox").fill("page"))
        yield* waitFor(page, /^The first 12 of \d+ results$/)
        assert.strictEqual(yield* runInBrowser(() => dialog.getByRole("listitem").count()), 12)
        yield* runInBrowser(() => page.getByRole("searchbox").fill("nosuchword"))
        yield* waitFor(page, "No results for “nosuchword”.")
        yield* runInBrowser(() => page.keyboard.press("Escape"))
        yield* runInBrowser(() => dialog.waitFor({ state: "hidden" }))
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "remembers the chosen theme and applies it before the first paint (README.md)",
    ),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openPage({
          colorScheme: "light",
          viewport: { width: 1280, height: 800 },
        })
        const readBackground = runInBrowser(() =>
          page.evaluate<string>("getComputedStyle(document.body).backgroundColor")
        )
        yield* open(page, "/v1/docs")
        const light = yield* readBackground
        const choice = page.getByRole("combobox", { name: "Theme" })
        yield* runInBrowser(() => choice.selectOption("dark"))
        const dark = yield* readBackground
        assert.notStrictEqual(dark, light)
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        // The theme must work without the module scripts.
        yield* runInBrowser(() =>
          page.route("**/every-page.js", (route) => route.fulfill({ contentType: "text/javascript", body: "" }))
        )
        yield* open(page, "/v1/docs/errors")
        assert.strictEqual(yield* readBackground, dark)
        yield* runInBrowser(() => page.unroute("**/every-page.js"))
        yield* runInBrowser(() => page.reload({ waitUntil: "networkidle" }))
        assert.strictEqual(yield* runInBrowser(() => choice.inputValue()), "dark")
        yield* runInBrowser(() => choice.selectOption("system"))
        assert.strictEqual(yield* readBackground, light)
        yield* runInBrowser(() => page.emulateMedia({ colorScheme: "dark" }))
        assert.strictEqual(yield* readBackground, dark)
        yield* runInBrowser(() => choice.selectOption("light"))
        assert.strictEqual(yield* readBackground, light)
        // On phones, the theme switch is in the menu.
        yield* runInBrowser(() => page.setViewportSize({ width: 390, height: 844 }))
        yield* runInBrowser(() => page.getByText("Menu").click())
        assert.strictEqual(yield* runInBrowser(() => choice.inputValue()), "light")
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("has a start page of at most two screens, with a timeline (README.md)"),
    () =>
      Effect.gen(function* () {
        const screenHeight = 800
        const { page } = yield* openPage({ viewport: { width: 1280, height: screenHeight } })
        yield* open(page, "/v1/docs")
        assert.isAtMost(
          yield* runInBrowser(() => page.evaluate<number>("document.documentElement.scrollHeight")),
          2 * screenHeight,
        )
        assert.strictEqual(yield* runInBrowser(() => page.locator("figure.lineage svg.wide:visible").count()), 1)
        const next = page.getByRole("navigation", { name: "Previous and next page" }).getByRole("link")
        yield* runInBrowser(() => next.click())
        yield* runInBrowser(() => page.waitForURL("**/v1/docs/first-steps"))
        assert.match(yield* runInBrowser(() => next.first().innerText()), /^Previous/)
        // Each heading is a link to itself.
        yield* runInBrowser(() => page.getByRole("heading", { name: "Get a key" }).getByRole("link").click())
        assert.match(page.url(), /#get-a-key$/)
        const navigation = page.getByRole("navigation", { name: "Main" })
        yield* runInBrowser(() => navigation.getByRole("link", { name: "API reference" }).click())
        yield* runInBrowser(() => page.waitForURL("**/v1/docs/reference"))
        assert.strictEqual(
          yield* runInBrowser(() => navigation.locator("[aria-current=page]").innerText()),
          "API reference",
        )
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("shows no empty sections without a key (README.md)"),
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
        const cells = yield* runInBrowser(() => page.locator("tbody :is(th, td):visible").allInnerTexts())
        assertFoundMoreThan(30, "cells", cells)
        assert.deepStrictEqual(cells.filter((text) => !/\w/.test(text)), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("formats numbers with thousands separators, and shows a tooltip for each bar (D29)"),
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
        yield* enterKey(page, demoKey)
        yield* waitFor(page, "Up to date.")
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
        const table = yield* runInBrowser(() => page.locator("#endpoints").innerText())
        for (const number of ["1,234,567", "9,876,543,210", "$98,765.4321"]) assert.include(table, number)
        assert.match(yield* runInBrowser(() => page.locator("#facts").innerText()), /\d,\d{3} of \d,\d{3}/)
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("draws timelines without overlapping labels, and a legend of the issuers (D21)"),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openWithKey("/v1/docs/explorer")
        for (const symbol of ["OSTK", "META", "GOOG", "MEGX", "FNGU", "BMR1", "KNT0", "DZ5", "BD0", "FI"]) {
          yield* enterSymbol(page, symbol)
          yield* runInBrowser(() =>
            page.locator(`figure [id^=lineage-][id$=-title]`).first().waitFor({ state: "attached" })
          )
          yield* runInBrowser(() =>
            page.locator(`figure .symbol.requested`, { hasText: symbol }).first().waitFor({ state: "attached" })
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
                const describe = ({ element }) => element.getAttribute("class") + " " + element.textContent
                return [
                  ...texts.flatMap((a, at) => [...texts.slice(at + 1), ...shapes].filter((b) => meets(a, b))
                    .map((b) => describe(a) + " | " + describe(b))),
                ]
              })()`)
            )
            assert.deepStrictEqual(covered, [], `${symbol} at ${width}`)
          }
          if (symbol === "META") {
            const legend = yield* runInBrowser(() => page.locator(".legend li").allInnerTexts())
            assert.deepStrictEqual(legend.map((line) => /CIK \d+/.test(line)), [true, true, false])
            const colors = yield* runInBrowser(() =>
              page.evaluate<ReadonlyArray<string>>(
                `[...document.querySelectorAll(".legend .bar")].map((bar) => getComputedStyle(bar).fill)`,
              )
            )
            assert.lengthOf(new Set(colors), 2)
          }
        }
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("suggests similar pages if a page does not exist (README.md)"),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openPage()
        yield* open(page, "/v1/docs/linage")
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* runInBrowser(() => page.locator("main").getByRole("link", { name: "Ticker lineage" }).click())
        yield* runInBrowser(() => page.waitForURL("**/v1/docs/lineage"))
        yield* open(page, "/docs")
        assert.match(page.url(), /\/v1\/docs$/)
        assert.deepStrictEqual(unexpectedProblems(problems, 404), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "keeps the key out of URLs, page text and lasting storage, and can forget it (SECURITY.md)",
    ),
    () =>
      Effect.gen(function* () {
        const { demoKey, origin } = yield* Browser
        const { page } = yield* openPage()
        const urls: Array<string> = []
        page.on("request", (request) => urls.push(request.url()))
        const pageState = runInBrowser(() =>
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
          yield* enterKey(page, demoKey)
          yield* runInBrowser(() => page.waitForLoadState("networkidle"))
          assert.notInclude(yield* pageState, demoKey)
        }
        // The key remains available on the next page in the same tab, but not in another tab.
        yield* open(page, "/v1/docs/explorer#OSTK")
        yield* waitFor(page, "OSTK became NXH")
        assert.include(
          yield* runInBrowser(() => page.evaluate<string>("JSON.stringify({ ...sessionStorage })")),
          demoKey,
        )
        const other = yield* runInBrowser(() => page.context().newPage())
        yield* runInBrowser(() => other.goto(`${origin}/v1/docs/explorer#OSTK`))
        yield* waitFor(other, "API key required")
        yield* runInBrowser(() => page.getByRole("button", { name: "Forget key" }).click())
        yield* waitFor(page, "API key required")
        assert.notInclude(
          yield* runInBrowser(() => page.evaluate<string>("JSON.stringify({ ...sessionStorage })")),
          "tl_live_",
        )
        assert.isAbove(urls.length, 20)
        assert.deepStrictEqual(urls.filter((url) => url.includes("tl_live_")), [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("is readable without scripts, and explains what needs scripts (README.md)"),
    () =>
      Effect.gen(function* () {
        const { page, problems } = yield* openPage({ javaScriptEnabled: false })
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
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.scoped),
  )
})
