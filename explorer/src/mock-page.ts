/** The page with made-up replies, for work on the front end alone; `?points=10000&classes=3` say how many cones have. */
import { conesAnswers, MADE } from "./cones/mock";
import { corpusAnswers } from "./corpus/mock";
import { ANSWERS, HELLO, MockHost } from "./mock";
import { mount } from "./mount";
import { streamAnswers } from "./stream/mock";

const asked = new URLSearchParams(location.search);
const points = Number(asked.get("points") ?? 2000);
const names = [...MADE.classes, ...Array.from({ length: 20 }, (_, i) => `class ${i + 4}`)];
const classes = names.slice(0, Number(asked.get("classes") ?? 3));
const rows = 50_000;
const measured = ["sim", "gates", "class_cones"];
const greeting = {
  ...HELLO,
  results: [
    ...HELLO.results.map((result) => ({ ...result, tables: [...result.tables, "class_cones"] })),
    { ...HELLO.results[0]!, name: "before", model: 1, tables: measured },
  ],
  corpus: { name: "made-up:test", size: rows, labels: MADE.classes },
};
const answers = {
  ...ANSWERS,
  ...conesAnswers({ ...MADE, points, classes }),
  ...streamAnswers,
  ...corpusAnswers(rows),
};
const element = document.getElementById("explorer");
if (element) mount(element, new MockHost(greeting, 30, answers), { address: true });
