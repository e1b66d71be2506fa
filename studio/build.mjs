// Builds the studio into src/omnigraph/studio/dist: `make studio`. The same sources give the same bytes.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "../src/omnigraph/studio/dist");

// The page allows no inline styles: what these packages would put into the page is in style.css.
const withoutInjectedStyles = {
  name: "without-injected-styles",
  setup(build) {
    build.onLoad({ filter: /(force-graph|float-tooltip)\/dist\/[\w-]+\.mjs$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8").replace(/^styleInject\(css_\w+\);$/m, ""),
      loader: "js",
    }));
  },
};

const built = await esbuild.build({
  absWorkingDir: here,
  entryPoints: ["src/main.tsx", "src/style.css"],
  bundle: true,
  splitting: true,
  format: "esm",
  minify: true,
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  outdir: target,
  legalComments: "none",
  metafile: true,
  write: false,
  plugins: [withoutInjectedStyles],
});

const digest = (data) => createHash("sha256").update(data).digest("hex");
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
const names = {};
for (const file of built.outputFiles) {
  const name = relative(target, file.path);
  names[name.replace(/-[A-Z0-9]{8}(?=\.\w+$)/, "")] = name;
  writeFileSync(file.path, file.contents);
}
const icon = readFileSync(join(here, "src/icon.svg"));
names["icon.svg"] = `icon-${digest(icon).slice(0, 8).toUpperCase()}.svg`;
writeFileSync(join(target, names["icon.svg"]), icon);
const page = readFileSync(join(here, "src/index.html"), "utf8");
writeFileSync(join(target, "index.html"), page.replace(/\{\{(.+?)\}\}/g, (_, name) => `/studio/${names[name]}`));

// The packages whose code is in the built files, with their licences.
const packages = new Set();
for (const input of Object.keys(built.metafile.inputs)) {
  const found = input.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)\//);
  if (found) packages.add(found[1]);
}
let licences = "The studio contains code of these packages.\n";
for (const name of [...packages].sort()) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? readFileSync(join(folder, file), "utf8").trim() : `Licence: ${license}`;
  licences += `\n${"=".repeat(72)}\n${name} ${version} (${license})\n${"=".repeat(72)}\n${text}\n`;
}
writeFileSync(join(target, "LICENSES.txt"), licences);

const sources = ["build.mjs", "package.json", "package-lock.json", "tsconfig.json"];
const walk = (folder) => {
  for (const entry of readdirSync(join(here, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory()) walk(path);
    else sources.push(path);
  }
};
walk("src");
const digests = Object.fromEntries(sources.sort().map((path) => [path, digest(readFileSync(join(here, path)))]));
writeFileSync(join(target, "BUILD.json"), JSON.stringify({ sources: digests }, null, 1) + "\n");
