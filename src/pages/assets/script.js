// Copies texts, reveals typed passwords, guards changed forms, leads to the search, and updates live pages. Every page works without this script, which also shows the buttons
// for these features.
"use strict";

document.documentElement.classList.add("scripted");

const copy = async (button) => {
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    // Browsers offer the clipboard over HTTPS only; a selected text can be copied by hand.
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    if (!document.execCommand("copy")) return;
  }
  button.dataset.name ??= button.textContent;
  button.textContent = button.dataset.copied;
  setTimeout(() => { button.textContent = button.dataset.name; }, 2000);
};

const reveal = (button) => {
  const input = document.getElementById(button.dataset.reveal);
  const shown = input.type === "password";
  input.type = shown ? "text" : "password";
  button.dataset.name ??= button.textContent;
  button.textContent = shown ? button.dataset.hide : button.dataset.name;
};

// On the document, so that it covers buttons that are added later.
document.addEventListener("click", (event) => {
  const button = event.target.closest?.("[data-copy], [data-reveal]");
  if (button?.dataset.copy) copy(button);
  else if (button) reveal(button);
});
document.addEventListener("submit", (event) => {
  for (const button of event.target.querySelectorAll("[data-reveal]")) {
    document.getElementById(button.dataset.reveal).type = "password";
  }
});

// Asks before a page with a changed form is left. A form that was refused counts as changed.
for (const unsaved of document.querySelectorAll("[data-unsaved]")) {
  const form = unsaved.closest("form");
  const filled = () => new URLSearchParams(new FormData(form)).toString();
  const loaded = form.querySelector('[role="alert"]') ? null : filled();
  const compare = () => { unsaved.hidden = filled() === loaded; };
  let isSent = false;
  // A chat opens beside the form.
  form.addEventListener("submit", (event) => { isSent = event.submitter?.formTarget !== "_blank"; });
  for (const change of ["input", "change"]) form.addEventListener(change, compare);
  addEventListener("beforeunload", (event) => {
    if (isSent || filled() === loaded) return;
    event.preventDefault();
    // A reader who stays can send another form.
    setTimeout(stop);
  });
  compare();
}

// A bar at the top while the next page takes long. A file is no page: it leaves this one as it is.
let isSending = false;
let shown = 0;
let over = 0;
const stop = () => {
  isSending = false;
  clearTimeout(shown);
  clearTimeout(over);
  document.documentElement.classList.remove("waiting");
};
const wait = () => {
  stop();
  shown = setTimeout(() => document.documentElement.classList.add("waiting"), 300);
  // A browser that was stopped tells nothing.
  over = setTimeout(stop, 15000);
};
// The back button may show this page as it was left.
addEventListener("pageshow", ({ persisted }) => { if (persisted) stop(); });
document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.submitter?.formTarget === "_blank") return;
  // A second press while the first form is sent: the service would carry out both.
  if (isSending) return event.preventDefault();
  wait();
  isSending = true;
});
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href]");
  const isPage = link && link.origin === location.origin && !link.target && !link.pathname.includes(".") && !link.href.includes("#");
  if (isPage && event.button === 0 && !event.defaultPrevented && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)) wait();
});

