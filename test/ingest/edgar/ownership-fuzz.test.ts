/**
 * Tests mutated filings. Each must be rejected or yield rows that `load` accepts, and no row or rejection reason may
 * contain an address.
 */
import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Result, Schema } from "effect"
import { parseXml, xmlLimits } from "../../../src/ingest/edgar/read/XmlDocument.ts"
import { loadableDatasets } from "../../../src/contract/Datasets.ts"
import { makeRowValidator } from "../../../src/ingest/load/RowValidation.ts"
import { getInputCount } from "../../support/Thoroughness.ts"
import { findForm, findIssuerCik, ownershipRecordings, readFiling } from "./OwnershipRecordings.ts"

/** An invented address that occurs in no recording. */
const address = "77 Fictional Boulevard, Nowhere 00777"

const addresses = {
  form: `<reportingOwnerAddress><rptOwnerStreet1>${address}</rptOwnerStreet1></reportingOwnerAddress>`,
  schedule: `<address><com:street1 xmlns:com="http://www.sec.gov/edgar/common">${address}</com:street1></address>` +
    `<personPhoneNum>${address}</personPhoneNum>`,
}

/**
 * Inserts addresses in the places where the SEC's documents have them. Real addresses were removed from the recordings.
 */
const addAddresses = (xml: string) =>
  xml.replaceAll("</reportingOwnerId>", `</reportingOwnerId>${addresses.form}`)
    .replaceAll("</issuerName>", `</issuerName>${addresses.schedule}`)
    .replaceAll(/(?=<(?:citizenshipOrOrganization|fundType|signature)>)/g, addresses.schedule)

const documents = ownershipRecordings.map(({ path, xml }) => ({
  path,
  bytes: Buffer.from(addAddresses(xml)),
  form: findForm(xml),
  issuerCik: findIssuerCik(xml),
}))

const insert = (bytes: Buffer, position: number, text: string) =>
  Buffer.concat([bytes.subarray(0, position), Buffer.from(text), bytes.subarray(position)])

const dtd = (declarations: string) => `<!DOCTYPE ownershipDocument [${declarations}]>`

const billionLaughs = dtd(
  `<!ENTITY a0 "${address}">` +
    Array.from({ length: 12 }, (_, index) => `<!ENTITY a${index + 1} "${`&a${index};`.repeat(10)}">`).join(""),
)

/** Strings that are inserted at a random position. */
const fragments = [
  "<",
  "</value>",
  "<value>",
  "<value>7</value>",
  "<!--",
  "-->",
  "<![CDATA[",
  "]]>",
  "<?xml version='1.0'?>",
  "<?php system('id') ?>",
  "&a12;",
  "&#0;",
  "&#xD800;",
  "&amp;".repeat(5000),
  "\0",
  "\uFFFE",
  `<rptOwnerStreet2>${address}</rptOwnerStreet2>`,
  `<x:y xmlns:x="urn:x" x:id="1"/>`,
  ` xmlns=""`,
  ` id="1" id="2"`,
  "9".repeat(400),
  "-",
  ".",
  "e",
]

/** Strings that are inserted at the start of a document. */
const beginnings = [
  billionLaughs,
  dtd(`<!ENTITY a12 SYSTEM "file:///etc/passwd">`),
  dtd(`<!ENTITY % p SYSTEM "http://127.0.0.1:9/p.dtd"> %p;`),
  `<!DOCTYPE html>`,
]

/**
 * Ways to mutate a document. `place` is a random position, and `choice` determines what is changed or inserted there.
 */
const mutations: ReadonlyArray<(bytes: Buffer, place: number, choice: number) => Buffer> = [
  (bytes, place, choice) => {
    const flipped = Buffer.from(bytes)
    flipped[place] = choice % 256
    return flipped
  },
  (bytes, place, choice) => Buffer.concat([bytes.subarray(0, place), bytes.subarray(place + choice % 400)]),
  (bytes, place) => bytes.subarray(0, place),
  (bytes, place, choice) => {
    const start = choice % bytes.length
    return Buffer.concat([bytes.subarray(0, place), bytes.subarray(start, start + 300), bytes.subarray(place)])
  },
  (bytes, place, choice) => insert(bytes, place, fragments[choice % fragments.length] ?? ""),
  // Removes the tag that follows `place`. If `place` is inside a tag, leaves the document unchanged.
  (bytes, place) => {
    const [start, end] = [bytes.indexOf("<", place), bytes.indexOf(">", place)]
    return start === -1 || end < start ? bytes : Buffer.concat([bytes.subarray(0, start), bytes.subarray(end + 1)])
  },
  // Replaces the text between the next `>` and the next `</`. Often the document remains well-formed.
  (bytes, place, choice) => {
    const [start, end] = [bytes.indexOf(">", place) + 1, bytes.indexOf("</", place)]
    const text = fragments[choice % fragments.length] ?? ""
    return end < start ? bytes : Buffer.concat([bytes.subarray(0, start), Buffer.from(text), bytes.subarray(end)])
  },
  (bytes, _, choice) => {
    const start = bytes.indexOf("<", bytes.indexOf("?>") + 2)
    return insert(bytes, Math.max(start, 0), beginnings[choice % beginnings.length] ?? "")
  },
]

