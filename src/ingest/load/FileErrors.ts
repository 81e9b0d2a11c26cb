/** Explains why a file, a folder or standard output cannot be read or written, in the words of the system. */
import { Data, PlatformError, Predicate } from "effect"
import { resolve } from "node:path"
import { getSystemErrorMap } from "node:util"

/** The system's reasons by error code. Node's list lacks one of these, and words the other less plainly. */
const reasons = new Map([
  ...getSystemErrorMap().values(),
  ["EDQUOT", "disk quota exceeded"],
  ["EISDIR", "is a directory"],
])

/** A failed file operation, as Effect's `FileSystem` or a stream of Node reports it. */
type FileError = PlatformError.PlatformError | NodeJS.ErrnoException

const getCode = (error: FileError) => {
  const failure = PlatformError.isPlatformError(error) ? error.cause : error
  return Predicate.hasProperty(failure, "code") ? String(failure.code) : ""
}

/** Returns the system's reason, such as `permission denied`; the error's own message if the system gives none. */
export const formatFileErrorReason = (error: FileError) => {
  const code = getCode(error)
  return reasons.get(code) ?? (code || error.message)
}

const isDiskFull = (error: FileError) => ["EDQUOT", "ENOSPC"].includes(getCode(error))

type PathKind = "file" | "folder"

/** Explains why a file or folder cannot be read. A path that does not exist is shown with its absolute form. */
export const describeReadError = (path: string, error: FileError, kind: PathKind = "file") => {
  const absolute = resolve(path)
  return getCode(error) === "ENOENT"
    ? `There is no ${kind} ${path}${absolute === path ? "" : ` (${absolute})`}.`
    : `${path} cannot be read: ${formatFileErrorReason(error)}.`
}

/** Explains why a file, or a file in a folder, cannot be written, and what to do. */
export const describeWriteError = (path: string, error: FileError, kind: PathKind = "file") => {
  if (kind === "file" && getCode(error) === "ENOENT") {
    return `There is no folder for ${path}. Create it, or choose another file.`
  }
  const advice = isDiskFull(error) ? `Free some space, or choose another ${kind}.` : `Choose another ${kind}.`
  return `${path} cannot be written: ${formatFileErrorReason(error)}. ${advice}`
}

export class UnwritableFolder extends Data.TaggedError("UnwritableFolder")<{ readonly message: string }> {}

/** Returns a function that explains why files cannot be written to the folder. */
export const makeFolderError = (folder: string) => (error: PlatformError.PlatformError) =>
  new UnwritableFolder({ message: describeWriteError(folder, error, "folder") })

/** Explains why standard output cannot be written, and what to do. */
export const describeOutputError = (error: NodeJS.ErrnoException, isServing: boolean) => {
  const verb = isDiskFull(error) ? "Free some space, or redirect" : "Redirect"
  return `Standard output cannot be written: ${formatFileErrorReason(error)}. ${
    isServing
      ? "The service continues without it."
      : `The output is not complete. ${verb} it to another place, and try again.`
  }`
}
