"use strict";
// Charts: a drawing is replaced by the live chart once that is there, made again where the page is narrower than the drawing.
// Where anything fails, the drawing stays, in a box that scrolls.
(() => {
  const OPTIONS = {
    mode: "vega-lite", ast: true, actions: false, renderer: "svg", defaultStyle: false, tooltip: { disableDefaultStyle: true },
  };
  const MARGIN = 60; // what axes and padding take beside a panel, before it was measured
  const SYMBOL = 34; // what a legend needs beside a label
  const NONE = 100; // a box that is narrower than this, in pixels, is out of sight: nothing is made for it
  const LEAST = 8.5; // no text is made smaller than this, in pixels
  const TRIES = 4;
  const DISCRETE = ["nominal", "ordinal"];
  const LEGENDS = ["color", "fill", "stroke", "shape", "size", "opacity", "fillOpacity", "strokeOpacity", "strokeDash", "strokeWidth"];
  const JOINED = ["layer", "concat", "hconcat", "vconcat"];

  const pen = document.createElement("canvas").getContext("2d");
  const widthOf = (text, size = 12) => {
    pen.font = `${size}px sans-serif`;
    return pen.measureText(text).width;
  };

  // Letters with their accents, so that no line breaks within one.
  const letters = (text) =>
    window.Intl && Intl.Segmenter ? Array.from(new Intl.Segmenter().segment(text), (one) => one.segment) : Array.from(text);

  const wrapped = (text, room, size) => {
    const lines = [""];
    for (const word of String(text).split(/(?<= )/)) {
      if (widthOf(lines.at(-1) + word.trimEnd(), size) > room && lines.at(-1)) lines.push("");
      for (const letter of letters(word)) {
        if (widthOf(lines.at(-1) + letter, size) > room && letter.trim()) lines.push("");
        lines[lines.length - 1] += letter;
      }
    }
    return lines.map((line) => line.trim()).filter(Boolean);
  };

  // A copy of a chart in which each node, from the innermost on, is what `change` makes of it; nodes know the data that they draw.
  const changed = (node, change, data = node.data) => {
    const copy = { ...node };
    for (const how of JOINED.filter((name) => name in copy)) {
      copy[how] = copy[how].map((child) => changed(child, change, child.data ?? data));
    }
    if (copy.spec) copy.spec = changed(copy.spec, change, copy.spec.data ?? data);
    return change(copy, data);
  };

  const isPanel = (node) => "layer" in node || "mark" in node;

  class Narrow {
    constructor(spec, room) {
      Object.assign(this, { spec, room, margin: MARGIN, shrunk: false });
      this.names = this.namesOfFields();
    }

    // What there is for panels beside each other, and for legends, which begin where the first panel does.
    get space() {
      return this.room - Math.max(0, this.margin - MARGIN);
    }

    // The names that a field has in a chart.
    namesOf(channel, data) {
      if (Array.isArray(channel.scale?.domain)) return channel.scale.domain.map(String);
      const rows = data?.values ?? this.spec.datasets?.[data?.name] ?? [];
      return [...new Set(rows.map((row) => String(row[channel.field])))];
    }

    // The widest panel of a chart, in pixels.
    panelWidth(node, data) {
      let widest = 0;
      changed(node, (one, rows) => {
        if (!isPanel(one) || !one.width) return one;
        const across = [one, ...(one.layer ?? [])].map((part) => part.encoding?.x).find((x) => x?.field);
        const stepped = one.width.step && across ? one.width.step * this.namesOf(across, rows).length : 0;
        widest = Math.max(widest, typeof one.width === "number" ? one.width : stepped);
        return one;
      }, node.data ?? data);
      return widest;
    }

    made() {
      this.shrunk = false;
      this.broken = new Map();
      const spec = changed(this.spec, (node, data) => this.panel(this.columns(this.title(node), data), data));
      const under = { direction: "vertical" };
      const legend = { ...this.spec.config?.legend, orient: "bottom", layout: { bottom: under, top: under } };
      const params = [...this.broken.values()].flatMap((one) => one.params);
      const added = params.length ? { params: [...(spec.params ?? []), ...params] } : {};
      return { ...spec, ...added, config: { ...this.spec.config, legend } };
    }

    // The names of each field that colours or shapes tell apart, or that stand beside rows. Channels of one field share a
    // legend, layers of one panel share an axis: they must agree on its labels.
    namesOfFields() {
      const found = {};
      changed(this.spec, (node, data) => {
        for (const name of [...LEGENDS, "y"]) {
          const channel = node.encoding?.[name];
          if (!channel?.field || !DISCRETE.includes(channel.type)) continue;
          found[channel.field] = [...new Set([...(found[channel.field] ?? []), ...this.namesOf(channel, data)])];
        }
        return node;
      });
      return found;
    }

    widest(field) {
      return Math.max(0, ...(this.names[field] ?? []).map((name) => widthOf(name)));
    }

    title(node) {
      if (!node.title) return node;
      const given = typeof node.title === "object" && !Array.isArray(node.title) ? node.title : { text: node.title };
      const text = [given.text].flat().flatMap((line) => wrapped(line, this.room - 16, 13));
      return { ...node, title: { ...given, text } };
    }

    // As many panels beside each other as there is room for.
    columns(node, data) {
      if (node.hconcat) {
        const { hconcat, ...rest } = node;
        return this.columns({ ...rest, concat: hconcat, columns: hconcat.length }, data);
      }
      const faceted = node.facet && node.spec;
      if (!faceted && !node.concat) return node;
      const beside = node.columns ?? (node.facet?.field ? 1 : node.concat?.length ?? 1);
      const spacing = typeof node.spacing === "number" ? node.spacing : 20;
      const panel = this.panelWidth(faceted ? node.spec : node, data);
      const columns = Math.max(1, Math.min(beside, Math.floor((this.space - 12 + spacing) / (panel + spacing))));
      if (node.facet?.column && !node.facet.row) return { ...node, facet: node.facet.column, columns };
      if (node.facet && !node.facet.field) return node;
      return node.concat ? this.retitled({ ...node, columns }) : { ...node, columns };
    }

    // Panels that stood beside or above others may lack the title of an axis: those that are first or last now have it.
    retitled(node) {
      const titles = {};
      node.concat.forEach((child) => changed(child, (one) => {
        for (const name of ["x", "y"]) titles[name + one.encoding?.[name]?.field] ||= one.encoding?.[name]?.title;
        return one;
      }));
      const titled = (child, name) => changed(child, (one) => {
        const axis = one.encoding?.[name];
        const title = titles[name + axis?.field];
        if (!title || axis.title !== null) return one;
        return { ...one, encoding: { ...one.encoding, [name]: { ...axis, title } } };
      });
      const last = node.concat.length - node.columns;
      const concat = node.concat.map((child, place) => {
        const named = place % node.columns === 0 ? titled(child, "y") : child;
        return place >= last ? titled(named, "x") : named;
      });
      return { ...node, concat };
    }

    panel(node, data) {
      let found = node.encoding ? { ...node, encoding: this.encoding(node.encoding, data) } : node;
      const tall = this.tall(found);
      if (tall) found = { ...found, height: { step: tall } };
      if (!isPanel(found) || typeof found.width !== "number") return found;
      const width = Math.min(found.width, Math.max(40, this.room - this.margin));
      if (width >= found.width) return found;
      this.shrunk = true;
      const scale = width / found.width;
      const square = found.height === found.width;
      return this.scaled({ ...found, width, ...(square ? { height: width } : {}) }, scale, data);
    }

    // Images have a size of their own, and so have rows of them.
    scaled(node, scale, data) {
      const parts = node.layer ?? [node];
      const images = parts.filter((part) => part.mark?.type === "image" && part.mark.width);
      if (!images.length) return node;
      const lost = images[0].mark.height * (1 - scale);
      const row = images[0].encoding?.y;
      const rows = row?.field ? this.namesOf(row, images[0].data ?? node.data ?? data).length : 1;
      const smaller = (part) => {
        if (!part.mark) return part;
        const mark = { ...part.mark };
        if (mark.type === "image") Object.assign(mark, { width: mark.width * scale, height: mark.height * scale });
        if (mark.dy) mark.dy -= lost / 2;
        return { ...part, mark };
      };
      const height = typeof node.height === "number" ? node.height - rows * lost : node.height;
      return node.layer ? { ...node, height, layer: node.layer.map(smaller) } : { ...smaller(node), height };
    }

    encoding(given, data) {
      const found = { ...given };
      for (const name of LEGENDS) {
        const channel = found[name];
        if (channel?.field && channel.legend !== null) found[name] = { ...channel, legend: this.legend(channel) };
      }
      if (this.isLong(found.y)) found.y = this.brokenLabels(found.y);
      return found;
    }

    legend(channel) {
      if (!DISCRETE.includes(channel.type)) {
        const orient = ["top", "bottom"].includes(channel.legend?.orient) ? channel.legend.orient : "bottom";
        return { direction: "horizontal", gradientLength: Math.min(160, this.room - 40), ...channel.legend, orient };
      }
      const widest = this.widest(channel.field);
      const long = widest + SYMBOL > this.space;
      const columns = Math.max(1, Math.floor(this.space / (widest + SYMBOL)));
      // Row by row: column by column Vega mixes up the names where a column is not full.
      return {
        ...channel.legend, orient: "bottom", direction: "horizontal", columns: Math.min(columns, channel.legend?.columns ?? columns),
        ...(long ? { labelFontSize: 11, labelExpr: this.brokenNames(channel.field, "legend", this.space - SYMBOL) } : {}),
      };
    }

    // Names beside rows that would leave no room for the rows are broken into lines.
    isLong(channel) {
      if (!channel?.field || !DISCRETE.includes(channel.type) || channel.axis === null) return false;
      return this.widest(channel.field) > 0.5 * this.room;
    }

    brokenLabels(channel) {
      const labelExpr = this.brokenNames(channel.field, "axis", 0.42 * this.room);
      return { ...channel, axis: { ...channel.axis, labelExpr, labelFontSize: 11, labelLineHeight: 12 } };
    }

    // An expression that gives the lines of a name; names and lines are data of the chart, not code.
    brokenNames(field, place, width) {
      const key = `${field} ${place}`;
      if (!this.broken.has(key)) {
        const lines = this.names[field].map((name) => wrapped(name, width, 11));
        const [known, broken] = [`names_${this.broken.size}`, `lines_${this.broken.size}`];
        const params = [{ name: known, value: this.names[field] }, { name: broken, value: lines }];
        const most = Math.max(...lines.map((one) => one.length));
        this.broken.set(key, { params, most, labelExpr: `${broken}[indexof(${known}, datum.label)]` });
      }
      return this.broken.get(key).labelExpr;
    }

    // The step of rows whose names have several lines.
    tall(node) {
      if (!isPanel(node) || typeof node.height === "number") return 0;
      const most = [node, ...(node.layer ?? [])].map((part) => this.broken.get(`${part.encoding?.y?.field} axis`)?.most ?? 0);
      return Math.max(...most) > 1 ? Math.max(node.height?.step ?? 20, 12 * Math.max(...most) + 8) : 0;
    }
  }

  const embedded = async (spec) => {
    const box = document.createElement("div");
    const { finalize } = await vegaEmbed(box, spec, OPTIONS);
    return { box, finalize, width: Number(box.querySelector("svg").getAttribute("width")) };
  };

  // Made for the room that there is: what axes and legends need beside the panels is known once it was made.
  const fitted = async (spec, room) => {
    const narrow = new Narrow(spec, room);
    let [best, before] = [null, 0];
    for (let tries = 0; tries < TRIES; tries += 1) {
      const made = await embedded(narrow.made());
      const better = !best || (best.width > room ? made.width < best.width : made.width <= room && made.width > best.width);
      (better ? best : made)?.finalize();
      if (better) best = made;
      const over = Math.ceil(made.width - room);
      if (made.width === before || (over <= 0 && (!narrow.shrunk || over > -8))) break;
      before = made.width;
      narrow.margin += over;
    }
    return best;
  };

  const smallest = (box) =>
    Math.min(...[...box.querySelectorAll("text")].filter((text) => text.textContent).map((text) => parseFloat(text.style.fontSize || text.getAttribute("font-size") || 12)));

  const textOf = (figure, name) => figure.querySelector(`script[data-${name}]`)?.textContent;

  // What is live in each figure: the room that it was made for, and how it is ended.
  const alive = new Map();

  const bringToLife = async (figure) => {
    const chart = figure.querySelector(".chart");
    const room = chart.parentElement.clientWidth;
    if (room < NONE) return;
    const before = alive.get(figure) ?? { width: Number(chart.querySelector("svg").getAttribute("width")) };
    const isNarrow = room < before.width;
    if (before.room === room || (before.finalize && !isNarrow && !before.isNarrow)) return;
    alive.set(figure, { ...before, room });
    try {
      const spec = JSON.parse((isNarrow && textOf(figure, "narrow")) || textOf(figure, "chart"));
      const made = isNarrow ? await fitted(spec, room) : await embedded(spec);
      // The page may have changed its width in the meantime; then the chart of that width stays, whichever is done first.
      if (alive.get(figure).room !== room) return made.finalize();
      chart.replaceChildren(made.box);
      before.finalize?.();
      alive.set(figure, { width: before.width, room, isNarrow, finalize: made.finalize });
      chart.classList.toggle("scaled", made.width > room && (smallest(made.box) * room) / made.width >= LEAST);
    } catch (error) {
      console.warn(error);
    }
  };

  const resized = new ResizeObserver((entries) => entries.forEach((entry) => bringToLife(entry.target.closest("figure"))));
  const near = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        near.unobserve(entry.target);
        resized.observe(entry.target.querySelector(".scroll"));
      }
    },
    { rootMargin: "300px" },
  );
  document.querySelectorAll("figure").forEach((figure) => near.observe(figure));
})();
