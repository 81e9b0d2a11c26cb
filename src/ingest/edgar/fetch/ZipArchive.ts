/**
 * Reads individual entries of a ZIP file, which may have several gigabytes, without unpacking the rest (decision 0128).
 */
import { Data, Effect, Predicate } from "effect"
import { Buffer } from "node:buffer"
import { type FileHandle, open } from "node:fs/promises"
import { buffer } from "node:stream/consumers"
import { promisify } from "node:util"
import { crc32, inflateRaw } from "node:zlib"
import yauzl from "yauzl"

const inflate = promisify(inflateRaw)

/**
 * The file or an entry is damaged or in an unsupported format. The message completes a sentence that begins with "the
 * file".
 */
export class ZipDamaged extends Data.TaggedError("ZipDamaged")<{ readonly message: string }> {}

/** Converts a file system or decoder error to `ZipDamaged`. */
const toDamage = (error: unknown) => {
  // File system errors have a `syscall` property. Any other error concerns the content.
  const problem = Predicate.hasProperty(error, "syscall") ? "cannot be read" : "is damaged or incomplete"
  return new ZipDamaged({ message: `${problem} (${error instanceof Error ? error.message : String(error)})` })
}

/**
 * Number of bytes that are read at once from the archive's central directory (its list of entries), which can be 100 MB
 * long.
 */
const windowBytes = 1 << 20

/**
 * Serves the small reads that `yauzl` makes from a large block of the file in memory. While listing the entries,
 * `yauzl` reads as few as 46 bytes at a time; without the block, each entry would cost several file reads.
 */
class WindowedReader extends yauzl.RandomAccessReader {
  readonly #file: FileHandle
  #window = Buffer.alloc(0)
  /** Position of the window in the file. */
  #start = 0

  constructor(file: FileHandle) {
    super()
    this.#file = file
  }

  override read(
    target: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ) {
    /** Copies the requested bytes from the window. Returns false if the window does not contain all of them. */
    const copy = () => {
      const from = position - this.#start
      const isInside = from >= 0 && from + length <= this.#window.length
      if (isInside) this.#window.copy(target, offset, from, from + length)
      return isInside
    }
    if (copy()) return callback(null)
    const next = Buffer.allocUnsafe(Math.max(windowBytes, length))
    this.#file.read(next, 0, next.length, position).then(({ bytesRead }) => {
      this.#window = next.subarray(0, bytesRead)
      this.#start = position
      callback(copy() ? null : new Error("its list of entries is truncated"))
    }, callback)
  }
}

/**
 * Copies only those fields of an entry that are needed to read it. The name and the comment would take more memory than
 * all other fields together.
 */
const keepEntry = (entry: yauzl.Entry) => {
  const { compressedSize, compressionMethod, crc32, generalPurposeBitFlag, relativeOffsetOfLocalHeader } = entry
  return Object.assign(new yauzl.Entry(), {
    compressedSize,
    compressionMethod,
    crc32,
    generalPurposeBitFlag,
    relativeOffsetOfLocalHeader,
    uncompressedSize: entry.uncompressedSize,
  })
}

/**
 * Reads the archive's central directory, its list of entries. Returns the entries for which `isWanted` is true, keyed
 * by name, and the time of the newest of all entries (`newest`), in milliseconds since 1970.
 */
const readEntries = async (path: string, isWanted: (name: string) => boolean) => {
  const file = await open(path)
  try {
    const { mtimeMs, size } = await file.stat()
    // The file is closed below, so yauzl must not close it after the last entry.
    const zip = await yauzl.fromRandomAccessReaderPromise(new WindowedReader(file), size, { autoClose: false })
    const entries = new Map<string, yauzl.Entry>()
    let newest = 0
    for await (const entry of zip.eachEntry()) {
      newest = Math.max(newest, entry.getLastModDate({ timezone: "UTC" }).getTime())
      if (isWanted(entry.fileName)) entries.set(entry.fileName, keepEntry(entry))
    }
    // Entry times have no time zone and are read as UTC, so they may be later than the time of the file itself.
    return { entries, newest: Math.min(newest, mtimeMs) }
  } finally {
    await file.close()
  }
}

/**
 * Reads and unpacks an entry. `maxOutputLength` aborts the decompression as soon as the output exceeds the size that
 * the archive states for the entry, so that a damaged or malicious file cannot exhaust memory.
 */
const readEntry = async (zip: yauzl.ZipFile, entry: yauzl.Entry) => {
  const stored = await buffer(await zip.openReadStreamPromise(entry, { decodeFileData: false }))
  if (!entry.canDecodeFileData()) throw new Error("its compression method is not supported")
  const bytes = entry.compressionMethod === 0
    ? stored
    : await inflate(stored, { maxOutputLength: entry.uncompressedSize + 1, chunkSize: 1 << 18 })
  if (bytes.length !== entry.uncompressedSize || crc32(bytes) !== entry.crc32) throw new Error("its checksum is wrong")
  return bytes
}

/** An open ZIP file. */
export interface ZipArchive {
  /**
   * The time of the newest entry, or the modification time of the file if that is earlier, in milliseconds since 1970.
   * Entry times have no time zone, and are read as UTC.
   */
  readonly newest: number
  /**
   * Reads an entry into memory. Returns undefined if there is no such entry. Fails if the entry is damaged or larger
   * than `maxBytes`.
   */
  readonly read: (name: string, maxBytes: number) => Effect.Effect<Uint8Array | undefined, ZipDamaged>
}

/**
 * Opens a ZIP file and loads those entries of its central directory into memory for which `isWanted` is true. Closing
 * the scope closes the file.
 *
 * The file is opened twice: once to list the entries, through a reader that makes many small reads fast, and once to
 * read their content, which needs no such reader.
 */
export const openZipArchive = Effect.fnUntraced(function* (path: string, isWanted: (name: string) => boolean) {
  const { entries, newest } = yield* Effect.tryPromise({ try: () => readEntries(path, isWanted), catch: toDamage })
  const zip = yield* Effect.acquireRelease(
    Effect.tryPromise({ try: () => yauzl.openPromise(path, { autoClose: false }), catch: toDamage }),
    (zip) => Effect.sync(() => zip.close()),
  )
  const archive: ZipArchive = {
    newest,
    read: Effect.fnUntraced(function* (name, maxBytes) {
      const entry = entries.get(name)
      if (entry === undefined) return undefined
      // Deflate adds less than 0.1% to incompressible data.
      if (entry.uncompressedSize > maxBytes || entry.compressedSize > maxBytes * 1.001 + 1_000) {
        return yield* new ZipDamaged({ message: `is larger than ${maxBytes / 1_000_000} MB` })
      }
      return yield* Effect.tryPromise({ try: () => readEntry(zip, entry), catch: toDamage })
    }),
  }
  return archive
})
