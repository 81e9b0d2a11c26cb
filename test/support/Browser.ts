/** Opens the documentation pages in the installed Chromium. */
import { assert } from "@effect/vitest"
import { Context, Data, Effect, FileSystem, Layer } from "effect"
import { HttpServer } from "effect/http"
import { SqlClient } from "effect/sql"
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import { type Browser as Chromium, type BrowserContextOptions, chromium, type Page } from "playwright-core"
import { createDemoKey, getDemoKeyFile } from "../../src/operate/cli/DemoKey.ts"
import { getCandidateProgramPaths, isExecutable } from "./Processes.ts"
import * as Service from "./Service.ts"

// Debian's headless shell uses less CPU time than the full browser.
const programNames = [
  "chromium-headless-shell",
  "chromium",
  "chromium-browser",
  "google-chrome",
  "google-chrome-stable",
]

const program = [
  process.env["CHROMIUM_PATH"] ?? "",
  ...programNames.flatMap((
    name,
  ) => [
    ...getCandidateProgramPaths(name),
    ...["/usr/bin", "/usr/local/bin", "/snap/bin"].map((at) => `${at}/${name}`),
  ]),
].find((path) => path !== "" && isExecutable(path))

/** Whether the browser tests are skipped, because no browser is installed and `REQUIRE_BROWSER` is not set. */
export const isBrowserMissing = program === undefined && (process.env["REQUIRE_BROWSER"] ?? "") === ""
/** Returns the title of a browser test. If the test is skipped, the title states the reason. */
export const browserTestName = (name: string) =>
  `${name}${isBrowserMissing ? " (no Chromium on this machine; CHROMIUM_PATH names one)" : ""}`

class BrowserError extends Data.TaggedError("BrowserError")<{ readonly message: string }> {}

/** Converts a Playwright promise to an effect, which fails with the rejection's message. */
export const runInBrowser = <A>(action: () => Promise<A>) =>
  Effect.tryPromise({
    try: action,
    catch: (cause) => new BrowserError({ message: cause instanceof Error ? cause.message : String(cause) }),
  })

/** Provides a running browser. */
export class ChromiumBrowser extends Context.Service<ChromiumBrowser, Chromium>()("test/support/ChromiumBrowser") {
  static readonly layer = Layer.effect(
    ChromiumBrowser,
    Effect.gen(function* () {
      if (program === undefined) {
        return yield* new BrowserError({ message: "REQUIRE_BROWSER: no Chromium on the PATH; CHROMIUM_PATH names one" })
      }
      return yield* Effect.acquireRelease(
        runInBrowser(() =>
          chromium.launch({
            executablePath: program,
            // Chromium needs the first two options when it runs as root and in containers with little shared memory.
            // The third option prevents GPU emulation, which uses more CPU time than rendering without a GPU.
            args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
          })
        ),
        (browser) => Effect.promise(() => browser.close()),
      )
    }),
  )
}

/** Provides the browser and the service whose pages it opens. */
export class Browser extends Context.Service<Browser, {
  readonly origin: string
  /** The API key that the service creates on its first start. */
  readonly demoKey: string
}>()("test/support/Browser") {
  /** A browser and a service with the sample market, shared by all tests in a file. */
  static readonly layer = Layer.effect(
    Browser,
    Effect.gen(function* () {
      const { address } = yield* HttpServer.HttpServer
      const home = yield* (yield* FileSystem.FileSystem).makeTempDirectoryScoped({ prefix: "tickerline-home-" })
      yield* createDemoKey(home)
      const demoKey = (yield* (yield* FileSystem.FileSystem).readFileString(yield* getDemoKeyFile(home))).trim()
      const sql = yield* SqlClient.SqlClient
      // Inserts correction counts, so that the page about corrections shows all of its tables.
      yield* sql`insert into history.change_counts values ('dilution_data', now(), 'corrected', 'later', 1234567)`
      yield* sql`
        insert into history.corrected_fields
        select 'dilution_data', now(), column_name, 1234567 from information_schema.columns
        where table_schema = 'public' and table_name = 'dilution_data'
      `
      return { demoKey, origin: `http://127.0.0.1:${"port" in address ? address.port : 0}` }
    }),
  ).pipe(Layer.provideMerge([Service.sampleServiceLayer, ChromiumBrowser.layer]))
}