const Choice = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 ** 24 }))

/** The index of a mutation and its two random arguments, `place` and `choice`. */
const Step = Schema.Tuple([Choice, Choice, Choice])

const seen = { rows: 0, rejections: 0 }

const validators = loadableDatasets.filter(({ table }) => table === "ownership").map((dataset) =>
  makeRowValidator(dataset)
)

/**
 * Asserts that the document either yields valid rows without an address, or is rejected with a reason that does not
 * repeat its text.
 */
const assertRowsOrRejection = (xml: string, form: string, issuerCik: string) => {
  const result = readFiling(xml, form, issuerCik)
  if (Result.isFailure(result)) {
    seen.rejections += 1
    assert.strictEqual(result.failure._tag, "DocumentRejected")
    assert.match(result.failure.reason, /^(has|is) [\w\s%().,-]{1,90}$/)
    return assert.notInclude(result.failure.reason, "Fictional")
  }
  const [validator] = validators
  if (validator === undefined) return assert.fail("there is no dataset")
  seen.rows += 1
  // A filing about another issuer yields no rows. A mutation may have changed the issuer.
  if (result.success.length === 0) assert.notStrictEqual(findIssuerCik(xml), issuerCik)
  for (const [index, cells] of result.success.entries()) {
    const validated = validator.validateRow({ line: index + 1, cells })
    assert.isTrue(Result.isSuccess(validated), JSON.stringify(Result.getFailure(validated)))
    assert.notInclude(JSON.stringify(cells), "Fictional")
  }
}

describe("Ownership filings", () => {
  it("have addresses before they are mutated", () => {
    for (const { bytes, form, issuerCik, path } of documents) {
      assert.include(bytes.toString(), address, path)
      assertRowsOrRejection(bytes.toString(), form, issuerCik)
    }
    assert.deepStrictEqual(seen, { rows: 18, rejections: 1 })
  })

  it.prop(
    "have valid rows without an address after mutation, or are rejected without repeating their text",
    [Arbitrary.schema(Choice), Arbitrary.array(Arbitrary.schema(Step), { minLength: 1, maxLength: 3 })],
    ([chosen, steps]) => {
      const document = documents[chosen % documents.length]
      if (document === undefined) return
      const mutated = steps.reduce<Buffer>(
        (bytes, [mutation, place, choice]) =>
          mutations[mutation % mutations.length]?.(bytes, place % Math.max(bytes.length, 1), choice) ?? bytes,
        document.bytes,
      )
      assertRowsOrRejection(mutated.toString("utf8"), document.form, document.issuerCik)
    },
    { arbitrary: { runs: getInputCount(5000) } },
  )

  it("are often rejected after mutation, and often have rows", () => {
    assert.isAbove(seen.rejections, getInputCount(5000) / 4)
    assert.isAbove(seen.rows, getInputCount(5000) / 50)
  })
})

describe("Hostile documents", () => {
  const nested = (depth: number) => `${"<a>".repeat(depth)}${"</a>".repeat(depth)}`
  const rejects = (xml: string, reason: string) => assert.deepStrictEqual(parseXml(xml), Result.fail(reason))

  it("are rejected if they have a document type definition, even one without entities", () => {
    for (const beginning of beginnings) {
      rejects(`${beginning}<r>&a12;</r>`, "has a document type definition, which could define entities")
    }
  })

  it("may have only XML's own entities and numeric character references", () => {
    rejects("<r>&copy;</r>", "is not well-formed XML (line 1)")
    const root = Result.getOrThrow(parseXml("<r>&lt;&#65;&#x42;&amp;lt;</r>"))
    assert.strictEqual(root.text, "<AB&lt;")
  })

  it("are rejected if they exceed the limits on depth, elements, attributes or characters", () => {
    const { characters, depth, nodes } = xmlLimits
    assert.isTrue(Result.isSuccess(parseXml(nested(depth))))
    rejects(nested(depth + 1), `has more than ${depth} levels of elements`)
    rejects(nested(700_000), `has more than ${depth} levels of elements`)
    rejects(`<r>${"<a/>".repeat(nodes)}</r>`, `has more than ${nodes} elements and attributes`)
    const attributes = Array.from({ length: nodes + 1 }, (_, index) => `a${index}=""`).join(" ")
    rejects(`<r ${attributes}/>`, `has more than ${nodes} elements and attributes`)
    rejects(`<r>${"x".repeat(characters)}</r>`, `has more than ${characters} characters`)
  })

  it("may contain long text outside the values of rows, but no long name", () => {
    const [document] = documents
    const text = "x&amp;".repeat(100_000)
    const xml = document?.bytes.toString().replace("</footnotes>", `<footnote>${text}</footnote></footnotes>`) ?? ""
    assert.isAbove(xml.length, text.length)
    assertRowsOrRejection(xml, document?.form ?? "", document?.issuerCik ?? "")
    const named = document?.bytes.toString().replace("<rptOwnerName>", `<rptOwnerName>${text}`) ?? ""
    const result = readFiling(named, document?.form ?? "", document?.issuerCik ?? "")
    assert.isTrue(Result.isFailure(result))
  })
})
