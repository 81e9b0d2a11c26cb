/** The recorded answers of the SEC contain no addresses, telephone numbers or tax numbers. */
import { assert, describe, it } from "@effect/vitest"
import { listRecordings, readRecording } from "./Recordings.ts"

const files = listRecordings("**/*").filter((name) => /\.\w+$/.test(name) && !name.endsWith(".md"))

/** All names of elements and keys of a document, whatever its format. */
const personalElements = [
  /"(addresses|phone|ein|street1|street2|zipCode)"\s*:/,
  /<(?:\w+:)?(rptOwnerStreet[12]|rptOwnerCity|rptOwnerZipCode|street[12]|zipCode|phone\w*|personPhoneNum)>/i,
  /^\s*(STREET [12]|ZIP|BUSINESS PHONE|EIN|IRS NUMBER):/m,
  /<(STREET[12]|ZIP|PHONE|IRS-NUMBER)>/,
]

/** American telephone numbers such as (408) 996-1010 and 650-384-0642. */
const telephone = /(?<![\d-])(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}(?![\d-])/

describe("The recordings", () => {
  it("are there", () => {
    assert.isAbove(files.filter((name) => name.startsWith("submissions/")).length, 9)
    assert.isAbove(files.length, 24)
  })

  it("contain no element for addresses, telephone numbers and tax numbers", () => {
    const found = files.flatMap((name) =>
      personalElements.filter((pattern) => pattern.test(readRecording(name))).map((pattern) => `${name}: ${pattern}`)
    )
    assert.deepStrictEqual(found, [])
  })

  it("contain no telephone number in their text", () => {
    const found = files.filter((name) => telephone.test(readRecording(name)))
    assert.deepStrictEqual(found, [])
  })

  it("would be found with such data", () => {
    assert.match("(408) 996-1010", telephone)
    assert.match("call 650-384-0642.", telephone)
    assert.notMatch("0001193125-25-159868", telephone)
    assert.match(`{"phone":"1"}`, personalElements[0] ?? /$^/)
    assert.match("<rptOwnerStreet1>X</rptOwnerStreet1>", personalElements[1] ?? /$^/)
    assert.match("		STREET 1:		997 LENOX DRIVE", personalElements[2] ?? /$^/)
  })
})
