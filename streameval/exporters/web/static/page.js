"use strict";

// Keeps the page moving without taking focus, selection or scroll position from its reader.

const EVERY = 2000;
const updates = document.getElementById("updates");
const words = document.createElement("span");
const button = document.createElement("button");
let paused = false;

function attributes(there, next) {
  for (const { name, value } of next.attributes) {
    if (there.getAttribute(name) !== value) there.setAttribute(name, value);
  }
  for (const { name } of [...there.attributes]) {
    if (!next.hasAttribute(name)) there.removeAttribute(name);
  }
}

function become(there, next) {
  const alike = there.nodeName === next.nodeName
    && there.childNodes.length === next.childNodes.length;
  if (!alike) {
    there.replaceWith(next.cloneNode(true));
  } else if (there.nodeType === Node.TEXT_NODE) {
    if (there.data !== next.data) there.data = next.data;
  } else {
    if (there.nodeType === Node.ELEMENT_NODE) attributes(there, next);
    const children = [...next.childNodes];
    [...there.childNodes].forEach((child, index) => become(child, children[index]));
  }
}

function say(text, old) {
  if (words.textContent !== text) words.textContent = text;
  updates.classList.toggle("old", old);
}

async function update() {
  const answer = await fetch(location.pathname, { signal: AbortSignal.timeout(10000) });
  const next = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (paused) return;
  become(document.querySelector("main"), next.querySelector("main"));
  document.title = next.title;
  say("Updates by itself.", false);
}

async function turn() {
  if (!paused && !document.hidden) {
    try {
      await update();
    } catch {
      say("The daemon does not answer; these values are old.", true);
    }
  }
  setTimeout(turn, EVERY);
}

button.type = "button";
button.textContent = "Pause";
button.addEventListener("click", () => {
  paused = !paused;
  button.textContent = paused ? "Go on" : "Pause";
  say(paused ? "Paused." : "Updates by itself.", false);
});
words.setAttribute("role", "status");
updates.append(words, button);
say("Updates by itself.", false);
setTimeout(turn, EVERY);
