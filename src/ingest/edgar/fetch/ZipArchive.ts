/** Reads single entries of a ZIP file, however large it is, without unpacking the others (decision 0128). */
import { Data, Effect, Predicate } from "effect"
import { Buffer } from "node:buffer"
import { type FileHandle, open } from "node:fs/promises"
import { buffer } from "node:stream/consumers"
import { promisify } from "node:util"
import { crc32, inflateRaw } from "node:zlib"
import yauzl from "yauzl"

const inflate = promisify(inflateRaw)

/** The file or an entry is damaged, or in a form that is not supported. The message completes "the file …". */
export class ZipDamaged extends Data.TaggedError("ZipDamaged")<{ readonly message: string }> {}

/** Describes an error of the file system or of the decoder. */
const toDamage = (error: unknown) => {
  // Errors of the file system name a system call. Others are about the content.
  const problem = Predicate.hasProperty(error, "syscall") ? "cannot be read" : "is damaged or incomplete"
  return new ZipDamaged({ message: `${problem} (${error instanceof Error ? error.message : String(error)})` })
}

/** How many bytes of the archive's list of entries one read fetches. The list may be 100 MB long. */
const windowBytes = 1 << 20

/**
 * Serves the small reads of `yauzl` from a large block of the file in memory. When `yauzl` lists the entries, it asks
 * for as few as 46 bytes at a time, so without the block each entry would cost several reads of the file.
 */
class WindowedReader extends yauzl.RandomAccessReader {
  readonly #file: FileHandle
  #window = Buffer.alloc(0)
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
    /** Copies the bytes from the window. Returns false if it does not have them. */
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

/** Copies only what is needed to read an entry. Its name and comment would need more memory than everything else. */
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

/** Reads the list of entries. Returns the wanted ones by name, and the newest time, as in `ZipArchive`. */
const readEntries = async (path: string, isWanted: (name: string) => boolean) => {
  const file = await open(path)
  try {
    const { mtimeMs, size } = await file.stat()
    const zip = await yauzl.fromRandomAccessReaderPromise(new WindowedReader(file), size, { autoClose: false })
    const entries = new Map<string, yauzl.Entry>()
    let newest = 0
    for await (const entry of zip.eachEntry()) {
      newest = Math.max(newest, entry.getLastModDate({ timezone: "UTC" }).getTime())
      if (isWanted(entry.fileName)) entries.set(entry.fileName, keepEntry(entry))
    }
    return { entries, newest: Math.min(newest, mtimeMs) }
  } finally {
    await file.close()
  }
}

/**
 * Reads and unpacks an entry. `maxOutputLength` ends the unpacking as soon as the entry is larger than the list says,
 * so that a damaged or malicious file cannot fill the memory.
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
   * The newest time of an entry or, if that is earlier, of the file, in milliseconds since 1970. Entries have no time
   * zone; their times are taken as UTC.
   */
  readonly newest: number
  /** Reads an entry into memory; undefined if there is none. Fails if it is damaged, or larger than `maxBytes`. */
  readonly read: (name: string, maxBytes: number) => Effect.Effect<Uint8Array | undefined, ZipDamaged>
}

/** Opens a ZIP file, and keeps the wanted entries of its list in memory. The scope closes the file. */
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
      // Deflate adds less than a thousandth to data that cannot be compressed.
      if (entry.uncompressedSize > maxBytes || entry.compressedSize > maxBytes * 1.001 + 1_000) {
        return yield* new ZipDamaged({ message: `is larger than ${maxBytes / 1_000_000} MB` })
      }
      return yield* Effect.tryPromise({ try: () => readEntry(zip, entry), catch: toDamage })
    }),
  }
  return archive
})