/** An open page and the problems detected on it. */
export interface VisitedPage {
  readonly page: Page
  /**
   * Console warnings and errors, failed requests, requests to other hosts, and violations of the
   * Content-Security-Policy.
   */
  readonly problems: Array<string>
}

/**
 * Opens an empty page in a new browser context, which closes when the scope closes. Paths that the test visits are
 * relative to `origin`, such as `http://127.0.0.1:8080`. `problems` collects console messages, script errors, failed
 * requests, and requests to other origins.
 */
export const openPageAt = Effect.fnUntraced(function* (origin: string, options: BrowserContextOptions = {}) {
  const chromium = yield* ChromiumBrowser
  const context = yield* Effect.acquireRelease(
    runInBrowser(() => chromium.newContext({ baseURL: origin, ...options })),
    (context) => Effect.promise(() => context.close()),
  )
  const page = yield* runInBrowser(() => context.newPage())
  page.setDefaultTimeout(20_000)
  const problems: Array<string> = []
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(`console: ${message.text()}`)
  })
  page.on("pageerror", (error) => problems.push(`script: ${error.message}`))
  page.on("request", (request) => {
    const url = request.url()
    const isLocal = url.startsWith(origin) || url.startsWith("data:") || url.startsWith("blob:")
    if (!isLocal) problems.push(`elsewhere: ${url}`)
  })
  page.on("requestfailed", (request) => {
    const why = request.failure()?.errorText ?? ""
    // Leaving a page cancels its pending requests, which is not a problem.
    if (why !== "net::ERR_ABORTED") problems.push(`failed: ${request.url()} ${why}`)
  })
  page.on("response", (response) => {
    if (response.status() >= 400) problems.push(`${response.status()}: ${response.url()}`)
  })
  // Violations of the Content-Security-Policy become console errors, which are recorded above.
  yield* runInBrowser(() =>
    page.addInitScript(
      `addEventListener("securitypolicyviolation", (event) =>
        console.error("policy: " + event.effectiveDirective + " " + event.blockedURI + " " + event.sourceFile))`,
    )
  )
  const visited: VisitedPage = { page, problems }
  return visited
})

/** Opens a documentation page. */
export const openPage = (options?: BrowserContextOptions) =>
  Effect.flatMap(Browser, ({ origin }) => openPageAt(origin, options))

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

/** The axe rules whose results depend on the color theme. */
const colorRules = ["color-contrast", "link-in-text-block"]

/** Runs axe. `context` and `options` are JavaScript expressions that are evaluated in the page. */
const runAxe = Effect.fnUntraced(function* (page: Page, context: string, options: string) {
  yield* runInBrowser(() => page.evaluate(`globalThis.axe ?? (() => { ${axe} })()`))
  return yield* runInBrowser(() =>
    page.evaluate<ReadonlyArray<string>>(`
      axe.run(${context}, { resultTypes: ["violations"], ...${options} }).then(({ violations }) =>
        violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) =>
          id + ": " + html.slice(0, 160) + " " + any.map(({ message }) => message).join("; ").slice(0, 200))))
    `)
  )
})

/**
 * The text styles (colors, font, backgrounds) that have been checked in this run. Elements with the same style have the
 * same contrast.
 */
const checkedTextStyles = new Set<string>()

/**
 * Returns the text styles on the page that have not been checked yet. A style is a text that joins the colors, the
 * font, and the backgrounds behind an element: two elements with the same style have the same contrast, so one of them
 * is enough. The script, which runs in the page, stores one element for each style in the global variable `newLooks`,
 * which axe reads.
 */
const findUncheckedTextStyles = (page: Page) =>
  runInBrowser(() =>
    page.evaluate<ReadonlyArray<string>>(`(() => {
      const checked = new Set(${JSON.stringify(Array.from(checkedTextStyles))})
      const hasText = (element) => element.matches("input, select, textarea") ||
        [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim() !== "")
      const describeLook = (element) => {
        const { color, fontSize, fontWeight, textDecorationLine } = getComputedStyle(element)
        const look = [color, fontSize, fontWeight, textDecorationLine, getComputedStyle(element.parentElement).color]
        for (let behind = element; behind !== null; behind = behind.parentElement) {
          const { backgroundColor, backgroundImage, opacity } = getComputedStyle(behind)
          look.push(backgroundColor, backgroundImage, opacity)
        }
        return look.join()
      }
      const looks = new Map([...document.querySelectorAll("body *")].filter((element) =>
        element.checkVisibility({ visibilityProperty: true }) && hasText(element)).map((element) =>
        [describeLook(element), element]).filter(([look]) => !checked.has(look)))
      globalThis.newLooks = { include: [...looks.values()] }
      return [...looks.keys()]
    })()`)
  )

