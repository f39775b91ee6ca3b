// Bundles the page, the widget and the style sheet into the Python package, with the licences of all that is bundled.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const mock = process.argv.includes("--mock");
const target = mock ? join(here, "shots", "site") : join(here, "..", "src", "conoscope", "exploring", "static");
const shared = {
  absWorkingDir: here,
  bundle: true,
  minify: !mock,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  metafile: true,
  outdir: target,
  define: { "process.env.NODE_ENV": '"production"' },
};

/** The folders of the npm packages that any bundle has a file of. */
function packagesOf(results) {
  const found = new Set();
  for (const { metafile } of results) {
    for (const path of Object.keys(metafile.inputs)) {
      const parts = path.split("node_modules/");
      if (parts.length < 2) continue;
      const names = parts.at(-1).split("/");
      found.add(names[0].startsWith("@") ? `${names[0]}/${names[1]}` : names[0]);
    }
  }
  return [...found].sort();
}

/** The name, version and licence text of each package, one after the other. */
function licencesOf(packages) {
  return packages
    .map((name) => {
      const folder = join(here, "node_modules", name);
      const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
      if (!file) throw new Error(`${name} has no licence file: do not bundle it`);
      return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
    })
    .join(`\n${"-".repeat(72)}\n\n`);
}

mkdirSync(target, { recursive: true });
const results = await Promise.all([
  // An IIFE, so that a page from disk can have the script inline.
  build({ ...shared, format: "iife", entryPoints: { explorer: mock ? "src/mock-page.ts" : "src/page.ts" } }),
  build({ ...shared, entryPoints: { widget: "src/widget.ts" } }),
  build({ ...shared, entryPoints: { explorer: "src/explorer.css" } }),
]);
writeFileSync(join(target, "LICENSES.txt"), licencesOf(packagesOf(results)));
for (const name of ["explorer.js", "widget.js", "explorer.css"]) {
  const path = join(target, name);
  if (!existsSync(path)) continue;
  const bytes = readFileSync(path);
  console.log(
    `${name.padEnd(10)} ${(bytes.length / 1024).toFixed(0)} kB, ${(gzipSync(bytes).length / 1024).toFixed(0)} kB compressed`,
  );
}
