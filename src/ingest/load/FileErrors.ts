/**
 * Explains why a file, a folder or standard output cannot be read or written. The reasons are worded like the operating
 * system's.
 */
import { Data, PlatformError, Predicate } from "effect"
import { resolve } from "node:path"
import { getSystemErrorMap } from "node:util"

/** The operating system's descriptions of errors by error code. For example, `EACCES` is `permission denied`. */
const reasons = new Map([
  ...getSystemErrorMap().values(),
  // Node's list lacks a description of the first error, and its description of the second is less clear.
  ["EDQUOT", "disk quota exceeded"],
  ["EISDIR", "is a directory"],
])

/** An error of a file operation, from Effect's `FileSystem` or a Node stream. */
type FileError = PlatformError.PlatformError | NodeJS.ErrnoException

/** Returns the operating system's error code, such as `ENOENT`, or an empty string if there is none. */
const getCode = (error: FileError) => {
  const failure = PlatformError.isPlatformError(error) ? error.cause : error
  return Predicate.hasProperty(failure, "code") ? String(failure.code) : ""
}

/**
 * Returns the reason why a file operation failed, such as `permission denied`. If the reason is unknown, returns the
 * error code or the message.
 */
export const formatFileErrorReason = (error: FileError) => {
  const code = getCode(error)
  return reasons.get(code) ?? (code || error.message)
}

const isDiskFull = (error: FileError) => ["EDQUOT", "ENOSPC"].includes(getCode(error))

type PathKind = "file" | "folder"

/**
 * Explains why a file or folder cannot be read. If it does not exist, the explanation includes the absolute path,
 * because a relative path is often correct but used in the wrong folder.
 */
export const describeReadError = (path: string, error: FileError, kind: PathKind = "file") => {
  const absolute = resolve(path)
  return getCode(error) === "ENOENT"
    ? `There is no ${kind} ${path}${absolute === path ? "" : ` (${absolute})`}.`
    : `${path} cannot be read: ${formatFileErrorReason(error)}.`
}

/** Explains why a file, or the files in a folder, cannot be written, and what the user can do. */
export const describeWriteError = (path: string, error: FileError, kind: PathKind = "file") => {
  if (kind === "file" && getCode(error) === "ENOENT") {
    return `There is no folder for ${path}. Create it, or choose another file.`
  }
  const advice = isDiskFull(error) ? `Free some space, or choose another ${kind}.` : `Choose another ${kind}.`
  return `${path} cannot be written: ${formatFileErrorReason(error)}. ${advice}`
}

/** Files cannot be written to a folder. The message explains why, and what the user can do. */
export class UnwritableFolder extends Data.TaggedError("UnwritableFolder")<{ readonly message: string }> {}

/**
 * Returns a function that converts an error of `FileSystem` to an error that explains why the folder cannot be written.
 */
export const makeFolderError = (folder: string) => (error: PlatformError.PlatformError) =>
  new UnwritableFolder({ message: describeWriteError(folder, error, "folder") })

/**
 * Explains why standard output cannot be written, and what the user can do. `isServing` is true if the process is the
 * service, which continues without standard output.
 */
export const describeOutputError = (error: NodeJS.ErrnoException, { isServing }: { readonly isServing: boolean }) => {
  const verb = isDiskFull(error) ? "Free some space, or redirect" : "Redirect"
  return `Standard output cannot be written: ${formatFileErrorReason(error)}. ${
    isServing
      ? "The service continues without it."
      : `The output is not complete. ${verb} it to another place, and try again.`
  }`
}
