// The packages as npm makes and installs them: `npx scrollback` finds the program of this platform, and nothing runs at install.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { program } from "./harness.mjs";

const source = fileURLToPath(new URL("../scrollback", import.meta.url));
const about = JSON.parse(readFileSync(join(source, "package.json")));
const folder = mkdtempSync(join(tmpdir(), "scrollback-npx-"));
after(() => rmSync(folder, { recursive: true }));

test("the package has what it names and no script of its own", () => {
  assert.equal(about.scripts, undefined);
  const [packed] = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: source, encoding: "utf8" }));
  const files = packed.files.map((file) => file.path).sort();
  assert.deepEqual(files, ["README.md", "ai.d.ts", "ai.js", "bin/scrollback.js", "package.json"]);
  for (const version of Object.values(about.optionalDependencies)) assert.equal(version, about.version);
  assert.ok(`@scrollback/${process.platform}-${process.arch}` in about.optionalDependencies);
});

test("the command is the program of this platform, with its arguments, output and exit code", () => {
  const here = join(folder, "node_modules");
  cpSync(source, join(here, "scrollback"), { recursive: true });
  const command = [join(here, "scrollback/bin/scrollback.js")];
  const without = spawnSync("node", [...command, "--version"], { encoding: "utf8" });
  assert.equal(without.status, 1);
  assert.match(without.stderr, /is not installed/);
  const platform = join(here, "@scrollback", `${process.platform}-${process.arch}`);
  mkdirSync(join(platform, "bin"), { recursive: true });
  copyFileSync(program, join(platform, "bin/scrollback"));
  writeFileSync(join(platform, "package.json"), JSON.stringify({ name: `@scrollback/${process.platform}-${process.arch}`, version: about.version }));
  const version = spawnSync("node", [...command, "--version"], { encoding: "utf8" });
  assert.equal(version.status, 0, version.stderr);
  assert.match(version.stdout, /^scrollback /);
  const messages = JSON.stringify([{ role: "user", content: "hi" }]);
  const curated = spawnSync("node", [...command, "curate", "-", "-m", "passthrough", "--json"], { input: messages, encoding: "utf8" });
  assert.equal(curated.status, 0, curated.stderr);
  const usage = spawnSync("node", [...command, "no-such-command"], { encoding: "utf8" });
  assert.equal(usage.status, 2, "the exit code is the program's");
  const { ScrollbackError } = JSON.parse(
    execFileSync("node", ["--input-type=module", "-e", 'import * as ai from "scrollback/ai"; console.log(JSON.stringify({ ScrollbackError: typeof ai.ScrollbackError, scrollback: typeof ai.scrollback }))'], {
      cwd: folder,
      encoding: "utf8",
    }),
  );
  assert.equal(ScrollbackError, "function");
});

test("what npm packs is what npm installs: npx runs the program, and no script runs at install", () => {
  const platform = `@scrollback/${process.platform}-${process.arch}`;
  const [packages, project] = [join(folder, "packed"), join(folder, "project")];
  mkdirSync(join(packages, "platform/bin"), { recursive: true });
  mkdirSync(project);
  // The program itself is tens of megabytes: a line that starts it takes its place in the package.
  writeFileSync(join(packages, "platform/bin/scrollback"), `#!/bin/sh\nexec '${program}' "$@"\n`);
  chmodSync(join(packages, "platform/bin/scrollback"), 0o755);
  const what = { name: platform, version: about.version, os: [process.platform], cpu: [process.arch], files: ["bin"] };
  writeFileSync(join(packages, "platform/package.json"), JSON.stringify(what));
  writeFileSync(join(project, "package.json"), JSON.stringify({ private: true }));
  const npm = (cwd, ...words) => execFileSync("npm", words, { cwd, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
  const packed = npm(packages, "pack", "--silent", source, "./platform").trim().split("\n").map((name) => join(packages, name));
  // The packages of other platforms are nowhere to be found, which npm must take for granted.
  npm(project, "install", "--no-audit", "--no-fund", "--offline", "--foreground-scripts", ...packed);
  assert.match(npm(project, "exec", "--offline", "--", "scrollback", "--version"), /^scrollback /);
  const code = 'import { scrollback } from "scrollback/ai"; console.log(typeof scrollback({ recipient: "anna" }).transformParams)';
  const loaded = execFileSync("node", ["--input-type=module", "-e", code], { cwd: project, encoding: "utf8" });
  assert.equal(loaded, "function\n");
});
