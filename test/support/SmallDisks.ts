/** Mounts small disks for tests that fill them. This requires root. */
import { spawnSync } from "node:child_process"
import { mkdtempSync, rmdirSync } from "node:fs"
import { tmpdir } from "node:os"

/** The size of a disk, in bytes. */
export const smallDiskSize = 16 << 20

/** Mounts a disk on the folder, for this user. Returns whether that worked. */
export const mountSmallDisk = (folder: string, uid = 0) => {
  const options = `size=${smallDiskSize},mode=0700,uid=${uid},gid=${uid}`
  return spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder]).status === 0
}

/** Unmounts a disk. */
export const unmountSmallDisk = (folder: string) => spawnSync("umount", [folder])

/** Whether this process may mount disks. */
export const mayMount = (() => {
  const folder = mkdtempSync(`${tmpdir()}/tickerline-mount-`)
  const may = mountSmallDisk(folder)
  if (may) unmountSmallDisk(folder)
  rmdirSync(folder)
  return may
})()
