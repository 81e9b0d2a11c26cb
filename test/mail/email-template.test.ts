/** What customers read, and that it stays what it is whatever is in it (§9.6, SECURITY.md). */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { isEmailAddress } from "../../src/accounts/EmailAddress.ts"
import { changelog } from "../../src/changelog/Changelog.ts"
import { type EmailContent, renderEmail } from "../../src/mail/EmailTemplate.ts"
import { composeMimeMessage } from "../../src/mail/MimeMessage.ts"
import * as Mail from "../support/MailServer.ts"

const surroundings = {
  baseUrl: Option.some("https://api.example.com"),
  unsubscribeAddress: Option.some("stop@example.com"),
}

const mail = { mail_id: "3b241101-e2bb-4255-8caf-4136c566a962", entry_id: "x", attempts: 1, recipient: "a@x.example" }

const sender = {
  from: { name: "Tickerline", address: "notices@example.com" },
  unsubscribe: Option.none<string>(),
}

const rawOf = (words: EmailContent, more: Partial<typeof mail> = {}, from: Partial<typeof sender> = {}) =>
  Effect.map(
    composeMimeMessage({ ...mail, ...more, ...words }, { ...sender, ...from }),
    (bytes) => bytes.toString("utf8"),
  )

const entry = (id: string) => {
  const found = changelog.find((one) => one.id === id)
  if (found === undefined) throw new Error(`no entry ${id}`)
  return found
}

const names = (raw: string) =>
  raw.slice(0, raw.indexOf("\r\n\r\n")).replaceAll(/\r\n[ \t]+/g, " ").split("\r\n").map((line) =>
    line.slice(0, line.indexOf(":"))
  )

describe("a letter", () => {
  it("§3 §9.6 a breaking change says so in its subject, what to do, and why it is read", () => {
    const { html, operational, subject, text } = renderEmail(entry("historical-market-cap"), surroundings)
    assert.strictEqual(subject, "Tickerline: breaking change: market_cap of historical-float-pro is computed anew")
    assert.isTrue(operational)
    for (const words of [text, html]) {
      assert.include(words, "What to do: Expect other values")
      assert.include(words, "/v1/historical-float-pro")
      assert.include(words, "https://api.example.com/v1/docs/changelog#historical-market-cap")
      assert.notInclude(words, "stop@example.com")
    }
    for (const line of text.split("\n")) assert.isAtMost(line.length, 80)
  })

  it("§3 §9.6 D24 a deprecation names what takes its place, and its timeline", () => {
    const { subject, text } = renderEmail(entry("v1-historical-tickers-deprecated"), surroundings)
    assert.match(subject, /^Tickerline: deprecation: \/v1\/historical-tickers /)
    assert.include(text, "Instead: /v1/ticker-changes")
    assert.include(text.replaceAll(/\s+/g, " "), "twelve months")
    const planned = renderEmail(
      { ...entry("fixed-offset"), takes_effect: "2027-12-01", sunset: "2028-01-01" },
      surroundings,
    )
    assert.include(planned.text, "Holds from: 2027-12-01")
    assert.include(planned.text, "Works until: 2028-01-01")
  })

  it("README, emails: news say how to get no more of them", () => {
    const { operational, text } = renderEmail(entry("ticker-changes"), surroundings)
    assert.isFalse(operational)
    assert.include(text.replaceAll(/\s+/g, " "), "write to stop@example.com")
  })
})

describe("a mail", () => {
  const hostile = [
    "x\r\nBcc: evil@x.example",
    "x\nBcc: evil@x.example",
    "x\rBcc: evil@x.example",
    "x\u2028Bcc: evil@x.example",
    "x\r\n\r\n<script>alert(1)</script>",
    "\0x",
    "=?utf-8?q?x?=\r\n Bcc: evil@x.example",
    "😀".repeat(100),
    `"<>&'`,
  ]

  it.effect("SECURITY.md, mails: no address, title or text becomes a header, a second recipient or markup", () =>
    Effect.gen(function* () {
      const usual = names(yield* rawOf(renderEmail(entry("ticker-changes"), surroundings)))
      for (const text of hostile) {
        const told = { ...entry("ticker-changes"), title: text, text, migration: text, paths: [text], names: [text] }
        const words = renderEmail(told, surroundings)
        const raw = yield* rawOf(words, { recipient: "a@x.example" }, {
          from: { name: text, address: "n@example.com" },
        })
        assert.sameMembers(names(raw), usual, JSON.stringify(text))
        assert.deepStrictEqual(Mail.readEmailHeaders(raw, "To"), ["a@x.example"])
        assert.notInclude(words.html, "<script>")
        assert.isFalse(isEmailAddress(text))
        assert.isFalse(isEmailAddress(`a@x.example${text}`))
        assert.isFalse(isEmailAddress(`${text}@x.example`), JSON.stringify(text))
      }
      const never = [
        "a@x.example,b@x.example",
        "a@x.example b@x.example",
        "<a@x.example>",
        "a@x.example>",
        "@x.example",
        "a@",
        "a",
      ]
      for (const address of never) assert.isFalse(isEmailAddress(address), address)
      for (const address of ["a@x.example", "a+b@x-y.example", "jürgen@müller.example"]) {
        assert.isTrue(isEmailAddress(address))
      }
    }))

  it.effect("§9.6 letters beyond ASCII arrive as they are, in subject, name and text", () =>
    Effect.gen(function* () {
      const title = "Größe, 漢字 und 🚀"
      const raw = yield* rawOf(
        renderEmail({ ...entry("ticker-changes"), title, text: title }, surroundings),
        {},
        { from: { name: "Größe", address: "n@example.com" } },
      )
      assert.isTrue(/^[\x20-\x7e\r\n\t]*$/.test(raw))
      const decoded = Mail.readEmailHeaders(raw, "Subject").join("").replaceAll(
        /=\?UTF-8\?Q\?(.*?)\?=\s*/gi,
        (_, word: string) => decodeURIComponent(word.replaceAll("_", " ").replaceAll("=", "%")),
      )
      assert.strictEqual(decoded, `Tickerline: ${title}`)
      const body = raw.slice(raw.indexOf("text/plain"))
      assert.match(body, /Content-Transfer-Encoding: (quoted-printable|base64)/)
    }))
})
