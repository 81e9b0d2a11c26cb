/** Tests the console in a browser, backed by the admin API and PostgreSQL (docs/operations/console.md). */
import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { BrowserContextOptions, Page } from "playwright-core"
import { OpenApi } from "effect/http-api"
import { createAccount, listAccounts } from "../../../src/accounts/Accounts.ts"
import { closeMonth } from "../../../src/accounts/billing/Invoices.ts"
import { createApiKey, listApiKeys } from "../../../src/accounts/keys/ApiKeyManagement.ts"
import { AdminApi } from "../../../src/operate/admin/AdminApi.ts"
import type { AdminScope } from "../../../src/operate/admin/AdminErrors.ts"
import { listAdminTokens } from "../../../src/operate/admin/AdminTokens.ts"
import { sessionCookie } from "../../../src/operate/console/ConsoleApi.ts"
import { consolePages } from "../../../src/operate/console/ConsoleRoutes.ts"
import { readUndeliveredEmails } from "../../../src/outbox/mail/Announcements.ts"
import { listWebhookEndpoints } from "../../../src/outbox/webhooks/WebhookEndpoints.ts"
import { readAuditEntries } from "../../../src/postgres/AuditLog.ts"
import { Admin, makeAdminLayer } from "../../support/Admin.ts"
import {
  browserTestName,
  ChromiumBrowser,
  findAccessibilityViolations,
  findContrastViolations,
  findHorizontalOverflow,
  findUnreachableElements,
  isBrowserMissing,
  openPageAt,
  runInBrowser,
} from "../../support/Browser.ts"
import { makeRecordWriter, makeUsageRecord } from "../../support/CustomerUsage.ts"

// @module-tag slow

/** A name that contains HTML markup, closing tags, and the end of an attribute. */
const hostileName = `"><img src=x onerror=alert(1)></title></script><b>'&amp;`

/** Inserts rows for every table on every page. All text that users can choose contains HTML markup. */
const insertSamples = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* createAccount({ name: hostileName, tier: "pro", email: "<i>@acme.example", prepaid: true })
  const { key_id } = yield* createApiKey({
    account: hostileName,
    name: hostileName,
    expires: null,
    endpoints: ["/v1/news"],
    networks: ["192.0.2.0/24"],
  })
  const [account] = yield* sql<{ readonly account_id: number }>`select account_id::int from accounts`
  const now = yield* Clock.currentTimeMillis
  const { makeBatch, write } = yield* makeRecordWriter
  yield* write(makeBatch(Array.from({ length: 20 }, (_, index) =>
    makeUsageRecord({
      account_id: account?.account_id ?? 0,
      key_id: Number(key_id),
      requested_at: now - (index + 1) * 1_000,
      request_id: String(index + 1),
      endpoint: "/v1/news",
      status_code: index % 5 === 4 ? 500 : 200,
      bytes: 10,
      cost_microdollars: 25,
      price_per_gb_microdollars: 2_500_000_000,
      duration_ms: index + 1,
    }))))
  yield* sql`
    insert into usage_daily
    select account_id, (now() at time zone 'America/New_York')::date - n, '/v1/news', 100 + n, 1 + n, 1000, 2500 * n
    from accounts cross join generate_series(0, 6) as n
  `
  yield* sql`update accounts set created_at = '2026-05-01'`
  yield* closeMonth({ month: "2026-05", account: null, skipsEarlierUsage: false })
  yield* sql`insert into credits (account_id, amount_microdollars, reference) select account_id, 5, ${hostileName}
    from accounts`
  yield* sql`
    insert into edgar_runs (scheduled, datasets, since, started_at, status, error)
    values (true, '{news}', '2026-01-01', now(), 'failed', ${hostileName})
  `
  yield* sql`
    insert into webhook_endpoints (account_id, url, secret, disabled_at, disabled_reason)
    select account_id, 'https://acme.example/' || n, '', case n when 2 then now() end,
      case n when 2 then ${hostileName} end
    from accounts cross join generate_series(1, 2) as n
  `
  yield* sql`insert into leases (name) values ('usage')`
  yield* sql`insert into announcements (entry_id, subject, text, html, operational) values ('entry', 's', 't', 'h', true)`
  yield* sql`
    insert into announcement_mails (entry_id, recipient, status, attempts, last_error)
    values ('entry', 'a@acme.example', 'failed', 5, ${hostileName})
  `
})

const TestLayer = Layer.effectDiscard(insertSamples).pipe(
  Layer.provideMerge([makeAdminLayer(), ChromiumBrowser.layer]),
)

const findOrigin = Effect.map(Admin, ({ port }) => `http://127.0.0.1:${port}`)