// Ctrl-K leads to the console's search. A single key would disturb who steers the browser by voice (WCAG 2.1.4).
document.addEventListener("keydown", (event) => {
  const search = document.querySelector("[data-search]");
  if (!search || event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  // On a narrow screen the navigation is closed.
  if (!search.offsetParent) document.getElementById("menu").showPopover?.();
  search.select();
});

// A page with live parts follows one stream while it is visible. The stream sends rendered elements. Only the differences to the
// element with the same id are applied, and selected text is left alone. New rows are inserted at the top.
const live = document.querySelector("[data-live]");

if (live && "EventSource" in window) {
  const rowsMax = 100;
  // The service sends something every ten seconds.
  const silenceMax = 25000;
  const sign = document.querySelector("[data-live-sign]");
  const said = document.querySelector("[data-live-said]");
  const news = document.querySelector("[data-live-news]");
  const held = new Map();
  let stream = null;
  let retry = 0;
  let silence = 0;
  let paused = false;
  let over = false;
  let asked = 0;
  let fresh = 0;
  // The page's title contains its heading, which may change.
  let heading = live.querySelector("h1")?.textContent;
  let after = live.dataset.after;

  const show = (state) => {
    if (!sign) return;
    sign.hidden = !state;
    sign.dataset.state = state;
    if (!state || sign.textContent === sign.dataset[state]) return;
    sign.textContent = sign.dataset[state];
    if (state === "lost") said.textContent = sign.textContent;
  };

  const isSelected = (node) => {
    const selection = getSelection();
    return !selection.isCollapsed && selection.containsNode(node, true);
  };

  const parsed = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };

  const isSame = (old, fresh) =>
    old.nodeType === fresh.nodeType && old.nodeName === fresh.nodeName && (old.id || "") === (fresh.id || "");

  const patch = (old, fresh) => {
    if (old.isEqualNode(fresh)) return true;
    // These elements are changed entirely or not at all.
    const isWhole = old.nodeType === Node.TEXT_NODE || ["TR", "LI", "DD", "PRE", "P"].includes(old.nodeName);
    if (isWhole && isSelected(old)) return false;
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = fresh.nodeValue;
      return true;
    }
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes]) {
      // Expanded elements stay expanded.
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
    return patchChildren(old, fresh);
  };

  const patchChildren = (old, fresh) => {
    let whole = true;
    let at = old.firstChild;
    const wanted = new Set([...fresh.children].map((child) => child.id).filter(Boolean));
    for (const child of [...fresh.childNodes]) {
      // Obsolete elements are removed first, so that the others need not move.
      while (at?.id && !wanted.has(at.id) && !isSelected(at)) at = remove(at);
      const same = child.id ? [...old.children].find((one) => one.id === child.id) : at && isSame(at, child) ? at : null;
      if (!same) {
        old.insertBefore(child, at);
      } else {
        if (same === at) at = at.nextSibling;
        else old.insertBefore(same, at);
        whole = patch(same, child) && whole;
      }
    }
    while (at) {
      if (isSelected(at)) {
        whole = false;
        at = at.nextSibling;
      } else {
        at = remove(at);
      }
    }
    return whole;
  };

  const remove = (node) => {
    const next = node.nextSibling;
    node.remove();
    return next;
  };

  // Changes the page without moving the focus or the text at the top of the window. If what had the focus is gone, the heading gets it.
  const still = (change) => {
    const focused = document.activeElement;
    const isRead = (one) => one.getBoundingClientRect().top >= 0;
    const read = scrollY > 0 ? [...live.querySelectorAll("tr, li, section, dl")].find(isRead) : null;
    const top = read?.getBoundingClientRect().top;
    change();
    if (read?.isConnected) scrollBy({ top: read.getBoundingClientRect().top - top, behavior: "instant" });
    if (focused === document.activeElement) return;
    const place = focused.isConnected ? focused : live.querySelector("h1[tabindex]") ?? document.getElementById("content");
    place?.focus({ preventScroll: true });
  };

  const title = (text) => {
    if (!heading || !text || text === heading) return;
    document.title = document.title.replace(heading, () => text);
    heading = text;
  };

  const put = (html) => {
    const element = parsed(html);
    const old = element && document.getElementById(element.id);
    if (!old) return element;
    // An element with selected text is changed once the selection is gone.
    held.delete(element.id);
    title(element.querySelector("h1")?.textContent);
    still(() => { if (!patch(old, element)) held.set(old.id, html); });
    return null;
  };

  // The rows of a new row's day, below their heading.
  const rowsOf = ({ dataset: { day, dayName } }) => {
    const table = live.querySelector("[data-days]");
    const rows = table.querySelector(`[data-rows="${day}"]`);
    if (rows) return rows;
    const made = document.createElement("tbody");
    made.dataset.rows = day;
    made.setAttribute("role", "rowgroup");
    made.innerHTML = '<tr class="day" role="row"><th role="rowheader" scope="rowgroup" colspan="5"></th></tr>';
    made.querySelector("th").textContent = dayName;
    // The newest day stands first.
    const older = [...table.tBodies].find((rows) => rows.dataset.rows < day);
    table.insertBefore(made, older ?? null);
    return made;
  };

  const add = (element) => {
    const rows = rowsOf(element);
    still(() => {
      rows.firstElementChild.after(element);
      const all = live.querySelectorAll("[data-rows] > [id]");
      const last = all[all.length - 1];
      if (all.length > rowsMax && !isSelected(last)) (last.parentNode.children.length > 2 ? last : last.parentNode).remove();
      live.querySelector("[data-none]")?.remove();
    });
    if (!news || rows.getBoundingClientRect().top >= 0) return;
    fresh += 1;
    news.textContent = fresh === 1 ? news.dataset.one : news.dataset.many.replace("#", fresh);
    news.hidden = false;
  };

  const take = (event) => {
    after = event.lastEventId || after;
    const left = put(event.data);
    if (left && event.type === "new") add(left);
  };

  const close = () => {
    clearTimeout(retry);
    clearTimeout(silence);
    stream?.close();
    stream = null;
  };

  // Without a network a connection stays open and silent for many minutes.
  const lose = () => {
    close();
    show("lost");
    open();
  };

  const hear = () => {
    clearTimeout(silence);
    silence = setTimeout(lose, silenceMax);
  };

  const pause = () => {
    close();
    paused = true;
    show("paused");
  };

  const open = () => {
    clearTimeout(retry);
    if (stream || document.hidden || paused || over) return;
    stream = new EventSource(`${live.dataset.live}&after=${after}`);
    hear();
    for (const kind of ["row", "new", "part"]) stream.addEventListener(kind, take);
    for (const kind of ["open", "row", "new", "part", "said", "beat"]) stream.addEventListener(kind, hear);
    stream.addEventListener("said", (event) => { said.textContent = event.data; });
    stream.addEventListener("stale", () => { close(); location.reload(); });
    stream.addEventListener("over", () => { over = true; close(); show(""); });
    stream.addEventListener("closed", pause);
    stream.addEventListener("open", () => show("on"));
    stream.addEventListener("error", () => {
      show("lost");
      // Refused by a proxy, or because there are too many streams: the browser does not reconnect by itself.
      if (stream?.readyState !== EventSource.CLOSED) return;
      close();
      retry = setTimeout(open, 5000);
      // At the end of the session, the page shows callers no longer. It is asked about once a minute at most.
      if (Date.now() - asked < 60000) return;
      asked = Date.now();
      fetch(location.href, { method: "HEAD", redirect: "manual" })
        .then((page) => { if (page.type === "opaqueredirect") location.replace(location.href); }, () => {});
    });
  };

  addEventListener("offline", () => { if (stream) lose(); });
  sign?.addEventListener("click", () => {
    if (sign.dataset.state === "on") return pause();
    paused = false;
    close();
    open();
  });
  news?.addEventListener("click", () => scrollTo({ top: 0 }));
  addEventListener("scroll", () => {
    if (!fresh || live.getBoundingClientRect().top < 0) return;
    fresh = 0;
    news.hidden = true;
  }, { passive: true });
  document.addEventListener("selectionchange", () => {
    if (getSelection().isCollapsed) for (const html of [...held.values()]) put(html);
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
}
