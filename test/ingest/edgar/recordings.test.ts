/** Tests that the recorded SEC responses contain no addresses, telephone numbers or tax numbers. */
import { assert, describe, it } from "@effect/vitest"
import { listRecordings, readRecording } from "./Recordings.ts"

const recordings = listRecordings("*/**/*.*")

/** Matches names of elements and keys that contain an address or a telephone number. */
const field = "[\\w:]*(?:street ?[12]?|city|zip(?:code)?|address(?:es)?|phone(?:num)?|fax|mailer)\\w*"

const states =
  "A[KLRZ]|C[AOT]|D[CE]|FL|GA|HI|I[ADLN]|K[SY]|LA|M[ADEINOST]|N[CDEHJMVY]|O[HKR]|PA|RI|S[CD]|T[NX]|UT|V[AT]|" +
  "W[AIVY]"

const patterns: ReadonlyArray<RegExp> = [
  new RegExp(`<${field}>`, "i"),
  new RegExp(`"${field}"\\s*:`, "i"),
  new RegExp(`class="${field}"`, "i"),
  // Matches a heading in an SGML header, such as `BUSINESS PHONE:`.
  /^\s+[A-Z ]*(?:STREET|CITY|ZIP|PHONE|ADDRESS)(?: \d)?:/m,
  /["<\s](?:ein|irs[ -]number)(?:"\s*)?[:>]|Internal Revenue Service Number/i,
  // Matches telephone numbers such as (408) 486-2000, 786-815-9041 and 971 2 4150000.
  /(?<![\d.-])\(?\d{3}\)?[-. ]\d{3}[-. ]\d{4}(?![\d.-])/,
  /(?<!\d)\+?\d{2,3} \d \d{7}(?!\d)/,
  /phone|facsimile|\bfax\b/i,
  /[\w.+-]+@(?!sec\.gov)[\w-]+\.[a-z]{2,}/i,
  // Matches addresses such as 65 E Cedar Street, One Apple Park Way, Suite 100, P.O. Box 309 and CA 95014.
  new RegExp(
    "\\b(?:\\d+|one|two|three|four|five)\\s+(?:[\\w.]+\\s+){1,4}" +
      "(?:street|st\\.|avenue|ave\\.?|road|rd\\.?|drive|lane|way|boulevard|blvd\\.?|parkway|plaza|expressway|robles)\\b",
    "i",
  ),
  /\b(?:suite|ste\.?|floor)\s+[a-z]?-?\d/i,
  /\bp\.?\s*o\.?\s*box\b/i,
  new RegExp(`\\b(?:${states}),? \\d{5}(?:-\\d{4})?\\b(?!-)`),
]

const findPersonalData = (text: string) => patterns.flatMap((pattern) => pattern.exec(text)?.[0] ?? [])

describe("Recordings", () => {
  it("are searched with patterns that each find their kind of address or number", () => {
    const samples = [
      "<com:street1>",
      `"addresses": {`,
      `<span class="mailerAddress">`,
      "\t\tBUSINESS PHONE:\t",
      "\t\tIRS NUMBER:\t",
      "(408) 555-0100",
      "971 2 5550100",
      "Telephone",
      "ops@acme.example",
      "One Fictional Park Way",
      "Suite A250",
      "PO Box 309",
      "CA 00777",
    ]
    assert.strictEqual(samples.length, patterns.length)
    samples.forEach((sample, index) => assert.match(sample, patterns[index] ?? /$^/))
  })

  it("are all searched", () => {
    const folders = new Set(recordings.map((name) => name.split("/")[0]))
    for (const name of ["archives", "form144", "ownership", "schedule13", "submissions"]) assert.include(folders, name)
  })

  for (const name of recordings) {
    it(`have no address, telephone number or tax number: ${name}`, () => {
      assert.deepStrictEqual(findPersonalData(readRecording(name)), [])
    })
  }
})