/** Opens a console page as an admin with the given scope. */
const openAs = Effect.fnUntraced(function* (scope: AdminScope, path: string, options?: BrowserContextOptions) {
  const origin = yield* findOrigin
  const { tokens } = yield* Admin
  const visited = yield* openPageAt(origin, options)
  yield* runInBrowser(() =>
    visited.page.context().addCookies([{ name: sessionCookie, value: tokens[scope], url: origin, httpOnly: true }])
  )
  yield* runInBrowser(() => visited.page.goto(path))
  return visited
})

/** Fetches a page without a browser. */
const get = Effect.fnUntraced(function* (path: string) {
  const origin = yield* findOrigin
  const { tokens } = yield* Admin
  const response = yield* Effect.promise(() =>
    fetch(`${origin}${path}`, { redirect: "manual", headers: { cookie: `${sessionCookie}=${tokens.admin}` } })
  )
  return { status: response.status, text: yield* Effect.promise(() => response.text()) }
})

const mainText = (page: Page) => runInBrowser(() => page.locator("main").innerText())

const accountPath = (name: string) => `/console/account?${new URLSearchParams({ name }).toString()}`

/** Returns the paths of all console pages, with values for pages that require query parameters. */
const findPaths = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const keys = yield* sql<{ readonly id: string }>`select min(key_id)::text as id from api_keys`
  const address: Readonly<Record<string, string>> = {
    "/console/account": accountPath(hostileName),
    "/console/erase": accountPath(hostileName).replace("account", "erase"),
    "/console/key": `/console/key?id=${keys[0]?.id ?? ""}`,
    "/console/request": `/console/request?${new URLSearchParams({ request_id: "7", account: hostileName }).toString()}`,
  }
  return consolePages.map(({ path }) => address[path] ?? path)
})

const screenshotFolder = process.env["SCREENSHOTS"]

const takeScreenshot = (page: Page, name: string) =>
  screenshotFolder === undefined
    ? Effect.void
    : runInBrowser(() => page.screenshot({ path: `${screenshotFolder}/console-${name}.png`, fullPage: true }))

