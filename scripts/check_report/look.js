// Looks at the page that is open and returns what is wrong with it, one sentence each.
(() => {
  const problems = [];
  const say = (text) => problems.push(text);
  const box = (element) => element.getBoundingClientRect();
  const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
  const called = (element) => element.closest("figure, section")?.id || element.tagName.toLowerCase();

  // The frame: landmarks, headings, names.
  for (const landmark of ["header", "nav[aria-label]", "main", "footer"]) {
    if (document.querySelectorAll(landmark).length !== 1) say(`not one ${landmark}`);
  }
  const skip = document.querySelector("a.skip");
  if (!skip || !document.querySelector(skip.getAttribute("href"))) say("the skip link leads nowhere");
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    if (!document.getElementById(link.getAttribute("href").slice(1))) say(`dead link ${link.getAttribute("href")}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  ids.filter((id, place) => ids.indexOf(id) !== place).forEach((id) => say(`id ${id} twice`));
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) say(`heading ${heading.textContent}: ${own} after ${level}`);
    level = own;
  }
  if (document.querySelectorAll("h1").length !== 1) say("not one h1");
  for (const input of document.querySelectorAll("input")) {
    if (!input.labels?.length) say(`input ${input.id} has no label`);
  }
  for (const section of document.querySelectorAll("main > section")) {
    if (!document.getElementById(section.getAttribute("aria-labelledby"))) say(`section ${section.id} has no name`);
  }

  // Plots: named, drawn, and no text on or beyond another.
  for (const svg of document.querySelectorAll("svg, img")) {
    if (svg.parentElement.closest("svg") || svg.getAttribute("aria-hidden") === "true") continue;
    if (!(svg.getAttribute("aria-label") || svg.getAttribute("alt"))) say(`a plot of ${called(svg)} has no name`);
    if (!shown(svg)) continue;
    const frame = box(svg);
    const marks = [...svg.querySelectorAll("path, rect, circle")].filter((mark) => {
      const { width, height } = box(mark);
      return width > 0 || height > 0;
    });
    if (frame.width < 100 || frame.height < 50 || marks.length < 3) say(`plot ${called(svg)} is not drawn`);
    const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim()).map((text) => ({ text, at: box(text) }));
    texts.forEach(({ text, at }, place) => {
      if (at.left < frame.left - 1 || at.right > frame.right + 1 || at.top < frame.top - 1 || at.bottom > frame.bottom + 1) {
        say(`plot ${called(svg)}: "${text.textContent}" leaves it`);
      }
      for (const other of texts.slice(place + 1)) {
        const wide = Math.min(at.right, other.at.right) - Math.max(at.left, other.at.left);
        const high = Math.min(at.bottom, other.at.bottom) - Math.max(at.top, other.at.top);
        // Boxes of lines are a little higher than their letters.
        if (wide > 1 && high > 0.25 * Math.min(at.height, other.at.height)) {
          say(`plot ${called(svg)}: "${text.textContent}" and "${other.text.textContent}" overlap`);
        }
      }
    });
  }

  // Width: the page does not scroll sideways, and what does within it can be reached.
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) say(`the page is ${document.documentElement.scrollWidth} wide in ${width}`);
  const main = document.querySelector("main");
  if (main && box(main).width < 0.7 * Math.min(width, 1200)) say(`the content is ${Math.round(box(main).width)} wide in ${width}`);
  const clips = (element) => getComputedStyle(element).overflowX !== "visible";
  for (const element of document.querySelectorAll("body *")) {
    if (!shown(element)) continue;
    if (clips(element) && element.scrollWidth > element.clientWidth + 1 && element.tagName !== "svg") {
      const scrolls = ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
      const inner = element.closest("svg");
      if (!inner && scrolls && !(element.tabIndex >= 0 && element.getAttribute("aria-label"))) say(`${called(element)}: scrolls without a name or a place for the keyboard`);
      if (!inner && !scrolls) say(`${called(element)}: something is cut off`);
      // A plot whose end is out of sight misleads; a small screen alone may ask for that.
      if (width >= 1000 && element.classList.contains("plot")) say(`${called(element)}: a plot has to be scrolled in ${width}`);
    }
    if (element.classList.contains("skip") || element.tagName === "INPUT" || element.closest("svg svg")) continue;
    if (box(element).right > width + 1) {
      let around = element.parentElement;
      while (around && !(clips(around) && around !== document.body)) around = around.parentElement;
      if (!around) say(`${called(element)}: <${element.tagName.toLowerCase()}> leaves the page`);
    }
  }

  // Contrast of all texts with what is behind them.
  const parts = (colour) => (colour.match(/[\d.]+/g) || []).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let around = element; around; around = around.parentElement) {
      const colour = parts(getComputedStyle(around).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const pale = new Set();
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !shown(element) || ["title", "style"].includes(element.tagName.toLowerCase())) continue;
    const style = getComputedStyle(element);
    const colour = parts(element.closest("svg") ? style.fill : style.color);
    // A text within marks of a plot has its own ground, which the plot answers for.
    if (element.closest("svg") && element.dataset.ground) continue;
    const [one, other] = [luminance(colour) + 0.05, luminance(ground(element)) + 0.05];
    const contrast = Math.max(one, other) / Math.min(one, other);
    if (contrast < 4.5) pale.add(`${called(element)} .${element.getAttribute("class") || element.tagName}: contrast ${contrast.toFixed(1)}`);
  }
  pale.forEach(say);
  return [...new Set(problems)];
})();
