/**
 * §9.6: every change, addition and fix, newest release first. This file is the one place where they are written; what
 * is deprecated is declared at its endpoint (D24), and `Changelog.ts` adds it.
 *
 * Until a release is made, its entries stand at the top under the version it will have.
 */
import type { Release } from "./Entry.ts"
import { first } from "./FirstRelease.ts"

export const releases: ReadonlyArray<Release> = [
  {
    release: "0.2.0",
    date: "2026-11-21",
    entries: [
      {
        id: "changelog",
        type: "added",
        title: "A changelog, as JSON and as a feed",
        text:
          "/v1/changelog lists every change, addition, deprecation and fix, and can be filtered by type, breaking, " +
          "since and path. /v1/changelog.atom is the same as a feed. Both are open without a key, and free.",
        paths: ["/v1/changelog", "/v1/changelog.atom"],
        significant: true,
      },
      {
        id: "formats-csv-ndjson",
        type: "added",
        title: "Lists as CSV and NDJSON, and whole",
        text: "Every list endpoint takes format=csv and format=ndjson (or Accept: text/csv and " +
          "application/x-ndjson). On these formats limit=all streams all rows at once, from one snapshot of the data, " +
          "with the number of rows and a checksum at its end.",
        paths: ["/v1/*"],
        names: ["format", "limit", "text/csv", "application/x-ndjson"],
        significant: true,
      },
      {
        id: "typed-client",
        type: "added",
        title: "A typed client for TypeScript",
        text:
          "The package has two faces: tickerline/client for Effect and tickerline/promise for everybody else. Errors " +
          "are typed, retries respect Retry-After, and pages are read as a stream.",
        paths: ["/v1/*"],
        significant: true,
      },
      {
        id: "documentation-site",
        type: "added",
        title: "A documentation site with a lineage explorer",
        text: "/v1/docs has a first page, guides, the API reference with requests to try, this changelog, and an " +
          "explorer that draws the chain of a symbol, or shows why it is refused.",
        paths: ["/v1/docs", "/v1/docs/*"],
        significant: true,
      },
    ],
  },
  first,
]