layer(TestLayer, { excludeTestServices: true, timeout: "120 seconds" })("The console", (it) => {
  const test = it.effect.skipIf(isBrowserMissing)

  test(
    browserTestName("shows every page in both themes, on a phone, and to the keyboard (operations/console)"),
    () =>
      Effect.gen(function* () {
        const { tokens } = yield* Admin
        const { page, problems } = yield* openPageAt(yield* findOrigin)
        yield* runInBrowser(() => page.goto("/console/keys"))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* takeScreenshot(page, "sign-in")
        yield* runInBrowser(() => page.getByLabel("Admin token").fill(tokens.admin))
        yield* runInBrowser(() => page.getByLabel("Admin token").press("Enter"))
        yield* runInBrowser(() => page.getByRole("heading", { name: "Keys" }).waitFor())
        yield* runInBrowser(() => page.goto("/"))
        assert.match(page.url(), /\/console\/$/)
        for (const path of yield* findPaths) {
          const name = path.split("?", 1)[0]?.split("/").at(-1) ?? ""
          yield* runInBrowser(() => page.goto(path))
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: "light" }))
          yield* runInBrowser(() => page.setViewportSize({ width: 360, height: 800 }))
          assert.strictEqual(yield* findHorizontalOverflow(page), "", path)
          assert.deepStrictEqual(yield* findAccessibilityViolations(page), [], path)
          yield* takeScreenshot(page, `${name}-phone`)
          yield* runInBrowser(() => page.emulateMedia({ colorScheme: "dark" }))
          yield* runInBrowser(() => page.setViewportSize({ width: 1280, height: 800 }))
          assert.strictEqual(yield* findHorizontalOverflow(page), "", path)
          assert.deepStrictEqual(yield* findContrastViolations(page), [], path)
          yield* takeScreenshot(page, `${name}-dark`)
          if (/account$|key$|audit$/.test(name)) {
            assert.deepStrictEqual(yield* findUnreachableElements(page), [], path)
          }
          // No customer-chosen text was rendered as an HTML element.
          assert.strictEqual(yield* runInBrowser(() => page.locator("main img, main b, main i").count()), 0, path)
          assert.deepStrictEqual(problems, [], path)
        }
        assert.include(yield* mainText(page), "alice")
        yield* runInBrowser(() => page.goto(accountPath(hostileName)))
        assert.strictEqual(yield* runInBrowser(() => page.locator("h1").innerText()), `Account ${hostileName}`)
        assert.strictEqual(yield* runInBrowser(() => page.locator("svg:visible g .subset").count()), 7)
        yield* runInBrowser(() => page.getByRole("button", { name: "Sign out" }).click())
        yield* runInBrowser(() => page.getByLabel("Admin token").waitFor())
        yield* runInBrowser(() => page.goto("/console/keys"))
        assert.match(page.url(), /\/console\/sign-in\?to=%2Fconsole%2Fkeys$/)
        const sql = yield* SqlClient.SqlClient
        const open = yield* sql`select from admin_tokens where kind = 'session' and revoked_at is null`
        assert.deepStrictEqual(open, [])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "creates an account with the keyboard and without scripts, and names what is wrong (operations/console)",
    ),
    () =>
      Effect.gen(function* () {
        const { page } = yield* openAs("admin", "/console/accounts", { javaScriptEnabled: false })
        const press = (...keys: ReadonlyArray<string>) =>
          Effect.forEach(keys, (key) => runInBrowser(() => page.keyboard.press(key)))
        const type = (text: string) => runInBrowser(() => page.keyboard.type(text))
        const focused = page.locator(":focus")
        const tabTo = Effect.fnUntraced(function* (name: string) {
          for (let count = 0; count < 60; count += 1) {
            yield* press("Tab")
            const reached = yield* runInBrowser(() => page.evaluate("document.activeElement.getAttribute('name')"))
            if (reached === name) return
          }
          assert.fail(`Tab does not reach ${name}`)
        })
        yield* tabTo("tier")
        yield* press("Shift+Tab")
        yield* type("kay")
        yield* press("Tab", "ArrowDown", "Tab")
        yield* type(`${"k".repeat(65)}@acme.example`)
        yield* press("Enter")
        const problem = page.getByRole("alert")
        yield* runInBrowser(() => problem.waitFor())
        assert.strictEqual(yield* runInBrowser(() => focused.getAttribute("id")), "problem")
        assert.match(yield* runInBrowser(() => page.title()), /^Error: /)
        const email = page.getByLabel("Contact address")
        assert.strictEqual(yield* runInBrowser(() => email.getAttribute("aria-invalid")), "true")
        const described = (yield* runInBrowser(() => email.getAttribute("aria-describedby"))) ?? ""
        assert.include(described, "create-contact_email-error")
        assert.match(
          yield* runInBrowser(() => page.locator("#create-contact_email-error").innerText()),
          /^Contact address must/,
        )
        assert.strictEqual(yield* runInBrowser(() => page.getByLabel("Name", { exact: true }).inputValue()), "kay")
        assert.strictEqual(yield* runInBrowser(() => page.getByLabel("Tier").inputValue()), "pro")
        yield* press("Tab", "Enter")
        yield* tabTo("contact_email")
        yield* press("ControlOrMeta+A")
        yield* type("kay@acme.example")
        yield* press("Enter")
        yield* runInBrowser(() => page.getByText("The account was created.").waitFor())
        assert.strictEqual(new URL(page.url()).searchParams.get("name"), "kay")
        const sql = yield* SqlClient.SqlClient
        const rows = yield* sql`
          select accounts.tier, contact_email, actor, operation, origin from accounts
          join audit on subject = name and subject_type = 'account' where name = 'kay'
        `
        assert.deepStrictEqual(rows, [{
          tier: "pro",
          contact_email: "kay@acme.example",
          actor: "alice",
          operation: "POST /v1/accounts",
          origin: "127.0.0.1",
        }])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName(
      "shows a new key once, with a button to copy it, and creates no second one by a reload (operations/console)",
    ),
    () =>
      Effect.gen(function* () {
        yield* createAccount({ name: "keyed", tier: "pro", email: null, prepaid: true })
        const permissions = ["clipboard-read", "clipboard-write"]
        const { page, problems } = yield* openAs("support", accountPath("keyed"), { permissions })
        const copyShownSecret = Effect.gen(function* () {
          yield* runInBrowser(() => page.getByRole("button", { name: "Copy the code (The key)" }).click())
          yield* runInBrowser(() => page.getByRole("button", { name: "Copied" }).waitFor())
          const copied = yield* runInBrowser(() => page.evaluate("navigator.clipboard.readText()"))
          assert.strictEqual(copied, yield* runInBrowser(() => page.locator("#secret").innerText()))
        })
        yield* runInBrowser(() => page.locator("#create-key-networks").fill("192.0.2.1\n10.0.0.0/8"))
        yield* runInBrowser(() => page.getByRole("button", { name: "Create key" }).click())
        const secret = page.locator("#secret")
        assert.match(yield* runInBrowser(() => secret.innerText()), /^tl_live_\w{38}$/)
        yield* copyShownSecret
        assert.deepStrictEqual(yield* findAccessibilityViolations(page), [])
        yield* runInBrowser(() => page.setViewportSize({ width: 360, height: 800 }))
        assert.strictEqual(yield* findHorizontalOverflow(page), "")
        yield* takeScreenshot(page, "new-key")
        assert.deepStrictEqual(problems, [])
        yield* runInBrowser(() => page.reload())
        assert.strictEqual(yield* runInBrowser(() => secret.count()), 0)
        assert.include(yield* mainText(page), "cannot be shown again")
        yield* runInBrowser(() => page.getByRole("link", { name: "Continue" }).click())
        const keyLink = page.getByRole("link", { name: /tl_live_/ })
        assert.strictEqual(yield* runInBrowser(() => keyLink.count()), 1)
        yield* runInBrowser(() => keyLink.click())
        assert.include(yield* mainText(page), "192.0.2.1, 10.0.0.0/8")
        // Rotates the key, then disables, enables and revokes the old one.
        yield* runInBrowser(() => page.getByLabel("The old key works for").selectOption("3600"))
        yield* runInBrowser(() => page.getByRole("button", { name: "Rotate key" }).click())
        yield* runInBrowser(() => secret.waitFor())
        yield* copyShownSecret
        yield* runInBrowser(() => page.getByRole("link", { name: "Continue" }).click())
        for (
          const [button, message] of [
            ["Disable until it is enabled", "The key was disabled."],
            ["Enable key", "The key was enabled."],
          ] as const
        ) {
          yield* runInBrowser(() => page.getByRole("button", { name: button }).click())
          yield* runInBrowser(() => page.getByText(message).waitFor())
        }
        yield* runInBrowser(() => page.getByLabel("Revoke it permanently").check())
        yield* runInBrowser(() => page.getByRole("button", { name: "Revoke key" }).click())
        yield* runInBrowser(() => page.getByText("The key was revoked.").waitFor())
        const sql = yield* SqlClient.SqlClient
        const keys = yield* sql`
        select revoked_at is not null as is_revoked, networks::text from api_keys join accounts using (account_id)
        where accounts.name = 'keyed' order by key_id
      `
        const networks = "{192.0.2.1/32,10.0.0.0/8}"
        assert.deepStrictEqual(keys, [{ is_revoked: true, networks }, { is_revoked: false, networks }])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("shows both values if two admins change an account, and loses nothing typed (operations/console)"),
    () =>
      Effect.gen(function* () {
        yield* createAccount({ name: "shared", tier: "basic", email: "old@acme.example", prepaid: true })
        const [first, second] = [
          yield* openAs("admin", accountPath("shared")),
          yield* openAs("admin", accountPath("shared")),
        ]
        const save = ({ page }: typeof first) =>
          runInBrowser(() => page.getByRole("button", { name: "Save", exact: true }).click())
        yield* runInBrowser(() => first.page.getByLabel("Contact address").fill("first@acme.example"))
        yield* runInBrowser(() => first.page.getByLabel("Tier").selectOption("pro"))
        yield* save(first)
        yield* runInBrowser(() => first.page.getByText("The account was changed.").waitFor())
        yield* runInBrowser(() => second.page.getByLabel("Contact address").fill("second@acme.example"))
        yield* save(second)
        const problem = second.page.getByRole("alert")
        yield* runInBrowser(() => problem.getByText("has changed since you opened this page").waitFor())
        const email = second.page.getByLabel("Contact address")
        assert.strictEqual(yield* runInBrowser(() => email.inputValue()), "second@acme.example")
        assert.include(
          yield* runInBrowser(() => second.page.locator("#change-contact_email-note").innerText()),
          "first@acme.example",
        )
        // Fields that the second admin did not touch show the values that the first admin saved.
        assert.strictEqual(yield* runInBrowser(() => second.page.getByLabel("Tier").inputValue()), "pro")
        assert.deepStrictEqual(yield* findAccessibilityViolations(second.page), [])
        yield* takeScreenshot(second.page, "conflict")
        yield* save(second)
        yield* runInBrowser(() => second.page.getByText("The account was changed.").waitFor())
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(yield* sql`select tier, contact_email from accounts where name = 'shared'`, [
          { tier: "pro", contact_email: "second@acme.example" },
        ])
      }).pipe(Effect.scoped),
  )

  test(
    browserTestName("credits a balance once, also if the form is sent again (operations/console)"),
    () =>
      Effect.gen(function* () {
        yield* createAccount({ name: "credited", tier: "pro", email: null, prepaid: false })
        const { page } = yield* openAs("admin", accountPath("credited"))
        const amount = page.getByLabel("Amount in US dollars")
        const send = runInBrowser(() => page.getByRole("button", { name: "Add credit" }).click())
        yield* runInBrowser(() => amount.fill("a lot"))
        yield* send
        assert.include(yield* runInBrowser(() => page.getByRole("alert").innerText()), "must be an amount other than 0")
        yield* runInBrowser(() => amount.fill("12.50"))
        yield* send
        assert.include(yield* runInBrowser(() => page.getByRole("alert").innerText()), "postpaid")
        yield* runInBrowser(() => page.getByLabel("Make the account prepaid permanently").check())
        yield* send
        yield* runInBrowser(() => page.getByText("The balance was changed.").waitFor())
        yield* runInBrowser(() => amount.fill("1"))
        yield* runInBrowser(() => page.getByRole("button", { name: "Add credit" }).dblclick())
        yield* runInBrowser(() => page.getByText("$13.50").first().waitFor())
        const sql = yield* SqlClient.SqlClient
        assert.deepStrictEqual(
          yield* sql`select balance_microdollars::float8 as balance from accounts where name = 'credited'`,
          [{ balance: 13_500_000 }],
        )
      }).pipe(Effect.scoped),
  )

  test(browserTestName("hides what the scope does not allow (operations/console)"), () =>
    Effect.gen(function* () {
      const { page } = yield* openAs("read", accountPath(hostileName))
      assert.strictEqual(yield* runInBrowser(() => page.locator("main form[method=post]").count()), 0)
      assert.strictEqual(yield* runInBrowser(() => page.getByRole("link", { name: "Admin tokens" }).count()), 0)
      yield* runInBrowser(() => page.goto("/console/tokens"))
      assert.include(yield* mainText(page), "requires the scope admin; you have read")
      const support = yield* openAs("support", accountPath(hostileName))
      assert.strictEqual(yield* runInBrowser(() => support.page.getByLabel("Tier").count()), 0)
      assert.strictEqual(
        yield* runInBrowser(() => support.page.getByRole("button", { name: "Save", exact: true }).count()),
        1,
      )
    }).pipe(Effect.scoped))

  test(browserTestName("sets and removes a budget (operations/accounts)"), () =>
    Effect.gen(function* () {
      yield* createAccount({ name: "Frugal", tier: "pro", email: null, prepaid: false })
      const { page } = yield* openAs("admin", accountPath("Frugal"))
      const save = (budget: string) =>
        runInBrowser(async () => {
          await page.getByLabel("Budget per month in US dollars").fill(budget)
          await page.getByRole("button", { name: "Save budget" }).click()
        })
      yield* save("12,50")
      assert.include(yield* mainText(page), "with at most six decimals")
      yield* runInBrowser(() => page.getByLabel("Refuse requests for data once it is used up").check())
      yield* save("12.50")
      assert.include(yield* mainText(page), "$0.00 of $12.50 spent, then requests are refused")
      yield* save("")
      assert.match(yield* mainText(page), /Budget this month\s+none/)
    }).pipe(Effect.scoped))

  test(
    browserTestName("erases an account after its name was typed (operations/erasure)"),
    () =>
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* createAccount({ name: "Forget me", tier: "pro", email: "f@acme.example", prepaid: false })
        const { page } = yield* openAs("admin", accountPath("Forget me"))
        yield* runInBrowser(() => page.getByRole("link", { name: "See what erasing the account would change" }).click())
        const name = page.getByLabel("Name of the account")
        yield* runInBrowser(() => name.fill("Forget you"))
        yield* runInBrowser(() => page.getByRole("button", { name: "Erase permanently" }).click())
        assert.include(yield* mainText(page), "must be Forget me")
        yield* runInBrowser(() => name.fill("Forget me"))
        yield* runInBrowser(() => page.getByRole("button", { name: "Erase permanently" }).click())
        assert.include(yield* mainText(page), "The account is erased.")
        const names = yield* sql`select name from accounts where name like 'Forget%' or contact_email like 'f@%'`
        assert.deepStrictEqual(names, [])
        const { page: other } = yield* openAs("support", "/console/erase?name=Forget+me")
        assert.include(yield* mainText(other), "requires the scope admin")
      }).pipe(Effect.scoped),
  )

  it.effect("never shows a button that deletes or revokes something as the main action (operations/console)", () =>
    Effect.gen(function* () {
      const found = new Map<string, string>()
      for (const path of yield* findPaths) {
        const { text: page } = yield* get(path)
        for (const [, kind = "", text = ""] of page.matchAll(/<button class="(\w+)">([^<]*)</g)) found.set(text, kind)
      }
      const takesAway = /^(?:Cancel|Delete|Disable|End|Erase|Expire|Forget|Remove|Reset|Revoke|Suspend|Undo)\b/
      const texts = Array.from(found.keys())
      const dangerous = texts.filter((text) => found.get(text) === "danger")
      assert.deepStrictEqual(dangerous, texts.filter((text) => takesAway.test(text)))
      assert.includeMembers(dangerous, [
        "Disable until it is enabled",
        "Revoke key",
        "Revoke permanently",
        "Disable",
        "Erase permanently",
      ])
    }))

  it.effect("shows one page of undelivered emails, and how many there are (operations/console)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [pageSize, added] = [100, 150]
      const countAdded = (html: string) => html.split("@many.example").length - 1
      yield* sql`
        insert into announcement_mails (entry_id, recipient, status, attempts, last_error)
        select 'entry', n || '@many.example', 'failed', 5, 'refused' from generate_series(1, ${added}::int) as n
      `
      const { text } = yield* get("/console/emails")
      const next = /href="(\/console\/emails\?after=[^"]+)"/.exec(text)?.[1] ?? assert.fail(text)
      assert.include(text, `${added + 1} emails in total`, "with the one of the layer")
      assert.strictEqual(countAdded(text), pageSize)
      assert.strictEqual(countAdded((yield* get(next)).text), added - pageSize)
      yield* sql`delete from announcement_mails where recipient like '%@many.example'`
    }))

  it.effect("refuses networks from a page that is older than another admin's change (operations/console)", () =>
    Effect.gen(function* () {
      const origin = yield* findOrigin
      const { tokens } = yield* Admin
      yield* createAccount({ name: "limited", tier: "pro", email: null, prepaid: false })
      const key = { account: "limited", name: "k", expires: null, endpoints: null, networks: null }
      const { key_id } = yield* createApiKey(key)
      const path = `/console/key?id=${key_id}`
      const etag = /name="etag" value="([^"]*)"/.exec((yield* get(path)).text)?.[1]?.replaceAll("&quot;", `"`) ?? ""
      const save = (networks: string, number: string) =>
        Effect.promise(async () => {
          const response = await fetch(`${origin}${path}`, {
            method: "POST",
            redirect: "manual",
            headers: { cookie: `${sessionCookie}=${tokens.support}`, origin },
            // Sends all fields of the form, as the page does.
            body: new URLSearchParams({
              form: "networks",
              idempotency_key: `networks-${number}`,
              resource: "key",
              networks,
              etag,
            }),
          })
          return { status: response.status, text: await response.text() }
        })
      assert.strictEqual((yield* save("192.0.2.1", "1")).status, 303)
      const stale = yield* save("", "2")
      assert.strictEqual(stale.status, 412)
      assert.include(stale.text, "The saved value is now: 192.0.2.1")
      assert.include(stale.text, "The key has changed since you opened this page")
    }))

  it.effect("keeps the filter of a page if the API refuses it, with the reason (operations/console)", () =>
    Effect.gen(function* () {
      for (
        const [path, status, reason] of [
          ["keys?unused_days=abc", 422, "unused_days must be a whole number from 1 to 36500"],
          ["keys?account=mispelled", 404, "There is no account mispelled"],
          ["audit?before=abc", 422, "before must be a whole number"],
          ["audit?since=xx", 422, "since must be a date"],
          ["request?request_id=7", 422, "account is required"],
          ["request?request_id=a+b", 422, "request_id must have 1 to 128 letters"],
          ["request?request_id=7&account=mispelled", 404, "There is no account mispelled"],
          ["request?request_id=7&account=a&from=x", 422, "from must be a date"],
        ] as const
      ) {
        const page = yield* get(`/console/${path}`)
        assert.strictEqual(page.status, status, path)
        assert.include(page.text, reason)
        assert.include(page.text, `role="search"`, path)
      }
    }))

  it.effect("explains a request by its id (operations/console)", () =>
    Effect.gen(function* () {
      const found = yield* get(`/console/request?${new URLSearchParams({ request_id: "7", account: hostileName })}`)
      assert.strictEqual(found.status, 200)
      assert.match(found.text, />request<\/th><td[^>]*><span class="long">7<\/span>/)
      assert.include(found.text, "10 bytes at 2500000000 microdollars per 1,000,000,000 bytes are 25 microdollars")
      assert.strictEqual((yield* get("/console/request")).status, 200)
    }))

  it.effect("shows keys and tokens in pages, newest first (operations/console)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* createAccount({ name: "many", tier: "pro", email: null, prepaid: false })
      yield* sql`
        insert into api_keys (account_id, name, key_hash, key_hint)
        select account_id, 'key ' || n, sha256(n::text::bytea), 'tl_live_' from accounts cross join generate_series(1, 101) as n
        where name = 'many'
      `
      const first = yield* get("/console/keys?account=many")
      assert.include(first.text, ">key 101<")
      assert.notInclude(first.text, ">key 1<")
      const next = /href="(\/console\/keys\?[^"]*after=[^"]+)"/.exec(first.text)?.[1]?.replaceAll("&amp;", "&")
      assert.include((yield* get(next ?? "")).text, ">key 1<")
      assert.include((yield* get(accountPath("many"))).text, "All keys of the account")
      yield* sql`
        insert into admin_tokens (name, scope, token_hash, token_hint, created_by, revoked_at)
        select 'old ' || n, 'read', sha256(n::text::bytea), 'tl_admin_', 'test', now() from generate_series(1, 101) as n
      `
      const usable = yield* get("/console/tokens")
      assert.notInclude(usable.text, ">old ")
      assert.isBelow(usable.text.indexOf("Create a token"), usable.text.indexOf(">alice<"))
      const old = yield* get("/console/tokens?usable=false")
      assert.include(old.text, ">old 101<")
      assert.include(old.text, "Older tokens")
    }))

  it.effect("shows an erased account without forms (operations/erasure)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      yield* createAccount({ name: "gone", tier: "pro", email: null, prepaid: false })
      const erased = yield* sql<{ readonly name: string }>`
        select erase_account(account_id) as name from accounts where name = 'gone'
      `
      const page = yield* get(accountPath(erased[0]?.name ?? ""))
      assert.include(page.text, "(erased)</h1>")
      assert.notMatch(page.text, /<form method="post" id/)
      assert.match((yield* get("/console/accounts?search=erased-")).text, /erased-\d+<.*badge quiet">erased</)
    }))

  it.effect("disables and enables a webhook, and sends its dead letters again (operations/console)", () =>
    Effect.gen(function* () {
      const origin = yield* findOrigin
      const { tokens } = yield* Admin
      const sql = yield* SqlClient.SqlClient
      const [endpoint] = yield* sql<{ readonly id: string }>`
        insert into webhook_endpoints (account_id, url, secret) select min(account_id), 'https://hook.example/', ''
        from accounts returning endpoint_id::text as id
      `
      const id = endpoint?.id ?? ""
      yield* sql`select enqueue_webhook_message(${id}::text::bigint, 'key.created', '{}', null)`
      yield* sql`update webhook_messages set status = 'dead', finished_at = now()`
      const post = (action: string, form: Readonly<Record<string, string>> = {}) =>
        Effect.promise(async () => {
          const response = await fetch(`${origin}/console/webhooks`, {
            method: "POST",
            redirect: "manual",
            headers: { cookie: `${sessionCookie}=${tokens.support}`, origin },
            body: new URLSearchParams({ form: `${action}:${id}`, endpoint_id: id, ...form }),
          })
          return { location: response.headers.get("location"), status: response.status, text: await response.text() }
        })
      const read = sql<{ readonly state: string }>`
        select concat_ws(' ', disabled_reason, status) as state from webhook_endpoints join webhook_messages using (endpoint_id)
        where endpoint_id = ${id}::text::bigint
      `
      const refused = yield* post("disable", { reason: "" })
      assert.strictEqual(refused.status, 422)
      assert.include(refused.text, `href="#disable:${id}-reason"`)
      assert.include((yield* post("disable", { reason: "moved" })).location, "done=webhook-disabled")
      assert.deepStrictEqual(yield* read, [{ state: "moved dead" }])
      assert.include((yield* post("enable")).location, "done=webhook-enabled")
      assert.include((yield* post("replay")).location, "done=webhook-replayed")
      assert.deepStrictEqual(yield* read, [{ state: "pending" }])
      assert.strictEqual((yield* post("enable", { endpoint_id: "x" })).status, 404)
    }))

  it.effect("responds to forms that no page has sent, and says that a form was not saved (operations/console)", () =>
    Effect.gen(function* () {
      const origin = yield* findOrigin
      const { tokens } = yield* Admin
      const post = (path: string, form: Readonly<Record<string, string>>, session: string = tokens.admin) =>
        Effect.promise(async () => {
          const response = await fetch(`${origin}${path}`, {
            method: "POST",
            redirect: "manual",
            headers: { cookie: `${sessionCookie}=${session}`, origin },
            body: new URLSearchParams({
              idempotency_key: `forged-${path}-${JSON.stringify(form)}`.slice(0, 90),
              ...form,
            }),
          })
          return { status: response.status, text: await response.text(), location: response.headers.get("location") }
        })
      for (const token_id of ["abc", "999999999999999", ""]) {
        assert.strictEqual((yield* post("/console/tokens", { form: "revoke:1", token_id })).status, 404, token_id)
      }
      const nul = yield* post("/console/accounts", { form: "create", name: "a\u0000", tier: "pro" })
      assert.strictEqual(nul.status, 422)
      assert.include(nul.text, "request must not contain the character NUL")
      assert.notInclude(nul.text, "#create-request")
      assert.include(nul.text, `href="#form-create"`)
      const large = yield* post("/console/accounts", { form: "create", name: "a".repeat(1_100_000) })
      assert.strictEqual(large.status, 413)
      assert.include(large.text, "longer than 1 MiB")
      const late = yield* post("/console/accounts", { form: "create", name: "late", tier: "pro" }, "")
      assert.strictEqual(late.location, "/console/sign-in?to=%2Fconsole%2Faccounts&form=1")
    }))

  it.effect("accepts forms only from its own pages, and only what the scope allows (operations/console)", () =>
    Effect.gen(function* () {
      const origin = yield* findOrigin
      const { tokens } = yield* Admin
      const send = Effect.fnUntraced(
        function* (headers: Readonly<Record<string, string>>, form: Readonly<Record<string, string>> = {}) {
          const fields = { form: "create", idempotency_key: "k", name: "forged", tier: "pro", ...form }
          const response = yield* Effect.promise(() =>
            fetch(`${origin}/console/accounts`, {
              method: "POST",
              redirect: "manual",
              headers: { cookie: `${sessionCookie}=${tokens.admin}`, ...headers },
              body: new URLSearchParams(fields),
            })
          )
          return { response, text: yield* Effect.promise(() => response.text()) }
        },
      )
      for (
        const headers of [
          {},
          { origin: "https://evil.example" },
          { origin: "null" },
          { origin, "sec-fetch-site": "cross-site" },
          { "sec-fetch-site": "same-site" },
        ]
      ) {
        assert.strictEqual((yield* send(headers)).response.status, 403, JSON.stringify(headers))
      }
      const refused = yield* send({ origin, cookie: `${sessionCookie}=${tokens.read}` })
      assert.strictEqual(refused.response.status, 403)
      assert.include(refused.text, "requires the scope admin; the token has read")
      assert.strictEqual((yield* send({ origin }, { form: "constructor" })).response.status, 404)
      const sql = yield* SqlClient.SqlClient
      assert.deepStrictEqual(yield* sql`select from accounts where name = 'forged'`, [])
      const { response } = yield* send({ origin })
      assert.strictEqual(response.status, 303)
      for (const headers of [response.headers, refused.response.headers]) {
        assert.strictEqual(headers.get("cache-control"), "no-store")
        assert.include(headers.get("content-security-policy") ?? "", "default-src 'none'")
      }
      const stranger = yield* Effect.promise(() =>
        fetch(`${origin}/console/keys?account=a%26b`, { redirect: "manual" })
      )
      assert.strictEqual(stranger.status, 303)
      assert.strictEqual(
        stranger.headers.get("location"),
        "/console/sign-in?to=%2Fconsole%2Fkeys%3Faccount%3Da%2526b",
      )
    }))

  it.effect("has no link to an empty page, on every page with a list (operations/console)", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      /** Inserts rows with `insert` until the list fills two pages. */
      const fill = Effect.fnUntraced(
        function* <E, R>(list: Effect.Effect<ReadonlyArray<unknown>, E, R>, insert: (rows: string) => string) {
          const { length } = yield* list
          assert.isBelow(length, 200)
          yield* sql.unsafe(insert(`generate_series(1, ${200 - length}) as n`))
          assert.lengthOf(yield* list, 200)
        },
      )
      const anyAccount = "(select min(account_id) from accounts)"
      yield* fill(
        listAccounts(),
        (rows) => `insert into accounts (name, tier) select 'filler ' || n, 'pro' from ${rows}`,
      )
      yield* fill(
        listApiKeys({ account: null, unusedFor: null }),
        (rows) =>
          `insert into api_keys (account_id, name, key_hash, key_hint)
        select ${anyAccount}, n, sha256(('filler ' || n)::bytea), 'tl_live_' from ${rows}`,
      )
      yield* fill(listWebhookEndpoints(), (rows) =>
        `insert into webhook_endpoints (account_id, url, secret)
        select ${anyAccount}, 'https://filler.example/' || n, '' from ${rows}`)
      yield* fill(
        readUndeliveredEmails(),
        (rows) =>
          `insert into announcement_mails (entry_id, recipient, status, attempts, last_error)
        select 'entry', n || '@filler.example', 'failed', 5, 'refused' from ${rows}`,
      )
      yield* fill(
        listAdminTokens({ isUsable: true }),
        (rows) =>
          `insert into admin_tokens (name, scope, token_hash, token_hint, created_by)
        select 'filler ' || n, 'read', sha256(('filler ' || n)::bytea), 'tl_admin_', 'test' from ${rows}`,
      )
      // The inserts above are also recorded in the audit log. Adds entries until its last page is full, too.
      const changes = (yield* readAuditEntries({}, { limit: 100_000 })).length
      yield* sql`
        select record_audit('test', n::text, 'created', null, null) from generate_series(1, ${100 - changes % 100}) as n
      `
      const readRest = Effect.fnUntraced(function* (first: string) {
        let links = 0
        for (let page = yield* get(first);;) {
          const [, link] = /rel="next" href="([^"]+)"/.exec(page.text) ?? []
          if (link === undefined) return links
          page = yield* get(link.replaceAll("&amp;", "&"))
          assert.isAtLeast(page.text.split("<tr").length - 1, 100, link)
          links++
        }
      })
      const paths = yield* findPaths
      const links = yield* Effect.forEach(paths, readRest)
      const pagedLists = Object.values(OpenApi.fromApi(AdminApi).paths).filter(({ get }) =>
        JSON.stringify(get?.parameters ?? []).includes('"name":"after"')
      )
      assert.lengthOf(links.filter((count) => count > 0), pagedLists.length, paths.join())
      assert.strictEqual(links[paths.indexOf("/console/audit")], Math.floor(changes / 100))
    }))
})
