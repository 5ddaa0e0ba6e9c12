// What cannot be done without a script: copying, and looking at a password that is typed. Every page works without it; the buttons
// for both are hidden until it runs.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  const name = button.textContent;
  button.hidden = false;
  button.addEventListener("click", async () => {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      // Without https browsers give no clipboard; what is selected can be copied by hand.
      const range = document.createRange();
      range.selectNodeContents(source);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      if (!document.execCommand("copy")) return;
    }
    button.textContent = button.dataset.copied;
    setTimeout(() => { button.textContent = name; }, 2000);
  });
}

for (const button of document.querySelectorAll("[data-reveal]")) {
  const name = button.textContent;
  const input = document.getElementById(button.dataset.reveal);
  button.hidden = false;
  button.addEventListener("click", () => {
    const shown = input.type === "password";
    input.type = shown ? "text" : "password";
    button.textContent = shown ? button.dataset.hide : name;
  });
  input.form.addEventListener("submit", () => { input.type = "password"; });
}

// A page with live parts follows one stream while it is looked at. What comes are elements as the server writes them, each put in
// the place of the one with its id; new rows go on top.
const live = document.querySelector("[data-live]");

if (live && "EventSource" in window) {
  const rowsMax = 100;
  const sign = document.querySelector("[data-live-sign]");
  let stream = null;
  let after = live.dataset.after;

  const parsed = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };

  // What was unfolded stays unfolded, and the keyboard stays where it was.
  const exchange = (old, fresh) => {
    for (const open of old.querySelectorAll("details[id][open]")) {
      const same = fresh.querySelector(`#${CSS.escape(open.id)}`);
      if (same) same.open = true;
    }
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const id = focused?.closest("details[id]")?.id;
    const href = focused?.getAttribute("href");
    old.replaceWith(fresh);
    if (href) fresh.querySelector(`[href="${CSS.escape(href)}"]`)?.focus();
    else if (id) fresh.querySelector(`#${CSS.escape(id)} summary`)?.focus();
  };

  const take = (event) => {
    after = event.lastEventId || after;
    const fresh = parsed(event.data);
    if (!fresh) return;
    const old = document.getElementById(fresh.id);
    if (old) {
      exchange(old, fresh);
    } else if (event.type === "new") {
      const rows = live.querySelector("[data-rows]");
      rows.prepend(fresh);
      if (rows.children.length > rowsMax) rows.lastElementChild.remove();
      live.querySelector("[data-none]")?.remove();
    }
  };

  const close = () => {
    stream?.close();
    stream = null;
    if (sign) sign.hidden = true;
  };

  const open = () => {
    if (stream || document.hidden) return;
    stream = new EventSource(`${live.dataset.live}&after=${after}`);
    for (const kind of ["row", "new", "part"]) stream.addEventListener(kind, take);
    stream.addEventListener("stale", () => { close(); location.reload(); });
    stream.addEventListener("open", () => { if (sign) sign.hidden = false; });
    stream.addEventListener("error", () => {
      if (sign) sign.hidden = true;
      // It was refused, by a proxy, or because there are too many: a browser does not ask again by itself.
      if (stream?.readyState !== EventSource.CLOSED) return;
      close();
      setTimeout(open, 5000);
    });
  };

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
}
