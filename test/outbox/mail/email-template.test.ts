/** Tests the content of customer emails and their protection against injection: §9.6 (notification), SECURITY.md. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import { isEmailAddress } from "../../../src/contract/EmailAddress.ts"
import { changelogEntries } from "../../../src/api/changelog/Changelog.ts"
import { type EmailContent, renderChangelogEmail } from "../../../src/outbox/mail/EmailTemplate.ts"
import { composeMimeMessage } from "../../../src/outbox/mail/SmtpDelivery.ts"
import * as MailServer from "../../support/MailServer.ts"

const addresses = {
  baseUrl: Option.some("https://api.example.com"),
  unsubscribeAddress: Option.some("stop@example.com"),
}

const envelope = { mail_id: "3b241101-e2bb-4255-8caf-4136c566a962", recipient: "a@x.example" }

const sender = {
  from: { name: "Tickerline", address: "notices@example.com" },
  unsubscribe: Option.none<string>(),
}

const composeText = (content: EmailContent, from: Partial<typeof sender> = {}) =>
  Effect.map(
    composeMimeMessage({ ...envelope, ...content }, { ...sender, ...from }),
    (bytes) => bytes.toString("utf8"),
  )

const findEntry = (id: string) => {
  const found = changelogEntries.find((one) => one.id === id)
  if (found === undefined) throw new Error(`no entry ${id}`)
  return found
}

const headerNames = (raw: string) =>
  raw.slice(0, raw.indexOf("\r\n\r\n")).replaceAll(/\r\n[ \t]+/g, " ").split("\r\n").map((line) =>
    line.slice(0, line.indexOf(":"))
  )

describe("In an email,", () => {
  it("the subject names a breaking change, and the text explains what to do and why it was sent (§3, §9.6)", () => {
    const { html, operational, subject, text } = renderChangelogEmail(findEntry("historical-market-cap"), addresses)
    assert.strictEqual(
      subject,
      "Tickerline breaking change: market_cap of historical-float-pro is computed differently",
    )
    assert.isTrue(operational)
    for (const words of [text, html]) {
      assert.include(words, "What to do: Expect different values")
      assert.include(words, "/v1/historical-float-pro")
      assert.include(words, "https://api.example.com/v1/docs/changelog#historical-market-cap")
      assert.notInclude(words, "stop@example.com")
    }
    for (const line of text.split("\n")) assert.isAtMost(line.length, 80)
  })

  it("the text about a deprecation names the replacement and the dates (§3, §9.6, D24)", () => {
    const { subject, text } = renderChangelogEmail(findEntry("v1-historical-tickers-deprecated"), addresses)
    assert.match(subject, /^Tickerline deprecation: \/v1\/historical-tickers /)
    assert.include(text, "Replacement: /v1/ticker-changes")
    assert.include(text.replaceAll(/\s+/g, " "), "twelve months")
    const planned = renderChangelogEmail(
      { ...findEntry("fixed-offset"), takes_effect: "2027-12-01", sunset: "2028-01-01" },
      addresses,
    )
    assert.include(planned.text, "Takes effect: 2027-12-01")
    assert.include(planned.text, "Works until: 2028-01-01")
  })

  it("the text of all news explains how to unsubscribe (§9.6)", () => {
    const { operational, subject, text } = renderChangelogEmail(findEntry("changes"), addresses)
    assert.isFalse(operational)
    assert.strictEqual(
      subject,
      "Tickerline update: What changed, and when",
    )
    assert.strictEqual(
      text,
      `What changed, and when

/v1/changes lists every row that was added, corrected or removed, and
/v1/changes/stream sends changes as they happen. /v1/corrections counts how
often data were corrected, and /v1/datasets says when each dataset last
changed.

Announced: 2026-11-28 (release 1.0.0)
Endpoints: /v1/changes, /v1/changes/stream, /v1/corrections, /v1/datasets

Details: https://api.example.com/v1/docs/changelog#changes
Documentation: https://api.example.com/v1/docs

-- \nYou are receiving this email because your account is subscribed to
Tickerline news. To unsubscribe, write to stop@example.com.
`,
    )
  })
})

describe("In a MIME message,", () => {
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

  it.effect("no address, title or text becomes a header, a second recipient or markup (SECURITY.md)", () =>
    Effect.gen(function* () {
      const usual = headerNames(yield* composeText(renderChangelogEmail(findEntry("ticker-changes"), addresses)))
      for (const text of hostile) {
        const hostileEntry = {
          ...findEntry("ticker-changes"),
          title: text,
          text,
          migration: text,
          paths: [text],
          names: [text],
        }
        const content = renderChangelogEmail(hostileEntry, addresses)
        const raw = yield* composeText(content, { from: { name: text, address: "n@example.com" } })
        assert.sameMembers(headerNames(raw), usual, JSON.stringify(text))
        assert.deepStrictEqual(MailServer.readEmailHeaders(raw, "To"), ["a@x.example"])
        assert.notInclude(content.html, "<script>")
        assert.isFalse(isEmailAddress(text))
        assert.isFalse(isEmailAddress(`a@x.example${text}`))
        assert.isFalse(isEmailAddress(`${text}@x.example`), JSON.stringify(text))
      }
      const invalid = [
        "a@x.example,b@x.example",
        "a@x.example b@x.example",
        "<a@x.example>",
        "a@x.example>",
        "@x.example",
        "a@",
        "a",
      ]
      for (const address of invalid) assert.isFalse(isEmailAddress(address), address)
      for (const address of ["a@x.example", "a+b@x-y.example", "jürgen@müller.example"]) {
        assert.isTrue(isEmailAddress(address))
      }
    }))

  it.effect("non-ASCII characters are preserved in subject, name and text (§9.6)", () =>
    Effect.gen(function* () {
      const title = "Größe, 漢字 und 🚀"
      const raw = yield* composeText(
        renderChangelogEmail({ ...findEntry("ticker-changes"), title, text: title }, addresses),
        { from: { name: "Größe", address: "n@example.com" } },
      )
      assert.isTrue(/^[\x20-\x7e\r\n\t]*$/.test(raw))
      const decoded = MailServer.readEmailHeaders(raw, "Subject").join("").replaceAll(
        /=\?UTF-8\?Q\?(.*?)\?=\s*/gi,
        (_, word: string) => decodeURIComponent(word.replaceAll("_", " ").replaceAll("=", "%")),
      )
      assert.strictEqual(decoded, `Tickerline update: ${title}`)
      const body = raw.slice(raw.indexOf("text/plain"))
      assert.match(body, /Content-Transfer-Encoding: (quoted-printable|base64)/)
    }))
})