/**
 * Finds violations of the WCAG 2.2 color rules (A and AA) on the page. Skips text styles that have been checked in this
 * run.
 */
export const findContrastViolations = Effect.fnUntraced(function* (page: Page) {
  const looks = yield* findUncheckedTextStyles(page)
  if (looks.length === 0) return []
  for (const look of looks) checkedTextStyles.add(look)
  return yield* runAxe(page, "newLooks", JSON.stringify({ runOnly: colorRules }))
})

/** Finds violations of WCAG 2.2 (A and AA) on the page in its current state. Returns one line per element. */
export const findAccessibilityViolations = Effect.fnUntraced(function* (page: Page) {
  const rules = Object.fromEntries(colorRules.map((rule) => [rule, { enabled: false }]))
  const violations = yield* runAxe(page, "document", JSON.stringify({ rules }))
  return [...violations, ...(yield* findContrastViolations(page))]
})

/**
 * Describes by how much the page exceeds the window width, and which elements cause this. Returns "" if the page fits.
 */
export const findHorizontalOverflow = (page: Page) =>
  runInBrowser(() =>
    page.evaluate<string>(`(() => {
      const { clientWidth, scrollWidth } = document.documentElement
      if (scrollWidth <= clientWidth) return ""
      const wide = [...document.querySelectorAll("body *")].filter((element) =>
        element.getBoundingClientRect().right > clientWidth + 1)
      return scrollWidth + " > " + clientWidth + ": " + wide.slice(0, 3).map(({ outerHTML }) => outerHTML.slice(0, 120)).join(" | ")
    })()`)
  )

/**
 * Moves through the page with the Tab key. Returns the elements that cannot be reached or that do not show the focus,
 * each as a line. A first script in the page lists the elements that should be reachable (`focusable`), and from then
 * on notes each element that gets the focus (`reached`), those that do not show it (`dim`), and whether the focus has
 * come back to an element (`isOver`): then, the Tab key has gone through the whole page.
 */
export const findUnreachableElements = Effect.fnUntraced(function* (page: Page) {
  // Waits for the next layout, which removes boxes that no longer scroll from the tab order.
  yield* runInBrowser(() =>
    page.evaluate(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))`)
  )
  const count = yield* runInBrowser(() =>
    page.evaluate<number>(`(() => {
      document.activeElement?.blur?.()
      scrollTo(0, 0)
      globalThis.reached = new Set()
      globalThis.dim = []
      globalThis.isOver = false
      globalThis.focusable = [...document.querySelectorAll(
        'a[href]:not([tabindex="-1"]), button, input, select, textarea, summary, [tabindex="0"]')].filter((element) =>
        element.checkVisibility({ visibilityProperty: true }) && !element.disabled)
      addEventListener("focusin", ({ target: element }) => {
        if (reached.has(element)) globalThis.isOver = true
        reached.add(element)
        const { outlineStyle, outlineWidth } = getComputedStyle(element)
        const { height, width } = element.getBoundingClientRect()
        if (outlineStyle === "none" || parseFloat(outlineWidth) < 2 || height === 0 || width === 0) {
          dim.push("not shown: " + element.outerHTML.slice(0, 120))
        }
      })
      return focusable.length
    })()`)
  )
  // Presses the key in groups of 20, because each call to the browser takes long. A field with several parts, such as a
  // date, has several tab stops, so there may be more stops than elements.
  for (let pressed = 0; pressed < 2 * count + 20; pressed += 20) {
    yield* runInBrowser(() => Promise.all(Array.from({ length: 20 }, () => page.keyboard.press("Tab"))))
    if (yield* runInBrowser(() => page.evaluate<boolean>("isOver"))) break
  }
  const missed = yield* runInBrowser(() =>
    page.evaluate<ReadonlyArray<string>>(`[...dim, ...focusable.filter((element) => !reached.has(element))
      .map(({ outerHTML }) => "not reached: " + outerHTML.slice(0, 120))]`)
  )
  // On an empty page, nothing would be missed.
  assert.isAbove(count, 3)
  return missed
})
