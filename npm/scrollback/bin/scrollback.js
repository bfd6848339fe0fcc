#!/usr/bin/env node
// Finds the program of this platform, which npm installed as an optional dependency, and becomes it.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const platform = `@scrollback/${process.platform}-${process.arch}`;
const program = process.platform === "win32" ? "scrollback.exe" : "scrollback";

let path;
try {
  path = createRequire(import.meta.url).resolve(`${platform}/bin/${program}`);
} catch {
  console.error(
    `scrollback: there is no program for ${process.platform}-${process.arch}: the package ${platform} is not installed.\n` +
      "Install without --no-optional, or build it: cargo install --path crates/cli",
  );
  process.exit(1);
}

const running = spawn(path, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => running.kill(signal));
}
running.on("error", (error) => {
  console.error(`scrollback: ${path} cannot be started: ${error.message}`);
  process.exit(1);
});
running.on("exit", (code, signal) => {
  if (signal) {
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  } else {
    process.exit(code ?? 1);
  }
});
